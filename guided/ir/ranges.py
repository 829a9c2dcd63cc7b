"""Sets of code points as ranges: inclusive pairs, sorted, disjoint and not adjacent, without surrogates."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

__all__ = [
    "ALL_CHARS",
    "Ranges",
    "charset",
    "complement",
    "contains",
    "has_surrogate",
    "intersect",
    "merge",
    "select",
    "subtract",
    "union",
]  # fmt: skip

Ranges: TypeAlias = tuple[tuple[int, int], ...]
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def has_surrogate(text: str) -> bool:
    """Whether a string contains a lone surrogate, which cannot occur in a text."""
    return not text.isascii() and _SURROGATE.search(text) is not None


def charset(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The union of any ranges, in normal form: sorted, disjoint and non-adjacent, without surrogates."""
    valid_ranges: list[tuple[int, int]] = []
    for low, high in ranges:
        if low <= high < 0xD800 or 0xDFFF < low <= high <= 0x10FFFF:
            valid_ranges.append((low, high))
        else:
            halves = (low, min(high, 0xD7FF)), (max(low, 0xE000), min(high, 0x10FFFF))
            valid_ranges += [(a, b) for a, b in halves if a <= b]
    return merge(valid_ranges)


def merge(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The union of any ranges of integers, sorted, disjoint and non-adjacent."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], high)
        else:
            merged.append((low, high))
    return tuple(merged)


ALL_CHARS: Ranges = ((0, 0xD7FF), (0xE000, 0x10FFFF))
_SURROGATES = (0xD800, 0xDFFF)


def complement(ranges: Ranges) -> Ranges:
    """Every code point that is not in `ranges`."""
    out, next_code = [], 0
    for low, high in sorted((*ranges, _SURROGATES)):
        if next_code < low:
            out.append((next_code, low - 1))
        next_code = high + 1
    if next_code <= 0x10FFFF:
        out.append((next_code, 0x10FFFF))
    return tuple(out)


def intersect(a: Ranges, b: Ranges) -> Ranges:
    """The code points in both, in one pass."""
    if a is b or b is ALL_CHARS:
        return a
    out: list[tuple[int, int]] = []
    i = j = 0
    while i < len(a) and j < len(b):
        low, high = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if low <= high:
            out.append((low, high))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return tuple(out)


def union(sets: Sequence[Ranges]) -> Ranges:
    """The code points in any of the sets."""
    return sets[0] if len(sets) == 1 else charset(pair for ranges in sets for pair in ranges)


def subtract(ranges: Ranges, *others: Ranges) -> Ranges:
    """The code points of `ranges` that are in none of `others`."""
    return intersect(ranges, complement(union(others)))


def contains(ranges: Ranges, code: int) -> bool:
    """Whether a code point is in a set."""
    index = bisect_right(ranges, (code, 0x110000)) - 1
    return index >= 0 and code <= ranges[index][1]


def select(codes: Sequence[int], ranges: Ranges) -> list[int]:
    """The code points of the sorted list `codes` that are in `ranges`. Cost: a binary search for each range."""
    out: list[int] = []
    for low, high in ranges:
        start = bisect_left(codes, low)
        out += codes[start : bisect_right(codes, high, lo=start)]
    return out
