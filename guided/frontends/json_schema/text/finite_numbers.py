"""Builds the language of the spellings of a finite set of numbers. In: the numbers. Out: one automaton.

A magnitude is 0.d1d2d3... times ten to the p, as in `numbers.py`. Each number of the set is a string of digits with the
position P of its first digit. These strings, each followed by any number of zeros, form a minimal acyclic automaton
whose states are labelled: in a state with the label {P, ...}, the digits so far are complete, and belong to the numbers
with these positions.

A spelling leads through this automaton. It also fixes the position p of its first digit, by the digits before the
point, or by the zeros after it. So a state is a pair (state of the digits, p). The spelling is complete if p is in the
label, or after the exponent P - p for a P in the label. Exponents are limited as in `numbers.py`: p is 0 or 1, or at
most REACH from P.

Cost: at most linear in the digits, times 2 * REACH + n positions for numbers of n digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from guided.frontends.json_schema.algebra.number_set import EVERY_NUMBER, NumberSet
from guided.frontends.json_schema.algebra.strings import union_of
from guided.frontends.json_schema.documents.values import Decimal10
from guided.frontends.json_schema.text.number_text import BARE_INTEGER, REACH
from guided.ir.nodes import EMPTY, And, Automaton, Node, Not, Text
from guided.meter import spend

__all__ = ["finite_numbers", "number_constants"]

_WORK_PER_STATE = 150
_MAX_CACHED, _MAX_CACHED_DIGITS = 4, 24  # the numbers of a cached set, and their digits

_MINUS, _PLUS, _POINT, _ZERO, _NINE = map(ord, "-+.09")
_ANY_EXPONENT = None
_Edge = tuple[int, int, int]
_DigitEdge = tuple[int, int]
"""The code point of a digit, and the next state."""
_State = tuple[bool, list[_Edge]]
_NO_LABEL: frozenset[int] = frozenset()


def finite_numbers(values: Iterable[Decimal10], *, has_fraction: bool = True, has_exponent: bool = True) -> Node:
    """Every spelling of the numbers. Without `has_fraction`, no spelling has a point; without `has_exponent`, none has
    an exponent. Zero may have a sign.
    """
    values = tuple(values)
    is_cached = len(values) <= _MAX_CACHED and all(
        len(value.digits) <= _MAX_CACHED_DIGITS and abs(value.exponent) <= _MAX_CACHED_DIGITS for value in values
    )
    return (_finite_numbers if is_cached else _finite_numbers.__wrapped__)(values, has_fraction, has_exponent)


@lru_cache(maxsize=1024)
def _finite_numbers(values: tuple[Decimal10, ...], has_fraction: bool, has_exponent: bool) -> Node:
    spellings = _Spellings(has_fraction, has_exponent)
    positive: list[tuple[str, int]] = []
    negative: list[tuple[str, int]] = []
    has_zero = False
    for value in values:
        if not value.digits:
            has_zero = True
        else:
            (negative if value.negative else positive).append((value.digits, value.exponent))
    if not (positive or negative or has_zero):
        return EMPTY
    spellings.add_start(positive, negative, has_zero)
    return Automaton(spellings.states())


def number_constants(values: Sequence[Decimal10], plain: bool, numbers: NumberSet = EVERY_NUMBER) -> Node:
    """Every spelling of some numbers of a set. Only the shortest one of each if `plain`."""
    spend(len(values))
    if plain:
        ends = [".0" if numbers.not_bare and value.is_integer else "" for value in values]
        return union_of([Text(value.plain() + end) for value, end in zip(values, ends, strict=True)])
    if numbers.bare:
        integers = [value for value in values if value.is_integer]
        return finite_numbers(integers, has_fraction=False, has_exponent=False)
    node = finite_numbers(values)
    return And((node, Not(BARE_INTEGER))) if numbers.not_bare else node


class _Digits:
    """The minimal automaton of strings of digits, built from sorted strings. State 0 has no label and no edges."""

    def __init__(self) -> None:
        self.labels: list[frozenset[int]] = [_NO_LABEL]
        self.edges: list[tuple[_DigitEdge, ...]] = [()]
        self.positions: list[tuple[int, int]] = [(0, 0)]
        """The least and the greatest position in the labels of a state and of all states after it."""
        self._numbers: dict[tuple[frozenset[int], tuple[_DigitEdge, ...]], int] = {(_NO_LABEL, ()): 0}

    def add_all(self, numbers: list[tuple[str, int]]) -> int:
        """Add numbers, each given as its digits and its position. Returns the state before the first digit."""
        labels: dict[str, set[int]] = {}
        for digits, position in numbers:
            labels.setdefault(digits, set()).add(position)
        open_states: list[tuple[frozenset[int], list[_DigitEdge]]] = [(_NO_LABEL, [])]
        last = ""
        for digits in sorted(labels):
            shared = 0
            while shared < len(last) and last[shared] == digits[shared]:
                shared += 1
            self._close(open_states, last, shared)
            for digit in digits[shared:]:
                open_states.append((open_states[-1][0] if digit == "0" else _NO_LABEL, []))
            label, edges = open_states[-1]
            open_states[-1] = (label | labels[digits], edges)
            last = digits
        self._close(open_states, last, 0)
        return self._intern(*open_states[0])

    def _close(self, open_states: list[tuple[frozenset[int], list[_DigitEdge]]], digits: str, length: int) -> None:
        """Number the open states after the first `length` digits."""
        while len(open_states) > length + 1:
            state = self._intern(*open_states.pop())
            open_states[-1][1].append((ord(digits[len(open_states) - 1]), state))

    def _intern(self, label: frozenset[int], edges: list[_DigitEdge]) -> int:
        if label and edges and edges[0][0] != _ZERO:
            edges = [(_ZERO, self._intern(label, [])), *edges]
        key = (label, tuple(edges))
        state = self._numbers.get(key)
        if state is None:
            spend(_WORK_PER_STATE)
            state = self._numbers[key] = len(self.labels)
            self.labels.append(label)
            self.edges.append(key[1] or ((_ZERO, state),))
            ends = [*label, *(end for _, to in edges for end in self.positions[to])]
            self.positions.append((min(ends), max(ends)) if ends else (0, 0))
        return state


class _Spellings:
    """The automaton of the spellings. A state gets its number when an edge leads to it, and its own edges later."""

    def __init__(self, has_fraction: bool, has_exponent: bool) -> None:
        self._has_fraction, self._has_exponent = has_fraction, has_exponent
        self._reach = REACH if has_exponent else 0
        self._digits = _Digits()
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._keys: list[tuple[Any, ...]] = []

    def add_start(self, positive: list[tuple[str, int]], negative: list[tuple[str, int]], has_zero: bool) -> None:
        """Create the state before the first character."""
        self._number(_Spellings._start, self._digits.add_all(positive), self._digits.add_all(negative), has_zero)

    def states(self) -> tuple[tuple[bool, tuple[_Edge, ...]], ...]:
        """The start and all states that it reaches."""
        out: list[tuple[bool, tuple[_Edge, ...]]] = []
        for make, *key in self._keys:  # grows in this loop
            spend(_WORK_PER_STATE)
            accepts, edges = make(self, *key)
            edges.sort()
            out.append((accepts, tuple(edges)))
        return tuple(out)

    def _number(self, make: Callable[..., _State], *key: object) -> int:
        """The number of the state that `make(self, *key)` returns."""
        full_key = (make, *key)
        number = self._numbers.get(full_key)
        if number is None:
            number = self._numbers[full_key] = len(self._keys)
            self._keys.append(full_key)
        return number

    def _edge(self, char: int, make: Callable[..., _State], *key: object) -> _Edge:
        return char, char, self._number(make, *key)

    # --- before the first digit other than zero; `root` is the state of the digits there

    def _start(self, positive: int, negative: int, has_zero: bool) -> _State:
        minus = [self._edge(_MINUS, _Spellings._unsigned, negative, has_zero)] if negative or has_zero else []
        return False, minus + self._unsigned(positive, has_zero)[1]

    def _unsigned(self, root: int, has_zero: bool) -> _State:
        return False, [self._edge(_ZERO, _Spellings._whole_zero, root, has_zero), *self._whole_edges(root, 0)]

    def _whole_zero(self, root: int, has_zero: bool) -> _State:
        edges = self._exponent_edges(_ANY_EXPONENT) if has_zero else []
        if self._has_fraction:
            edges.append(self._edge(_POINT, _Spellings._zeros, root, has_zero, 0))
        return has_zero, edges

    def _zeros(self, root: int, has_zero: bool, count: int) -> _State:
        """After `0.` and `count` zeros."""
        accepts = has_zero and count > 0
        edges = self._exponent_edges(_ANY_EXPONENT) if accepts else []
        edges += self._fraction_edges(root, -count)
        if root and -count - 1 >= self._digits.positions[root][0] - self._reach:
            edges.append(self._edge(_ZERO, _Spellings._zeros, root, has_zero, count + 1))
        elif has_zero:
            edges.append(self._edge(_ZERO, _Spellings._only_zeros))
        return accepts, edges

    def _only_zeros(self) -> _State:
        return True, [*self._exponent_edges(_ANY_EXPONENT), self._edge(_ZERO, _Spellings._only_zeros)]

    # --- after it

    def _whole(self, state: int, count: int) -> _State:
        """After `count` digits before the point."""
        label = self._digits.labels[state]
        edges = self._whole_edges(state, count) + self._exponent_edges(self._exponents(label, count))
        if self._has_fraction and self._is_near(state, count):
            edges.append(self._edge(_POINT, _Spellings._point, state, count))
        return count in label, edges

    def _point(self, state: int, position: int) -> _State:
        return False, self._fraction_edges(state, position)

    def _fraction(self, state: int, position: int) -> _State:
        label = self._digits.labels[state]
        edges = self._fraction_edges(state, position) + self._exponent_edges(self._exponents(label, position))
        return position in label, edges

    def _whole_edges(self, state: int, count: int) -> list[_Edge]:
        """The next digit after `count` digits before the point. More may follow, so the position may still grow."""
        positions, reach, is_first = self._digits.positions, self._reach, count == 0 and self._has_exponent
        return [
            self._edge(char, _Spellings._whole, to, count + 1)
            for char, to in self._digits.edges[state]
            if is_first or count < positions[to][1] + reach
        ]

    def _fraction_edges(self, state: int, position: int) -> list[_Edge]:
        return [
            self._edge(char, _Spellings._fraction, to, position)
            for char, to in self._digits.edges[state]
            if self._is_near(to, position)
        ]

    def _is_near(self, state: int, position: int) -> bool:
        """Whether a number after this state may be spelled with its first digit at the position."""
        low, high = self._digits.positions[state]
        return low - self._reach <= position <= high + self._reach or (position in (0, 1) and self._has_exponent)

    # --- exponents

    @staticmethod
    def _exponents(label: frozenset[int], position: int) -> frozenset[int]:
        """The exponents with which a first digit at the position has one of the positions in the label."""
        is_limited = position not in (0, 1)
        return frozenset(end - position for end in label if not is_limited or abs(end - position) <= REACH)

    def _exponent_edges(self, exponents: frozenset[int] | None) -> list[_Edge]:
        if not self._has_exponent or exponents == _NO_LABEL:
            return []
        return [self._edge(char, _Spellings._exponent, exponents) for char in (0x45, 0x65)]

    def _exponent(self, exponents: frozenset[int] | None) -> _State:
        if exponents is _ANY_EXPONENT:
            after_sign = self._number(_Spellings._any_digits, False)
            return False, [(_PLUS, _PLUS, after_sign), (_MINUS, _MINUS, after_sign), *self._any_digits(False)[1]]
        positive = frozenset(str(exponent) for exponent in exponents if exponent >= 0)
        negative = frozenset(str(-exponent) for exponent in exponents if exponent <= 0)
        edges = [self._edge(_PLUS, _Spellings._natural, positive, False)] if positive else []
        edges += [self._edge(_MINUS, _Spellings._natural, negative, False)] if negative else []
        return False, edges + (self._natural(positive, False)[1] if positive else [])

    def _any_digits(self, accepts: bool) -> _State:
        return accepts, [(_ZERO, _NINE, self._number(_Spellings._any_digits, True))]

    def _natural(self, numerals: frozenset[str], has_zero: bool) -> _State:
        """One of the numerals, after zeros if `has_zero`."""
        zero = self._edge(_ZERO, _Spellings._natural, numerals, True)
        return has_zero and "0" in numerals, [zero, *self._numeral(numerals - {"0"})[1]]

    def _numeral(self, ends: frozenset[str]) -> _State:
        """One of the texts, which are the ends of numerals."""
        first_digits = {end[0] for end in ends if end}
        edges = [
            self._edge(ord(digit), _Spellings._numeral, frozenset(end[1:] for end in ends if end[:1] == digit))
            for digit in sorted(first_digits)
        ]
        return "" in ends, edges
