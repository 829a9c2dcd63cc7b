"""Threads that read requests, chosen by the size of the body. In: a size in bytes. Out: the executor for this size.

Problem. Reading a body (JSON, messages, chat template, tokens) takes time in proportion to its size. On a single
thread, a short request would wait for a long one.

    bytes     up to 32 KiB    128 KiB    512 KiB    2 MiB    8 MiB    more
    thread         0             1          2         3        4        5

So a body waits only for bodies in its own range. Within a range, sizes differ by at most a factor of four, except in
the first and the last range. The threads share the cores and the GIL. The threads of long bodies yield to the model's
steps and to short bodies (guided/engine/polite_pool.py).

Cost: at most six threads, each started on first use. Not done: interrupting a thread that reads a body. The code that
reads bodies bounds the cost (body_limits.py, requests.py, guided/chat/render_budget.py).
"""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final

from guided.engine.polite_pool import PolitePool

__all__ = ["MAX_SMALL_BODY_BYTES", "BodyThreads"]

MAX_SMALL_BODY_BYTES: Final = 32 << 10
"""The largest body of the first lane, in bytes."""
_LANES: Final = 6


class BodyThreads:
    """See the module docstring."""

    def __init__(self) -> None:
        small_bodies: Executor = ThreadPoolExecutor(1, "guided reader")
        self._executors = [small_bodies, *(PolitePool(1, f"guided reader {lane}") for lane in range(1, _LANES))]

    def executor_for(self, size: int) -> Executor:
        """The executor for work of this size, in bytes."""
        lane = (max(0, size - 1) // MAX_SMALL_BODY_BYTES).bit_length() + 1 >> 1
        return self._executors[min(lane, _LANES - 1)]

    def close(self) -> None:
        """Start no further work."""
        for executor in self._executors:
            executor.shutdown(wait=False, cancel_futures=True)
