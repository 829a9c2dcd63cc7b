"""Sets of numbers: bounds, integrality, divisors and exceptions, with conjunction (`meet`) and complement.
`text/numbers.py` writes them.

Draft 4 distinguishes integers from other numbers by spelling: there, 1.0 is not an integer. So a set may also be
restricted to some of the spellings of its numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from fractions import Fraction
from math import ceil, floor, gcd, lcm

from guided.errors import UnsupportedError
from guided.frontends.json_schema.documents.values import Decimal10

__all__ = ["BARE_INTEGERS", "EVERY_NUMBER", "Bound", "NumberSet", "is_multiple"]

_MAX_DIGITS = 1_000
_MAX_DIVISORS = 64  # whose common multiple is computed each time


def is_multiple(value: Decimal10, divisor: Decimal10) -> bool:
    """Whether `value` is `divisor` times an integer."""
    if not value.digits:
        return True
    # Both numbers are their digits times a power of ten, and the digits do not end with a zero.
    shift = (value.exponent - len(value.digits)) - (divisor.exponent - len(divisor.digits))
    if shift < 0:
        return False
    modulus, remainder = _digits_as_int(divisor), 0
    for start in range(0, len(value.digits), _MAX_DIGITS):
        chunk = value.digits[start : start + _MAX_DIGITS]
        remainder = (remainder * pow(10, len(chunk), modulus) + int(chunk)) % modulus
    return remainder * pow(10, shift, modulus) % modulus == 0


def _is_long(value: Decimal10) -> bool:
    """Whether a number has too many digits on one side of the point to compute with it as a fraction."""
    return len(value.digits) > _MAX_DIGITS or abs(value.exponent) > _MAX_DIGITS


@dataclass(frozen=True, slots=True)
class Bound:
    """An end of an interval. `strict` excludes the value itself."""

    value: Decimal10
    strict: bool = False


@dataclass(frozen=True, slots=True)
class NumberSet:
    """The numbers between two bounds (None: no bound), except the `excluded` ones.

    `integral`: only integers; `fractional`: no integers. `divisors`: only multiples of each; `no_divisors`: multiples
    of none. `bare`: only spellings without fraction and exponent; `not_bare`: only spellings with a fraction or an
    exponent. A bare set is also `integral`.
    """

    low: Bound | None = None
    high: Bound | None = None
    integral: bool = False
    fractional: bool = False
    excluded: tuple[Decimal10, ...] = ()
    divisors: tuple[Decimal10, ...] = ()
    no_divisors: tuple[Decimal10, ...] = ()
    bare: bool = False
    not_bare: bool = False

    def meet(self, other: NumberSet) -> NumberSet:
        """The numbers in both."""
        return NumberSet(
            _choose_tighter(self.low, other.low, True),
            _choose_tighter(self.high, other.high, False),
            self.integral or other.integral,
            self.fractional or other.fractional,
            _union(self.excluded, other.excluded),
            _union(self.divisors, other.divisors),
            _union(self.no_divisors, other.no_divisors),
            self.bare or other.bare,
            self.not_bare or other.not_bare,
        )

    def complement(self) -> tuple[NumberSet, ...]:
        """Sets whose union is the numbers that are not in this set."""
        out = [NumberSet(high=Bound(self.low.value, not self.low.strict))] if self.low else []
        out += [NumberSet(low=Bound(self.high.value, not self.high.strict))] if self.high else []
        out += [NumberSet(not_bare=True) if self.bare else NumberSet(fractional=True)] if self.integral else []
        out += [NumberSet(integral=True)] if self.fractional else []
        out += [BARE_INTEGERS] if self.not_bare else []
        out += [NumberSet(no_divisors=(divisor,)) for divisor in self.divisors]
        out += [NumberSet(divisors=(divisor,)) for divisor in self.no_divisors]
        return (*out, *(NumberSet(Bound(value), Bound(value)) for value in self.excluded))

    def __contains__(self, value: Decimal10) -> bool:
        """Whether the set contains the number, in some spelling."""
        if value in self.excluded or (self.integral and not value.is_integer) or (self.fractional and value.is_integer):
            return False
        if not all(is_multiple(value, divisor) for divisor in self.divisors):
            return False
        if any(is_multiple(value, divisor) for divisor in self.no_divisors):
            return False
        if self.low is not None and (value < self.low.value or (self.low.strict and value == self.low.value)):
            return False
        return self.high is None or self.high.value > value or (self.high.value == value and not self.high.strict)

    def with_integer_bounds(self) -> NumberSet:
        """The same set. If it is `integral`, its bounds become inclusive integers; only an exclusive integer bound of
        more than 1,000 digits stays exclusive.
        """
        if not self.integral or (self.low is None and self.high is None):
            return self
        low = None if self.low is None else _as_inclusive_integer(self.low, 1)
        high = None if self.high is None else _as_inclusive_integer(self.high, -1)
        return replace(self, low=low, high=high)

    def with_integral_divisors(self) -> NumberSet:
        """The same set with integral divisors. Only for sets of integers."""
        divisors = dict.fromkeys(map(_least_integral_multiple, self.divisors))
        divisors.pop(_ONE, None)
        no_divisors = tuple(dict.fromkeys(map(_least_integral_multiple, self.no_divisors)))
        return replace(
            self, divisors=tuple(divisors), no_divisors=no_divisors, fractional=self.fractional or _ONE in no_divisors
        )

    def list_if_few(self, max_numbers: int) -> tuple[Decimal10, ...] | None:
        """The numbers in the set. None if a bound is missing, if the set has no divisors and is not `integral`, if a
        bound or divisor is long (`_is_long`), or if more than `max_numbers` multiples of the divisors lie between the
        bounds.
        """
        if self.low is None or self.high is None:
            return None
        if self.low.value == self.high.value:
            return (self.low.value,) if self.low.value in self else ()
        divisors = (*self.divisors, _ONE) if self.integral else self.divisors
        if not divisors or any(map(_is_long, (self.low.value, self.high.value, *divisors))):
            return None
        step = _common_multiple(divisors)
        first, last = ceil(_fraction(self.low.value) / step), floor(_fraction(self.high.value) / step)
        if last - first >= max_numbers:
            return None
        values = [_decimal(step * count) for count in range(first, last + 1)]
        return tuple(value for value in values if value in self)

    @property
    def is_empty(self) -> bool:
        """Whether the set is known to be empty. False does not mean that it contains a number."""
        if (self.integral and self.fractional) or (self.bare and self.not_bare):
            return True
        if self.divisors and self.no_divisors and self._has_contradictory_divisors():
            return True
        exact_set = self.with_integer_bounds() if self.low is not None and self.high is not None else self
        if exact_set.low is None or exact_set.high is None:
            return False
        if exact_set.low.value == exact_set.high.value:
            return exact_set.low.strict or exact_set.high.strict or exact_set.low.value not in exact_set
        return exact_set.high.value < exact_set.low.value

    def _has_contradictory_divisors(self) -> bool:
        """Whether every multiple of all divisors is a multiple of an excluded one. Many or long divisors are only
        compared.
        """
        divisors = (*self.divisors, *self.no_divisors)
        if len(divisors) > _MAX_DIVISORS or any(map(_is_long, divisors)):
            return bool(set(self.divisors) & set(self.no_divisors))
        step = _common_multiple(self.divisors)
        return any((step / _fraction(divisor)).denominator == 1 for divisor in self.no_divisors)


EVERY_NUMBER = NumberSet()
BARE_INTEGERS = NumberSet(integral=True, bare=True)
"""The integers of draft 4."""


_ONE = Decimal10.parse("1")


def _fraction(value: Decimal10) -> Fraction:
    shift = value.exponent - len(value.digits)
    size = Fraction(int(value.digits or "0")) * Fraction(10) ** shift
    return -size if value.negative else size


def _common_multiple(divisors: Iterable[Decimal10]) -> Fraction:
    """The least positive number that is a multiple of all divisors."""
    steps = list(map(_fraction, divisors))
    return Fraction(lcm(*(step.numerator for step in steps)), gcd(*(step.denominator for step in steps)))


def _decimal(value: Fraction) -> Decimal10:
    """The value of a fraction whose denominator divides a power of ten."""
    places = max(_factor_count(value.denominator, 2), _factor_count(value.denominator, 5))
    return Decimal10.parse(f"{value.numerator * 10**places // value.denominator}e-{places}")


def _factor_count(number: int, prime: int) -> int:
    """How often the prime divides the number."""
    count = 0
    while number % prime == 0:
        number, count = number // prime, count + 1
    return count


def _least_integral_multiple(divisor: Decimal10) -> Decimal10:
    """The least positive integer that is a multiple of the divisor. Both have the same integral multiples."""
    if divisor.is_integer:
        return divisor
    digits, places = _digits_as_int(divisor), len(divisor.digits) - divisor.exponent
    for prime in (2, 5):  # of the denominator, 10 ** places
        digits //= prime ** min(places, _factor_count(digits, prime))
    return Decimal10.parse(str(digits))


def _digits_as_int(divisor: Decimal10) -> int:
    """The digits of a divisor as an integer."""
    if len(divisor.digits) > _MAX_DIGITS:
        raise UnsupportedError(
            f"a divisor has {len(divisor.digits):,} digits, but at most {_MAX_DIGITS:,} are supported",
            hint="round it, or leave it out",
        )
    return int(divisor.digits)


def _union(a: tuple[Decimal10, ...], b: tuple[Decimal10, ...]) -> tuple[Decimal10, ...]:
    return tuple(dict.fromkeys(a + b)) if a and b else a or b


def _choose_tighter(a: Bound | None, b: Bound | None, is_low: bool) -> Bound | None:
    if a is None or b is None:
        return a or b
    if a.value == b.value:
        return Bound(a.value, a.strict or b.strict)
    return a if (b.value < a.value) == is_low else b


def _as_inclusive_integer(bound: Bound, direction: int) -> Bound:
    """The bound as the first integer within it, upwards (1) or downwards (-1)."""
    value = bound.value
    if value.is_integer:
        return Bound(_add(value, direction)) if bound.strict and value.exponent <= _MAX_DIGITS else bound
    truncated_value = Decimal10.parse(("-" if value.negative else "") + (value.digits[: max(value.exponent, 0)] or "0"))
    return Bound(truncated_value if value.negative == (direction > 0) else _add(truncated_value, direction))


def _add(value: Decimal10, step: int) -> Decimal10:
    """The sum, for integers of any number of digits."""
    total = Context(prec=value.exponent + 2).add(Decimal(value.plain()), Decimal(step))
    return Decimal10.parse(f"{total:f}")
