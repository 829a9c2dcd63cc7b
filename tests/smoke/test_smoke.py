"""What an installed guided must do with only numpy and pytest, whatever it was installed from.

`make dist` copies this file out of the repository and runs it in empty environments. It imports only the public API.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import random
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import guided

PACKAGE = Path(guided.__file__).parent
VOCABULARY = guided.Vocabulary.from_characters("".join(map(chr, range(32, 127))))
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8, "pattern": "^[a-z]+$"},
        "born": {"type": "string", "format": "date"},
        "scores": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 20}, "uniqueItems": True},
    },
    "required": ["name", "scores"],
    "additionalProperties": False,
}


def written(grammar: guided.CompiledGrammar, seed: int, budget: int) -> str:
    """A random output, token by token through the masks, complete within its budget."""
    rng, matcher = random.Random(seed), guided.GrammarMatcher(grammar)
    bitmask, tokens = guided.allocate_token_bitmask(1, VOCABULARY.size), list[int]()
    while not matcher.is_terminated():
        matcher.fill_next_token_bitmask(bitmask, max_tokens=budget - len(tokens))
        tokens.append(rng.choice(guided.allowed_tokens(bitmask)))
        assert matcher.accept_token(tokens[-1])
    assert len(tokens) <= budget
    return VOCABULARY.decode(tokens).decode()


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python needs its GIL")
def test_the_gil_stays_off():
    """A native module that needs the GIL would turn it on when it is imported."""
    code = """
import importlib.util, pathlib, sys
import guided
from guided.automaton import _core
from guided.frontends.lark import _lark
for path in pathlib.Path(guided.__file__).parent.glob("kernels/_kernels*.so"):  # its package needs torch
    spec = importlib.util.spec_from_file_location("_kernels", path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
print(sys._is_gil_enabled())
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_distribution_is_complete():
    if not any(importlib.metadata.distributions(name="guided-decoding")):
        pytest.skip("guided is imported from its sources: no distribution is installed")
    assert importlib.metadata.version("guided-decoding") == guided.__version__
    assert (PACKAGE / "py.typed").exists()
    assert (PACKAGE / "automaton" / "_core.pyi").exists()
    sources = [path for path in PACKAGE.rglob("*") if path.suffix in (".cpp", ".hpp", ".c", ".h")]
    assert not sources or (PACKAGE.parent / "pyproject.toml").exists(), "a wheel holds no sources of the core"
    licences = [str(file) for file in importlib.metadata.files("guided-decoding") or [] if "LICENSE" in str(file)]
    assert licences


def test_json_schema():
    grammar = guided.GrammarCompiler(VOCABULARY).compile_json_schema(SCHEMA)
    for seed in range(20):
        value = json.loads(written(grammar, seed, 60))
        assert value.keys() <= SCHEMA["properties"].keys() and re.fullmatch("[a-z]{0,8}", value["name"])
        assert len(set(value["scores"])) == len(value["scores"])
    matcher = guided.GrammarMatcher(grammar)
    assert not matcher.accept_string('{"name": "ada", "scores": [1, 1]')
    assert matcher.accept_string('{"name": "ada", "scores": [1, 2]}') and matcher.is_accepting()


def test_regex_and_choice():
    compiler = guided.GrammarCompiler(VOCABULARY)
    pattern = r"(\d{1,3}\.){3}\d{1,3}(?!9)"
    for seed in range(10):
        assert re.fullmatch(pattern, written(compiler.compile_regex(pattern), seed, 20))
    assert written(compiler.compile_choice(["yes", "no"]), 1, 4) in ("yes", "no")


def test_metaschemas_are_there():
    grammar = guided.GrammarCompiler(VOCABULARY).compile_json_schema(
        {"$ref": "https://json-schema.org/draft/2020-12/schema"}
    )
    assert guided.GrammarMatcher(grammar).accept_string('{"type":')


def test_masks_are_applied():
    grammar = guided.GrammarCompiler(VOCABULARY).compile_regex("[ab]")
    bitmask = guided.allocate_token_bitmask(1, VOCABULARY.size)
    guided.GrammarMatcher(grammar).fill_next_token_bitmask(bitmask)
    logits = np.zeros((1, VOCABULARY.size), np.float32)
    guided.apply_token_bitmask_inplace(logits, bitmask)
    assert np.flatnonzero(np.isfinite(logits[0])).tolist() == guided.allowed_tokens(bitmask)
    assert len(guided.allowed_tokens(bitmask)) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "shown"),
    [
        (["--help"], 0, "generate"),
        (["--version"], 0, guided.__version__),
        (["check", "--regex", "[0-9]+", "--text", "12"], 0, ""),
        (["check", "--regex", "[0-9]+", "--text", "1x"], 1, ""),
        (["check", "--regex", "[0-9", "--text", "1x"], 2, ""),
        (["sample", "--schema", json.dumps(SCHEMA), "--n", "2", "--seed", "1"], 0, '"name"'),
        (["bench", "--regex", "ab*"], 0, ""),
    ],
)
def test_the_command_line(tmp_path: Path, arguments: list[str], code: int, shown: str):
    command = [sys.executable, "-m", "guided", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert shown in done.stdout and "Traceback" not in done.stderr


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the engine needs torch, which is not installed")
def test_the_engine_writes_with_the_model_in_the_package():
    with guided.Engine.from_pretrained("shakespeare") as engine:
        result = engine.generate("ROMEO:\n", "[A-Z][a-z]+( [a-z]+){2}[.!]", max_tokens=40, temperature=1.0, seed=3)
    assert re.fullmatch("[A-Z][a-z]+( [a-z]+){2}[.!]", result.text)


def test_without_torch_the_engine_says_what_to_install():
    code = "import sys; sys.modules['torch'] = None; import guided; guided.Engine"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode and "torch" in done.stderr
