"""The intended name for a misspelled one: difflib's choice, found with bounded work."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from random import Random

import pytest

import guided
from guided import close_names
from guided.close_names import find_closest_name
from guided.frontends.json_schema import unenforced

SOURCES = Path(guided.__file__).parent


@pytest.mark.parametrize("cutoff", [0.4, 0.6, 0.75])
def test_it_is_the_name_that_difflib_finds(cutoff: float):
    rng = Random(7)
    found = 0
    for _ in range(2_000):
        known = ["".join(rng.choices("abcd_", k=rng.randint(1, 9))) for _ in range(rng.randint(0, 12))]
        name = "".join(rng.choices("abcd_", k=rng.randint(0, 9)))
        expected = difflib.get_close_matches(name, known, n=1, cutoff=cutoff)
        assert find_closest_name(name, known, cutoff=cutoff) == "".join(expected), (name, known)
        found += bool(expected)
    assert found > 100


@pytest.mark.parametrize("name", [None, 7, b"name", ["name"], "x" * 1_000_000])
def test_values_that_are_not_names_and_very_long_names_have_no_close_name(name: object):
    assert find_closest_name(name, ["name", "x" * 999_999]) == ""


def test_a_search_compares_a_bounded_number_of_names(monkeypatch: pytest.MonkeyPatch):
    compared = list[str]()

    class Counted(difflib.SequenceMatcher[str]):
        def quick_ratio(self) -> float:
            compared.append("letters")
            return super().quick_ratio()

        def ratio(self) -> float:
            compared.append("all")
            return super().ratio()

    monkeypatch.setattr(close_names, "SequenceMatcher", Counted)
    assert find_closest_name("ab" * 50, ["ba" * 50] * 100_000 + ["ab" * 50])
    assert compared.count("letters") <= 2_000
    assert compared.count("all") <= 20


def test_nothing_else_searches():
    found = {
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        if re.search(r"\bdifflib\b", path.read_text(encoding="utf-8"))
    }
    assert found == {"close_names.py"}


def test_a_hundred_thousand_unknown_keywords_need_few_searches(monkeypatch: pytest.MonkeyPatch):
    searched = list[str]()

    def search(name: str, draft: str) -> str:
        searched.append(name)
        return "searched"

    monkeypatch.setattr(unenforced, "_hint_with_close_keyword", search)
    schema = {"type": "integer", **{f"maximun{number}": 1 for number in range(100_000)}}
    vocabulary = guided.Vocabulary([b"1"], eos_token_ids=[1])
    findings = guided.GrammarCompiler(vocabulary, warn=False).compile_json_schema(schema).findings
    assert len(findings) == 100_000
    assert len(searched) == 200
    assert findings[199].hint == "searched"
    assert findings[200].hint == "leave it out, or begin its name with x-"


def test_unknown_formats_need_few_searches(monkeypatch: pytest.MonkeyPatch):
    searched = list[bool]()
    original = unenforced.why_not_enforced

    def search(name: str, *, search: bool = True) -> tuple[str, str]:
        searched.append(search)
        return original(name, search=search)

    monkeypatch.setattr(unenforced, "why_not_enforced", search)
    schema = {"type": "array", "prefixItems": [{"type": "null", "format": f"dat-tim{number}"} for number in range(500)]}
    vocabulary = guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
    compiler = guided.GrammarCompiler(vocabulary, warn=False)
    compiled = compiler.compile_json_schema(schema, unknown_format="warn", format="assert")
    assert len(compiled.findings) == 500
    assert searched.count(True) == 200
    assert "did you mean" in compiled.findings[0].hint
    assert compiled.findings[499].hint.startswith("use pattern instead")
