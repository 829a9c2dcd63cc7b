"""Numbers: every spelling compared with exact fractions.

The IR is matched here by sets of end positions, directly from its docstrings.
"""

import re
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from guided.errors import UnsupportedError
from guided.frontends.json_schema.algebra.number_set import BARE_INTEGERS, Bound, NumberSet
from guided.frontends.json_schema.documents.values import Decimal10
from guided.frontends.json_schema.text.finite_numbers import number_constants
from guided.frontends.json_schema.text.numbers import REACH, SCIENTIFIC, number_node
from guided.ir.nodes import EMPTY, Alt, And, Automaton, Chars, Not, Repeat, Seq, Text
from tests.effort import examples

SPELLING = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")


def matches(node, text):
    memo = {}

    def ends(node, at):
        key = (id(node), at)
        if key not in memo:
            memo[key] = find(node, at)
        return memo[key]

    def find(node, at):
        if isinstance(node, Text):
            return {at + len(node.text)} if text.startswith(node.text, at) else set()
        if isinstance(node, Chars):
            return {at + 1} if at < len(text) and any(a <= ord(text[at]) <= b for a, b in node.ranges) else set()
        if isinstance(node, Automaton):
            found, state = set(), node.start
            for end in range(at, len(text) + 1):
                found |= {end} if node.states[state][0] else set()
                code = ord(text[end : end + 1] or "\0")
                state = next((to for low, high, to in node.states[state][1] if low <= code <= high), None)
                if state is None:
                    break
            return found
        if isinstance(node, Seq):
            places = {at}
            for item in node.items:
                places = {end for place in places for end in ends(item, place)}
            return places
        if isinstance(node, Alt):
            return {end for item in node.items for end in ends(item, at)}
        if isinstance(node, And):
            return set.intersection(*(ends(item, at) for item in node.items))
        if isinstance(node, Not):
            return set(range(at, len(text) + 1)) - ends(node.item, at)
        assert isinstance(node, Repeat)
        found, places, count = ({at} if node.min == 0 else set()), {at}, 0
        while places and (node.max is None or count < node.max) and count <= len(text) + node.min:
            places = {end for place in places for end in ends(node.item, place)}
            count += 1
            found |= places if count >= node.min else set()
        return found

    return len(text) in ends(node, 0)


bounds = st.builds(
    lambda text, strict: (Bound(Decimal10.parse(text), strict), Fraction(text)),
    st.sampled_from(
        ["0", "5", "-3", "1.5", "0.25", "-0.125", "100", "99", "12.34", "1e3", "-1e-2", "10", "999", "1", "-1"]
    )
    | st.decimals(-2000, 2000, places=2).map(str),
    st.booleans(),
)


@st.composite
def texts(draw, near):
    """A spelling of `near` or of an adjacent number, with the point shifted by an exponent; or any small number."""
    sign, whole = draw(st.sampled_from(["", "-"])), draw(st.integers(0, 2000))
    if draw(st.integers(0, 3)):
        value = near + draw(st.sampled_from([0, 0, 1, -1, Fraction(1, 10), Fraction(-1, 100), Fraction(1, 2)]))
        with localcontext(prec=60):
            decimal = Decimal(value.numerator) / Decimal(value.denominator)
            shift = draw(st.integers(-REACH, REACH))
            text = f"{decimal.scaleb(-shift):f}"
        if draw(st.booleans()):
            text += "0" if "." in text else ".0"
        if shift or draw(st.booleans()):
            plus = draw(st.sampled_from(["", "+"])) if shift >= 0 else "-"
            text += draw(st.sampled_from("eE")) + plus + draw(st.sampled_from(["", "00"])) + str(abs(shift))
        return text
    fraction = draw(st.sampled_from(["", ".0", ".5", ".05", ".125"]))
    return f"{sign}{whole}{fraction}" + draw(st.sampled_from(["", "e0", "e-1", "E2", "e+07", "e-12", "e30"]))


WRITTEN = ({}, {"bare": True}, {"not_bare": True})
"""How the integers of draft 4 are written, how all other numbers."""


