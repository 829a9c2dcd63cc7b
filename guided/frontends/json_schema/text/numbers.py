"""Builds the languages of the spellings of JSON numbers in an interval. In: bounds. Out: IR nodes, all regular.

A magnitude is 0.d1d2d3... times ten to the p, where d1 is not zero. p is the *position* of its first digit: 1 for 5.25,
3 for 525, -1 for 0.0525. Magnitudes are compared by position, then by digits. Let b be a bound at position B. The
spellings without exponent of the numbers up to b are: all at a position below B, and those at position B whose digits
do not exceed the digits of b. For example, up to 525: all numbers with one or two digits before the point, and of those
with three digits, the numbers from 100 to 525.

With an exponent e, the position is the mantissa's position plus e. So for each position of the mantissa, there is one
interval of exponents that allows any digits, and at each bound one exponent for which digits are compared. Integers are
treated likewise, by the position of their last digit that is not zero.

numbers="json" allows every spelling of RFC 8259: `-0`, trailing zeros, exponents in both cases with signs and leading
zeros. **Stated limit**: with a bound, or for integers, the spellings with an exponent are not a regular language,
because any number of zeros would have to be counted against the exponent. Within the interval, these are complete:

- all spellings without exponent
- spellings with an exponent from -REACH to REACH
- scientific spellings, whose first digit is directly before or after the point (of integers, with up to SCIENTIFIC
  digits after the point)

Some other spellings with an exponent are left out. Every number can still be written, and nothing outside the interval
is ever accepted. Numbers without bounds have all spellings. So do the integers of draft 4, which are written without
fraction and exponent.

numbers="plain" allows no exponent, no negative zero, and no fraction in integers, unless draft 4 requires numbers that
are not integers. Trailing zeros of a fraction are allowed. A constant has only its shortest spelling.

Cost: O(REACH * n log n) nodes for bounds of n digits. `multipleOf` is in `multiples.py`.
"""

from __future__ import annotations

from functools import lru_cache

from guided.frontends.json_schema.algebra.number_set import EVERY_NUMBER, Bound, NumberSet
from guided.frontends.json_schema.documents.values import Decimal10
from guided.frontends.json_schema.text.divisibility import fits_max_states
from guided.frontends.json_schema.text.finite_numbers import finite_numbers, number_constants
from guided.frontends.json_schema.text.multiples import MAX_LISTED, divisible_numbers
from guided.frontends.json_schema.text.number_text import (
    ANY_EXPONENT,
    ANY_NUMBER,
    BARE_INTEGER,
    DIGIT,
    DIGITS,
    FRACTION,
    MINUS,
    NONZERO,
    PLUS,
    POINT,
    REACH,
    SIGN,
    WHOLE,
    ZERO,
    ZERO_FRACTION,
    ZEROS,
    E,
    check_size,
    digit_run,
    limit_digits,
    literal,
    zero_run,
)
from guided.ir.nodes import EMPTY, EPSILON, Alt, And, Chars, Node, Not, Repeat, Seq, Text

__all__ = ["REACH", "SCIENTIFIC", "number_node"]

SCIENTIFIC = 16

_FEW_DIGITS = 8  # of bounded integers; for more digits, the general intersection costs less
_MAX_CACHED = 16  # excluded numbers


def _alt(items: list[Node]) -> Node:
    nonempty = [item for item in items if item is not EMPTY]
    return EMPTY if not nonempty else nonempty[0] if len(nonempty) == 1 else Alt(tuple(nonempty))


def _seq(*items: Node) -> Node:
    return EMPTY if any(item is EMPTY for item in items) else Seq(items)


@lru_cache(maxsize=128)
def _span(low: str, high: str) -> Node:
    return Chars(((ord(low), ord(high)),)) if low <= high else EMPTY


def _prefix_text(position: int, digits: str) -> Node:
    """The first digits of a spelling whose first digit is at `position`, including the point once it is passed."""
    if position <= 0:
        return literal("0." + "0" * -position + digits)
    return literal(digits if len(digits) <= position else digits[:position] + "." + digits[position:])


