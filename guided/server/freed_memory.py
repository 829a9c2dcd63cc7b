"""Returns freed memory to the system while a server is idle.

A compilation may briefly need hundreds of megabytes. GNU malloc does not release freed memory below a block that is
still in use, such as a compiled grammar. So a process would grow with every expensive specification although its live
memory stays the same. `malloc_trim` also releases whole pages in the middle of the heap, but it holds the lock of each
arena meanwhile. On busy cores, a low-priority thread that called it could delay all others. So the engine's thread
calls it, and only when there is no request. Independently of the server, the core also calls it after a compilation of
more than four million steps (`matching/compile.cpp`).

Cost: 1 to 4 ms, in the worst case 16 ms, at most once every two seconds. Nothing is released while requests follow each
other without a pause, or with an allocator other than GNU malloc.
"""

from __future__ import annotations

import ctypes
import sys
from time import monotonic
from typing import Final

__all__ = ["FreedMemory"]

_PAUSE: Final = 2.0  # seconds between two calls


class FreedMemory:
    """See the module docstring."""

    def __init__(self) -> None:
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
        self._last_release = monotonic()

    def release(self) -> bool:
        """Release freed memory, at most once every `_PAUSE` seconds. Return whether this call released it."""
        if self._trim is None or monotonic() < self._last_release + _PAUSE:
            return False
        self._trim(ctypes.c_size_t(0))
        self._last_release = monotonic()
        return True
