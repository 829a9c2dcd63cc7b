"""The recipes of docs/guides/clients.md and examples/clients_*.py, run against the small engine behind a socket.

Frameworks need other versions of packages than the tests, and print their own warnings. So `make test` installs them
(the extra `clients`) into a separate environment, `.venv/clients`. If it does not exist, the environment of the tests
is searched for them. `make test-clients` runs the examples of all clients (scripts/clients.py), each in its own
environment.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

from scripts import clients
from tests.document_support import ROOT

TEXT = (ROOT / "docs" / "guides" / "clients.md").read_text("utf-8")
OBJECT = r"""name=['\"].*['\"] kilometres=-?\d+"""
RIVER = r"""River\(name=['\"].*['\"], kilometres=-?\d+\)"""
NAME = "[A-Z][a-z]{2,9}"


@pytest.fixture(scope="module")
def address():
    with clients.served_model() as address:
        yield address.removeprefix("http://")


def blocks(section: str, language: str, address: str) -> list[str]:
    part = TEXT.split(f"\n## {section}\n")[1].split("\n## ")[0]
    assert "http://127.0.0.1:8000" in part
    found = re.findall(rf"```{language}\n(.*?)```", part, re.DOTALL)
    return [block.replace("127.0.0.1:8000", address) for block in found]


@cache
def python_with(module: str) -> str | None:
    """The Python that has a framework."""
    for python in (ROOT / ".venv" / "clients" / "bin" / "python", Path(sys.executable)):
        look = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
        if python.exists() and subprocess.run([python, "-c", look], check=False).returncode == 0:
            return str(python)
    return None


def run(module: str, code: list[str], folder: Path, address: str) -> str:
    """The output of a process that may import a framework. It downloads nothing, and writes only to its own folder."""
    if (python := python_with(module)) is None:
        pytest.skip(f"{module} is not installed: `make test` does it, into .venv/clients")
    ran = clients.run([python, *code], folder, clients.RUN, clients.environment(f"http://{address}", folder))
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


def printed(section: str, module: str, folder: Path, address: str) -> str:
    """The output of the Python blocks of a section, which run one after the other in another process."""
    return run(module, ["-c", "\n".join(blocks(section, "python", address))], folder, address)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl(address):
    ran = [
        subprocess.run(["sh", "-c", block], capture_output=True, encoding="utf-8", timeout=60, check=True).stdout
        for block in blocks("curl", "sh", address)
    ]
    chosen, stream, refused = ran
    assert json.loads(chosen)["choices"][0]["message"]["content"] in ("yes", "no")
    events = [line.removeprefix("data: ") for line in stream.splitlines() if line]
    assert events[-1] == "[DONE]"
    date = "".join(json.loads(event)["choices"][0]["text"] for event in events[:-1])
    assert re.fullmatch("[0-9]{4}-[01][0-9]-[0-3][0-9]", date)
    assert json.loads(refused)["error"]["param"] == "regex"


@pytest.mark.parametrize("here", [True, False])
def test_the_client_of_openai(address, tmp_path, here):
    """The version in the environment of the tests (3), and that of the frameworks (2)."""
    if here:
        code = ["-c", "\n".join(blocks("OpenAI's client", "python", address))]
        pytest.importorskip("openai", reason="openai is not installed")
        ran = subprocess.run([sys.executable, *code], capture_output=True, encoding="utf-8", timeout=300, check=False)
        assert ran.returncode == 0, ran.stderr[-3000:]
        said = ran.stdout
    else:
        said = printed("OpenAI's client", "openai", tmp_path, address)
    found = re.fullmatch(
        rf"{OBJECT}\n\s*{{.*}}{OBJECT}\n(?:Nile|Rhine|Ganges)(?: and (?:Nile|Rhine|Ganges))?\n"
        rf"[1-9][0-9]?(?:\+[1-9][0-9]?){{1,4}}\nregex unterminated character set.*\n"
        rf"\[{RIVER}, {RIVER}\]\n",
        said,
        re.DOTALL,
    )
    assert found, said


@pytest.mark.parametrize(
    ("section", "module", "said"),
    [
        ("LangChain", "langchain_openai", rf"{OBJECT}\n[A-Z][a-z]{{2,9}}\n[A-Z][a-z]{{2,9}}"),
        ("instructor", "instructor", rf"{OBJECT}\n"),
        ("LiteLLM", "litellm", rf"{OBJECT}\n[A-Z][a-z]{{2,9}}"),
        ("LlamaIndex", "llama_index.llms.openai_like", rf"{OBJECT}\n(?:.*\n)+{OBJECT}\n"),
        ("DSPy", "dspy", rf"{RIVER}\n"),
        ("pydantic-ai", "pydantic_ai", rf"{OBJECT}\n(?:.*\n)+{OBJECT}\n"),
        (
            "Anthropic's client",
            "anthropic",
            rf"{OBJECT}\n\{{(?s:.*)\}}\n{NAME}\ntool_use \{{'city': .*\}}\n"
            r"regex unterminated character set(?s:.*)\n",
        ),
    ],
)
def test_recipes_of_frameworks(section, module, said, address, tmp_path):
    found = printed(section, module.partition(".")[0], tmp_path, address)
    assert re.fullmatch(said, found), found


def test_the_client_of_anthropic_knows_every_answer(address, tmp_path):
    """The client's types have every field of messages, events and errors, and it assembles each stream into the
    message.
    """
    assert run("anthropic", [str(ROOT / "tests" / "anthropic_client.py")], tmp_path, address).count(".") == 2


WATER = (
    r"Water\(name=.*, kind=<Kind\.(?:river|lake): '\w+'>, source=Point\(latitude=-?\d+, longitude=-?\d+\), "
    r"crossing=.*, tributaries=\[.*\]\)"
)
WEATHER = r"Weather\(place=.*, unit='(?:celsius|fahrenheit)'\)"
REFUSED = r"refused: (?s:.*)unterminated subpattern \(at /(?s:.*)close the group, or write(?s:.*)"
EXAMPLES = {
    "openai": (
        rf"object: {WATER}", rf"stream: {WATER}", rf"calls: \[{WEATHER}.*\]", rf"answer: {NAME}",
        rf"object by responses: {WATER}",
        r"refused: response_format\.json_schema\.schema/properties/name/pattern (?s:.*)unterminated subpattern(?s:.*)",
    ),
    "instructor": (
        rf"object: {WATER}", rf"calls: {WATER}", rf"stream: {WATER}", rf"several: \[{WEATHER}(?:, {WEATHER}){{0,3}}\]",
        REFUSED,
    ),
    "langchain": (
        rf"object: {WATER}", rf"function: {WEATHER}", rf"stream: {WATER}",
        r"calls: \['(?:weather|Weather)'.*\] \[\]", rf"answer: {NAME}", rf"text: {NAME}",
        rf"stream of text: {NAME}", REFUSED,
    ),
    "llama_index": (
        rf"object: {WATER}", rf"stream: {WATER}", rf"function: {WEATHER}", rf"calls: \[{WEATHER}.*\]",
        rf"answer: {NAME}", rf"text: {NAME}", REFUSED,
    ),
    "dspy": (
        rf"object: <Kind\.\w+: '\w+'> {WATER}", r"calls: \['weather'.*\]", REFUSED,
    ),
    "anthropic": (
        r"object: Shore\(name=.*, kind=<Kind\.\w+: '\w+'>, sandy=(?:True|False)\)", r"stream: Shore\(.*\)",
        rf"schema: {WATER}", rf"calls: tool_use {WEATHER}", rf"answer: end_turn True {NAME}",
        r"refused: invalid_specification output_config\.format\.schema/properties/name/pattern: "
        r"(?s:.*)unterminated subpattern(?s:.*)",
    ),
    "pydantic_ai": (
        rf"object: {WATER}", rf"calls: {WATER}", rf"stream: {WATER}",
        rf"either: (?:{WATER}|{WEATHER})", REFUSED,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name, address, tmp_path):
    """Each way of asking that a framework offers returns what was requested. Impossible requests are errors with our
    message.
    """
    script = ROOT / "examples" / f"clients_{name}.py"
    module = {"langchain": "langchain_openai"}.get(name, name)
    said = run(module, [str(script)], tmp_path, address)
    assert re.fullmatch("\n".join(EXAMPLES[name]), said.rstrip("\n")), said


def test_each_example_is_tried_and_named_in_the_guide():
    """This module tests what the extra `clients` installs; `make test-clients` tests everything else."""
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]["clients"]
    installed = {re.match(r"[\w-]+", requirement)[0] for requirement in extra}
    recipes = clients.recipes()
    assert {name for name, recipe in recipes.items() if installed.issuperset(recipe.names)} == set(EXAMPLES)
    assert len(recipes) > len(EXAMPLES)
    assert all(f"| `examples/{recipe.path.name}` |" in TEXT for recipe in recipes.values())