def _rest(position: int, digits_read: int, free_digits: int | None, fraction: bool) -> Node:
    """The text after `digits_read` significant digits. Only the first `free_digits` may be nonzero (None: all)."""
    digits_left = None if free_digits is None else max(free_digits - digits_read, 0)
    if position <= 0 or digits_read > position:
        return _fraction_digits(digits_left)
    return _whole_digits(position - digits_read, digits_left, fraction)


@lru_cache(maxsize=1024)
def _fraction_digits(digits_left: int | None) -> Node:
    """Up to `digits_left` digits (None: any number) after the point, and zeros."""
    return DIGITS if digits_left is None else Seq((digit_run(0, digits_left), ZEROS))


@lru_cache(maxsize=4096)
def _whole_digits(whole: int, digits_left: int | None, fraction: bool) -> Node:
    """`whole` digits before the point, and the text after it. After the first `digits_left` digits, only zeros."""
    if digits_left is None:
        return Seq((digit_run(whole, whole), FRACTION if fraction else EPSILON))
    if digits_left <= whole:
        zeros = zero_run(whole - digits_left, whole - digits_left)
        return Seq((digit_run(digits_left, digits_left), zeros, ZERO_FRACTION if fraction else EPSILON))
    tail = Seq((POINT, digit_run(1, digits_left - whole), ZEROS))
    return Seq((digit_run(whole, whole), Repeat(tail, 0, 1)))


def _compare(position: int, bound: Bound, is_above: bool, free_digits: int | None, fraction: bool) -> Node:
    """Spellings with the first digit at `position` whose digits are within the lower (`is_above`) or upper bound."""
    digits = bound.value.digits
    others = [_digits_within(digit, is_above, index) for index, digit in enumerate(digits)]
    whole = min(max(position, 0), len(digits))

    def differ_in_whole(low: int, high: int) -> Node:
        """The digits `low` to `high` before the point, if they differ from those of the bound."""
        if high - low <= _FEW_DIGITS:
            runs = [
                (literal(digits[low:i]), others[i], digit_run(high - i - 1, high - i - 1)) for i in range(low, high)
            ]
            return _alt([Seq(run) for run in runs if run[1] is not EMPTY])
        middle = (low + high) // 2
        free, equal = digit_run(high - middle, high - middle), literal(digits[low:middle])
        return _alt([_seq(differ_in_whole(low, middle), free), _seq(equal, differ_in_whole(middle, high))])

    def differ_after(low: int, high: int) -> Node:
        """The text from the digit `low` on, if the first digit that differs, or is missing, is before `high`."""
        if high - low > _FEW_DIGITS:
            middle = (low + high) // 2
            return _alt([differ_after(low, middle), _seq(equal_digits(low, middle), differ_after(middle, high))])
        cases: list[Node] = []
        for i in range(low, high):
            start = equal_digits(low, i)
            if others[i] is not EMPTY:
                point = POINT if i == position > 0 and i == low else EPSILON
                cases.append(Seq((start, point, others[i], _rest(position, i + 1, free_digits, fraction))))
            if not is_above and i >= max(position, 1):  # missing digits count as zeros
                cases.append(start)
        return _alt(cases)

    def equal_digits(low: int, high: int) -> Node:
        return literal(("." if low == position > 0 and low < high else "") + digits[low:high])

    cases = [_seq(differ_in_whole(0, whole), _rest(position, whole, free_digits, fraction))]
    if whole < len(digits):
        cases.append(_seq(_prefix_text(position, digits[:whole]), differ_after(whole, len(digits))))
    equal = _prefix_text(position, digits)
    tail, zeros = (_rest(position, len(digits), count, fraction) for count in (free_digits, 0))
    if is_above:
        cases.append(Seq((equal, And((tail, Not(zeros))) if bound.strict else tail)))
    elif not bound.strict:
        cases.append(Seq((equal, zeros)))
    return _alt(cases)


def _digits_within(digit: str, is_above: bool, index: int) -> Node:
    """The digits above or below a digit of the bound. The first digit is not zero."""
    first_digit = "0" if index else "1"
    return _span(max(chr(ord(digit) + 1), first_digit), "9") if is_above else _span(first_digit, chr(ord(digit) - 1))


