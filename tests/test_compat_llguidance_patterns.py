"""Patterns and named grammars in Lark, in llguidance's facade and in llguidance itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

import guided.compat.llguidance as ours


@pytest.fixture(params=["guided.compat.llguidance", "llguidance"])
def library(request: pytest.FixtureRequest) -> Any:
    if request.param == "llguidance":
        return pytest.importorskip("llguidance", reason="the oracle is the installed llguidance")
    return ours


@pytest.mark.parametrize(("body", "accepted", "refused"), [
    ("/int|integer/", ["int", "integer"], ["inte"]),
    ("/a*?/ /b/", ["b", "aab"], ["a"]),
    ("/(a*)*b/", ["b", "aab"], ["a"]),
    ('WORD "!"\nWORD: /a|ab/ "c"', ["ac!", "abc!"], ["a!", "abc"]),
    ('word "!"\nword[max_tokens=9]: /a|ab/ "c"', ["ac!", "abc!"], ["a!"]),
])  # fmt: skip
def test_all_texts_of_a_pattern_count(library: Any, body: str, accepted: list[str], refused: list[str]) -> None:
    tokenizer = library.LLTokenizer("byte")
    for text in [*accepted, *refused]:
        matcher = library.LLMatcher(tokenizer, library.LLMatcher.grammar_from_lark(f"start: {body}"))
        assert not matcher.get_error()
        assert (matcher.consume_tokens(list(text.encode())) and matcher.is_accepting()) == (text in accepted), text


def test_schemas_with_options_in_named_grammars(library: Any) -> None:
    """Each schema has its own options, and no name that another grammar has."""
    schemas = [
        f'%json {{"x-guidance": {{"whitespace_flexible": {each}}}, "type": "array"}}' for each in ("false", "true")
    ]
    parts = [
        {"lark_grammar": f"start: {schemas[0]} @b @json-0"},
        {"name": "b", "lark_grammar": f'start: "<" {schemas[1]} ">"'},
        {"name": "json-0", "lark_grammar": 'start: "!"'},
    ]
    for text, is_accepted in {"[1]<[ 2 ]>!": True, "[1]<[2]>!": True, "[ 1 ]<[2]>!": False, "[1]<[2]>": False}.items():
        matcher = library.LLMatcher(library.LLTokenizer("byte"), json.dumps({"grammars": parts}))
        assert not matcher.get_error()
        size = len(text)
        assert (matcher.try_consume_tokens(list(text.encode())) == size and matcher.is_accepting()) == is_accepted, text
