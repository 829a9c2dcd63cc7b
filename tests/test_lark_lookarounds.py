"""Lookarounds inside Lark terminals, compared with Lark's lexers."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import guided
from tests.structural_tag_support import accepts, byte_compiler

PATTERNS = {
    r"a(?!b)[a-z]c": "abcd",
    r"a\b;": "a;b",
    r"\/\*(\*(?!\/)|[^*])*\*\/": "/*a",
    r"<!((?!!>)[\s\S])*!>": "<!>a",
    r"\"(\\.|(?![\"\\]).)*\"": '"\\a',
    r"<(?!x)[a-z]>": "<>xa",
    r"a(?=bc)[a-c]{2}": "abc",
    r"''(?:(?!'').)*''": "'a",
    r"((?!b)[a-c])*b": "abc",
}
OPTIONS: tuple[dict[str, Any], ...] = (
    {"parser": "lalr", "lexer": "contextual"},
    {"parser": "lalr", "lexer": "basic"},
    {"parser": "earley", "lexer": "dynamic_complete"},
)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: options["lexer"])
def test_matches_are_those_of_lark(pattern: str, options: dict[str, Any]) -> None:
    lark = pytest.importorskip("lark")
    grammar = f'start: (T | ".")+ "?"?\nT: /{pattern}/\n'
    parser = lark.Lark(grammar, **options)
    semantics = "scannerless" if options["parser"] == "earley" else "lexer"
    compiled = byte_compiler().compile_lark(grammar, semantics=semantics)
    verdicts = set()
    for size in range(1, 7 if len(PATTERNS[pattern]) < 4 else 6):
        for chars in product(PATTERNS[pattern] + ".", repeat=size):
            text = "".join(chars)
            try:
                parser.parse(text)
                expected = True
            except lark.exceptions.UnexpectedInput:
                expected = False
            assert accepts(compiled, list(text.encode())) == expected, text
            verdicts.add(expected)
    assert verdicts == {True, False}


@pytest.mark.parametrize("pattern", [r"(?!a)\w+", r"\"(\\.|(?!\").)*\"", r"(a*|(?!b)c)*", r"(?:x(?!y)[a-y])+z?"])
def test_undecided_preferences_are_refused(pattern: str) -> None:
    with pytest.raises(guided.UnsupportedError, match="one match of the pattern can begin another"):
        byte_compiler().compile_lark(f"start: T\nT: /{pattern}/\n")