def _between_bounds(
    position: int, low: Bound | None, high: Bound | None, free_digits: int | None, fraction: bool
) -> Node:
    """Spellings with the first digit at `position` whose digits are between the given bounds."""
    sides = []
    if low is not None:
        sides.append(_compare(position, low, True, free_digits, fraction))
    if high is not None:
        sides.append(_compare(position, high, False, free_digits, fraction))
    if not sides:
        start = Text("0." + "0" * -position) if position <= 0 else EPSILON
        return Seq((start, NONZERO, _rest(position, 1, free_digits, fraction)))
    return sides[0] if len(sides) == 1 else And(tuple(sides))


@lru_cache(maxsize=4096)
def _positions(low: int | None, high: int | None, fraction: bool) -> Node:
    """Spellings without exponent whose first digit is at position `low` to `high`, with any digits."""
    if low is not None and high is not None and low > high:
        return EMPTY
    cases: list[Node] = []
    if high is None or high >= 1:
        count = digit_run(max(low or 1, 1) - 1, None if high is None else high - 1)
        cases.append(Seq((NONZERO, count, FRACTION if fraction else EPSILON)))
    if fraction and (low is None or low <= 0):
        zeros = zero_run(max(-high, 0) if high is not None else 0, None if low is None else -low)
        cases.append(Seq((Text("0."), zeros, NONZERO, DIGITS)))
    return _alt(cases)


def _without_exponent(low: Bound | None, high: Bound | None, fraction: bool) -> Node:
    """Positive numbers between positive bounds, spelled without exponent; without `fraction` also without a point."""
    first, last = (low.value.exponent if low else None), (high.value.exponent if high else None)
    cases = [
        _positions(None if first is None else first + 1, None if last is None else last - 1, fraction),
        *(_between_bounds(position, a, b, None, fraction) for position, a, b in _bound_positions(low, high)),
    ]
    return _alt(cases)


def _bound_positions(low: Bound | None, high: Bound | None) -> list[tuple[int, Bound | None, Bound | None]]:
    """The position of each bound, with the bounds whose digits are compared there."""
    if low is not None and high is not None and low.value.exponent == high.value.exponent:
        return [(low.value.exponent, low, high)]
    edges: list[tuple[int, Bound | None, Bound | None]] = []
    if low is not None:
        edges.append((low.value.exponent, low, None))
    if high is not None:
        edges.append((high.value.exponent, None, high))
    return edges


# --- exponents


@lru_cache(maxsize=4096)
def _naturals(low: int, high: int | None) -> Node:
    """The integers `low` to `high` (at least 0), with at least one digit. Leading zeros are allowed."""
    if high is not None and high <= low:
        return EMPTY if high < low else Seq((ZEROS, literal(str(low))))
    if low < 10 and (high is None or high < 10):
        first_digit = Chars(((0x30 + low, 0x39 if high is None else 0x30 + high),))
        return Seq((ZEROS, first_digit if high is not None else Alt((first_digit, Seq((NONZERO, DIGIT, DIGITS))))))
    cases: list[Node] = [zero_run(1, None)] if low == 0 else []
    lower = Bound(Decimal10.parse(str(low))) if low > 1 else None
    upper = Bound(Decimal10.parse(str(high))) if high is not None else None
    if high is None or high >= 1:
        cases.append(Seq((zero_run(0, None), _without_exponent(lower, upper, False))))
    return _alt(cases)


@lru_cache(maxsize=4096)
def _exponent(low: int | None, high: int | None) -> Node:
    """`e` and an exponent between the bounds, with every sign and leading zeros."""
    cases: list[Node] = []
    if high is None or high >= 0:
        cases.append(Seq((PLUS, _naturals(max(low or 0, 0), high))))
    if low is None or low <= 0:
        cases.append(Seq((MINUS, _naturals(max(-high, 0) if high is not None else 0, None if low is None else -low))))
    return Seq((E, _alt(cases))) if cases else EMPTY


def _exact_positions(*bounds: int | None) -> list[int]:
    """The mantissa positions for which the exponent is decided exactly: near a bound, and directly at the point."""
    positions = {0, 1}
    for bound in bounds:
        if bound is not None:
            positions.update(range(bound - REACH, bound + REACH + 1))
    return sorted(positions)


