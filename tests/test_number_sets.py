"""Sets of numbers against fractions, and schemas with numbers of any size."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import guided
from guided.frontends.json_schema.algebra.number_set import Bound, NumberSet, is_multiple
from guided.frontends.json_schema.documents.values import Decimal10
from tests.effort import draws

COMPILER = guided.GrammarCompiler(
    guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256]), cache_bytes=0
)
numbers = st.builds(lambda digits, power: f"{digits}e{power}", st.integers(-300, 300), st.integers(-3, 3))
divisors = st.builds(lambda digits, power: f"{digits}e{power}", st.integers(1, 60), st.integers(-3, 2))


def accepts(schema: str, text: str) -> bool:
    matcher = guided.GrammarMatcher(COMPILER.compile_json_schema(schema))
    return matcher.accept_string(text) and matcher.accept_token(256)


@given(numbers, numbers, st.lists(divisors, max_size=2), st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=draws(200))
def test_few_numbers_are_listed(
    low: str, high: str, steps: list[str], integral: bool, is_open_below: bool, is_open_above: bool
) -> None:
    number_set = NumberSet(
        Bound(Decimal10.parse(low), is_open_below),
        Bound(Decimal10.parse(high), is_open_above),
        integral,
        divisors=tuple(map(Decimal10.parse, steps)),
    )
    listed = number_set.list_if_few(100)
    all_steps = [*map(Fraction, steps), *([Fraction(1)] if integral else [])]
    first, last = Fraction(low), Fraction(high)
    if listed is None:
        assert not all_steps or (last - first) / max(all_steps) > 1
        return
    if first == last:
        candidates = {first}
    else:
        step = max(all_steps)
        candidates = {step * count for count in range(first // step, last // step + 2)}
    expected = {
        value
        for value in candidates
        if first <= value <= last
        and not (is_open_below and value == first)
        and not (is_open_above and value == last)
        and all(value % step == 0 for step in all_steps)
    }
    assert {Fraction(str(value)) for value in listed} == expected
    assert len(listed) == len(expected)


@given(numbers, divisors)
@settings(max_examples=draws(200))
def test_multiples_match_fractions(value: str, divisor: str) -> None:
    expected = Fraction(value) % Fraction(divisor) == 0
    assert is_multiple(Decimal10.parse(value), Decimal10.parse(divisor)) == expected


@pytest.mark.parametrize(
    "divisor", ["0.75", "1.2", "12e-9", "5e-9", "1024e-3", "7e-99", "7e-999999999", "1e-999999999"]
)
def test_integers_have_integral_divisors(divisor: str) -> None:
    """The least integer that is a multiple has the factors of the divisor that are not in its denominator."""
    exact = NumberSet(integral=True, divisors=(Decimal10.parse(divisor),)).with_integral_divisors()
    digits, _, power = divisor.partition("e-")
    short = f"{digits}e-{min(int(power), 99)}" if power else digits
    numerator = Fraction(short).numerator
    assert [str(one) for one in exact.divisors] == ([] if numerator == 1 else [str(numerator)])


REFUSED = [
    '{"type": "integer", "multipleOf": 1e999999999}',
    '{"type": "number", "multipleOf": 1e-99999999999}',
    '{"type": "number", "multipleOf": 1e-999999999, "minimum": 0, "maximum": 1}',
    '{"not": {"multipleOf": 1e999999999}}',
    f'{{"minimum": 0, "maximum": 10, "multipleOf": 1.{"1" * 5_000}}}',
    f'{{"enum": [3, 4], "multipleOf": {"3" * 5_000}}}',
    f'{{"type": "integer", "exclusiveMinimum": {"9" * 5_000}}}',
    '{"type": "array", "uniqueItems": true, "minItems": 3, "items": {"type": "integer", "minimum": 1e999999999}}',
    '{"type": "array", "uniqueItems": true, "minItems": 3, "items": {"type": "integer", "exclusiveMinimum": 1e999999}}',
]


@pytest.mark.parametrize("schema", REFUSED, ids=lambda schema: str(schema)[:60])
def test_numbers_that_are_too_large_are_refused(schema: str) -> None:
    with pytest.raises(guided.UnsupportedError) as caught:
        COMPILER.compile_json_schema(schema)
    assert len(str(caught.value).partition("\n")[0]) < 200


def test_long_numbers_are_compared_exactly() -> None:
    long = f"1{'0' * 5_000}"  # the sum of its digits is 1
    assert accepts(f'{{"enum": [{long}1, {long}3, 9], "multipleOf": 3}}', "9")
    assert not accepts('{"type": "integer", "multipleOf": 7e-999999999, "maximum": 99}', "13")
    assert accepts('{"type": "integer", "multipleOf": 7e-999999999, "maximum": 99}', "14")
    nines = "9" * 900
    assert accepts(f'{{"type": "integer", "exclusiveMinimum": {nines}}}', f"1{'0' * 900}")
    assert not accepts(f'{{"type": "integer", "exclusiveMinimum": {nines}}}', nines)
    assert accepts(f'{{"type": "integer", "exclusiveMaximum": -{nines}.5}}', f"-1{'0' * 900}")
    assert not accepts(f'{{"type": "integer", "exclusiveMaximum": -{nines}.5}}', f"-{nines}")


def test_an_exponent_may_have_any_number_of_leading_zeros() -> None:
    assert accepts(f'{{"const": 1e{"0" * 5_000}2}}', "100")
    assert accepts(f'{{"const": 1e-{"0" * 5_000}2}}', "0.01")
