"""Builds the minimal automaton of the multiples of a number. In: a divisor. Out: an `Automaton` of decimal spellings.

The divisor is written as K units of 10^-places: 0.25 is 25 units of 0.01, and 1,200 is 1,200 units of 1. A number
without exponent is read from left to right, keeping the remainder of its digits modulo K: each digit multiplies it by
ten and adds itself. The fraction may have up to `places` digits; only zeros may follow.

There are K remainders, but many of them lead to the same multiples. Suppose that m digits follow, counting all places
of the fraction. From the remainder r, the digits x lead to a multiple if K divides r * 10^m + x, which determines x
modulo K. So:

- If the smallest such x has more than m digits, m more digits lead to no multiple.
- If it has at most m digits, all remainders with the same m and x lead to the same multiples from then on.
- In any case, with m or more digits, only r * 10^m modulo K matters, which has K / gcd(K, 10^m) values.

A remainder is represented by the smallest m that leads to a multiple, and its x; but if this m is not below a certain
*depth*, by r * 10^depth modulo K. Any depth is right, and the one with the fewest states is chosen. For example, the
multiples of 65,536 have 2,829 classes of remainders (depth 5), the multiples of 86,400 have 141.

In the fraction, m is known, so the state is m and x.

Source: B. Alexeev, "Minimal DFA for testing divisibility", Journal of Computer and System Sciences 69 (2004), which
proves that no automaton for integers has fewer states. Cost: O(states * depth) operations on integers below 10 * K.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import Final

from guided.frontends.json_schema.documents.values import Decimal10
from guided.ir.nodes import Automaton
from guided.meter import spend

__all__ = ["MAX_STATES", "digit_multiples", "fits_max_states", "unsigned_multiples"]

MAX_STATES: Final = 25_000
_MAX_DIGITS: Final = 24  # of a divisor, without zeros at the end; with more, there are more than MAX_STATES states
_MAX_SHIFT: Final = 2_000  # places of a divisor, or zeros at its end
_WORK_PER_STATE: Final = 200  # including its ten edges

_Key = tuple[str, int, int]
_Edge = tuple[int, int, int]


def fits_max_states(divisor: Decimal10) -> bool:
    """Whether the automaton of the multiples has at most about MAX_STATES states."""
    if len(divisor.digits) > _MAX_DIGITS or abs(divisor.exponent) > _MAX_SHIFT:
        return False
    modulus, zeros, places = _units(divisor)
    of_fraction = (min(10**m, modulus // gcd(10**m, modulus)) for m in range(places + 1))
    states: int = _best_depth(modulus, zeros, places)[0] + sum(of_fraction)
    return states <= MAX_STATES


@lru_cache(maxsize=256)
def unsigned_multiples(divisor: Decimal10) -> Automaton:
    """The multiples of a divisor that `fits_max_states`, without sign and exponent."""
    return _Builder(*_units(divisor), zeros_after=True).build()


def digit_multiples(modulus: int, places: int) -> Automaton:
    """Numbers with up to `places` digits after the point, whose digits without the point form a multiple of `modulus`.

    The modulus has no factor 2 or 5. So a zero at the end changes nothing, and these are the multiples of `modulus`
    units of 10^-places.
    """
    return _Builder(modulus, 0, places, zeros_after=False).build()


def _units(divisor: Decimal10) -> tuple[int, int, int]:
    """(K, the zeros at its end, places): the divisor is K units of 10^-places."""
    shift = divisor.exponent - len(divisor.digits)
    return int(divisor.digits) * 10 ** max(shift, 0), max(shift, 0), max(-shift, 0)


@lru_cache(maxsize=256)
def _best_depth(modulus: int, zeros: int, places: int) -> tuple[int, int]:
    """(the number of classes of remainders, the depth that gives the fewest)."""
    depth = max(zeros, places)  # each depth below `zeros` has more: it divides the rest by ten, and adds one
    solved = zeros  # the number of classes with an x of fewer digits than `depth`
    best = (modulus // gcd(modulus, 10**depth) + solved, depth)
    while solved < best[0]:
        power = 10**depth
        best = min(best, (solved + modulus // gcd(modulus, power), depth))
        solved += power // gcd(modulus, power)
        depth += 1
    return best


class _Builder:
    """Numbers the states in the order of their discovery. State 0 has read nothing, state 1 a single zero."""

    def __init__(self, modulus: int, zeros: int, places: int, zeros_after: bool) -> None:
        self.modulus, self.zeros, self.places, self.zeros_after = modulus, zeros, places, zeros_after
        self.depth = _best_depth(modulus, zeros, places)[1]
        self.powers = [10**m for m in range(self.depth + 1)]
        self.numbers: dict[_Key, int] = {}
        self.keys: list[_Key] = []
        self.remainders: list[int] = []  # by state; of the states of the fraction, unused

    def build(self) -> Automaton:
        for kind in ("start", "zero"):
            self._number((kind, 0, 0), 0)
        states: list[tuple[bool, tuple[_Edge, ...]]] = []
        while len(states) < len(self.keys):
            spend(_WORK_PER_STATE)
            kind, digits, x = self.keys[len(states)]
            if kind == "fraction":
                states.append((digits < self.places and x == 0, self._fraction_edges(digits, x)))
            else:
                states.append(self._whole_state(kind, self.remainders[len(states)]))
        return Automaton(tuple(states))

    def _whole_state(self, kind: str, remainder: int) -> tuple[bool, tuple[_Edge, ...]]:
        if kind == "start":
            return False, ((0x30, 0x30, 1), *self._whole_edges(0, 1))
        x = -remainder * self.powers[self.places] % self.modulus
        edges: tuple[_Edge, ...] = () if kind == "zero" else self._whole_edges(remainder, 0)
        if x < self.powers[self.places]:
            edges = ((0x2E, 0x2E, self._number(("fraction", self.places, x))), *edges)
        return x == 0, edges

    def _whole_edges(self, remainder: int, first_digit: int) -> tuple[_Edge, ...]:
        modulus = self.modulus
        return _merge([(d, self._whole((remainder * 10 + d) % modulus)) for d in range(first_digit, 10)])

    def _whole(self, remainder: int) -> int:
        modulus, powers = self.modulus, self.powers
        quotient, rest = divmod(remainder, modulus // powers[self.zeros])
        if self.zeros and rest == 0:  # then only zeros can follow, as many as are missing
            missing = self.zeros - min(_trailing_zeros(quotient), self.zeros)
            return self._number(("whole", missing, 0), remainder)
        for m in range(max(self.zeros, self.places), self.depth):
            x = -remainder * powers[m] % modulus
            if x < powers[m]:
                return self._number(("whole", m, x), remainder)
        return self._number(("whole", self.depth, remainder * powers[self.depth] % modulus), remainder)

    def _fraction_edges(self, digits: int, x: int) -> tuple[_Edge, ...]:
        """The next digits, if the next `digits` digits must be x, modulo K. -1 digits: only zeros follow."""
        if digits <= 0:
            return ((0x30, 0x30, self._number(("fraction", -1, 0))),) if self.zeros_after else ()
        power = self.powers[digits - 1]
        rests = [(d, (x - d * power) % self.modulus) for d in range(10)]
        return _merge([(d, self._number(("fraction", digits - 1, rest))) for d, rest in rests if rest < power])

    def _number(self, key: _Key, remainder: int = 0) -> int:
        number = self.numbers.setdefault(key, len(self.keys))
        if number == len(self.keys):
            self.keys.append(key)
            self.remainders.append(remainder)
        return number


def _trailing_zeros(value: int) -> int:
    """The number of zeros at the end of a positive integer in decimal; of 0, more than any limit."""
    digits = str(value)
    return len(digits) - len(digits.rstrip("0")) if value else _MAX_SHIFT


def _merge(targets: list[tuple[int, int]]) -> tuple[_Edge, ...]:
    """Edges for (digit, state), in ascending order: adjacent digits with the same state share an edge."""
    edges: list[_Edge] = []
    for digit, state in targets:
        low = edges.pop()[0] if edges and edges[-1][1:] == (0x30 + digit - 1, state) else 0x30 + digit
        edges.append((low, 0x30 + digit, state))
    return tuple(edges)
