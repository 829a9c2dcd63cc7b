"""Readings that a comment competes with to the end of the output: the core proves that they have no completion."""

from __future__ import annotations

from itertools import product

import pytest
from lark import Lark
from lark.exceptions import LarkError

import guided
from tests.lexer_support import mask_of, vocabulary_of

ALPHABET = "a/*+\n"
COMMENTS = r"""
NAME: /a+/
NL: /\n+/
%ignore /\/\/[^\n]*\n/
%ignore /\/\*([^*]|\*[^\/])*\*\//
"""
# Blocks nest to any depth, so a search for a completion without a line feed would not end.
ENDS_WITH_LINE_FEED = 'start: s* NL\ns: e "+" | "{" s* "}"\ne: NAME | e "/" NAME' + COMMENTS
MAY_END_WITHOUT = ENDS_WITH_LINE_FEED.replace("s* NL", "s* NL?")
KEYWORD_ENDS = ENDS_WITH_LINE_FEED.replace(r"NL: /\n+/", 'NL: "\\n" | "end"')


def is_parsed(parser: Lark, text: str) -> bool:
    try:
        parser.parse(text)
    except LarkError:
        return False
    return True


@pytest.mark.parametrize("grammar", [ENDS_WITH_LINE_FEED, MAY_END_WITHOUT, KEYWORD_ENDS])
@pytest.mark.parametrize("prefix", ["a/", "a//", "a//*", "a//*a*/", "a//\n", "a+//"])
def test_masks_after_slashes_are_as_in_lark(grammar: str, prefix: str) -> None:
    """Lark parses each text of at most six letters after the prefix."""
    parser = Lark(grammar, parser="lalr")
    texts = ["".join(letters) for length in range(6) for letters in product(ALPHABET, repeat=length)]
    expected = {letter for letter in ALPHABET if any(is_parsed(parser, prefix + letter + text) for text in texts)}
    compiled = guided.GrammarCompiler(vocabulary_of([bytes([byte]) for byte in range(256)])).compile_lark(grammar)
    matcher = guided.GrammarMatcher(compiled)
    assert matcher.accept_string(prefix)
    mask = mask_of(matcher)
    assert {letter for letter in ALPHABET if ord(letter) in mask} == expected


def test_inside_a_line_comment_only_a_line_feed_ends_it() -> None:
    """`a//*a*/` is an unfinished line comment, so `*/` does not end a comment in it."""
    compiled = guided.GrammarCompiler(vocabulary_of([bytes([byte]) for byte in range(256)])).compile_lark(
        ENDS_WITH_LINE_FEED
    )
    matcher = guided.GrammarMatcher(compiled)
    assert matcher.accept_string("a//*a*/a")
    assert ord("(") in mask_of(matcher)
    assert matcher.accept_string("(\n")
    assert ord("a") not in mask_of(matcher)
    assert matcher.accept_string("/a+\n")
