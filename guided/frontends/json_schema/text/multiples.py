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

All other spellings are undecided: `multiples` contains none of them, and `decided_spellings` excludes them.

Cost: about A * (|s| + 2) states for each exponent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from guided.errors import UnsupportedError
from guided.frontends.json_schema.documents.values import Decimal10
from guided.frontends.json_schema.text.number_text import ANY_EXPONENT, DIGIT, SIGN, WHOLE, ZEROS, E
from guided.ir.nodes import Alt, Automaton, Chars, Node, Repeat, Seq, Text
from guided.meter import spend

__all__ = ["MAX_LISTED", "MAX_STATES", "decided_spellings", "fits_max_states", "multiples"]

MAX_STATES = 20_000
MAX_LISTED = 1_000
"""The maximum number of multiples between two bounds that are listed, if the automaton would have too many states."""
_WORK_PER_STATE = 200  # including its ten edges
MAX_WITH_EXPONENT = 4_000

_NUMBER = Seq((WHOLE, Repeat(Seq((Text("."), Repeat(DIGIT, 1, None))), 0, 1)))
_State = tuple[bool, tuple[tuple[int, int, int], ...]]


@lru_cache(maxsize=64)
def multiples(divisor: Decimal10, no_exponent: bool, reach: int) -> Node:
    """Spellings of the multiples, with a sign.

    Raises:
        UnsupportedError: the divisor has too many digits, not counting zeros at the end.
    """
    cases: list[Node] = [_unsigned_multiples(divisor)]
    if not no_exponent:
        cases.append(Seq((Text("0"), Repeat(Seq((Text("."), Repeat(Text("0"), 1, None))), 0, 1), ANY_EXPONENT)))
        cases += (
            Seq((_unsigned_multiples(scaled_divisor), _exponent(power)))
            for power, scaled_divisor in _mantissa_divisors(divisor, reach)
        )
        if (large := _large_factor(divisor, reach)) is not None:
            coprime_factor, exponent = large
            cases.append(Seq((_multiples_up_to(coprime_factor, reach), exponent)))
    return Seq((SIGN, Alt(tuple(cases))))


@lru_cache(maxsize=64)
def decided_spellings(divisor: Decimal10, no_exponent: bool, reach: int) -> Node:
    """The spellings of numbers, multiples or not, that `multiples` decides."""
    cases: list[Node] = [_NUMBER]
    if not no_exponent:
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
    coprime_factor, shift = int(divisor.digits), divisor.exponent - len(divisor.digits)
    counts = []
    for prime in (2, 5):
        counts.append(0)
        while coprime_factor % prime == 0:
            coprime_factor //= prime
            counts[-1] += 1
    min_exponent = max(reach + max(counts) + shift, 0)
    if coprime_factor * (reach + 2) > MAX_WITH_EXPONENT or min_exponent > 99:
        return None
    three_digits = Seq((Chars(((0x31, 0x39),)), DIGIT, DIGIT, Repeat(DIGIT, 0, None)))
    numbers = Alt((*(Text(str(number)) for number in range(min_exponent, 100)), three_digits))
    return coprime_factor, Seq((E, Repeat(Text("+"), 0, 1), ZEROS, numbers))


def fits_max_states(divisor: Decimal10) -> bool:
    """Whether the automaton of the multiples is within MAX_STATES."""
    return _size(divisor) <= MAX_STATES


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
