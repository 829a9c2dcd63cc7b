"""Optional packages that are not installed: the errors name what to install."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from guided.packages import how_to_install, importing

ROOT = Path(__file__).parent.parent
MODEL = "guided/models/data/shakespeare"
BLOCK = """
import sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if f"{{name}}.".startswith({package!r} + "."):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Finder())
"""
GENERATE = ["generate", "x", "--regex", "ab", "--max-tokens", "4", "--model", MODEL]
SERVE = ["serve", MODEL]
COMMANDS = [
    ("torch", GENERATE, "engine"),
    ("xxhash", GENERATE, "engine"),
    ("safetensors", GENERATE, "engine"),
    ("lark", ["check", "--lark", 'start: "a"', "--text", "a"], "grammars"),
    ("fastapi", SERVE, "serve"),
    ("pydantic", SERVE, "serve"),
    ("uvicorn", SERVE, "serve"),
    ("prometheus_client", SERVE, "serve"),
    ("opentelemetry.exporter", [*SERVE, "--port", "0", "--otlp", "http://127.0.0.1:4318"], "otel"),
]


def run(package: str, code: str) -> subprocess.CompletedProcess[str]:
    code = BLOCK.format(package=package) + code
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.parametrize(("package", "command", "extra"), COMMANDS)
def test_the_error_of_a_command_names_the_package(package: str, command: list[str], extra: str):
    if package in ("xxhash", "safetensors"):
        pytest.importorskip("torch", reason="torch is not installed, and asked for first")
    done = run(package, f"from guided.cli import main\nsys.exit(main({command!r}))")
    assert done.returncode == 2, done.stderr
    assert f"guided-decoding[{extra}]" in done.stderr
    assert "defect" not in done.stderr


@pytest.mark.parametrize("statement", ["guided.Engine", "guided.Request", "guided.from_transformers"])
def test_the_error_of_a_name_names_the_package(statement: str):
    done = run("torch", f"import guided\n{statement}")
    assert done.stderr.splitlines()[-1].endswith(
        f"{statement} needs the package torch: pip install 'guided-decoding[engine]'"
    )


@pytest.mark.parametrize("module", ["guided.engine", "guided.levels"])
def test_the_error_of_a_module_names_the_package(module: str):
    done = run("torch", f"import {module}")
    assert f"{module} needs the package torch: pip install 'guided-decoding[engine]'" in done.stderr


def test_the_error_of_another_module_stays_as_it_is():
    assert how_to_install(ModuleNotFoundError("No module named 'x'", name="x")) == ""
    assert how_to_install(ModuleNotFoundError("no name")) == ""
    with pytest.raises(ModuleNotFoundError, match="No module named 'x'"), importing("it"):
        raise ModuleNotFoundError("No module named 'x'", name="x")
    with (
        pytest.raises(ModuleNotFoundError, match=r"^it needs the package lark: pip install 'guided-decoding\[grammars"),
        importing("it"),
    ):
        raise ModuleNotFoundError("No module named 'lark.x'", name="lark.x")


def test_each_extra_brings_what_its_hint_promises():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for package in (
        "torch", "xxhash", "safetensors", "tqdm", "jinja2", "tokenizers", "tiktoken", "sentencepiece", "lark",
        "fastapi", "uvicorn", "pydantic", "prometheus_client", "huggingface_hub",
    ):  # fmt: skip
        hint = how_to_install(ModuleNotFoundError(name=package))
        extra = hint.partition("[")[2].partition("]")[0]
        names = {line.partition(">")[0].replace("-", "_") for line in extras[extra]}
        assert package in names, (package, extra)
