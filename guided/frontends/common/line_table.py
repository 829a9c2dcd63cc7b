"""Finds the lines of offsets in a text. In: the text once, then offsets. Out: lines and columns, which count from 1.

Cost: one pass over the text, and a binary search for each offset.
"""

from __future__ import annotations

import re
from bisect import bisect_right

__all__ = ["LineTable"]


class LineTable:
    """The offsets at which the lines of a text begin. Lines end with a line feed."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def line(self, offset: int) -> int:
        """The line of the character at an offset."""
        return bisect_right(self._starts, offset)

    def column(self, offset: int) -> int:
        """The column of the character at an offset, in its line."""
        return offset - self._starts[self.line(offset) - 1] + 1