def _with_exponent(low: Bound | None, high: Bound | None) -> Node:
    """Positive numbers between positive bounds, spelled with an exponent, within the stated limit (see the head)."""
    if low is None and high is None:
        return Seq((_positions(None, None, True), ANY_EXPONENT))
    first, last = (low.value.exponent if low else None), (high.value.exponent if high else None)
    cases: list[Node] = []
    for p in _exact_positions(first, last):
        min_exponent, max_exponent = None if first is None else first + 1 - p, None if last is None else last - 1 - p
        if min_exponent is None or max_exponent is None or min_exponent <= max_exponent:
            cases.append(Seq((_positions(p, p, True), _exponent(min_exponent, max_exponent))))
        for edge, a, b in _bound_positions(low, high):
            cases.append(Seq((_between_bounds(p, a, b, None, True), _exponent(edge - p, edge - p))))
    # Farther from the bounds, an exponent of up to REACH cannot cross them.
    min_p, max_p = None if first is None else first + REACH + 1, None if last is None else last - REACH - 1
    if min_p is None or max_p is None or min_p <= max_p:
        small_exponents = _exponent(None if min_p is None else -REACH, None if max_p is None else REACH)
        cases.append(Seq((_positions(min_p, max_p, True), small_exponents)))
    return _alt(cases)


@lru_cache(maxsize=1)
def _positive_integers() -> Node:
    """Every spelling of a positive integer, within the stated limit."""
    head = Seq((Repeat(Seq((NONZERO, DIGITS)), 0, 1), NONZERO))
    cases: list[Node] = [Seq((NONZERO, DIGITS, ZERO_FRACTION))]
    for zeros in range(REACH + 1):
        max_zeros = zeros if zeros < REACH else None
        cases.append(Seq((head, zero_run(zeros, max_zeros), ZERO_FRACTION, _exponent(-zeros, None))))
    for decimal_place in range(1, SCIENTIFIC + 1):
        fraction = Seq((digit_run(decimal_place - 1, decimal_place - 1), NONZERO, ZEROS))
        cases.append(Seq((WHOLE if decimal_place <= REACH else DIGIT, POINT, fraction, _exponent(decimal_place, None))))
    return Alt(tuple(cases))


def _bounded_integers(low: Bound | None, high: Bound) -> Node:
    """Every spelling of the positive integers between the bounds, by number of digits, within the stated limit."""
    edges = {p: (a, b) for p, a, b in _bound_positions(low, high)}
    cases: list[Node] = []
    for size in range(low.value.exponent if low else 1, high.value.exponent + 1):
        a, b = edges.get(size, (None, None))
        cases.append(_between_bounds(size, a, b, size, True))
        for p in _exact_positions(size):
            cases.append(Seq((_between_bounds(p, a, b, size, True), _exponent(size - p, size - p))))
    return _alt(cases)


# --- all numbers


def _positive(low: Bound | None, high: Bound | None, integral: bool, plain: bool) -> Node:
    """Spellings of the positive numbers between positive bounds (None: no bound)."""
    if low is not None and low == high:
        constant = finite_numbers((low.value,), has_fraction=not (integral and plain), has_exponent=not plain)
        is_complete = plain or not integral or low.value.exponent <= _FEW_DIGITS
        return constant if is_complete else And((constant, _positive_integers()))
    if plain:
        return _without_exponent(low, high, not integral)
    if integral and low is None and high is None:
        return _positive_integers()
    if integral and high is not None and high.value.exponent <= _FEW_DIGITS:
        return _bounded_integers(low, high)
    all_spellings = _alt([_without_exponent(low, high, True), _with_exponent(low, high)])
    return And((all_spellings, _positive_integers())) if integral else all_spellings


def _intervals_of_signs(numbers: NumberSet) -> tuple[tuple[Bound | None, Bound | None] | None, ...]:
    """The parts of the set above and below zero, as intervals of magnitudes. None for an empty part."""
    out: list[tuple[Bound | None, Bound | None] | None] = []
    for low, high, negative in ((numbers.low, numbers.high, False), (numbers.high, numbers.low, True)):
        inner, outer = _magnitude(low, negative), _magnitude(high, negative)
        # `inner` is the end nearer to zero. If it is beyond zero, it does not bound this side. If `outer` is beyond
        # zero, this side is empty.
        is_empty = high is not None and outer is None
        out.append(None if is_empty else (inner, outer))
    return tuple(out)


