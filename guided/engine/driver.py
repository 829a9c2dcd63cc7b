"""Runs the scheduler for callers on several OS threads: a waiting caller runs the next step for all of them.

In: groups of tasks. Out: their outcomes. The engine has no thread of its own. A caller without a new outcome takes the
lock, runs one step of the batch, and passes the outcomes to the callers that own them. A server must not block, so it
runs the steps on a thread (`guided/server/engine_thread.py`).
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

__all__ = ["Driver", "Take"]

_AHEAD: Final = 512  # tasks that a caller has queued or running at once
Take: TypeAlias = Callable[[Task, Outcome], object]
"""Is given each outcome of a task, on the thread that ran the step, and must not block."""


class Driver:
    """Drives one scheduler.

    Attributes:
        lock: held during a step. Any other code that uses the model or its cache must hold it too.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler, self.lock = scheduler, threading.Lock()
        self._takers: dict[Task, Take] = {}

    def add(self, group: Sequence[Task], take: Take) -> None:
        """Queue tasks that have the same prompt; `take` receives their outcomes."""
        with self.lock:
            self._takers |= dict.fromkeys(group, take)
            self._scheduler.add(group)

    def cancel(self, tasks: Iterable[Task]) -> None:
        """Stop tasks; no further outcomes of them are delivered."""
        with self.lock:
            for task in tasks:
                self._scheduler.cancel(task)
                self._takers.pop(task, None)

    def step(self, unless: Callable[[], object] = lambda: False) -> bool:
        """Run one step of the batch and deliver the outcomes; return whether there was anything to do.

        If `unless` is true once the lock is held, another thread has done the work, and no step is run.
        """
        with self.lock:
            if unless() or not self._scheduler:
                return False
            for task, outcome in self._scheduler.step():
                is_last = isinstance(outcome, Exception) or outcome.result is not None
                take = self._takers.pop(task, None) if is_last else self._takers.get(task)
                if take is not None:  # None: the task was cancelled
                    take(task, outcome)
            return True

    def events(self, groups: Iterable[Sequence[Task]]) -> Iterator[tuple[Task, StreamEvent]]:
        """Like `outcomes`, but raise the first error and cancel the remaining tasks."""
        with closing(self.outcomes(groups)) as outcomes:
            for task, outcome in outcomes:
                if isinstance(outcome, Exception):
                    raise outcome
                yield task, outcome

    def outcomes(self, groups: Iterable[Sequence[Task]]) -> Generator[tuple[Task, Outcome], None, None]:
        """Run groups of tasks to completion and yield their outcomes as they arrive, each with its task.

        Groups are taken from the iterable as capacity frees up. Closing the generator early cancels the remaining
        tasks.
        """
        coming, mine = iter(groups), set[Task]()
        arrived = deque[tuple[Task, Outcome]]()
        try:
            while True:
                while len(mine) < _AHEAD and (group := next(coming, None)) is not None:
                    mine.update(group)
                    self.add(group, lambda *outcome: arrived.append(outcome))
                if not mine:
                    return
                self.step(unless=lambda: arrived)
                while arrived:
                    task, outcome = arrived.popleft()
                    if isinstance(outcome, Exception) or outcome.result is not None:
                        mine.discard(task)
                    yield task, outcome
        finally:
            self.cancel(mine)
