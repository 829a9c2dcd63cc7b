"""A lane of compilations: a few threads, a time limit for each compilation, and a queue that is fair to all keys.

In: compilations of requests, each with the key of its client. Out: they run on the threads of the lane. Keys take turns
in the queue, so a client with many requests delays the other keys by one compilation each.

Requests of one key: a lane without a maximum length runs the newest first. If more specifications arrive than it can
compile, a new one still begins at once, and old ones get the queue timeout. In order of arrival, all of them would get
it. A lane with a maximum length runs its requests in order of arrival.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import TypeAlias

from guided.engine.polite_pool import PolitePool

__all__ = ["CompileLane"]

_Call: TypeAlias = Callable[[], object]


class CompileLane:
    """See the module docstring.

    Args:
        seconds: the time limit of one compilation.
        threads: the number of threads.
        yields: whether long calls yield to every other thread (`PolitePool`).
        max_requests: the maximum number of requests, waiting or running; None: no limit.
        max_per_key: the same for one key; None: no limit.

    Attributes:
        seconds: as given.
        pool: the threads.
    """

    def __init__(
        self,
        seconds: float,
        threads: int,
        max_requests: int | None = None,
        max_per_key: int | None = None,
        *,
        yields: bool = True,
    ) -> None:
        self.seconds, self.pool = seconds, PolitePool(threads, "guided compiler", yields=yields)
        self._max_requests, self._max_per_key = max_requests, max_per_key
        self._lock, self._counts = threading.Lock(), Counter[str]()
        self._queues = OrderedDict[str, deque[_Call]]()  # by key, the one whose turn it is first

    @property
    def request_count(self) -> int:
        """The number of requests in the lane, waiting or running."""
        return self._counts.total()

    def submit(self, owner: str, call: _Call) -> bool:
        """Queue a call. Return False if the lane is full.

        Args:
            owner: identifies the client's key; "": the client has no key, so no limit per key applies.
            call: must not raise.
        """
        with self._lock:
            is_full = self._max_requests is not None and self.request_count >= self._max_requests
            if is_full or (owner and self._max_per_key is not None and self._counts[owner] >= self._max_per_key):
                return False
            self._counts[owner] += 1
            self._queues.setdefault(owner, deque()).append(call)
        self.pool.submit(self._run_next)
        return True

    def close(self) -> None:
        """Start no further calls."""
        self.pool.shutdown(wait=False, cancel_futures=True)

    def _run_next(self) -> None:
        with self._lock:
            owner, calls = self._queues.popitem(last=False)
            call = calls.pop() if self._max_requests is None else calls.popleft()
            if calls:
                self._queues[owner] = calls  # behind the other keys
        try:
            call()
        finally:
            with self._lock:
                self._counts[owner] -= 1
