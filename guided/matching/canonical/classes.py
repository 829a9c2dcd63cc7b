"""Partitions the characters into classes: the given sets do not distinguish the characters of one class.

In: sets of characters. Out: `CharacterClasses`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from guided.ir.ranges import Ranges, contains

__all__ = ["CharacterClasses"]


class CharacterClasses:
    """See the module docstring.

    Attributes:
        count: the number of classes; they are numbered from 0.
    """

    def __init__(self, sets: Iterable[Ranges]) -> None:
        sets = list(dict.fromkeys(sets))
        borders = sorted({0, *(edge for ranges in sets for low, high in ranges for edge in (low, high + 1))})
        numbers: dict[tuple[bool, ...], int] = {}
        self._lows, self._numbers = borders, list[int]()
        for low in borders:
            signature = tuple(contains(ranges, low) for ranges in sets)
            self._numbers.append(numbers.setdefault(signature, len(numbers)))
        self.count = len(numbers)
        self._of_set = {
            ranges: sum(1 << number for signature, number in numbers.items() if signature[at])
            for at, ranges in enumerate(sets)
        }

    def bits(self, ranges: Ranges) -> int:
        """The classes that one of the given sets consists of, as bits."""
        return self._of_set[ranges] if ranges else 0

    def class_of(self, code: int) -> int:
        """The class of a character."""
        return self._numbers[bisect_right(self._lows, code) - 1]

    def classes_in_range(self, low: int, high: int) -> frozenset[int]:
        """The classes of the characters from `low` to `high`."""
        return frozenset(self._numbers[bisect_right(self._lows, low) - 1 : bisect_right(self._lows, high)])
