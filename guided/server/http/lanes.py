"""Threads that read requests, by the size of their bodies. In: work, and how many bytes it is about. Out: its future.

Problem. To read a body takes time in proportion to its size: JSON, messages, the chat template, tokens. On one thread a
short request would wait until a long one is read, however fast it could be answered itself.

    bytes     up to 32 KiB    128 KiB    512 KiB    2 MiB    8 MiB    more
    thread         0             1          2         3        4        5

So a body waits only for bodies of the same thread, which have at most four times its size, and never for a longer one.
Threads run side by side: all of them together take the cores and Python's lock in turns, and those of long bodies give
way to the model's steps and to short ones (guided/engine/polite_pool.py).

Cost: six threads at most, each begun when it is first needed. Not done: to interrupt a body that is being read. What it
may cost at most is bounded where it is read (bodies.py, requests.py, guided/chat/render_budget.py).
"""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final

from guided.engine.polite_pool import PolitePool

__all__ = ["SMALL", "Lanes"]

SMALL: Final = 32 << 10
"""Bytes of a body of the first lane."""
_LANES: Final = 6


class Lanes:
    """See the head."""

    def __init__(self) -> None:
        first: Executor = ThreadPoolExecutor(1, "guided reader")
        self._threads = [first, *(PolitePool(1, f"guided reader {lane}") for lane in range(1, _LANES))]

    def of(self, size: int) -> Executor:
        """The thread for what is about so many bytes."""
        lane = (max(0, size - 1) // SMALL).bit_length() + 1 >> 1
        return self._threads[min(lane, _LANES - 1)]

    def close(self) -> None:
        """Begin nothing more."""
        for thread in self._threads:
            thread.shutdown(wait=False, cancel_futures=True)
