"""outlines' own backends for llguidance and outlines-core run on guided's interfaces of these, in another process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

for package in ("outlines", "torch", "transformers"):
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)

SCHEMA = {"type": "object", "properties": {"a": {"enum": [1, 2]}, "b": {"type": "boolean"}}, "required": ["a", "b"]}
SCRIPT = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
for name in ("llguidance", "llguidance.torch", "llguidance.hf", "outlines_core", "outlines_core.json_schema",
             "outlines_core.kernels", "outlines_core.kernels.torch"):
    sys.modules[name] = importlib.import_module("guided.compat." + name)
import outlines, torch
from tests.transformers_support import small_model, small_tokenizer
tokenizer = small_tokenizer()
model = outlines.from_transformers(small_model(tokenizer), tokenizer)
said = {}
for backend in ("llguidance", "outlines_core"):
    for number, kind in enumerate((outlines.regex("[a-c]{3,5}x"), outlines.json_schema(SCHEMA))):
        torch.manual_seed(number)
        said[f"{backend} {number}"] = model("x", kind, backend=backend, max_new_tokens=400, do_sample=True)
    said[f"{backend} batch"] = outlines.Generator(model, outlines.regex("[0-9]{4}"), backend=backend).batch(
        ["x", "abc"], max_new_tokens=10)
print(json.dumps(said))
"""


def test_masks_come_from_guided():
    root = Path(__file__).parents[1]
    script = SCRIPT.replace("SCHEMA", repr(SCHEMA))
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout.splitlines()[-1])
    for backend in ("llguidance", "outlines_core"):
        assert re.fullmatch("[a-c]{3,5}x", said[f"{backend} 0"])
        read = json.loads(said[f"{backend} 1"])
        assert read["a"] in (1, 2) and isinstance(read["b"], bool)
        assert all(re.fullmatch("[0-9]{4}", text) for text in said[f"{backend} batch"])
