"""Runs the scheduler for coroutines: a thread runs its steps while any coroutine waits.

In: groups of tasks. Out: their outcomes, delivered to the event loop of the coroutine that waits for them. One engine
can serve several event loops and, at the same time, threads that run steps themselves (driver.py).

The event loop never waits for a step. Adding and cancelling tasks needs the lock that a step holds, so the thread
executes both as commands between two steps. The thread starts with the first group and ends when no task is left. If a
step raises an exception, all open tasks of coroutines end with this exception.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress

from guided.engine.driver import Driver, OutcomeCallback
from guided.engine.result import StreamEvent
from guided.engine.task import Outcome, Task

__all__ = ["AsyncDriver"]


class AsyncDriver:
    """Drives the scheduler of `driver` for coroutines."""

    def __init__(self, driver: Driver) -> None:
        self._driver, self._lock = driver, threading.Lock()
        self._commands = list[Callable[[], None]]()
        self._open_tasks = dict[Task, OutcomeCallback]()  # tasks whose last outcome has not been delivered
        self._is_running = False

    async def events(self, groups: Sequence[Sequence[Task]]) -> AsyncGenerator[tuple[Task, StreamEvent], None]:
        """Like `outcomes`, but raise the first error and cancel the remaining tasks."""
        async with aclosing(self.outcomes(groups)) as outcomes:
            async for task, outcome in outcomes:
                if isinstance(outcome, Exception):
                    raise outcome
                yield task, outcome

    async def outcomes(self, groups: Sequence[Sequence[Task]]) -> AsyncGenerator[tuple[Task, Outcome], None]:
        """Run groups of tasks to completion. Yield their outcomes as they arrive, each with its task.

        If the coroutine is cancelled, or the generator closed, the remaining tasks are cancelled.
        """
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[tuple[Task, Outcome]]()
        remaining = {task for group in groups for task in group}

        def deliver(task: Task, outcome: Outcome) -> None:
            if _is_last(outcome):
                self._open_tasks.pop(task, None)
            try:
                loop.call_soon_threadsafe(queue.put_nowait, (task, outcome))
            except RuntimeError:  # the event loop is closed, so nobody waits for the outcome
                self._cancel([task])

        def add_tasks() -> None:
            for group in groups:
                self._open_tasks |= dict.fromkeys(group, deliver)
                self._driver.add(group, deliver)

        self._queue_command(add_tasks)
        try:
            while remaining:
                task, outcome = await queue.get()
                if _is_last(outcome):
                    remaining.discard(task)
                yield task, outcome
        finally:
            if remaining:
                self._cancel(list(remaining))

    def _cancel(self, tasks: Sequence[Task]) -> None:
        def cancel() -> None:
            for task in tasks:
                self._open_tasks.pop(task, None)
            self._driver.cancel(tasks)

        self._queue_command(cancel)

    def _queue_command(self, command: Callable[[], None]) -> None:
        """Queue a command for the thread. Start the thread if it is not running."""
        with self._lock:
            self._commands.append(command)
            if not self._is_running:
                threading.Thread(target=self._run, name="guided steps", daemon=True).start()
                self._is_running = True

    def _run(self) -> None:
        while True:
            with self._lock:
                commands, self._commands = self._commands, []
                if not commands and not self._open_tasks:
                    self._is_running = False
                    return
            try:
                for command in commands:
                    command()
                self._driver.step()
            except Exception as error:  # a bug, or out of memory: coroutines must not wait forever
                self._fail_all(error)

    def _fail_all(self, error: Exception) -> None:
        """End all open tasks with an error."""
        tasks = list(self._open_tasks.items())
        with suppress(Exception):
            self._driver.cancel([task for task, _ in tasks])
        for task, deliver in tasks:
            deliver(task, error)


def _is_last(outcome: Outcome) -> bool:
    return isinstance(outcome, Exception) or outcome.result is not None
