"""A thread pool whose long calls yield the cores to every other thread. In: calls. Out: their futures.

Problem: while another thread computes for a second, even at low priority, each step of the model takes twice as long.
The model's threads sleep and wake hundreds of times per step, and Linux lets a running thread of low priority finish
its time slice before it schedules the thread that woke. A thread with the policy SCHED_IDLE is preempted at once. But
when other programs keep all cores busy, such a thread gets almost no time, so even short calls would take seconds. A
thread also cannot leave this policy again.

So a call starts at a low priority. Once it has run for `LONG_CALL` seconds, its thread gets the policy SCHED_IDLE, and
is replaced when the call ends. Time between tokens (p99, ms) in 50 streams of SmolLM2 on two cores, while the server
also ran the twenty most expensive requests that a search had found: low priority 237 to 343, this pool 145 to 301,
SCHED_IDLE from the beginning 85 to 218 (but short calls may then take seconds). Without these requests: 59 to 95.

Only streams need this. If all answers of a batch are read together at the end, the caller waits for the long calls too,
and under SCHED_IDLE they would hardly run on a busy machine. So the calls of a pool with `yields = False` keep their
low priority.

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

from guided.engine.threads import lower_priority, set_idle_policy

__all__ = ["LONG_CALL", "PolitePool"]

LONG_CALL: Final = 0.01  # seconds after which a call counts as long
_CHECK_INTERVAL: Final = 0.005  # seconds between checks of the running calls
_P = ParamSpec("_P")
_T = TypeVar("_T")


class PolitePool(Executor):
    """See the module docstring.

    Args:
        size: the maximum number of threads.
        name: the name of the threads.
        yields: whether long calls get the policy SCHED_IDLE. The attribute may be changed; it applies to later calls.
    """

    def __init__(self, size: int, name: str, *, yields: bool = True) -> None:
        self.yields = yields
        # Executors of one thread each; None: the thread has not been started.
        self._free_threads: list[ThreadPoolExecutor | None] = [None] * size
        self._queued_calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._running_futures = set[Future[Any]]()
        self._lock, self._name, self._is_closed = threading.Lock(), name, False

    def submit(self, call: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Queue a call and return its future. Raises RuntimeError after `shutdown`."""
        future = Future[_T]()
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the pool is closed")
            self._queued_calls.append((future, lambda: call(*args, **kwargs)))
            self._dispatch()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no further calls. `cancel_futures`: cancel the queued calls. `wait`: wait for all remaining calls."""
        with self._lock:
            self._is_closed = True
            cancelled = [future for future, _ in self._queued_calls] if cancel_futures else []
            if cancel_futures:
                self._queued_calls.clear()
            free_threads, self._free_threads = self._free_threads, []
            open_futures = list(self._running_futures | {future for future, _ in self._queued_calls})
        for future in cancelled:  # without the lock, since this runs the future's callbacks
            future.cancel()
        for thread in free_threads:
            if thread is not None:
                thread.shutdown(wait)
        if wait:
            wait_for(open_futures)

    def _dispatch(self) -> None:
        """Start queued calls on the free threads. The caller holds the lock."""
        while self._queued_calls and self._free_threads:
            thread = self._free_threads.pop() or ThreadPoolExecutor(1, self._name, lower_priority)
            future, call = self._queued_calls.popleft()
            self._running_futures.add(future)
            thread.submit(self._run, thread, future, call)

    def _run(self, executor: ThreadPoolExecutor, future: Future[Any], call: Callable[[], Any]) -> None:
        reusable: ThreadPoolExecutor | None = executor
        if future.set_running_or_notify_cancel():
            is_watched = self.yields
            if is_watched:
                _call_watch.begin()
            try:
                result = call()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
                del result
            if is_watched and _call_watch.end():
                executor.shutdown(wait=False)
                reusable = None  # the next call gets a new thread
        with self._lock:
            self._running_futures.discard(future)
            if self._is_closed and not self._queued_calls:
                executor.shutdown(wait=False)
            else:
                self._free_threads.append(reusable)
                self._dispatch()


class _CallWatch:
    """Records when each thread began its call, and sets the policy SCHED_IDLE for threads with long calls."""

    def __init__(self) -> None:
        self._begin_times: dict[int, float] = {}  # by thread id; infinity: the thread has SCHED_IDLE
        self._lock, self._has_calls = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Record that the current thread begins a call."""
        with self._lock:
            self._begin_times[threading.get_native_id()] = monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._demote_long_calls, name="guided watch", daemon=True)
                self._thread.start()
        self._has_calls.set()

    def end(self) -> bool:
        """Record that the current thread's call has ended. Return whether the thread now has SCHED_IDLE."""
        with self._lock:
            return self._begin_times.pop(threading.get_native_id()) == float("inf")

    def _demote_long_calls(self) -> None:
        while True:
            self._has_calls.wait()
            sleep(_CHECK_INTERVAL)
            with self._lock:
                for thread_id, begin in self._begin_times.items():
                    if monotonic() - begin > LONG_CALL and set_idle_policy(thread_id):
                        self._begin_times[thread_id] = float("inf")
                if not self._begin_times:
                    self._has_calls.clear()


_call_watch = _CallWatch()
