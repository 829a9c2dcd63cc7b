"""Sets that other engines read differently are found: those of which `re` warns, and POSIX classes."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.frontends.regex.doubtful_sets import find_doubtful_sets
from guided.matching import GrammarCompiler
from guided.matching.explain.lint_findings import lint_specification
from guided.vocabulary import Vocabulary
from tests.effort import examples
from tests.test_cli import run, run_json

COMPILER = GrammarCompiler(Vocabulary([bytes([code]) for code in range(256)], eos_token_ids=[256]))
POSIX = {
    "alnum": str.isalnum, "alpha": str.isalpha, "digit": str.isdigit, "lower": str.islower, "upper": str.isupper,
    "blank": lambda c: c in " \t", "space": lambda c: c in " \t\n\v\f\r", "ascii": str.isascii,
    "cntrl": lambda c: ord(c) < 32 or ord(c) == 127, "print": lambda c: 32 <= ord(c) < 127,
    "graph": lambda c: 32 < ord(c) < 127, "xdigit": lambda c: c in "0123456789abcdefABCDEF",
    "punct": lambda c: 32 < ord(c) < 127 and not c.isalnum(), "word": lambda c: c.isalnum() or c == "_",
}  # fmt: skip


@examples(2000)
@given(st.text("[]]^--&&~|\\ab:#()?", max_size=12))
def test_the_sets_are_those_that_re_warns_of(pattern: str):
    re.purge()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            re.compile(pattern)
        except re.error:
            return
    assert any(find_doubtful_sets(pattern)) == any(each.category is FutureWarning for each in caught)


@pytest.mark.parametrize("name", POSIX)
def test_hints_for_posix_classes(name: str):
    for pattern in (f"[[:{name}:]]", f"[:{name}:]", f"[_[:{name}:]]", f"[^[:{name}:]]"):
        (found,) = find_doubtful_sets(pattern)
        assert found.is_posix and found.name == f"POSIX class [:{name}:]" and found.position == 0
        ranges = re.search(r"write \[?(.*?)(\]$| instead)", found.hint)[1]
        assert {c for c in map(chr, range(128)) if re.fullmatch(f"[{ranges}]", c)} == {
            c for c in map(chr, range(128)) if POSIX[name](c)
        }
    (found,) = find_doubtful_sets(f"ab[[:^{name}:]]")
    assert found.hint.startswith("write [^") and found.position == 2


@pytest.mark.parametrize(
    "pattern", ["[a-z]", r"\[[a]\]", r"[\[:alpha:\]]", "(?x)[a] # [[:alpha:]]", "(?#[[:alpha:]])a", "[a-]", "[-a&b|]"]
)
def test_ordinary_sets(pattern: str):
    assert not list(find_doubtful_sets(pattern))


CASES: list[tuple[str, Any, list[tuple[str, bool]]]] = [
    ("regex", "[[:alpha:]]{2}", [("", True)]),
    ("regex", "[a&&b]{2}", [("", False)]),
    (
        "schema",
        {"properties": {"pattern": {"pattern": "^[[:digit:]]{2}$"}}, "patternProperties": {"[[a]/": True},
         "default": {"pattern": "[[:digit:]]"}},
        [("/properties/pattern/pattern", True), ("/patternProperties/[[a]~1", False)],
    ),
    ("schema", '{"prefixItems": [{"pattern": "[a[:space:]]"}]}', [("/prefixItems/0/pattern", True)]),
    ("structural_tag", {"type": "structural_tag", "format": {"type": "regex", "pattern": "[[:alpha:]]"}},
     [("/format/pattern", True)]),
    ("lark", "start: A\nA: /[[:alpha:]]{2}/", [("A (line 2)", True)]),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Possible:FutureWarning")
@pytest.mark.parametrize(("kind", "source", "expected"), CASES)
def test_lint_reports_them(kind: str, source: Any, expected: list[tuple[str, bool]]):
    compiles = {"schema": COMPILER.compile_json_schema, "structural_tag": COMPILER.compile_structural_tag}
    grammar = {**compiles, "regex": COMPILER.compile_regex, "lark": COMPILER.compile_lark}[kind](source)
    findings = [each for each in lint_specification(grammar, kind, source, {}) if each.kind == "set"]
    assert sorted((each.place, each.matters) for each in findings) == sorted(expected)


def test_check_notes_them():
    for arguments in (["--regex", "[[:alpha:]]"], ["--regex", "[[:alpha:]]", "--dialect", "ecma"]):
        entry = run_json("check", *arguments)["entries"][-1]
        assert entry["status"] == "note" and "POSIX class [:alpha:]" in entry["reason"]
    entries = run_json("check", "--schema", '{"pattern": "[[:alpha:]]"}')["entries"]
    assert [entry["pointer"] for entry in entries if "POSIX" in entry["reason"]] == ["/pattern"]
    code, out, _ = run("lint", "--regex", "[[:alpha:]]")
    assert code == 1 and out.startswith("set: everywhere: the set at position 0 looks like a POSIX class [:alpha:]")
