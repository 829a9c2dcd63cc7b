"""The automaton of the multiples of one divisor: its language, its size, and the limit on its size."""

from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from guided.frontends.json_schema.documents.values import Decimal10
from guided.frontends.json_schema.text.divisibility import (
    MAX_STATES,
    digit_multiples,
    fits_max_states,
    unsigned_multiples,
)
from tests.effort import examples

units = st.one_of(
    st.integers(1, 400),
    st.integers(0, 16).map(lambda power: 2**power),
    st.integers(0, 8).map(lambda power: 5**power),
    st.tuples(st.integers(1, 60), st.integers(0, 6)).map(lambda pair: pair[0] * 10 ** pair[1]),
)
fractions = st.text("0012345678959", max_size=6)


def _accepts(automaton, text):
    state = automaton.start
    for character in text:
        state = next((to for low, high, to in automaton.states[state][1] if low <= ord(character) <= high), None)
        if state is None:
            return False
    return automaton.states[state][0]


@examples(300)
@given(units, st.integers(-6, 4), st.integers(0, 10**6), fractions, st.booleans())
def test_exactly_the_multiples(factor, shift, count, fraction, is_multiple):
    divisor, value = Decimal10.parse(f"{factor}e{shift}"), Fraction(factor) * Fraction(10) ** shift
    assume(fits_max_states(divisor))
    scaled = int(value * count * 10**6) if is_multiple else count * 10**6 + int(fraction.ljust(6, "0"))
    whole, places = divmod(scaled, 10**6)
    text = f"{whole}.{places:06}"
    automaton = unsigned_multiples(divisor)
    inside = (Fraction(scaled, 10**6) / value).denominator == 1
    for spelling in (text, text + "00", text.rstrip("0")):
        assert _accepts(automaton, spelling) == (inside and not spelling.endswith("."))
    assert _accepts(automaton, str(whole)) == (whole % value == 0)
    assert not _accepts(automaton, "0" + text) and not _accepts(automaton, "." + text) and not _accepts(automaton, "")


@pytest.mark.parametrize("modulus", [1, 3, 7, 27, 189])
def test_digits_without_their_point(modulus):
    automaton = digit_multiples(modulus, 3)
    for number in range(0, 4000, 7 if modulus > 1 else 131):
        for places in range(1, 4):
            whole, fraction = divmod(number, 10**places)
            assert _accepts(automaton, f"{whole}.{fraction:0{places}}") == (number % modulus == 0)
    assert _accepts(automaton, "0.000") and not _accepts(automaton, "0.0000")


def _equivalence_classes(automaton):
    """Moore's partition refinement: the number of states that differ."""
    classes = [int(accepts) for accepts, _ in automaton.states]
    while True:
        targets = [
            tuple(sorted((code, classes[to]) for low, high, to in edges for code in range(low, high + 1)))
            for _, edges in automaton.states
        ]
        signatures = list(zip(classes, targets, strict=True))
        numbers = {signature: number for number, signature in enumerate(dict.fromkeys(signatures))}
        refined = [numbers[signature] for signature in signatures]
        if len(numbers) == len(set(classes)):
            return len(numbers)
        classes = refined


@examples(60)
@given(units.filter(lambda factor: factor < 5000))
def test_the_automaton_of_an_integer_is_minimal(factor):
    automaton = unsigned_multiples(Decimal10.parse(str(factor)))
    assert _equivalence_classes(automaton) == len(automaton.states)


@pytest.mark.parametrize(
    ("divisor", "most_states"),
    [("65536", 2_840), ("86400", 150), ("604800", 550), ("1048576", 20_300), ("1e1000", 1_010), ("2e-1000", 2_010)],
)
def test_large_divisors_have_few_states(divisor, most_states):
    parsed = Decimal10.parse(divisor)
    assert fits_max_states(parsed)
    assert len(unsigned_multiples(parsed).states) <= most_states


@pytest.mark.parametrize("divisor", ["99991", "4294967296", "0.123456789", "1" * 2000, "1e9999", "1e-999999999"])
def test_too_many_states(divisor):
    assert not fits_max_states(Decimal10.parse(divisor))


@examples(100)
@given(units, st.integers(-6, 4))
def test_the_limit_counts_the_states(factor, shift):
    divisor = Decimal10.parse(f"{factor}e{shift}")
    assume(fits_max_states(divisor))
    assert len(unsigned_multiples(divisor).states) <= MAX_STATES + 4