def _magnitude(bound: Bound | None, negative: bool) -> Bound | None:
    if bound is None or not bound.value.digits or bound.value.negative != negative:
        return None
    return Bound(bound.value.magnitude, bound.strict)


def number_node(numbers: NumberSet, plain: bool = False, max_digits: int | None = None) -> Node:
    """Every spelling of every number in the set."""
    make = _number_node if len(numbers.excluded) <= _MAX_CACHED else _number_node.__wrapped__
    return make(numbers, plain, max_digits)


@lru_cache(maxsize=1024)
def _number_node(numbers: NumberSet, plain: bool, max_digits: int | None) -> Node:
    for bound in (numbers.low, numbers.high):
        if bound is not None:
            check_size(bound.value)
    numbers = numbers.with_integer_bounds()
    if numbers.is_empty:
        return EMPTY
    if numbers.fractional or numbers.excluded or numbers.divisors or numbers.no_divisors or numbers.not_bare:
        return _intersect(numbers, plain, max_digits)
    if numbers == EVERY_NUMBER and not plain:
        node: Node = ANY_NUMBER
    else:
        cases: list[Node] = []
        if Decimal10(False, "", 0) in numbers:
            if plain:
                cases.append(ZERO if numbers.integral else Seq((ZERO, ZERO_FRACTION)))
            elif numbers.bare:
                cases.append(Seq((SIGN, ZERO)))
            else:
                cases.append(Seq((SIGN, ZERO, ZERO_FRACTION, Repeat(ANY_EXPONENT, 0, 1))))
        positive, negative = _intervals_of_signs(numbers)
        if positive is not None:
            cases.append(_positive(*positive, numbers.integral, plain or numbers.bare))
        if negative is not None:
            cases.append(Seq((MINUS, _positive(*negative, numbers.integral, plain or numbers.bare))))
        node = _alt(cases)
    return limit_digits(node, max_digits)


# Excluded values must be recognised in every spelling that remains: with a small exponent, or without one.
_DECIDED_SPELLINGS = Seq((SIGN, WHOLE, FRACTION, Repeat(_exponent(-REACH, REACH), 0, 1)))


def _intersect(numbers: NumberSet, plain: bool, max_digits: int | None) -> Node:
    """Multiples, and numbers without the excluded sets. If sets are excluded, spellings with an exponent beyond REACH
    are left out.

    If the automaton of the multiples would be too large, but few multiples lie between the bounds, these are listed.
    """
    if numbers.integral:
        numbers = numbers.with_integral_divisors()
        if numbers.is_empty:
            return EMPTY
    if (
        any(not fits_max_states(divisor) for divisor in numbers.divisors)
        and (values := numbers.list_if_few(MAX_LISTED)) is not None
    ):
        return limit_digits(number_constants(values, plain, numbers), max_digits)
    needs_fraction = plain and numbers.integral and numbers.not_bare  # integers with a fraction
    integral = numbers.integral and not needs_fraction
    base = number_node(NumberSet(numbers.low, numbers.high, integral, bare=numbers.bare), plain, max_digits)
    has_no_exponent = plain or numbers.bare
    for value in numbers.excluded:
        check_size(value)
    excluded_nodes: list[Node] = []
    if numbers.excluded:
        excluded_nodes.append(finite_numbers(numbers.excluded, has_exponent=not has_no_exponent))
    if numbers.fractional:
        excluded_nodes.append(number_node(NumberSet(integral=True), False))
    decided_nodes: list[Node] = [_DECIDED_SPELLINGS] if excluded_nodes else []
    excluded_nodes += [BARE_INTEGER] if numbers.not_bare else []
    nodes = divisible_numbers(numbers, has_no_exponent, REACH)
    nodes += [Seq((BARE_INTEGER, ZERO_FRACTION))] if needs_fraction else []
    return And((base, *nodes, *decided_nodes, *(Not(node) for node in excluded_nodes)))
