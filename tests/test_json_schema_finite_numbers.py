"""Finite sets of numbers, and their exclusion: every spelling compared with exact fractions."""

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided import GrammarCompiler, GrammarMatcher, Vocabulary
from guided.frontends.json_schema.documents.values import Decimal10
from guided.frontends.json_schema.text.finite_numbers import finite_numbers
from guided.frontends.json_schema.text.number_text import REACH
from tests.effort import examples
from tests.test_json_schema_numbers import SPELLING, matches

VOCABULARY = Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])

numerals = (
    st.builds(lambda digits, shift: f"{digits}e{shift}", st.integers(-130, 130), st.integers(-12, 12))
    | st.sampled_from(["0", "1", "10", "100", "1.5", "15", "0.15", "1e20", "-1e-20", "12e15"])
    | st.integers(-(10**18), 10**18).map(str)
)


def _position(text):
    """The position of the first digit other than zero of a mantissa; None for zero."""
    whole, _, fraction = text.lstrip("-").partition(".")
    if whole != "0":
        return len(whole)
    digits = fraction.lstrip("0")
    return len(digits) - len(fraction) if digits else None


def _is_spelling(text, values):
    """Whether the text spells one of the values, within the stated limit on exponents."""
    if SPELLING.fullmatch(text) is None or Fraction(text) not in values:
        return False
    mantissa, _, exponent = text.lower().partition("e")
    return abs(int(exponent or 0)) <= REACH or _position(mantissa) in (None, 0, 1)


@pytest.mark.parametrize(
    "texts", [["0"], ["1"], ["10", "1"], ["0.1", "-1.1"], ["11", "0", "1.1"], ["-1", "-10", "1e-8"], ["1e10"]]
)
def test_all_short_texts(texts):
    node = finite_numbers(map(Decimal10.parse, texts))
    values = set(map(Fraction, texts))
    for length in range(7):
        for text in map("".join, product("-.01e", repeat=length)):
            assert matches(node, text) == _is_spelling(text, values), text


@examples(200)
@given(st.lists(numerals, min_size=1, max_size=8), st.data())
def test_spellings_of_the_values_and_their_neighbours(texts, data):
    node = finite_numbers(map(Decimal10.parse, texts))
    values = set(map(Fraction, texts))
    for _ in range(8):
        value = data.draw(st.sampled_from(texts))
        digits = Decimal10.parse(value)
        shift = data.draw(st.integers(-REACH - 1, REACH + 1))
        text = Decimal10(digits.negative, digits.digits, digits.exponent - shift).plain()
        if data.draw(st.booleans()):
            text += "00" if "." in text else ".0"
        if data.draw(st.integers(0, 3)) == 0 and len(text) > 1:
            text = text[:-1]
        if shift or data.draw(st.booleans()):
            text += data.draw(st.sampled_from("eE")) + ("-" if shift < 0 else data.draw(st.sampled_from(["", "+"])))
            text += data.draw(st.sampled_from(["", "00"])) + str(abs(shift))
        assert matches(node, text) == _is_spelling(text, values), (texts, text)


@given(st.lists(numerals, min_size=1, max_size=8), st.booleans())
def test_spellings_without_exponent(texts, has_fraction):
    node = finite_numbers(map(Decimal10.parse, texts), has_fraction=has_fraction, has_exponent=False)
    for text in texts:
        value = Decimal10.parse(text)
        plain = value.plain()
        assert matches(node, plain) == (has_fraction or value.is_integer)
        assert matches(node, plain + ("0" if "." in plain else ".0")) == has_fraction
        assert not matches(node, plain + "e0")


@pytest.mark.parametrize("count", [1_000, 5_000])
def test_large_sets_compile(count):
    """Integers and decimals, listed or excluded, with the default limits."""
    for step, kind in (("77777", "integer"), ("1.37", "number")):
        values = [float(step) * index if "." in step else int(step) * index for index in range(count)]
        for schema, accepted in (({"enum": values}, True), ({"type": kind, "not": {"enum": values}}, False)):
            compiled = GrammarCompiler(VOCABULARY).compile_json_schema(schema)
            for index in (0, 1, count // 2, count - 1):
                assert _accepts(compiled, repr(values[index])) == accepted
            assert _accepts(compiled, "1") != accepted


def _accepts(compiled, text):
    matcher = GrammarMatcher(compiled)
    return matcher.accept_string(text) and matcher.is_accepting()
