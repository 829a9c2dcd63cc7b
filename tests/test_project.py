"""The project itself: the cost of importing it, layers of imports, sizes of files and functions, promises of the
docs.
"""

from __future__ import annotations

import ast
import graphlib
import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import guided
from tests.import_cycles import import_cycles

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "guided").rglob("*.py"))
FILE_LINES, FUNCTION_LINES = 420, 70
LONGEST_FILE = 500
# Modules that are loaded only on demand: they are heavy, or give access to the outside.
HEAVY = {"torch", "transformers", "jsonschema", "interegular", "lark", "fastapi", "uvicorn", "matplotlib", "triton"}
NETWORK = {"socket", "ssl", "http", "urllib.request", "asyncio", "subprocess", "requests", "httpx", "multiprocessing"}


def imported(statement: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after the statement, by -X importtime."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", statement], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(re.findall(r"^import time: +\d+ \| +\d+ \| +(\S+)$", done.stderr, re.MULTILINE))


def test_importing_is_light():
    modules = imported("import numpy, guided") - imported("import numpy")
    assert "guided.matching.matcher" in modules
    tops = {module.split(".")[0] for module in modules}
    assert not tops & HEAVY
    assert not modules & NETWORK
    assert not any(module.startswith(("guided.engine", "guided.models", "guided.cli")) for module in modules)


def test_the_command_line_starts_light():
    modules = imported("import guided.cli")
    assert "guided.cli.main" in modules
    assert not {module.split(".")[0] for module in modules} & HEAVY
    assert not any(module.startswith(("guided.engine", "guided.models")) for module in modules)


def test_without_torch_everything_but_the_engine_works():
    code = """
import sys
sys.modules["torch"] = None
import guided
from guided.cli import main
assert main(["check", "--regex", "ab*", "--text", "abb"]) == 0
assert main(["bench", "--regex", "ab*"]) == 0
assert main(["generate", "x", "--regex", "ab*"]) == 2
try:
    guided.Engine
except ImportError as error:
    assert error.name == "torch"
else:
    raise AssertionError("there is an engine")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "pip install 'guided-decoding[engine]'" in done.stderr


def test_the_distribution_has_a_name_that_is_free():
    """Another project on the registry is called `guided`. Only the import has this name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (project["name"], project["version"]) == ("guided-decoding", guided.__version__)
    try:
        installed = importlib.metadata.version("guided-decoding")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the project is not installed in this environment")
    assert installed == guided.__version__


def test_workflows_cover_the_pythons_that_the_project_supports():
    yaml = pytest.importorskip("yaml", reason="PyYAML reads the workflows")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(settings["project"]["classifiers"]))
    assert settings["project"]["requires-python"] == f">={named[0]}"
    tests = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))
    matrix = tests["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == named
    systems = {*matrix["os"], *(row["os"] for row in matrix["include"])}
    assert {name.split("-")[0] + name[-4:] * name.endswith("-arm") for name in systems} == {
        "ubuntu",
        "ubuntu-arm",
        "macos",
    }
    wheels = [f"cp{name.replace('.', '')}-*" for name in named]
    assert settings["tool"]["cibuildwheel"]["build"].split() == [*wheels, wheels[-1].replace("-", "t-")]
    setup = tests["jobs"]["free-threaded"]["steps"][1]["with"]
    assert setup["python-version"] == f"{named[-1]}t"
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        assert yaml.safe_load(path.read_text(encoding="utf-8"))["permissions"] == {"contents": "read"}, path


@pytest.mark.parametrize(
    ("subject", "code"),
    [
        ("Packed weights are stored and mapped", 0),
        ("fix", 1),
        ("x" * 71, 0),
        ("x" * 72, 1),
        ("ä" * 71, 0),
        ("It ends with a period.", 1),
    ],
)
def test_subjects_of_commits_are_checked(tmp_path: Path, subject: str, code: int):
    (tmp_path / "message").write_text(f"{subject}\n\nMore.\n", encoding="utf-8")
    script = ROOT / "scripts" / "check_subject.sh"
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["sh", script, tmp_path / "message"], capture_output=True, check=False, env=environment)
    assert done.returncode == code
    subjects = f"The subject of another commit\n{subject}\n"
    done = subprocess.run(["sh", script], input=subjects.encode(), capture_output=True, check=False, env=environment)
    assert done.returncode == code


def test_hints_name_packages_and_extras_that_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    texts = [*SOURCES, *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*"), ROOT / "README.md"]
    named = set()
    for path in texts:
        if path.is_file() and path.suffix in (".py", ".md", ".toml"):
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"\bguided\[\w+\]'|pip install '?\"?guided\b(?!-decoding)", text), path
            named |= set(re.findall(r"\bguided-decoding\[([\w,-]+)\]", text))
    assert named, "no hint names an extra"
    assert named <= extras.keys()


