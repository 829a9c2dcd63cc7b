"""llama-cpp-python with guided's logits processor writes the same tokens as guided's engine, greedily, on one file.

`make test-llama-cpp` compiles and installs llama-cpp-python, and runs this test.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.llama_cpp_sides import BUDGETS, MAX_TOKENS, PROMPTS, as_float32
from tests.weights import SMOLLM2, missing_weights, weights_of

pytestmark = pytest.mark.model
for package in ("llama_cpp", "torch", "gguf"):  # not imported here, since llama.cpp and torch need separate processes
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: `make test-llama-cpp` does it", allow_module_level=True)
if why := missing_weights(SMOLLM2):
    pytest.skip(why, allow_module_level=True)
QUANTISED = weights_of(SMOLLM2)


def side(name: str, model: Path, folder: Path, *more: Path):
    out = folder / f"{name}.json"
    command = [sys.executable, "-m", "tests.llama_cpp_sides", name, str(model), str(out), *map(str, more)]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[1], env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text()), out


# llama.cpp rounds the activations for quantised weights to 8 bits, guided does not. So two tokens with nearly equal
# scores may change places. With the same weights in float32, there is no such difference.
@pytest.mark.parametrize(("weights", "near"), [("float32", 0.0), ("quantised", 0.25)])
def test_greedy_tokens_match_the_engine(tmp_path, weights, near):
    model = QUANTISED
    if weights == "float32":
        model = tmp_path / "model.gguf"
        as_float32(QUANTISED, model)
    engine, out = side("engine", model, tmp_path)
    llama, _ = side("llama_cpp", model, tmp_path, out)
    assert engine.keys() == llama.keys() == PROMPTS.keys()
    differ = [name for name in PROMPTS if llama[name]["tokens"] != engine[name]["tokens"]]
    for name in PROMPTS:
        assert 0 < len(llama[name]["tokens"]) <= BUDGETS.get(name, MAX_TOKENS)
    for name in differ:
        gap = llama[name]["gap"]["gap"]
        assert gap is not None and gap < near, (name, engine[name], llama[name])
    assert len(differ) <= 1
