"""Threads that read requests, by the size of their bodies. In: work and its size in bytes. Out: its future.

Problem. Reading a body (JSON, messages, chat template, tokens) takes time in proportion to its size. On a single
thread, a short request would wait for a long one.

    bytes     up to 32 KiB    128 KiB    512 KiB    2 MiB    8 MiB    more
    thread         0             1          2         3        4        5

So a body waits only for bodies of its own range. Within a range, sizes differ by at most a factor of four, except in
the first and the last one. The threads share the cores and the GIL. The threads of long bodies yield to the model's
steps and to short bodies (guided/engine/polite_pool.py).

Cost: at most six threads, each started on first use. Not done: interrupting a body that is being read. Its cost is
limited where it is read (body_limits.py, requests.py, guided/chat/render_budget.py).
"""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final

from guided.engine.polite_pool import PolitePool

__all__ = ["SMALL_BYTES", "BodyThreads"]

SMALL_BYTES: Final = 32 << 10
"""The largest body of the first lane, in bytes."""
_LANES: Final = 6


class BodyThreads:
    """See the module docstring."""

    def __init__(self) -> None:
        first: Executor = ThreadPoolExecutor(1, "guided reader")
        self._threads = [first, *(PolitePool(1, f"guided reader {lane}") for lane in range(1, _LANES))]

    def thread_for(self, size: int) -> Executor:
        """The thread for work of this size, in bytes."""
        lane = (max(0, size - 1) // SMALL_BYTES).bit_length() + 1 >> 1
        return self._threads[min(lane, _LANES - 1)]

    def close(self) -> None:
        """Start no further work."""
        for thread in self._threads:
            thread.shutdown(wait=False, cancel_futures=True)
