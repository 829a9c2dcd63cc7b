"""Bounds the number of values that a node generates. In: a node of the IR, and the rules. Out: the bound, or None.

    "a" | "b" [0-9]{2}      at most 101
    [0-9]+                  None: unbounded

Different spellings of a character count once. The module also bounds the rounds of a repetition in a uniqueness scope:
each round adds an entry whose value differs from the entries of all other rounds, so there are at most as many rounds
as the entry has possible values.

Not done: exact counts. A bound may be too high, since a text may be generated in two ways. It may be None
for finite languages (complements, permutations, the spellings of numbers).

Cost: linear in the nodes; each rule is counted once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any, Final

from guided.ir.nodes import (
    Alt,
    And,
    Chars,
    Distinct,
    Encoded,
    Entry,
    Length,
    Node,
    Ref,
    Repeat,
    Seq,
    Special,
    Substrings,
    Text,
)

__all__ = ["FiniteValues"]

_MAX_BITS: Final = 60
_MAX_COUNT: Final = 1 << _MAX_BITS  # larger bounds are reduced to this one


class FiniteValues:
    """Counts the values of nodes over some rules."""

    def __init__(self, rules: Mapping[str, Node]) -> None:
        self._rules = rules
        self._counts: dict[str, int | None] = {}

    def count(self, node: Any) -> int | None:
        """An upper bound on the number of values that a node generates; None if no bound is known."""
        match node:
            case Text() | Special():
                return 1
            case Chars(ranges):
                return sum(high - low + 1 for low, high in ranges)
            case Substrings(texts):
                return min(_MAX_COUNT, sum(len(text) * (len(text) + 1) // 2 for text in texts))
            case Seq(items):
                return _product(map(self.count, items))
            case Alt(items):
                return _sum(map(self.count, items))
            case And(items):
                return min((count for item in items if (count := self.count(item)) is not None), default=None)
            case Repeat(item, low, high):
                return self._count_repetition(item, low, high)
            case Length(item) | Encoded(item) | Entry(item) | Distinct(item):
                return self.count(item)
            case Ref(name):
                if name not in self._counts:
                    self._counts[name] = None  # in case the rule contains itself
                    self._counts[name] = self.count(self._rules[name])
                return self._counts[name]
        return None

    def _count_repetition(self, item: Node, low: int, high: int | None) -> int | None:
        count = self.count(item)
        if high == 0 or count == 0:
            return 0 if low else 1
        if count is None or high is None:
            return None
        return min(_MAX_COUNT, (high - low + 1) * prod([count] * min(high, _MAX_BITS)))

    def max_entries(self, node: Any) -> int | None:
        """An upper bound on how often a node can occur in one uniqueness scope, where each occurrence adds an entry.
        None if no bound is known.
        """
        match node:
            case Entry(item):
                return self.count(item)
            case Seq(items):
                return min((entries for item in items if (entries := self.max_entries(item)) is not None), default=None)
            case Alt(items):
                return _sum(map(self.max_entries, items))
            case Repeat(item, low) if low:
                return self.max_entries(item)
        return None


def _sum(counts: Iterable[int | None]) -> int | None:
    all_counts = list(counts)
    numbers = [each for each in all_counts if each is not None]
    return min(_MAX_COUNT, sum(numbers)) if len(numbers) == len(all_counts) else None


def _product(counts: Iterable[int | None]) -> int | None:
    all_counts = list(counts)
    numbers = [each for each in all_counts if each is not None]
    if 0 in numbers:
        return 0
    return min(_MAX_COUNT, prod(numbers)) if len(numbers) == len(all_counts) else None