@examples(300)
@given(st.none() | bounds, st.none() | bounds, st.booleans(), st.booleans(), st.sampled_from(WRITTEN), st.data())
def test_membership_is_exact(low, high, integral, plain, written, data):
    integral = integral or "bare" in written
    numbers = NumberSet(low and low[0], high and high[0], integral, **written)
    node = number_node(numbers, plain)
    ends = [bound[1] for bound in (low, high) if bound]
    for _ in range(4):
        text = data.draw(texts(data.draw(st.sampled_from(ends or [Fraction(3)]))))
        sign, _, fraction, exponent = SPELLING.fullmatch(text).groups()
        value = Fraction(text)
        verdict = not integral or value.denominator == 1
        verdict &= low is None or value > low[1] or (value == low[1] and not low[0].strict)
        verdict &= high is None or value < high[1] or (value == high[1] and not high[0].strict)
        held = verdict
        if written:
            verdict &= (fraction is None and exponent is None) == ("bare" in written)
        if plain:
            whole = integral and "not_bare" not in written
            verdict &= exponent is None and not (sign and value == 0) and not (whole and fraction is not None)
        assert matches(node, text) == verdict, (numbers, text)
        assert (Decimal10.parse(text) in numbers) == held


@settings(deadline=None)
@given(st.integers(-(10**6), 10**6), st.integers(-8, 8), st.data())
@example(0, 0, None)
def test_constants(digits, shift, data):
    value = Decimal10.parse(f"{digits}e{shift}")
    plain, every = number_constants((value,), True), number_constants((value,), False)
    assert Fraction(plain.text) == Fraction(f"{digits}e{shift}")
    assert matches(every, plain.text)
    bare, others = (number_constants((value,), False, numbers) for numbers in (BARE_INTEGERS, NumberSet(not_bare=True)))
    assert matches(bare, plain.text) == value.is_integer != matches(others, plain.text)
    if data is not None:
        text = data.draw(texts(Fraction(f"{digits}e{shift}")))
        assert matches(every, text) == (Fraction(text) == Fraction(f"{digits}e{shift}"))


def _scientific(value, places):
    """The value times ten to the power `places`, as one digit, a point and the rest."""
    digits = str(value).ljust(2, "0")
    return f"{digits[0]}.{digits[1:]}e{len(str(value)) - 1 + places}"


def test_the_stated_limit():
    """Exponents up to REACH and scientific spellings are complete. Beyond that, some are omitted, and none is wrong."""
    small = number_node(NumberSet(high=Bound(Decimal10.parse("5"))))
    assert matches(small, "1" + "0" * REACH + f"e-{REACH}")
    assert not matches(small, "1" + "0" * (REACH + 1) + f"e-{REACH + 1}")
    assert matches(small, "4.99e-300") and matches(small, "0.0499e2")
    assert matches(small, "0." + "0" * 50 + "1e-3")  # does not depend on the distance
    assert matches(small, "0." + "0" * 50 + "1")
    integers = number_node(NumberSet(integral=True))
    assert matches(integers, "1000." + "0" * (REACH - 1) + f"1e{REACH}")
    assert not matches(integers, "1000." + "0" * REACH + f"1e{REACH + 1}")
    assert matches(integers, "1." + "0" * (SCIENTIFIC - 1) + f"1e{SCIENTIFIC}") and matches(integers, "1e308")
    assert not matches(integers, "1." + "0" * SCIENTIFIC + f"1e{SCIENTIFIC + 1}")
    assert matches(integers, "1" + "0" * 50 + "e5")
    assert matches(integers, "1" + "0" * 50 + "." + "0" * 50)
    assert matches(integers, "1" + "0" * 50 + f"e-{REACH}")


@examples(50)
@given(st.integers(1, 10**16), st.integers(0, 290), st.booleans(), st.integers(0, 3))
def test_scientific_spellings_are_complete(digits, places, integral, side):
    """Floats as Python and JavaScript write them, with bounds at, just below and just above them."""
    value = Fraction(digits) * 10**places
    bound = Bound(Decimal10.parse(str(value + side - 1)))
    text = _scientific(digits, places)
    assert Fraction(text) == value
    assert matches(number_node(NumberSet(low=bound, integral=integral)), text) == (side <= 1)
    assert matches(number_node(NumberSet(high=bound, integral=integral)), text) == (side >= 1)


