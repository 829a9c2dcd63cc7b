"""Sets of code points as ranges: inclusive pairs, sorted, disjoint and not adjacent, without surrogates."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

__all__ = ["ALL_CHARS", "Ranges", "charset", "complement", "has_surrogate", "intersect"]

Ranges: TypeAlias = tuple[tuple[int, int], ...]
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def has_surrogate(text: str) -> bool:
    """Whether a string contains a lone surrogate, which cannot occur in a text."""
    return not text.isascii() and _SURROGATE.search(text) is not None


def charset(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The union of any ranges in normal form: sorted, disjoint and non-adjacent, without surrogates."""
    parts: list[tuple[int, int]] = []
    for low, high in ranges:
        if low <= high < 0xD800 or 0xDFFF < low <= high <= 0x10FFFF:
            parts.append((low, high))
        else:
            halves = (low, min(high, 0xD7FF)), (max(low, 0xE000), min(high, 0x10FFFF))
            parts += [(a, b) for a, b in halves if a <= b]
    if not parts:
        return ()
    parts.sort()
    merged: list[tuple[int, int]] = []
    start, end = parts[0]
    for low, high in parts:
        if low > end + 1:
            merged.append((start, end))
            start, end = low, high
        elif high > end:
            end = high
    merged.append((start, end))
    return tuple(merged)


ALL_CHARS: Ranges = ((0, 0xD7FF), (0xE000, 0x10FFFF))
_SURROGATES = (0xD800, 0xDFFF)


def complement(ranges: Ranges) -> Ranges:
    """Every code point that is not in `ranges`."""
    out, at = [], 0
    for low, high in sorted((*ranges, _SURROGATES)):
        if at < low:
            out.append((at, low - 1))
        at = high + 1
    if at <= 0x10FFFF:
        out.append((at, 0x10FFFF))
    return tuple(out)


def intersect(a: Ranges, b: Ranges) -> Ranges:
    """The code points in both."""
    out: list[tuple[int, int]] = []
    at = 0
    for low, high in a:
        while at < len(b) and b[at][1] < low:
            at += 1
        other = at
        while other < len(b) and b[other][0] <= high:
            out.append((max(low, b[other][0]), min(high, b[other][1])))
            other += 1
    return charset(out)
