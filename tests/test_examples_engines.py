"""The examples of guided inside other engines: all can be parsed, and those whose engine is installed run."""

from __future__ import annotations

import importlib.util
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from tests.weights import SMOLLM2, weights_of

EXAMPLES = Path(__file__).parents[1] / "examples"
ENGINES = {
    "exllamav3_generate": "exllamav3", "llama_cpp_completion": "llama_cpp", "mlx_lm_generate": "mlx_lm",
    "sglang_client": "sglang", "tensorrt_llm_generate": "tensorrt_llm", "transformers_generate": "transformers",
}  # fmt: skip


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # annotations are looked up in it
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ENGINES)
def test_the_example_has_a_usage_line_and_uses_public_names(name):
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    compile(text, name, "exec")
    assert re.search(rf"^.*python examples/{name}\.py ", text, re.MULTILINE)
    module = ENGINES[name]
    assert module in text
    for imported in re.findall(r"^from (guided[\w.]*) import", text, re.MULTILINE):
        assert importlib.util.find_spec(imported) is not None
    assert (Path(__file__).parents[1] / "guided" / "integrations" / f"{module}.py").is_file()


@pytest.mark.parametrize(
    ("name", "needs"),
    [("transformers_generate", "transformers"), ("sglang_client", "openai"), ("vllm_offline", "guided")],
)
def test_without_arguments_it_prints_its_usage(name, needs, monkeypatch):
    pytest.importorskip(needs, reason=f"{needs} is not installed")
    monkeypatch.setattr(sys, "argv", [name])
    monkeypatch.setenv("VLLM_PLUGINS", "")  # one of them sets it; afterwards it has its former value
    with pytest.raises(SystemExit, match=rf"python examples/{name}\.py "):
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")


def test_transformers(tmp_path, capsys):
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("transformers", reason="transformers is not installed")
    from tests.transformers_support import small_model, small_tokenizer

    tokenizer = small_tokenizer()
    tokenizer.save_pretrained(tmp_path)
    small_model(tokenizer).save_pretrained(tmp_path)
    fruits = load("transformers_generate").main(str(tmp_path))
    assert len(fruits) == 2
    for fruit in fruits:
        assert fruit.keys() == {"name", "colour"} and fruit["colour"] in ("red", "yellow", "green")
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_the_client_of_sglang_at_a_server_that_understands_the_same_fields():
    """SGLang itself needs a GPU. `guided serve` accepts its requests."""
    for package in ("torch", "fastapi", "uvicorn", "openai"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    from tests.live_server import listening

    example = load("sglang_client")
    with listening() as (_, address):
        person, total = example.main(f"{address}/v1")
    jsonschema.validate(person, example.SCHEMA)
    assert re.fullmatch(r"\(\d{1,3} \+ \d{1,3}\)", total)


@pytest.mark.model
def test_llama_cpp():
    if importlib.util.find_spec("llama_cpp") is None:
        pytest.skip("llama_cpp is not installed: `make test-llama-cpp` does it")
    path = weights_of(SMOLLM2)
    command = [sys.executable, "-m", "examples.llama_cpp_completion", str(path)]  # it and torch need two processes
    done = subprocess.run(command, cwd=EXAMPLES.parent, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    person = json.loads(done.stdout)
    assert isinstance(person["name"], str) and person["age"] == 36 and len(person) == 2
