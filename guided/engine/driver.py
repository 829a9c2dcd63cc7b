"""Runs the scheduler for callers on several OS threads: whoever waits for an outcome runs the next step for all.

In: groups of tasks. Out: their outcomes. There is no thread of the engine's own: a caller that finds no outcome of its
own takes the lock, runs one step of the batch, and stores the outcomes of the others for them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Final

from guided.engine.result import StreamEvent
from guided.engine.scheduler import Outcome, Scheduler, Task

__all__ = ["Driver"]

_AHEAD: Final = 512  # tasks that a caller has queued or running at once


class Driver:
    """Drives one scheduler.

    Attributes:
        lock: held during a step; whoever uses the model or its cache otherwise must hold it.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler, self.lock = scheduler, threading.Lock()
        self._outcomes: dict[Task, deque[Outcome]] = {}

    def events(self, groups: Iterable[Sequence[Task]]) -> Iterator[tuple[Task, StreamEvent]]:
        """As `outcomes`, but the first error is raised; the tasks that are left are then cancelled."""
        with closing(self.outcomes(groups)) as outcomes:
            for task, outcome in outcomes:
                if isinstance(outcome, Exception):
                    raise outcome
                yield task, outcome

    def outcomes(self, groups: Iterable[Sequence[Task]]) -> Generator[tuple[Task, Outcome], None, None]:
        """Run groups of tasks to their ends: their outcomes, each with its task, in the order in which they come.

        The groups are taken from the iterable as there is room. When the generator is closed early, the tasks that are
        left are cancelled.
        """
        coming, mine = iter(groups), dict[Task, deque[Outcome]]()
        try:
            while True:
                while len(mine) < _AHEAD and (group := next(coming, None)) is not None:
                    fresh = {task: deque[Outcome]() for task in group}
                    mine |= fresh
                    with self.lock:
                        self._outcomes |= fresh
                        self._scheduler.add(group)
                if not mine:
                    return
                with self.lock:
                    if not any(mine.values()):
                        for task, outcome in self._scheduler.step():
                            if task in self._outcomes:  # else nobody waits for it any more
                                self._outcomes[task].append(outcome)
                for task, outcomes in list(mine.items()):
                    while outcomes:
                        outcome = outcomes.popleft()
                        if isinstance(outcome, Exception) or outcome.result is not None:
                            self._forget([task])
                            del mine[task]
                        yield task, outcome
        finally:
            self._forget(mine)

    def _forget(self, tasks: Iterable[Task]) -> None:
        with self.lock:
            for task in tasks:
                self._scheduler.cancel(task)
                del self._outcomes[task]