def test_public_names_exist():
    for name in guided.__all__:
        assert hasattr(guided, name), name


def test_layers_are_kept():
    linter = Path(sys.executable).with_name("lint-imports")
    if not linter.exists():
        pytest.skip("import-linter is not installed beside this Python")
    done = subprocess.run([linter, "--no-cache"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


EMBEDDING = {"guided.frontends.combinators", "guided.frontends.composition", "guided.frontends.lark"}
"""A Lark text embeds any specification, and a specification holds Lark texts: one import is in a function."""
RECURSIVE = {
    "guided.frontends.json_schema.text": 5,
    "guided.frontends.json_schema": 22,  # schemas contain schemas
    "guided.frontends.regex": 2,
    "guided.frontends.gbnf": 2,
    "guided.frontends.structural_tag": 2,
}
"""Packages of which so many modules name each other in types, since what they read is recursive."""


def test_modules_import_each_other_only_for_recursive_types():
    for modules in import_cycles(ROOT / "guided", types=True):
        inside = [package for package in RECURSIVE if all(module.startswith(package) for module in modules)]
        assert modules == EMBEDDING or (inside and len(modules) <= RECURSIVE[inside[0]]), sorted(modules)


def test_modules_do_not_import_each_other_at_run_time():
    assert import_cycles(ROOT / "guided", types=False) == [EMBEDDING]


NATIVE = ROOT / "guided" / "automaton" / "native"
NATIVE_LAYERS = (
    "base",
    "fsa",
    "json",
    "values",
    "compile",
    "vocabulary",
    "run",
    "budget",
    "matching",
    "composed",
    "lexer",
    "python",
)


def test_includes_of_the_core_go_one_way():
    """A file of the core includes only headers of its own folder and of earlier ones."""
    files = [path for path in NATIVE.rglob("*") if path.suffix in (".cpp", ".hpp")]
    assert {path.parent.name for path in files} == set(NATIVE_LAYERS)
    for path in files:
        for name in re.findall(r'#include "([^"]+)"', path.read_text(encoding="utf-8")):
            assert (NATIVE / name).is_file(), (path, name)
            assert NATIVE_LAYERS.index(name.split("/")[0]) <= NATIVE_LAYERS.index(path.parent.name), (path, name)


def test_includes_of_the_core_have_no_cycle():
    """A file and its header are one unit. The units can be ordered so that each includes only earlier ones."""
    includes: dict[Path, set[Path]] = {}
    for path in NATIVE.rglob("*.[ch]pp"):
        names = re.findall(r'#include "([^"]+)"', path.read_text(encoding="utf-8"))
        units = {(NATIVE / name).with_suffix("") for name in names}
        includes.setdefault(path.with_suffix(""), set()).update(units - {path.with_suffix("")})
    order = graphlib.TopologicalSorter(includes).static_order()  # raises CycleError
    assert set(order) >= includes.keys()


def test_the_core_outside_of_one_folder_knows_no_byte_of_json():
    """Values that must differ are behind an interface, `values/syntax.hpp`, which alone refers to the JSON folder."""
    for path in NATIVE.rglob("*.[ch]pp"):
        code = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
        if path.parent.name == "json" or path == NATIVE / "values" / "syntax.hpp":
            continue
        assert not re.search(r"""json|'"'|'\\\\'""", code, re.IGNORECASE), path


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_stay_small(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= FILE_LINES
    tree = ast.parse(text)
    assert path.name == "__init__.py" or ast.get_docstring(tree), "a module says what goes in and what comes out"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < FUNCTION_LINES, node.name
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            docstring = ast.get_docstring(node) or ""
            assert ">>>" not in docstring or "\nExamples:\n    >>>" in docstring, "the site takes brackets for links"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("eval", "exec"), "text from outside is never run"
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            assert not {"pickle", "marshal", "shelve", "dill"} & set(names), "files from outside are never unpickled"


def test_no_file_is_long():
    """Including tests, benchmarks and C++ sources."""
    folders = ("guided", "tests", "benchmarks", "examples", "scripts")
    endings = (".py", ".cpp", ".hpp", ".sh")  # stubs are written by a program
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in endings]
    assert len(files) > 300
    long = {str(path): n for path in files if (n := path.read_text(encoding="utf-8").count("\n")) > LONGEST_FILE}
    assert not long


def test_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == guided.__version__
    assert f"## {guided.__version__}" in (ROOT / "CHANGELOG.md").read_text()
