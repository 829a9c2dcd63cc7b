"""Builds the language of the spellings of a number's multiples. In: `multipleOf`. Out: IR nodes.

Without an exponent, an automaton reads the digits and keeps their remainder (`divisibility.py`).

With an exponent e, a number is a multiple of the divisor if its mantissa is a multiple of the divisor times 10^-e.
There is an automaton for each exponent from -reach to reach, within MAX_WITH_EXPONENT states. The divisor is A * 10^s,
where A does not end with a zero. Beyond a certain exponent, the twos and fives of A cancel, and only the rest of A must
divide the digits, with up to `reach` digits after the point.

All other spellings are undecided: `_multiples` contains none of them, and `_decided_spellings` excludes them.

Several divisors are intersected. Their states are at least the remainders modulo the least common multiple of all A,
without factors 2 and 5, and most of them once for each exponent. If these are too many, all spellings with an exponent
are left out. If the remainders alone are too many, the schema is refused.

Cost: at most about A * (|s| + 2) states for each exponent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import lcm, prod

from guided.errors import UnsupportedError
from guided.frontends.json_schema.algebra.number_set import NumberSet, is_multiple
from guided.frontends.json_schema.documents.values import Decimal10
from guided.frontends.json_schema.text.divisibility import (
    MAX_STATES,
    digit_multiples,
    fits_max_states,
    unsigned_multiples,
)
from guided.frontends.json_schema.text.number_text import (
    ANY_EXPONENT,
    DIGIT,
    SIGN,
    WHOLE,
    ZERO,
    ZERO_FRACTION,
    ZEROS,
    E,
)
from guided.ir.nodes import Alt, And, Chars, Node, Not, Repeat, Seq, Text
from guided.meter import spend

__all__ = ["MAX_LISTED", "divisible_numbers"]

MAX_LISTED = 1_000
"""The maximum number of multiples between two bounds that are listed, if the automaton would have too many states."""
_WORK_PER_COMPARISON = 200
MAX_WITH_EXPONENT = 10_000
MAX_REMAINDERS = 500_000
"""The maximum number of remainders of several divisors together, not counting their factors 2 and 5."""
MAX_SEVERAL_WITH_EXPONENT, MAX_INTEGERS_WITH_EXPONENT = 160_000, 55_000  # estimated states, see `_spelling_count`

_NUMBER = Seq((WHOLE, Repeat(Seq((Text("."), Repeat(DIGIT, 1, None))), 0, 1)))
_ZERO_WITH_EXPONENT = Seq((ZERO, ZERO_FRACTION, ANY_EXPONENT))


def divisible_numbers(numbers: NumberSet, no_exponent: bool, reach: int) -> list[Node]:
    """The numbers that satisfy the divisors of a set, as nodes to intersect with its other numbers.

    If a bound is missing, and several divisors need many states together, spellings with an exponent are left out.

    Raises:
        UnsupportedError: a divisor has too many digits, or all together need too many states.
    """
    divisors, no_divisors = numbers.divisors, numbers.no_divisors
    all_divisors = (*divisors, *no_divisors)
    is_unbounded = numbers.low is None or numbers.high is None  # two bounds may leave few states
    remainders = _count_remainders(all_divisors) if is_unbounded and all(map(fits_max_states, all_divisors)) else 0
    if remainders > MAX_REMAINDERS:
        raise UnsupportedError(
            f"numbers with these conditions on multiples have {remainders:,} different remainders, but at most "
            f"{MAX_REMAINDERS:,} are supported: {_describe(divisors, no_divisors)}",
            hint="give a minimum and a maximum, or fewer divisors",
        )
    spend(_WORK_PER_COMPARISON * len(all_divisors) ** 2)
    # A multiple of 12 is a multiple of 6. So next to 12, only the decided spellings of the multiples of 6 matter.
    strict_divisors = [d for d in divisors if not any(e != d and is_multiple(e, d) for e in divisors)]
    strict_no_divisors = [d for d in no_divisors if not any(e != d and is_multiple(d, e) for e in no_divisors)]
    if remainders and len(all_divisors) > 1 and not no_exponent:
        states = remainders * _spelling_count(all_divisors, (*strict_divisors, *strict_no_divisors), reach)
        no_exponent = states > (MAX_INTEGERS_WITH_EXPONENT if numbers.integral else MAX_SEVERAL_WITH_EXPONENT)
    nodes = [_multiples(divisor, no_exponent, reach) for divisor in strict_divisors]
    for divisor in all_divisors:
        decided = _decided_spellings(divisor, no_exponent, reach)
        if divisor in strict_no_divisors:
            nodes.append(And((decided, Not(_multiples(divisor, no_exponent, reach)))))
        elif divisor not in strict_divisors:
            nodes.append(decided)
    return nodes


def _describe(divisors: Sequence[Decimal10], no_divisors: Sequence[Decimal10]) -> str:
    parts = [f"multiples of {divisor}" for divisor in divisors[:4]]
    parts += [f"no multiples of {divisor}" for divisor in no_divisors[:4]]
    return ", ".join(parts) + (", ..." if len(divisors) > 4 or len(no_divisors) > 4 else "")


def _spelling_count(divisors: Sequence[Decimal10], strict_divisors: Sequence[Decimal10], reach: int) -> int:
    """An estimate of the states for each remainder: one for each exponent that all divisors decide, and for each number
    of zeros at the end that a divisor distinguishes.
    """
    powers = set(range(-reach, reach + 1))
    for divisor in divisors:
        powers &= {power for power, _ in _mantissa_divisors(divisor, reach)}
    return len(powers) * prod(max(_coprime_factor(divisor)[1]) + 1 for divisor in strict_divisors)


@lru_cache(maxsize=64)
def _multiples(divisor: Decimal10, no_exponent: bool, reach: int) -> Node:
    """Spellings of the multiples, with a sign.

    Raises:
        UnsupportedError: the divisor has too many digits, not counting zeros at the end.
    """
    if not fits_max_states(divisor):
        raise UnsupportedError(
            f"the multiples of {divisor} need more than {MAX_STATES:,} states",
            hint=f"give a minimum and a maximum with at most {MAX_LISTED:,} multiples between them, or a divisor with "
            "fewer digits",
        )
    cases: list[Node] = [unsigned_multiples(divisor)]
    if not no_exponent:
        cases.append(_ZERO_WITH_EXPONENT)
        cases += (
            Seq((unsigned_multiples(scaled_divisor), _exponent(power)))
            for power, scaled_divisor in _mantissa_divisors(divisor, reach)
        )
        if (large := _large_factor(divisor, reach)) is not None:
            coprime_factor, exponent = large
            cases.append(Seq((digit_multiples(coprime_factor, reach), exponent)))
    return Seq((SIGN, Alt(tuple(cases))))


@lru_cache(maxsize=64)
def _decided_spellings(divisor: Decimal10, no_exponent: bool, reach: int) -> Node:
    """The spellings of numbers, multiples of the divisor or not, that `_multiples` decides."""
    cases: list[Node] = [_NUMBER]
    if not no_exponent:
        cases.append(_ZERO_WITH_EXPONENT)
        cases.append(Seq((_NUMBER, Alt(tuple(_exponent(power) for power, _ in _mantissa_divisors(divisor, reach))))))
        if (large := _large_factor(divisor, reach)) is not None:
            short_number = Seq((WHOLE, Repeat(Seq((Text("."), Repeat(DIGIT, 1, reach))), 0, 1)))
            cases.append(Seq((short_number, large[1])))
    return Seq((SIGN, Alt(tuple(cases))))


def _exponent(power: int) -> Node:
    plus, minus = Repeat(Text("+"), 0, 1), Text("-")
    sign = minus if power < 0 else plus if power else Alt((plus, minus))
    return Seq((E, sign, ZEROS, Text(str(abs(power)))))


def _mantissa_divisors(divisor: Decimal10, reach: int) -> list[tuple[int, Decimal10]]:
    """(exponent, the divisor of the mantissa before it), for as many exponents as the limit allows.

    Their automata are read at the same time: one remainder, and the number of digits after the point or of zeros.
    """
    scaled_divisors = [
        (power, Decimal10(False, divisor.digits, divisor.exponent - power)) for power in range(-reach, reach + 1)
    ]
    scaled_divisors.sort(key=lambda item: _places(item[1]))
    return [item for count, item in enumerate(scaled_divisors) if _size(item[1], count) <= MAX_WITH_EXPONENT]


def _large_factor(divisor: Decimal10, reach: int) -> tuple[int, Node] | None:
    """(A without its factors 2 and 5, the exponents for which only this matters). None if it needs too many states."""
    shift = divisor.exponent - len(divisor.digits)
    coprime_factor, counts = _coprime_factor(divisor)
    min_exponent = max(reach + max(counts) + shift, 0)
    if coprime_factor * (reach + 2) > MAX_WITH_EXPONENT or min_exponent > 99:
        return None
    three_digits = Seq((Chars(((0x31, 0x39),)), DIGIT, DIGIT, Repeat(DIGIT, 0, None)))
    numbers = Alt((*(Text(str(number)) for number in range(min_exponent, 100)), three_digits))
    return coprime_factor, Seq((E, Repeat(Text("+"), 0, 1), ZEROS, numbers))


def _coprime_factor(divisor: Decimal10) -> tuple[int, list[int]]:
    """A without its factors 2 and 5, and how many of each it has."""
    coprime_factor, counts = int(divisor.digits), []
    for prime in (2, 5):
        counts.append(0)
        while coprime_factor % prime == 0:
            coprime_factor //= prime
            counts[-1] += 1
    return coprime_factor, counts


def _count_remainders(divisors: Iterable[Decimal10]) -> int:
    """The remainders of several divisors together, not counting their factors 2 and 5."""
    return lcm(*(_coprime_factor(divisor)[0] for divisor in divisors))


def _places(divisor: Decimal10) -> int:
    """The number of digits of the divisor after the point, or of zeros at its end."""
    return abs(divisor.exponent - len(divisor.digits))


def _size(divisor: Decimal10, others: int) -> int:
    """About how many states the automata of a divisor, and of `others` with fewer places, have together."""
    return min(int(divisor.digits[:9]), MAX_STATES) * (_places(divisor) + others + 2)
