"""Gives freed memory back to the system while a server has nothing else to do.

A compilation may need hundreds of megabytes for a moment. GNU's malloc keeps what is freed wherever something that
lives on lies behind it, as a compiled grammar does, so that a process grows with every costly specification although
what it uses stays the same. `malloc_trim` gives back whole pages in the middle, too. It holds the lock of each arena
meanwhile: where the cores are busy, a thread of low priority that called it would hold up all others. So the engine's
thread calls it, and only when there is no request. The core calls it, too, but only after a compilation of more than
four million steps (`matching/compile.cpp`), for programs that are no servers.

Cost: 1 to 4 ms, 16 ms at most, every two seconds. What it does not do: anything while requests follow each other
without a pause, or with another allocator than GNU's.
"""

from __future__ import annotations

import ctypes
import sys
from time import monotonic
from typing import Final

__all__ = ["FreedMemory"]

_PAUSE: Final = 2.0  # seconds between two calls


class FreedMemory:
    """See the head."""

    def __init__(self) -> None:
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
        self._last = monotonic()

    def give_back(self) -> bool:
        """Give back what is free, unless that was just done; whether it was done now."""
        if self._trim is None or monotonic() < self._last + _PAUSE:
            return False
        self._trim(ctypes.c_size_t(0))
        self._last = monotonic()
        return True
