r"""Escapes such as `\x2b` in patterns: a character with `%llguidance {}`, and what Lark makes of them without it."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.errors import GuidedError
from tests.structural_tag_support import accepts, byte_compiler

ESCAPES = (r"\x{:02x}", r"\u{:04x}", r"\U{:08x}")
METACHARACTERS = "\\.^$*+?{}[]|()-&~#/\"' "
FRAMES = ("a{}b", "[a{}c]", "[^{}]", "[{}a]", "a{}", "a\\.{}b", "(?:a|{})c", "[{}-\\x7e]", "a{}2}}", "\\\\{}")
TEXTS = [
    "".join(chars)
    for size in (1, 2, 3)
    for chars in product(sorted({"a", "b", *METACHARACTERS}) if size < 3 else "ab\\.+*", repeat=size)
]


def languages(grammar: str) -> set[str]:
    compiled = byte_compiler().compile_lark(grammar)
    return {text for text in TEXTS if accepts(compiled, list(text.encode()))}


def matched_by_re(pattern: str) -> set[str]:
    return {text for text in TEXTS if re.fullmatch(pattern, text)}


@pytest.mark.parametrize("frame", FRAMES)
@settings(max_examples=12, deadline=None)
@given(char=st.sampled_from(METACHARACTERS), escape=st.sampled_from(ESCAPES))
def test_escapes_are_characters_in_the_dialect_of_llguidance(frame: str, char: str, escape: str) -> None:
    pattern = frame.format(escape.format(ord(char)))
    try:
        expected = matched_by_re(pattern)  # `re` evaluates these escapes as characters
    except re.error:
        return
    assert languages(f"%llguidance {{}}\nstart: /{pattern}/\n") == expected


@pytest.mark.parametrize("char", '\\.^$*+?[]|()-"')
def test_llguidance_reads_the_same(char: str) -> None:
    llguidance: Any = pytest.importorskip("llguidance", reason="the oracle is the installed llguidance")
    tokenizer = llguidance.LLTokenizer("byte")
    for frame, escape in product(("a{}b", "[a{}c]", "[^{}]"), (r"\x{:02x}", r"\U{:08x}")):
        lark = f"%llguidance {{}}\nstart: /{frame.format(escape.format(ord(char)))}/\n"
        ours = languages(lark)
        for text in ("a", "b", char, f"a{char}b", "ab", "aab", "aaab", "a\\b", "c"):
            matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_lark(lark))
            assert not matcher.get_error()
            verdict = matcher.consume_tokens(list(text.encode())) and matcher.is_accepting()
            if text in TEXTS:
                assert (text in ours) == verdict, (lark, text)


@pytest.mark.filterwarnings("ignore:Possible nested set:FutureWarning")
@pytest.mark.parametrize("frame", FRAMES)
@settings(max_examples=12, deadline=None)
@given(char=st.sampled_from(METACHARACTERS), escape=st.sampled_from(ESCAPES))
def test_lark_evaluates_escapes_first(frame: str, char: str, escape: str) -> None:
    lark = pytest.importorskip("lark")
    grammar = f"start: T\nT: /{frame.format(escape.format(ord(char)))}/\n"
    try:
        parser = lark.Lark(grammar, parser="lalr")
        compiled = byte_compiler().compile_lark(grammar)
    except (lark.exceptions.LarkError, GuidedError, re.error):
        return
    for text in TEXTS:
        try:
            parser.parse(text)
            expected = True
        except lark.exceptions.UnexpectedInput:
            expected = False
        assert accepts(compiled, list(text.encode())) == expected, (grammar, text)
