"""A thread pool whose long calls yield the cores to every other thread. In: calls. Out: their futures.

Problem. Beside a thread that computes for a second, even at low priority, each step of the model takes twice as long.
The model's threads sleep and wake hundreds of times in a step, and Linux lets a running thread of low priority finish
its time slice before it schedules the thread that woke. A thread with the policy SCHED_IDLE is preempted at once. But
when other programs keep all cores busy, such a thread gets next to no time, so that even short calls would take
seconds. A thread also cannot leave this policy again.

So a call starts at a low priority. Once it has run for `PATIENCE` seconds, its thread gets the policy SCHED_IDLE, and
is replaced when the call ends. Milliseconds between the tokens of 50 streams of SmolLM2 on two cores, p99, beside the
twenty most costly requests that a search has found: no requests 59 to 95, low priorities 237 to 343, this pool 145 to
301, SCHED_IDLE from the beginning 85 to 218 (but see above).

Cost: a wake-up every 5 ms while a call runs, and a new thread for each long call. On systems other than Linux this is
an ordinary pool.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from time import monotonic, sleep
from typing import Any, Final, ParamSpec, TypeVar

from guided.engine.threads import give_way, give_way_to_all

__all__ = ["PATIENCE", "PolitePool"]

PATIENCE: Final = 0.01  # seconds
_LOOK: Final = 0.005  # seconds between checks of the running calls
_P = ParamSpec("_P")
_T = TypeVar("_T")


class PolitePool(Executor):
    """See the module docstring.

    Args:
        most: threads at once.
        name: of the threads.
    """

    def __init__(self, most: int, name: str) -> None:
        self._free: list[ThreadPoolExecutor | None] = [None] * most  # pools of one thread each; None: not started yet
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._running = set[Future[Any]]()
        self._lock, self._name, self._closed = threading.Lock(), name, False

    def submit(self, call: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Raises RuntimeError after `shutdown`."""
        future = Future[_T]()
        with self._lock:
            if self._closed:
                raise RuntimeError("the pool is closed")
            self._waiting.append((future, lambda: call(*args, **kwargs)))
            self._dispatch()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no further calls; `cancel_futures` drops the queued ones. `wait`: wait for all remaining calls."""
        with self._lock:
            self._closed = True
            dropped = [future for future, _ in self._waiting] if cancel_futures else []
            if cancel_futures:
                self._waiting.clear()
            free, self._free = self._free, []
            left = list(self._running | {future for future, _ in self._waiting})
        for future in dropped:  # not under the lock: this runs the callbacks of the future
            future.cancel()
        for thread in free:
            if thread is not None:
                thread.shutdown(wait)
        if wait:
            wait_for(left)

    def _dispatch(self) -> None:
        """Start queued calls on the free threads. The caller holds the lock."""
        while self._waiting and self._free:
            thread = self._free.pop() or ThreadPoolExecutor(1, self._name, give_way)
            future, call = self._waiting.popleft()
            self._running.add(future)
            thread.submit(self._run, thread, future, call)

    def _run(self, own: ThreadPoolExecutor, future: Future[Any], call: Callable[[], Any]) -> None:
        thread: ThreadPoolExecutor | None = own
        if future.set_running_or_notify_cancel():
            _watch.begin()
            try:
                result = call()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
                del result
            if _watch.end():
                own.shutdown(wait=False)
                thread = None  # the next call gets a new one
        with self._lock:
            self._running.discard(future)
            if self._closed and not self._waiting:
                own.shutdown(wait=False)
            else:
                self._free.append(thread)
                self._dispatch()


class _Watch:
    """Records when each thread began its call, and sets SCHED_IDLE for threads with long calls."""

    def __init__(self) -> None:
        self._since: dict[int, float] = {}  # by thread; infinity: it has SCHED_IDLE
        self._lock, self._any = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Record that the current thread begins a call."""
        with self._lock:
            self._since[threading.get_native_id()] = monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="guided watch", daemon=True)
                self._thread.start()
        self._any.set()

    def end(self) -> bool:
        """Record that the current thread's call has ended. Return whether the thread has SCHED_IDLE by now."""
        with self._lock:
            return self._since.pop(threading.get_native_id()) == float("inf")

    def _look(self) -> None:
        while True:
            self._any.wait()
            sleep(_LOOK)
            with self._lock:
                for thread, since in self._since.items():
                    if monotonic() - since > PATIENCE and give_way_to_all(thread):
                        self._since[thread] = float("inf")
                if not self._since:
                    self._any.clear()


_watch = _Watch()
