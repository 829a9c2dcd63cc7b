"""The one thread that runs an engine's steps for a server. In: requests, from an event loop. Out: outcomes, there.

Problem. A step takes tens of milliseconds and holds the engine's lock, and an event loop must not wait for it. So what
a handler wants (begin these tasks, cancel those) is noted in a list with a lock of its own, which is held for an append
alone. The thread takes the whole list at the top of each round, runs one step, and hands all that came of it to the
loop in one call.

    event loop    submit -> [begin, begin, cancel]                              queues of the streams
                                     |                                                  ^
    engine thread                    +-> round: take the list, one step, outcomes ------+  call_soon_threadsafe

Texts become tokens and specifications grammars on threads of their own (preparing.py), not on the loop.

Cost: a round that has nothing to do waits until something is noted; no time is spent on polling.
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
from guided.engine.driver import Take
from guided.engine.request import Request
from guided.engine.result import Result, StreamEvent
from guided.engine.stepper import Stepper
from guided.engine.task import Outcome, Task
from guided.engine.threads import SWITCH_SECONDS
from guided.errors import GuidedError
from guided.server.freed_memory import FreedMemory
from guided.server.preparing import Preparing

__all__ = ["EngineStopped", "EngineThread", "Observer", "Stream"]

_Note: TypeAlias = Callable[[], None]
_Arrival: TypeAlias = "tuple[Task, Outcome, float]"  # and when, by perf_counter
_Found = TypeVar("_Found")
_PATIENCE: Final = 30.0  # seconds that `stop` waits for a step to end


class EngineStopped(GuidedError):
    """The engine does not run any more: it was stopped, or a step of it failed."""


class Stream:
    """The outcomes of one request, on the event loop. Whoever does not read it to its end calls `cancel`.

    Attributes:
        tasks: its samples.
        prompt_tokens: of its prompt; 0 while they are not counted yet.
        submitted: when it came, by perf_counter.
        first: when its first token came; None: it has not.
        last: when the last tokens of each sample came.
        results: of the samples that have ended.
        error: why it failed; None: it has not.
        on_end: what is called once nothing of it is left in the engine.
    """

    def __init__(self, thread: EngineThread) -> None:
        self._thread = thread
        self.tasks: tuple[Task, ...] = ()
        self.prompt_tokens, self.submitted = 0, perf_counter()
        self.first: float | None = None
        self.last = dict[Task, float]()
        self.results = list[Result]()
        self.error: Exception | None = None
        self.on_end = list[Callable[[], object]]()
        self._left = dict[Task, int]()  # samples that have not been read to their ends, with their numbers
        self._arrived = deque[tuple[Task | None, Outcome]]()
        self.awake = asyncio.Event()  # set when something arrives; streams that are read together share one

    def begin(self, tasks: list[Task]) -> None:
        """These are its samples."""
        self.tasks, self._left = tuple(tasks), {task: number for number, task in enumerate(tasks)}

    @property
    def waits(self) -> bool:
        """Whether none of its samples has had a place in the batch."""
        return not any(task.admitted for task in self.tasks)

    @property
    def ttft(self) -> float | None:
        """Seconds from its coming to its first token; None: there is none yet."""
        return None if self.first is None else self.first - self.submitted

    async def begun(self) -> None:
        """Wait for the first outcome. Raises as iterating does, where that is an error."""
        await self._wait()
        if isinstance(error := self._arrived[0][1], Exception):
            raise error

    async def __aiter__(self) -> AsyncIterator[tuple[int, StreamEvent]]:
        """The events as they come, each with the number of its sample.

        Raises:
            Exception: why a sample has failed (see `Engine.generate`), or why it was ended (`fail`). EngineStopped.
        """
        while self.left:
            await self._wait()
            for item in self.taken():
                yield item

    @property
    def left(self) -> int:
        """How many samples have not been read to their ends."""
        return len(self._left)

    def taken(self) -> Iterator[tuple[int, StreamEvent]]:
        """The events that have come and were not read yet, without waiting. Raises as iterating does."""
        while self._arrived:
            task, outcome = self._arrived.popleft()
            if isinstance(outcome, Exception):
                raise outcome
            assert task is not None
            number = self._left[task]
            if outcome.result is not None:
                del self._left[task]
            yield number, outcome

    async def _wait(self) -> None:
        while not self._arrived:
            self.awake.clear()
            await self.awake.wait()

    def cancel(self) -> None:
        """Stop what is left of the request, within one step. Nothing, where nothing is left."""
        left, self._left = list(self._left), {}
        self._arrived.clear()
        self._thread.cancel(left)

    def fail(self, error: Exception) -> None:
        """Stop what is left of the request, within one step; whoever reads it is told the error."""
        self.put(None, error)
        self._thread.cancel(list(self._left))

    def note(self, task: Task, outcome: Outcome, now: float) -> bool:
        """Keep what is told of the request besides its text; whether the sample has ended."""
        if isinstance(outcome, Exception):
            self.error = self.error or outcome
            return True
        if outcome.tokens:
            self.first = now if self.first is None else self.first
            self.last[task] = now
        if outcome.result is not None:
            self.results.append(outcome.result)
        return outcome.result is not None

    def put(self, task: Task | None, outcome: Outcome) -> None:
        """An outcome has come; without a task it is the end of the whole request."""
        if task is None and isinstance(outcome, Exception):
            self.error = outcome
        self._arrived.append((task, outcome))
        self.awake.set()


Observer: TypeAlias = Callable[[Stream, Task, Outcome, float], object]
"""Is given an outcome with its stream, its task, and the time, by perf_counter."""


class EngineThread:
    """See the head. A context manager: the thread runs between enter and exit.

    Attributes:
        engine: what it runs.
        preparing: makes requests ready for it.
        open: the streams of which something is left in the engine; touched by the loop alone.
        observers: are told of each outcome, on the loop, before its stream is.
        steps: how many rounds have run.
        failure: why the engine stopped by itself; None while it runs.
        draining: whether the server ends, and takes no more requests.
        cut_off: how many requests were given up because of that.
    """

    def __init__(self, engine: Engine, preparing: Preparing | None = None) -> None:
        self.engine, self.steps = engine, 0
        self.preparing = preparing or Preparing(engine)
        self.open = set[Stream]()
        self.observers = list[Observer]()
        self.draining, self.cut_off = False, 0
        self.failure: BaseException | None = None
        self._lock, self._noted = threading.Lock(), list[_Note]()
        self._wake, self._stopping = threading.Event(), False
        self._streams = dict[Task, Stream]()  # of tasks that have not ended; touched by the loop alone
        self._arrived, self._due = list[_Arrival](), False  # not handed out yet, and whether it should be
        self._freed = FreedMemory()
        self._calls = set[Future[Any]]()  # that have no answer; touched by the loop alone
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
    def alive(self) -> bool:
        """Whether requests are answered."""
        return self._thread is not None and self._thread.is_alive() and not self._stopping

    @property
    def pending(self) -> int:
        """What is noted and not yet taken: `pending_submit` of /health."""
        return len(self._noted)

    @property
    def requests(self) -> int:
        """Requests with samples that have not ended."""
        return len(self.open)

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
        """Begin a request; on the event loop.

        Args:
            request: what is asked.
            priority: requests with a lower number run first.
            owner, admit, size: see `Preparing.tasks`; `admit` is given the stream, too.
            interval: steps of the engine after which the stream is given what came meanwhile; the first token and the
                end are given at once. 0: only the end need be.

        Raises:
            EngineStopped: see there.
        """
        if not self.alive:
            raise EngineStopped(f"the engine has stopped: {self.failure}" if self.failure else "the engine has stopped")
        stream = Stream(self)
        tasks = self.preparing.tasks(request, owner, lambda tokens: admit(stream, tokens), size)
        stream.begin(tasks)
        self.open.add(stream)
        if (coming := tasks[0].coming) is not None:  # a refusal is told at once, and not by the next step
            coming.add_done_callback(lambda coming: self._refuse(stream, coming))
        for task in tasks:
            task.priority = priority
            self._streams[task] = stream
        self._note(lambda: self.engine.driver.add(tasks, self._taker(interval)))
        return stream

    async def call(self, work: Callable[[], _Found]) -> _Found:
        """What some work on the model gives, which is done on the engine's thread between two steps.

        Raises:
            Exception: what it raises. EngineStopped.
        """
        if not self.alive:
            raise EngineStopped("the engine has stopped")
        call = Future[_Found]()
        self._calls.add(call)

        def act() -> None:
            if call.set_running_or_notify_cancel():
                try:
                    call.set_result(work())
                except Exception as error:
                    call.set_exception(error)

        self._note(act)
        try:
            return await asyncio.wrap_future(call)
        finally:
            self._calls.discard(call)

    def stop(self) -> None:
        """End the thread after its step. Streams that are open end with `EngineStopped`."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_PATIENCE)
        self.preparing.close()
        self.cut_off += self.requests
        self._end_streams(EngineStopped("the engine has stopped"))

    def cancel(self, tasks: list[Task]) -> None:
        """Stop tasks; on the event loop. Those that have ended are left as they are."""
        if left := [task for task in tasks if task in self._streams]:
            self._note(lambda: self.engine.driver.cancel(left))
            for task in left:
                self._close(task)

    def _refuse(self, stream: Stream, coming: Future[list[Stepper]]) -> None:
        """Tell why the sequences of a request were not made, if they were not; on any thread."""
        error = None if coming.cancelled() else coming.exception()
        if isinstance(error, Exception):
            self._to_loop(lambda: stream.fail(error))

    def _note(self, what: _Note) -> None:
        with self._lock:
            self._noted.append(what)
        self._wake.set()

    # ---- on the engine's thread
    def _run(self) -> None:
        try:
            while not self._stopping:
                self._round()
        except BaseException as error:  # the scheduler gives errors of a request to it; this is the end of all
            self.failure, self._stopping = error, True
            stopped = EngineStopped(f"the engine has stopped: {error}")
            self._to_loop(lambda: self._end_streams(stopped))

    def _round(self) -> None:
        self._wake.clear()
        with self._lock:
            noted, self._noted = self._noted, []
        for act in noted:
            act()
        if self.engine.driver.step():
            self.steps += 1
            if self._due:
                arrived, self._arrived, self._due = self._arrived, [], False
                self._to_loop(lambda: self._hand_out(arrived))
        elif not noted:
            self._freed.give_back()
            self._wake.wait()

    def _taker(self, interval: int) -> Take:
        """Takes the outcomes of a request. All that has arrived is handed out together, since each time costs the loop
        a call and a switch of threads, and so it costs little where answers are wanted whole."""
        begun = False

        def take(task: Task, outcome: Outcome) -> None:
            nonlocal begun
            self._arrived.append((task, outcome, perf_counter()))
            if isinstance(outcome, Exception) or outcome.result is not None:
                self._due = True
            elif interval and (not begun or self.steps % interval == 0):
                self._due = begun = True

        return take

    def _to_loop(self, act: Callable[[], None]) -> None:
        assert self._loop is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(act)

    # ---- on the loop
    def _hand_out(self, arrived: list[_Arrival]) -> None:
        for task, outcome, now in arrived:
            stream = self._streams.get(task)
            if stream is not None:
                for observe in self.observers:
                    observe(stream, task, outcome, now)
                is_last = stream.note(task, outcome, now)
                stream.put(task, outcome)
                if is_last:
                    self._close(task)

    def _close(self, task: Task) -> None:
        """Nothing more comes of a task."""
        stream = self._streams.pop(task)
        if not any(other in self._streams for other in stream.tasks):
            self.open.discard(stream)
            for act in stream.on_end:
                act()

    def _end_streams(self, error: Exception) -> None:
        for call in list(self._calls):
            if not call.done():
                call.set_exception(error)
        for stream in list(self.open):
            stream.put(None, error)
        for task in list(self._streams):
            self._close(task)
