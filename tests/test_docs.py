"""The documents: their code runs and prints what they show, their links work, and the site can be built.

`document_support` describes how a page is run. Blocks that need a model or a package run in a second test of their
page, so the first one runs everywhere.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.document_support import PAGES, ROOT, Block, blocks_of, is_output, missing, run_page
from tests.effort import every

BLOCKS = {path: blocks_of(path) for path in PAGES}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def runnable(blocks: list[Block]) -> list[Block]:
    return [block for block in blocks if block.runs or block.title]


@pytest.mark.parametrize(
    "path", every(2, (path for path in PAGES if any(block.runs for block in BLOCKS[path]))), ids=name
)
def test_a_page_shows_what_happens(path, tmp_path):
    """Skipped once all blocks have run but those that need a model, or other packages, that are not there."""
    why = {needs: missing(needs) for block in BLOCKS[path] for needs in block.needs}
    there = [block for block in BLOCKS[path] if not any(why[needs] for needs in block.needs)]
    wrong = run_page(runnable(there), tmp_path)
    assert not wrong, "\n\n".join(wrong)
    if left_out := sorted(set(filter(None, why.values()))):
        pytest.skip("; ".join(left_out))


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_blocks_that_are_not_run_can_be_read(path):
    for block in BLOCKS[path]:
        where = f"{block.page}:{block.line}"
        assert block.language or "\n" in block.code, where
        if block.language == "json":
            json.loads(block.code)
        if block.language == "python":
            compile(block.code, where, "exec")
        if block.not_run:
            assert len(block.not_run.split()) >= 3, f"{where}: a reason is needed"


def test_make_and_pip_commands_of_the_documents_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    code = "\n".join(block.code for blocks in BLOCKS.values() for block in blocks if block.language == "sh")
    named = set(re.findall(r"^make ([a-z-]+)", code, re.MULTILINE))
    assert {"demo", "test"} <= named <= targets


def test_the_collector_detects_wrong_blocks(tmp_path):
    """Blocks that print something else, that fail, or that the session does not reach are reported."""
    page = ROOT / "docs" / "none.md"
    right = Block(name(page), 1, "python", "x = 2\nprint(x)", output="2\n")
    failing = Block(name(page), 3, "python", "print(x + y)")
    other = Block(name(page), 5, "python", "print(x)", output="3\n")
    shell = Block(name(page), 7, "sh", "guided check --regex a --text b", exit=1)
    succeeds = Block(name(page), 8, "sh", "guided check --regex a --text a", exit=1)
    leaves = Block(name(page), 9, "python", "import os; os._exit(0)")
    wrong = run_page([right, failing, other, shell, succeeds, leaves], tmp_path)
    assert [message.split(":")[1] for message in wrong] == ["3", "5", "8", "9"]
    assert is_output("a ... c\n", "a 1\nb c \n") and not is_output("a ... c\n", "a b d\n")


def test_the_documents_show_code():
    """This detects a collector that finds nothing."""
    assert sum(block.runs for blocks in BLOCKS.values() for block in blocks) >= 60


def test_links_between_documents_lead_somewhere():
    for path in PAGES:
        text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)[^)]*\)", text):
            assert (path.parent / target).exists(), f"{name(path)}: {target}"


def test_algorithms_name_files_of_the_core_that_exist():
    core = ROOT / "guided" / "automaton" / "native"
    for path in (ROOT / "docs" / "algorithms").glob("*.md"):
        for file in re.findall(r"`([a-z]+/[a-z_]+)`", path.read_text(encoding="utf-8")):
            assert list(core.glob(f"{file}.[ch]pp")), f"{name(path)}: {file}"


def test_the_map_has_every_folder_in_the_order_of_the_layers():
    """The map in architecture.md: folders that are not planned are there, and each stands below all that it imports."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    lines = text[text.index("guided/\n") :].split("```")[0].splitlines()[1:]
    folders = [folder for line in lines if "(planned)" not in line for folder in re.findall(r"([a-z]+)/ ", line[:26])]
    there = {path.parent.name for path in (ROOT / "guided").glob("*/__init__.py")}
    assert set(folders) == there | {"native", "reference"}
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    layers = [layer.removeprefix("guided.") for layer in reversed(tools["importlinter"]["contracts"][0]["layers"])]
    listed = [folder for folder in folders if folder not in ("native", "reference")]
    assert listed == [layer for layer in layers if layer in listed]


def test_files_that_pages_name_exist():
    """Files in backticks on the pages about the inside: paths are relative to one of the roots, and plain names may be
    anywhere.
    """
    package = ROOT / "guided"
    front = package / "frontends"
    roots = [ROOT, package, package / "automaton" / "native", front, front / "json_schema"]
    there = [path for folder in ("guided", "tests", "docs") for path in (ROOT / folder).rglob("*.*")]
    names = {path.name for path in there} | {"CONTRIBUTING.md", "pyproject.toml", "config.json"}
    for path in (ROOT / "docs" / "architecture.md", *(ROOT / "docs" / "inside").glob("*.md")):
        for file in re.findall(r"`([\w./]+\.(?:py|[ch]pp|md|toml))`", path.read_text(encoding="utf-8")):
            found = any((root / file).is_file() for root in roots)
            assert found or ("/" not in file and file in names), f"{name(path)}: {file}"


def test_requirements_name_tests_that_exist():
    text = (ROOT / "docs" / "requirements.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+\.py)(?:::(\w+))?`", text))
    assert named
    for file, function in named:
        path = ROOT / "tests" / file
        assert path.is_file(), file
        assert not function or f"def {function}(" in path.read_text(encoding="utf-8"), f"{file}::{function}"


