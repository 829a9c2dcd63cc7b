"""The texts of a pattern in Lark, in llguidance's facade and in llguidance itself."""

from __future__ import annotations

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
