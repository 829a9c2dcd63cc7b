"""Converts a language of UTF-16 code units to a language of characters. In: an IR node without `Ref` whose "characters"
are code units. Out: an IR node of the strings whose code units are in that language.

Why: without the flag u, ECMA-262 matches code units. `.` then matches half of an emoji, and `[^a]{2}` matches a whole
one.

How: let L be the language of code units, and h the homomorphism that writes each character in code units. The result is
h^-1(L). It is computed part by part where no character can be divided between two parts:

    h^-1(A | B) = h^-1(A) | h^-1(B), and the same for intersection and complement
    h^-1(A B) = h^-1(A) h^-1(B)      unless A can end with a high surrogate and B can begin with a low one

Other parts, such as `.{2,9}`, become an automaton. Derivatives (`derivatives.py`) produce one for the code units. In
the result, an edge for a character beyond U+FFFF stands for two edges: one over its high surrogate, then one over its
low surrogate. No string contains an unpaired surrogate. IR sets cannot contain surrogates, so in L each surrogate is
represented by the code point that is `SURROGATE_OFFSET` larger.

Cost: linear in the node, and one state for each derivative of such a part; raises `TooLarge` if there are too many.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from functools import reduce
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

from guided.ir.nodes import Alt, And, Automaton, Chars, Node, Not, Repeat, Seq, Text
from guided.ir.ranges import Ranges, charset, contains, intersect, union
from guided.ir.serial import serial

from .algebra import alt, chars, conj, negate, repeat, run, seq
from .budget import Budget
from .derivatives import Terms

__all__ = ["SURROGATE_OFFSET", "decode_code_units", "has_surrogates"]

SURROGATE_OFFSET = 0x10000 - 0xD800
"""A surrogate plus this offset is the code point that represents it. This code point is beyond U+FFFF, so it cannot be
confused with a code unit.
"""
_SINGLE_UNITS: Ranges = ((0, 0xD7FF), (0xE000, 0xFFFF))
_HIGH_SURROGATES: Ranges = ((0xD800 + SURROGATE_OFFSET, 0xDBFF + SURROGATE_OFFSET),)
_PAIRS: Ranges = ((0x10000, 0x10FFFF),)
_LOW_SURROGATES: Ranges = ((0xDC00 + SURROGATE_OFFSET, 0xDFFF + SURROGATE_OFFSET),)


def has_surrogates(ranges: Ranges) -> bool:
    """Whether a set contains the representation of a surrogate."""
    return bool(intersect(ranges, (*_HIGH_SURROGATES, *_LOW_SURROGATES)))


_Result = TypeVar("_Result")


class _Ends(NamedTuple):
    """Whether the strings of a part may begin with a low surrogate, or end with a high one, or be empty."""

    begins_low: bool
    ends_high: bool
    nullable: bool

    def then(self, other: _Ends) -> _Ends:
        """The ends of this part followed by another one."""
        return _Ends(
            self.begins_low or (self.nullable and other.begins_low),
            other.ends_high or (other.nullable and self.ends_high),
            self.nullable and other.nullable,
        )

    def may_divide(self, other: _Ends) -> bool:
        """Whether this part may end within a character in which the other one begins."""
        return self.ends_high and other.begins_low


_EMPTY = _Ends(False, False, True)
_ANY = _Ends(True, True, True)


def decode_code_units(node: Node, budget: Budget) -> Node:
    """The node of the strings whose code units are in the language of `node`.

    Raises:
        TooLarge: there are too many derivatives.
    """
    return run(_Decoder(budget).decode(node))


class _Decoder:
    """See the module docstring. Shared nodes are visited once."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._ends: dict[int, _Ends] = {}
        self._decoded: dict[int, Node] = {}

    def decode(self, node: Node) -> Generator[Any, Any, Node]:
        """`decode_code_units`, as a task of `run`."""
        if serial(node) not in self._decoded:
            self._decoded[serial(node)] = yield self._decode_new(node)
        return self._decoded[serial(node)]

    def _decode_new(self, node: Node) -> Generator[Any, Any, Node]:
        match node:
            case Chars(ranges=ranges):
                return chars(intersect(ranges, _SINGLE_UNITS))
            case Text(text=text) if not has_surrogates(_ranges_of(text)):
                return node
            case Alt(items=items):
                parts: list[Node] = yield _gather(map(self.decode, items))
                return alt(parts)
            case And(items=items):
                parts = yield _gather(map(self.decode, items))
                return reduce(conj, parts)
            case Not(item=item):
                return negate((yield self.decode(item)))
            case Seq(items=items):
                sequence: Node = yield self._decode_sequence(items)
                return sequence
            case Repeat(item=item, min=low, max=high):
                ends = yield self._find_ends(item)
                if not ends.may_divide(ends):
                    return repeat((yield self.decode(item)), low, high)
                if isinstance(item, Chars) and low <= 1 and high is None and _has_all_surrogates(item.ranges):
                    return repeat(chars(union([intersect(item.ranges, _SINGLE_UNITS), _PAIRS])), low, high)
        return _make_automaton(node, self._budget)

    def _decode_sequence(self, items: Sequence[Node]) -> Generator[Any, Any, Node]:
        """Decode a sequence: together where a character may be divided between two items, otherwise one by one."""
        item_ends = yield _gather(map(self._find_ends, items))
        before = list(accumulate(item_ends, _Ends.then, initial=_EMPTY))
        after = list(accumulate(item_ends[::-1], lambda rest, ends: ends.then(rest), initial=_EMPTY))[::-1]
        parts, group = list[Node](), list[Node]()
        for index, item in enumerate(items, 1):
            group.append(item)
            if not before[index].may_divide(after[index]):
                is_single = len(group) == 1
                parts.append((yield self.decode(item)) if is_single else _make_automaton(seq(group), self._budget))
                group = []
        return seq(parts)

    def _find_ends(self, node: Node) -> Generator[Any, Any, _Ends]:
        if serial(node) not in self._ends:
            self._ends[serial(node)] = yield self._find_new_ends(node)
        return self._ends[serial(node)]

    def _find_new_ends(self, node: Node) -> Generator[Any, Any, _Ends]:
        ends: list[_Ends]
        match node:
            case Chars(ranges=ranges):
                return _Ends(bool(intersect(ranges, _LOW_SURROGATES)), bool(intersect(ranges, _HIGH_SURROGATES)), False)
            case Text(text=text) if text:
                return _Ends(contains(_LOW_SURROGATES, ord(text[0])), contains(_HIGH_SURROGATES, ord(text[-1])), False)
            case Alt(items=items):
                ends = yield _gather(map(self._find_ends, items))
                return _Ends(*map(any, zip(*ends, strict=True))) if ends else _EMPTY
            case And(items=items):
                ends = yield _gather(map(self._find_ends, items))
                return _Ends(*map(all, zip(*ends, strict=True))) if ends else _ANY
            case Seq(items=items):
                ends = yield _gather(map(self._find_ends, items))
                return reduce(_Ends.then, ends, _EMPTY)
            case Repeat(item=item, min=low):
                item_ends: _Ends = yield self._find_ends(item)
                return item_ends._replace(nullable=item_ends.nullable or low == 0)
        return _ANY


