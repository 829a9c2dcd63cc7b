"""Runs the scheduler for callers on several OS threads: one waiting caller runs the next step for all.

In: groups of tasks. Out: their outcomes. The engine has no thread of its own. A caller without a new outcome takes the
lock, runs one step of the batch, and passes the outcomes to the callers that own them. Coroutines and servers must not
block, so threads run the steps for them (async_driver.py, `guided/server/engine_thread.py`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Final, TypeAlias

from guided.engine.result import StreamEvent
from guided.engine.scheduler import Scheduler
from guided.engine.task import Outcome, Task

__all__ = ["Driver", "OutcomeCallback"]

_MAX_OWN_TASKS: Final = 512  # the maximum number of queued and running tasks per caller
OutcomeCallback: TypeAlias = Callable[[Task, Outcome], object]
"""Called with each outcome of a task, on the thread that ran the step. It must not block."""


class Driver:
    """Drives one scheduler.

    Attributes:
        lock: held during a step. Any other code that uses the model or its cache must hold it too.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler, self.lock = scheduler, threading.Lock()
        self._callbacks: dict[Task, OutcomeCallback] = {}

    def add(self, group: Sequence[Task], callback: OutcomeCallback) -> None:
        """Queue tasks that have the same prompt; `callback` receives their outcomes."""
        with self.lock:
            self._callbacks |= dict.fromkeys(group, callback)
            self._scheduler.add(group)

    def cancel(self, tasks: Iterable[Task]) -> None:
        """Stop tasks. Their further outcomes are not delivered."""
        with self.lock:
            for task in tasks:
                self._scheduler.cancel(task)
                self._callbacks.pop(task, None)

    def step(self, should_skip: Callable[[], object] = lambda: False) -> bool:
        """Run one step of the batch and deliver the outcomes; return whether a step was run.

        No step is run if there are no tasks, or if `should_skip()` is true once the lock is held: then another thread
        has already delivered outcomes.
        """
        with self.lock:
            if should_skip() or not self._scheduler:
                return False
            for task, outcome in self._scheduler.step():
                is_last = isinstance(outcome, Exception) or outcome.result is not None
                callback = self._callbacks.pop(task, None) if is_last else self._callbacks.get(task)
                if callback is not None:  # None: the task was cancelled
                    callback(task, outcome)
            return True

    def events(self, groups: Iterable[Sequence[Task]]) -> Iterator[tuple[Task, StreamEvent]]:
        """Like `outcomes`, but raise the first error and cancel the remaining tasks."""
        with closing(self.outcomes(groups)) as outcomes:
            for task, outcome in outcomes:
                if isinstance(outcome, Exception):
                    raise outcome
                yield task, outcome

    def outcomes(self, groups: Iterable[Sequence[Task]]) -> Generator[tuple[Task, Outcome], None, None]:
        """Run groups of tasks to completion. Yield their outcomes as they arrive, each with its task.

        Groups are taken from the iterable as earlier tasks end. Closing the generator early cancels the remaining
        tasks.
        """
        remaining_groups, own_tasks = iter(groups), set[Task]()
        outcomes = deque[tuple[Task, Outcome]]()
        try:
            while True:
                while len(own_tasks) < _MAX_OWN_TASKS and (group := next(remaining_groups, None)) is not None:
                    own_tasks.update(group)
                    self.add(group, lambda *outcome: outcomes.append(outcome))
                if not own_tasks:
                    return
                self.step(should_skip=lambda: outcomes)
                while outcomes:
                    task, outcome = outcomes.popleft()
                    if isinstance(outcome, Exception) or outcome.result is not None:
                        own_tasks.discard(task)
                    yield task, outcome
        finally:
            self.cancel(own_tasks)
