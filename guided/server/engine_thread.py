"""The thread that runs an engine's steps for a server. In: requests from an event loop. Out: outcomes, on that loop.

Problem. A step takes tens of milliseconds and holds the engine's lock. An event loop must not wait for it. So handlers
append commands, which begin or cancel tasks, to a list. The lock of this list is held only for the append. In each
round, the thread takes the whole list, runs one step, and passes all outcomes to the loop in one call.

    event loop    submit -> [begin, begin, cancel]                              queues of the streams
                                     |                                                  ^
    engine thread                    +-> round: take the list, one step, outcomes ------+  call_soon_threadsafe

Tokenization and compilation run on separate threads (preparing.py), not on the loop.

Cost: a round with nothing to do blocks until a command is appended; there is no polling.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from time import perf_counter
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, TypeVar

from guided.engine import Engine
from guided.engine.driver import OutcomeCallback
from guided.engine.request import Request
from guided.engine.result import Result, StreamEvent
from guided.engine.stepper import Stepper
from guided.engine.task import Outcome, Task
from guided.engine.threads import SWITCH_SECONDS
from guided.errors import GuidedError
from guided.server.freed_memory import FreedMemory
from guided.server.preparing import Preparation, RequestPreparer

__all__ = ["EngineStopped", "EngineThread", "Observer", "Stream"]

_Command: TypeAlias = Callable[[], None]
_TimedOutcome: TypeAlias = "tuple[Task, Outcome, float]"  # the float: the arrival time, by perf_counter
_Result = TypeVar("_Result")
_STOP_TIMEOUT: Final = 30.0  # seconds that `stop` waits for the current step


class EngineStopped(GuidedError):
    """The engine no longer runs: it was stopped, or one of its steps failed."""


class Stream:
    """The outcomes of one request, on the event loop. A reader that does not read to the end must call `cancel`.

    Attributes:
        tasks: the samples of the request.
        preparation: what the request waits for before it can enter the queue of the batch; None: not set yet.
        prompt_tokens: the number of prompt tokens; 0: not counted yet.
        submit_time: when the request was submitted, by `perf_counter`.
        first_token_time: when its first token arrived; None: no token yet.
        last_token_times: when the most recent token of each sample arrived.
        prepared_time: when its prompt was read and its specification was compiled or refused; None: not yet.
        results: results of the samples that have ended.
        error: why the request failed; None: it has not failed.
        on_end: callbacks, called once all samples have ended.
    """

    def __init__(self, thread: EngineThread) -> None:
        self._thread = thread
        self.tasks: tuple[Task, ...] = ()
        self.preparation: Preparation[Any] | None = None
        self.prompt_tokens, self.submit_time = 0, perf_counter()
        self.first_token_time: float | None = None
        self.last_token_times = dict[Task, float]()
        self.prepared_time: float | None = None
        self.results = list[Result]()
        self.error: Exception | None = None
        self.on_end = list[Callable[[], object]]()
        self._unfinished_tasks = dict[Task, int]()  # samples not yet read to the end, with their numbers
        self._outcomes = deque[tuple[Task | None, Outcome]]()
        # Set when an outcome arrives. Streams that are read together share one Event.
        self.outcome_arrived = asyncio.Event()

    def begin(self, tasks: list[Task]) -> None:
        """Set the samples of the request."""
        self.tasks, self._unfinished_tasks = tuple(tasks), {task: number for number, task in enumerate(tasks)}

    @property
    def is_waiting(self) -> bool:
        """Whether no sample has entered the batch yet."""
        return not any(task.admission_time for task in self.tasks)

    @property
    def ttft(self) -> float | None:
        """Seconds from submission to the first token; None: no token yet."""
        return None if self.first_token_time is None else self.first_token_time - self.submit_time

    async def wait_for_first_event(self) -> None:
        """Wait for the first outcome. If it is an error, raise the error that iteration raises."""
        await self._wait()
        if isinstance(error := self._outcomes[0][1], Exception):
            raise error

    async def __aiter__(self) -> AsyncIterator[tuple[int, StreamEvent]]:
        """The events as they arrive, each with the number of its sample.

        Raises:
            Exception: the error of a sample that failed (see `Engine.generate`), or the error passed to `fail`.
            EngineStopped: the engine no longer runs.
        """
        while self.unread_samples:
            await self._wait()
            for item in self.take_events():
                yield item

    @property
    def unread_samples(self) -> int:
        """The number of samples not yet read to the end."""
        return len(self._unfinished_tasks)

    def take_events(self) -> Iterator[tuple[int, StreamEvent]]:
        """The events that have arrived but were not read yet, without waiting. Raises the same errors as iteration."""
        while self._outcomes:
            task, outcome = self._outcomes.popleft()
            if isinstance(outcome, Exception):
                raise outcome
            assert task is not None
            number = self._unfinished_tasks[task]
            if outcome.result is not None:
                del self._unfinished_tasks[task]
            yield number, outcome

    async def _wait(self) -> None:
        while not self._outcomes:
            self.outcome_arrived.clear()
            await self.outcome_arrived.wait()

    def cancel(self) -> None:
        """Stop the unfinished samples within one step. Does nothing if all have ended."""
        tasks, self._unfinished_tasks = list(self._unfinished_tasks), {}
        self._outcomes.clear()
        self._thread.cancel(tasks)

    def fail(self, error: Exception) -> None:
        """Stop the unfinished samples within one step. The reader gets the error."""
        self.put(None, error)
        self._thread.cancel(list(self._unfinished_tasks))

    def record(self, task: Task, outcome: Outcome, now: float) -> bool:
        """Record the time of an outcome, and its result or error. Return whether the sample has ended."""
        if isinstance(outcome, Exception):
            self.error = self.error or outcome
            return True
        if outcome.tokens:
            self.first_token_time = now if self.first_token_time is None else self.first_token_time
            self.last_token_times[task] = now
        if outcome.result is not None:
            self.results.append(outcome.result)
        return outcome.result is not None

    def put(self, task: Task | None, outcome: Outcome) -> None:
        """Queue an outcome. An outcome without a task ends the whole request."""
        if task is None and isinstance(outcome, Exception):
            self.error = outcome
        self._outcomes.append((task, outcome))
        self.outcome_arrived.set()


Observer: TypeAlias = Callable[[Stream, Task, Outcome, float], object]
"""Called with a stream, one of its tasks, an outcome of this task, and the time by `perf_counter`."""


class EngineThread:
    """See the module docstring. A context manager: the thread runs between enter and exit.

    Attributes:
        engine: the engine.
        preparer: prepares requests for the engine.
        open_streams: streams with unfinished samples; used by the loop only.
        observers: called on the loop with each outcome, before its stream gets it.
        steps: the number of engine steps so far.
        failure: the error that stopped the engine; None while it runs.
        is_draining: whether the server is shutting down and refuses new requests.
        cut_off_requests: the number of requests that the shutdown cut off.
    """

    def __init__(self, engine: Engine, preparer: RequestPreparer | None = None) -> None:
        self.engine, self.steps = engine, 0
        engine.yield_in_background()
        self.preparer = preparer or RequestPreparer(engine)
        self.open_streams = set[Stream]()
        self.observers = list[Observer]()
        self.is_draining, self.cut_off_requests = False, 0
        self.failure: BaseException | None = None
        self._lock, self._commands = threading.Lock(), list[_Command]()
        self._wake_event, self._is_stopping = threading.Event(), False
        self._streams = dict[Task, Stream]()  # streams of unfinished tasks; used by the loop only
        self._undelivered_outcomes, self._delivery_is_due = list[_TimedOutcome](), False  # outcomes for the loop
        self._freed_memory = FreedMemory()
        self._pending_calls = set[Future[Any]]()  # calls that have no result yet; used by the loop only
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Self:
        self._switch_seconds = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="guided engine", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        sys.setswitchinterval(self._switch_seconds)

    @property
    def is_alive(self) -> bool:
        """Whether the engine's thread runs and is not stopping."""
        return self._thread is not None and self._thread.is_alive() and not self._is_stopping

    @property
    def pending_commands(self) -> int:
        """The number of commands that the thread has not taken yet: `pending_submit` in /health."""
        return len(self._commands)

    @property
    def request_count(self) -> int:
        """The number of requests with unfinished samples."""
        return len(self.open_streams)

    def submit(
        self,
        request: Request,
        priority: int = 0,
        *,
        owner: str = "",
        admit: Callable[[Stream, int], object] = lambda stream, tokens: None,
        interval: int = 1,
        size: int = 0,
    ) -> Stream:
        """Begin a request. Must be called on the event loop.

        Args:
            request: the request.
            priority: requests with a lower number run first.
            owner, admit, size: see `RequestPreparer.make_tasks`; `admit` also gets the stream.
            interval: engine steps between two deliveries to the stream. The first token and the end are delivered at
                once. 0: only the end must be delivered.

        Raises:
            EngineStopped: the engine no longer runs.
        """
        if not self.is_alive:
            raise EngineStopped(f"the engine has stopped: {self.failure}" if self.failure else "the engine has stopped")
        stream = Stream(self)
        tasks = self.preparer.make_tasks(request, owner, lambda tokens: admit(stream, tokens), size)
        stream.begin(tasks)
        self.open_streams.add(stream)
        if isinstance(future := tasks[0].future, Preparation):
            stream.preparation = future
            # reports a refusal at once, not after the next step
            future.add_done_callback(lambda future: self._end_preparing(stream, future))
        for task in tasks:
            task.priority = priority
            self._streams[task] = stream
        self._enqueue(lambda: self.engine.driver.add(tasks, self._make_outcome_callback(interval)))
        return stream

    async def call(self, work: Callable[[], _Result]) -> _Result:
        """Run `work` on the engine's thread, between two steps of the model, and return its result.

        Raises:
            Exception: whatever the work raises.
            EngineStopped: the engine no longer runs.
        """
        if not self.is_alive:
            raise EngineStopped("the engine has stopped")
        future = Future[_Result]()
        self._pending_calls.add(future)

        def run_call() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except Exception as error:
                    future.set_exception(error)

        self._enqueue(run_call)
        try:
            return await asyncio.wrap_future(future)
        finally:
            self._pending_calls.discard(future)

    def stop(self) -> None:
        """End the thread after its current step. Open streams end with `EngineStopped`."""
        self._is_stopping = True
        self._wake_event.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_STOP_TIMEOUT)
        self.preparer.close()
        self.cut_off_requests += self.request_count
        self._end_streams(EngineStopped("the engine has stopped"))

    def cancel(self, tasks: list[Task]) -> None:
        """Stop tasks. Tasks that have ended are ignored. Must be called on the event loop."""
        if running_tasks := [task for task in tasks if task in self._streams]:
            self._enqueue(lambda: self.engine.driver.cancel(running_tasks))
            for task in running_tasks:
                self._close(task)

    def _end_preparing(self, stream: Stream, future: Future[list[Stepper]]) -> None:
        """Record that a request was prepared. If preparing failed, pass the error to its stream. Runs on any thread."""
        stream.prepared_time = perf_counter()
        error = None if future.cancelled() else future.exception()
        if isinstance(error, Exception):
            self._call_on_loop(lambda: stream.fail(error))

    def _enqueue(self, command: _Command) -> None:
        with self._lock:
            self._commands.append(command)
        self._wake_event.set()

    # ---- on the engine's thread
    def _run(self) -> None:
        try:
            while not self._is_stopping:
                self._run_once()
        except (
            BaseException
        ) as error:  # the scheduler catches errors of individual requests, so this one ends the engine
            self.failure, self._is_stopping = error, True
            error_for_streams = EngineStopped(f"the engine has stopped: {error}")
            self._call_on_loop(lambda: self._end_streams(error_for_streams))

    def _run_once(self) -> None:
        self._wake_event.clear()
        with self._lock:
            commands, self._commands = self._commands, []
        for command in commands:
            command()
        if self.engine.driver.step():
            self.steps += 1
            if self._delivery_is_due:
                outcomes, self._undelivered_outcomes, self._delivery_is_due = self._undelivered_outcomes, [], False
                self._call_on_loop(lambda: self._deliver(outcomes))
        elif not commands:
            self._freed_memory.release()
            self._wake_event.wait()

    def _make_outcome_callback(self, interval: int) -> OutcomeCallback:
        """A callback for the outcomes of a request. It decides when the outcomes so far are delivered.

        The outcomes of all requests are delivered together, since each delivery costs the loop a call and a thread
        switch. An answer that is not streamed is cheap, because it causes a delivery only at its end.
        """
        has_begun = False

        def callback(task: Task, outcome: Outcome) -> None:
            nonlocal has_begun
            self._undelivered_outcomes.append((task, outcome, perf_counter()))
            if isinstance(outcome, Exception) or outcome.result is not None:
                self._delivery_is_due = True
            elif interval and (not has_begun or self.steps % interval == 0):
                self._delivery_is_due = has_begun = True

        return callback

    def _call_on_loop(self, callback: Callable[[], None]) -> None:
        assert self._loop is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback)

    # ---- on the loop
    def _deliver(self, outcomes: list[_TimedOutcome]) -> None:
        for task, outcome, now in outcomes:
            stream = self._streams.get(task)
            if stream is not None:
                for observe in self.observers:
                    observe(stream, task, outcome, now)
                is_last = stream.record(task, outcome, now)
                stream.put(task, outcome)
                if is_last:
                    self._close(task)

    def _close(self, task: Task) -> None:
        """Forget a task that has ended."""
        stream = self._streams.pop(task)
        if not any(other in self._streams for other in stream.tasks):
            self.open_streams.discard(stream)
            for callback in stream.on_end:
                callback()

    def _end_streams(self, error: Exception) -> None:
        for call in list(self._pending_calls):
            if not call.done():
                call.set_exception(error)
        for stream in list(self.open_streams):
            stream.put(None, error)
        for task in list(self._streams):
            self._close(task)