def _gather(tasks: Iterable[Generator[Any, Any, _Result]]) -> Generator[Any, Any, list[_Result]]:
    """The results of several tasks of `run`, as a task."""
    results = list[_Result]()
    for task in tasks:
        results.append((yield task))
    return results


def _ranges_of(text: str) -> Ranges:
    return charset((ord(c), ord(c)) for c in text)


def _has_all_surrogates(ranges: Ranges) -> bool:
    surrogates = union([_HIGH_SURROGATES, _LOW_SURROGATES])
    return intersect(ranges, surrogates) == surrogates


def _make_automaton(node: Node, budget: Budget) -> Automaton:
    """Decode a node as a whole."""
    terms = Terms()
    queue = [terms.read(node)]
    state_numbers = {queue[0]: 0}
    states = []

    def get_state(term: int) -> int:
        if term not in state_numbers:
            state_numbers[term] = len(queue)
            queue.append(term)
        return state_numbers[term]

    for term in queue:  # grows during the loop
        budget.spend(1)
        ranges_by_target: dict[int, list[tuple[int, int]]] = {}
        for ranges, target in terms.transitions(term):
            if single_units := intersect(ranges, _SINGLE_UNITS):
                ranges_by_target.setdefault(get_state(target), []).extend(single_units)
            if high := intersect(ranges, _HIGH_SURROGATES):
                for next_units, pair_target in terms.transitions(target):
                    if low := intersect(next_units, _LOW_SURROGATES):
                        ranges_by_target.setdefault(get_state(pair_target), []).extend(_combine_surrogates(high, low))
        edges = sorted((low, high, to) for to, ranges in ranges_by_target.items() for low, high in charset(ranges))
        budget.spend(len(edges))
        states.append((terms.nullable[term], tuple(edges)))
    return Automaton(tuple(states))


def _combine_surrogates(high: Ranges, low: Ranges) -> list[tuple[int, int]]:
    """The characters that consist of a high surrogate from `high` and a low surrogate from `low`."""
    bases = [
        (0x10000 + ((a - _HIGH_SURROGATES[0][0]) << 10), 0x10000 + ((b - _HIGH_SURROGATES[0][0]) << 10))
        for a, b in high
    ]
    if low == _LOW_SURROGATES:
        return [(a, b + 0x3FF) for a, b in bases]
    offsets = [(a - _LOW_SURROGATES[0][0], b - _LOW_SURROGATES[0][0]) for a, b in low]
    return [(base + a, base + b) for begin, end in bases for base in range(begin, end + 1, 0x400) for a, b in offsets]
