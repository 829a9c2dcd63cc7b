"""Builds the language of the spellings of a number's multiples. In: `multipleOf`. Out: IR nodes.

The divisor is A * 10^s, where A does not end with a zero. A number without exponent is read from left to right, keeping
the remainder of its digits modulo A: each digit multiplies it by ten and adds itself. For example, for 0.25 (A = 25, s
= -2), the digits of 1.75 form 1, 17, 175: a multiple, since 175 is a multiple of 25.

- For s < 0, the digits of the fraction continue up to position -s; only zeros may follow.
- For s > 0, the last s digits before the point must be zeros, and the digits before them a multiple of A. The state is
  the remainder and the number of zeros at the end.
- With an exponent e, a number is a multiple of the divisor if its mantissa is a multiple of the divisor times 10^-e.
  There is an automaton for each exponent from -reach to reach, within MAX_WITH_EXPONENT states. Beyond a certain
  exponent, the twos and fives of A cancel, and only the rest of A must divide the digits, with up to `reach` digits
  after the point.

All other spellings are undecided: `_multiples` contains none of them, and `_decided_spellings` excludes them.

Several divisors are intersected. Their states are at least the remainders modulo the least common multiple of all A,
without factors 2 and 5, and most of them once for each exponent. If these are too many, all spellings with an exponent
are left out. If the remainders alone are too many, the schema is refused.

Cost: about A * (|s| + 2) states for each exponent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import lcm, prod

from guided.errors import UnsupportedError
from guided.frontends.json_schema.algebra.number_set import NumberSet, is_multiple
from guided.frontends.json_schema.documents.values import Decimal10
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
from guided.ir.nodes import Alt, And, Automaton, Chars, Node, Not, Repeat, Seq, Text
from guided.meter import spend

__all__ = ["MAX_LISTED", "divisible_numbers", "fits_max_states"]

MAX_STATES = 20_000
MAX_LISTED = 1_000
"""The maximum number of multiples between two bounds that are listed, if the automaton would have too many states."""
_WORK_PER_STATE = 200  # including its ten edges
_WORK_PER_COMPARISON = 200
MAX_WITH_EXPONENT = 4_000
MAX_REMAINDERS = 500_000
"""The maximum number of remainders of several divisors together, not counting their factors 2 and 5."""
MAX_SEVERAL_WITH_EXPONENT, MAX_INTEGERS_WITH_EXPONENT = 160_000, 55_000  # estimated states, see `_spelling_count`

_NUMBER = Seq((WHOLE, Repeat(Seq((Text("."), Repeat(DIGIT, 1, None))), 0, 1)))
_ZERO_WITH_EXPONENT = Seq((ZERO, ZERO_FRACTION, ANY_EXPONENT))
_State = tuple[bool, tuple[tuple[int, int, int], ...]]


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
    cases: list[Node] = [_unsigned_multiples(divisor)]
    if not no_exponent:
        cases.append(_ZERO_WITH_EXPONENT)
        cases += (
            Seq((_unsigned_multiples(scaled_divisor), _exponent(power)))
            for power, scaled_divisor in _mantissa_divisors(divisor, reach)
        )
        if (large := _large_factor(divisor, reach)) is not None:
            coprime_factor, exponent = large
            cases.append(Seq((_multiples_up_to(coprime_factor, reach), exponent)))
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
    """(exponent, the divisor of the mantissa before it), for as many exponents as the limit allows."""
    states_left, out = MAX_WITH_EXPONENT, []
    scaled_divisors = [
        (power, Decimal10(False, divisor.digits, divisor.exponent - power)) for power in range(-reach, reach + 1)
    ]
    for power, scaled_divisor in sorted(scaled_divisors, key=lambda item: _size(item[1])):
        states_left -= _size(scaled_divisor)
        if states_left < 0:
            break
        out.append((power, scaled_divisor))
    return out


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


def fits_max_states(divisor: Decimal10) -> bool:
    """Whether the automaton of the multiples is within MAX_STATES."""
    return _size(divisor) <= MAX_STATES


def _count_remainders(divisors: Iterable[Decimal10]) -> int:
    """The remainders of several divisors together, not counting their factors 2 and 5."""
    return lcm(*(_coprime_factor(divisor)[0] for divisor in divisors))


def _size(divisor: Decimal10) -> int:
    """The approximate number of states of the automaton."""
    shift = divisor.exponent - len(divisor.digits)
    return min(int(divisor.digits[:9]), MAX_STATES + 1) * (min(abs(shift), MAX_STATES) + 2)


# --- automata: state 0 has read nothing, state 1 a single 0


@lru_cache(maxsize=256)
def _unsigned_multiples(divisor: Decimal10) -> Automaton:
    """The multiples without sign and exponent."""
    if not fits_max_states(divisor):
        raise UnsupportedError(
            f"the multiples of {divisor} need more than {MAX_STATES:,} states",
            hint=f"give a minimum and a maximum with at most {MAX_LISTED:,} multiples between them, or a divisor with "
            "fewer digits",
        )
    modulus, shift = int(divisor.digits), divisor.exponent - len(divisor.digits)
    if shift > 0:
        return _trailing_zeros_automaton(modulus, shift)
    return _remainder_automaton(
        modulus, -shift, lambda remainder, places_left: remainder * pow(10, places_left, modulus) % modulus == 0, True
    )


def _multiples_up_to(modulus: int, max_digits: int) -> Automaton:
    """Mantissas with up to `max_digits` digits after the point, whose digits without the point form a multiple."""
    return _remainder_automaton(modulus, max_digits, lambda remainder, _: remainder == 0, zeros_after=False)


def _remainder_automaton(
    modulus: int, places: int, may_end: Callable[[int, int], bool], zeros_after: bool
) -> Automaton:
    """Numbers by the remainder of all their digits, with up to `places` after the point. `zeros_after`: zeros may
    follow.

    `may_end(remainder, places_left)`: whether the number may end with so many unused places.
    """
    whole_start, fraction_start = 2, 2 + modulus  # the first states by remainder, and by place and remainder
    zeros_state = fraction_start + (places + 1) * modulus  # the state for zeros after all places
    states: list[_State] = [(False, ((0x30, 0x30, 1), *_digit_edges(0, modulus, whole_start, 1)))]
    states.append((may_end(0, places), ((0x2E, 0x2E, fraction_start),)))
    for remainder in range(modulus):
        edges = [(0x2E, 0x2E, fraction_start + remainder), *_digit_edges(remainder, modulus, whole_start)]
        states.append((may_end(remainder, places), tuple(edges)))
    for digits_read in range(places + 1):
        for remainder in range(modulus):
            next_edges = (
                _digit_edges(remainder, modulus, fraction_start + (digits_read + 1) * modulus)
                if digits_read < places
                else []
            )
            if digits_read == places and zeros_after and may_end(remainder, 0):
                next_edges = [(0x30, 0x30, zeros_state)]
            states.append((digits_read > 0 and may_end(remainder, places - digits_read), tuple(next_edges)))
    states.append((True, ((0x30, 0x30, zeros_state),)))
    return _build_automaton(states)


def _digit_edges(remainder: int, modulus: int, first_target: int, first: int = 0) -> list[tuple[int, int, int]]:
    return [(0x30 + d, 0x30 + d, first_target + (remainder * 10 + d) % modulus) for d in range(first, 10)]


def _trailing_zeros_automaton(modulus: int, shift: int) -> Automaton:
    """Multiples of modulus * 10^shift: states are the number of zeros at the end, up to shift, and the remainder before
    them.
    """
    point = 2 + (shift + 1) * modulus

    def state_number(zeros: int, remainder: int) -> int:
        return 2 + zeros * modulus + remainder

    first = [(0x30 + d, 0x30 + d, 2 + d % modulus) for d in range(1, 10)]
    states: list[_State] = [(False, ((0x30, 0x30, 1), *first)), (True, ((0x2E, 0x2E, point),))]
    for zeros in range(shift + 1):
        for remainder in range(modulus):
            # After `shift` zeros, another zero belongs to the digits before them.
            target = (
                state_number(shift, remainder * 10 % modulus) if zeros == shift else state_number(zeros + 1, remainder)
            )
            shifted_remainder = remainder * pow(10, zeros + 1, modulus)
            edges = [(0x30, 0x30, target)]
            edges += [(0x30 + d, 0x30 + d, 2 + (shifted_remainder + d) % modulus) for d in range(1, 10)]
            may_end = zeros == shift and remainder == 0
            states.append((may_end, ((0x2E, 0x2E, point), *edges) if may_end else tuple(edges)))
    states.append((False, ((0x30, 0x30, point + 1),)))
    states.append((True, ((0x30, 0x30, point + 1),)))
    return _build_automaton(states)


def _build_automaton(states: list[_State]) -> Automaton:
    spend(_WORK_PER_STATE * len(states))
    return Automaton(tuple(states))