@pytest.mark.parametrize("bound", ["1e5000", "1e-5000", "1" * 1100])
def test_bounds_have_a_size(bound):
    with pytest.raises(UnsupportedError) as caught:
        number_node(NumberSet(low=Bound(Decimal10.parse(bound))))
    assert "leave it out" in caught.value.hint


_LONG = st.integers(10**6, 10**9).map(lambda digits: digits * 2 + 1)


@given(_LONG, st.integers(-3, 1), st.integers(-9, 9), st.integers(0, 12), st.booleans(), st.booleans(), st.data())
def test_few_multiples_of_long_divisors(digits, places, first, count, integral, strict, data):
    """Between bounds, if an automaton of all multiples would be too large."""
    step = Fraction(digits) * Fraction(10) ** places
    low, high = (step * (first + more) for more in (0, count))
    wanted = NumberSet(
        Bound(_parsed(low), strict), Bound(_parsed(high + step / 2)), integral, divisors=(_parsed(step),)
    )
    node = number_node(wanted, data.draw(st.booleans()))
    for times in range(first - 1, first + count + 3):
        for value in (step * times, step * times + 1, step * times + Fraction(1, 10)):
            inside = low <= value <= high + step / 2 and not (strict and value == low)
            inside = inside and (value / step).denominator == 1 and not (integral and value.denominator > 1)
            assert matches(node, _plain(value)) == inside, value


def _plain(value):
    """A decimal fraction without an exponent."""
    with localcontext(prec=50):
        return format((Decimal(value.numerator) / Decimal(value.denominator)).normalize(), "f")


def _parsed(value):
    return Decimal10.parse(_plain(value))


@given(st.integers(1, 500), st.integers(-8, -1), st.integers(0, 5000))
def test_integers_among_the_multiples_of_fractions(digits, places, value):
    step = Fraction(digits) * Fraction(10) ** places
    node = number_node(NumberSet(integral=True, divisors=(_parsed(step),)))
    assert matches(node, str(value)) == ((value / step).denominator == 1)
    other = number_node(NumberSet(integral=True, no_divisors=(_parsed(step),)))
    assert matches(other, str(value)) == ((value / step).denominator != 1)


def test_empty_sets():
    def between(low, high, **other):
        return NumberSet(Bound(Decimal10.parse(low)), Bound(Decimal10.parse(high)), **other)

    assert number_node(between("2", "1")) == EMPTY
    assert number_node(between("1.2", "1.8", integral=True)) == EMPTY
    assert number_node(NumberSet(Bound(Decimal10.parse("1"), True), Bound(Decimal10.parse("1")))) == EMPTY
    assert not between("-0.5", "0.5", integral=True).is_empty


def test_digit_cap():
    node = number_node(NumberSet(), True, 2)
    assert [matches(node, text) for text in ("12.34", "-1", "123", "1.234")] == [True, True, False, False]


@given(st.from_regex(SPELLING, fullmatch=True))
def test_parsing_is_exact_and_canonical(text):
    if len(text) > 40 or abs(int(text.lower().partition("e")[2] or 0)) > 300:
        return
    value = Decimal10.parse(text)
    assert Fraction(value.plain()) == Fraction(text)
    assert value == Decimal10.parse(value.plain())
    assert value.is_integer == (Fraction(text).denominator == 1)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3), st.decimals(-100, 100, places=2))
def test_order(a, b):
    x, y = Decimal10.parse(f"{a:f}"), Decimal10.parse(f"{b:f}")
    assert (x < y, x <= y, x == y) == (a < b, a <= b, a == b)


@pytest.mark.parametrize("bound", ["12.34", "0.052", "105", "1.001", "9.9", "100"])
@pytest.mark.parametrize("strict", [False, True])
def test_every_number_of_few_digits(bound, strict):
    """Also those with fewer digits than the bound, and those that end at its point."""
    low, high = (number_node(NumberSet(**{side: Bound(Decimal10.parse(bound), strict)})) for side in ("low", "high"))
    limit = Fraction(bound)
    for places in range(4):
        for digits in range(0, 1300):
            value = Fraction(digits, 10**places)
            text = _plain(value) + ("" if digits % 3 or value.denominator == 1 else "0")
            assert matches(low, text) == (value > limit or (value == limit and not strict)), text
            assert matches(high, text) == (value < limit or (value == limit and not strict)), text