# ---- the site


def test_the_site_is_built_without_a_warning(tmp_path):
    for module in ("mkdocs", "material", "mkdocstrings"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed: pip install 'guided-decoding[docs]'")
    # With --quiet, --strict would see no warnings.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {page: page.read_text(encoding="utf-8") for page in (tmp_path / "site").rglob("*.html")}
    assert len(pages) >= len(PAGES)
    for page, text in pages.items():
        loaded = re.findall(r'<(?:script|img|link)\b[^>]*?(?:src|href)="(https?:[^"]+)"', text)
        assert not [url for url in loaded if "canonical" not in url], f"{page} loads something from elsewhere"


def test_pictures_are_what_their_script_draws():
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "scripts" / "pictures.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    used = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    for picture, draw in module.PICTURES.items():
        assert (module.IMG / f"{picture}.svg").read_text(encoding="utf-8") == draw().svg(), picture
        assert f"img/{picture}.svg" in used, picture


def test_mask_times_have_one_name_and_one_figure():
    """The README and the comparison repeat rows of the benchmarks, and the demo measures one of them."""

    def rows(page, table):
        lines = (ROOT / page).read_text(encoding="utf-8").split(f"\n| {table} |")[1].split("\n\n")[0].splitlines()[2:]
        return {
            name: figures for name, *figures in ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines)
        }

    measured = rows("README.md", "mask, microseconds")
    assert len(measured) == 4
    for name, figures in measured.items():
        p50, _, p99, *_ = rows("docs/benchmarks.md", f"Mask, {name}, us")["guided"]
        assert figures == [p50, p99], name
    compared = rows("docs/comparison.md", "mask, first walk of 24 instances")
    benchmarks = rows("docs/benchmarks.md", "Mask, first walk of 24 instances, us")
    for name, figures in compared.items():
        p50, _, p99, _, _, mean = benchmarks[name.split()[0]]
        assert figures == [p50, p99, mean], name
    assert "mask: microseconds, first instance, between forward passes" in (ROOT / "examples" / "demo.py").read_text()
    assert "first instance, between forward passes" in measured


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r"[\w/.-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert listed == {str(path.relative_to(ROOT / "docs")) for path in PAGES if path.name != "README.md"}


def test_the_reference_has_every_public_name():
    import guided
    import guided.testing

    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference").glob("*.md"))
    named = {line.rsplit(".", 1)[-1] for line in re.findall(r"^::: (guided\.[\w.]+)$", text, re.MULTILINE)}
    assert {*guided.__all__, *guided.testing.__all__} <= named


def test_the_reference_has_every_module_that_a_guide_imports_a_plug_in_from():
    guide = (ROOT / "docs" / "guides" / "engines.md").read_text(encoding="utf-8")
    reference = (ROOT / "docs" / "reference" / "integrations.md").read_text(encoding="utf-8")
    imported = set(re.findall(r"^from (guided\.integrations\.\w+) import", guide, re.MULTILINE))
    assert len(imported) > 5 and imported == set(
        re.findall(r"^::: (guided\.integrations\.\w+)$", reference, re.MULTILINE)
    )


def test_the_bounds_of_what_is_refused_match_the_code():
    from guided.frontends.json_schema.algebra import count_graph, name_classes
    from guided.frontends.json_schema.algebra import value_partition as cells
    from guided.frontends.json_schema.text import multiples, numbers

    text = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    for words in (
        f"exceeds {count_graph.MAX_STATES:,} |",
        f"an item can have more than {count_graph._MAX_DISTINGUISHED_VALUES} different values |",
        f"overlap in more than {name_classes.MAX_CLASSES} ways |",
        f"more than {cells.MAX_CELLS} overlapping sets of values",
        f"-{numbers.REACH} or above {numbers.REACH} ",
        f"need more than {multiples.MAX_STATES:,} states",
    ):
        assert words in text, words


def test_every_format_is_described():
    from guided.frontends.json_schema.formats import FORMATS

    text = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    table = text[text.index("| format |") : text.index("pydantic's own names")]
    ranges = [
        f"{sign}int{bits}" for sign in ("", "u") for bits in (16, 32)
    ]  # the table contains the ends of these rows
    missing = {name for name in FORMATS if f"`{name}`" not in table} - set(ranges)
    assert not missing


def test_the_packages_of_the_site_are_in_two_extras():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for package in ("mkdocs-material", "mkdocstrings"):
        assert all(any(one.startswith(package) for one in extras[extra]) for extra in ("docs", "test"))
