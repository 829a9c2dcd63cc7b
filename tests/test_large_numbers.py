"""Numbers in specifications that are too large: the error shows the number as it was written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import guided

COMPILER = guided.GrammarCompiler(guided.Vocabulary([b"a", b'"'], eos_token_ids=[2]))
WRITTEN = 18_446_744_073_709_551_616
MANY = "9" * 5_000


def gbnf(number: str) -> object:
    return COMPILER.compile_gbnf(f'root ::= "a"{{{number}}}')


def no_upper_bound(number: str) -> object:
    return COMPILER.compile_gbnf(f'root ::= "a"{{{number},}}')


def schema(number: str) -> object:
    return COMPILER.compile_json_schema(f'{{"type": "string", "minLength": {number}}}')


def items(number: str) -> object:
    return COMPILER.compile_json_schema(f'{{"type": "array", "minItems": {number}}}')


def lark(number: str) -> object:
    return COMPILER.compile_lark(f'start: "a"~{number}')


@pytest.mark.parametrize("front_end", [gbnf, no_upper_bound, schema, lark])
def test_the_error_has_the_number(front_end: Callable[[str], object]) -> None:
    with pytest.raises(guided.LimitExceeded) as caught:
        front_end(str(WRITTEN))
    assert caught.value.given == WRITTEN
    assert f"{WRITTEN:,} > " in str(caught.value)


@pytest.mark.parametrize("front_end", [gbnf, no_upper_bound, schema, items])
def test_a_number_of_thousands_of_digits_is_not_written_out(front_end: Callable[[str], object]) -> None:
    with pytest.raises(guided.LimitExceeded, match="more than 10\\*\\*40 > ") as caught:
        front_end(MANY)
    assert len(str(caught.value)) < 300


def test_a_token_of_a_macro_has_the_number() -> None:
    with pytest.raises(guided.VocabularyError, match=f"{WRITTEN} is not a token id"):
        COMPILER.compile_gbnf(f"root ::= Token({WRITTEN})", allow_special_tokens=True)


def test_an_upper_bound_that_no_text_reaches_has_no_effect() -> None:
    for text in (f'root ::= "a"{{1,{WRITTEN}}}', f'root ::= "a"{{1,{MANY}}}'):
        assert guided.GrammarMatcher(COMPILER.compile_gbnf(text)).accept_string("a" * 1_000)
    with pytest.raises(guided.SpecError, match="the upper bound is less than the lower bound"):
        COMPILER.compile_gbnf(f'root ::= "a"{{{WRITTEN},{WRITTEN - 1}}}')


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (COMPILER.compile_gbnf, 'root ::= "a"'),
        (COMPILER.compile_lark, 'start: "a"'),
        (COMPILER.compile_json_schema, '{"type": "string"}'),
        (COMPILER.compile_structural_tag, '{"format": {"type": "any_text"}}'),
    ],
)
def test_a_byte_order_mark_has_a_hint(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(guided.SpecError) as caught:
        read("\ufeff" + text)
    assert caught.value.hint == "this is a byte order mark: open the file with encoding='utf-8-sig'"
