"""Prepares requests for the engine on separate threads: text becomes tokens, specifications become grammars.

Problem. Most specifications compile in milliseconds, some in seconds, and an attacker may send specifications that use
up every limit. They must not delay other requests, least of all on the engine's thread. A thread cannot be stopped from
outside, but a compilation constantly checks its `Limits`, including the time limit, and stops when one is exceeded.

    request -> reader (lanes.py, by size): tokens, queue limit -> no grammar needed: done
                        |
                        +-> cache lane, 2 threads: find the grammar in the cache -> done
                                     |
                                     +-> quick lane, 2 threads: at most `QUICK_SECONDS` seconds -> done, or refused
                                                  |
                                                  +-> medium lane, 1 thread: at most `_MEDIUM_SECONDS` seconds
                                                               |
                                                               +-> slow lane, 1 thread: at most `seconds`

A compilation that runs out of time begins anew in the next lane, so each lane delays the shorter compilations behind it
by a known time. Prompts without a grammar and cached grammars never wait for a compilation. The medium and the slow
lane have a maximum length, in total and per key. If they are full, requests are refused with `CompilerBusy`. In each
lane, keys take turns, and the first two lanes run the newest request of a key first (compile_lanes.py). Threads with
long compilations yield to the model's steps (guided/engine/polite_pool.py).

The first request with `canonical` computes tables of the tokenizer (guided/matching/canonical/), which no request can
make larger. This takes two seconds, on a thread of its own, which does not yield: on a busy machine, a yielding thread
would hardly run. If the client gets a timeout meanwhile, the tables are kept for later requests.

Guarantee: at most four compilations for answers run at once (and two for /v1/grammars). `Limits` bounds the time of
each compilation, and its memory through the limits on work, nodes and states. If a client disconnects, or gets 503
because of the queue timeout, a running compilation continues up to its own limit, and a queued one never starts.

A compilation cannot check its time limit during a long call of the core, or while its thread gets no CPU time, as on a
busy machine. So `Preparation` shows what a request waits for, and the event loop ends the request (admission.py): with
the compile timeout if the compilation has used this much CPU time, otherwise with the queue timeout. Only in the second
case does a retry help.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from math import inf
from time import perf_counter
from traceback import clear_frames
from typing import Any, Final, Literal, TypeAlias, TypeVar

from guided.engine import Engine
from guided.engine.request import Request
from guided.engine.stepper import Stepper, begin_steppers
from guided.engine.task import Task
from guided.errors import GuidedError, LimitExceeded, UnsupportedError
from guided.limits import Limits
from guided.matching.cached_compiler import NotCached
from guided.matching.canonical import is_spelling_known, spelling_of
from guided.matching.compiler import GrammarCompiler
from guided.matching.gc_pause import gc_paused
from guided.server.compile_lanes import CompileLane
from guided.server.http.lanes import BodyThreads

__all__ = [
    "QUICK_SECONDS",
    "CompileTimeout",
    "CompilerBusy",
    "Preparation",
    "RequestPreparer",
    "make_timeout_error",
    "report_timeout",
    "with_time_limit",
]

QUICK_SECONDS: Final = 0.1
_MEDIUM_SECONDS: Final = 0.5
_MAX_REQUESTS: Final = 8  # in the medium lane, and in the slow lane
_MAX_PER_KEY: Final = 2  # likewise
_GRAMMAR_OPTIONS: Final = ("canonical", "heal_prompt", "reasoning_end", "tools")
"""Options with which the engine needs a grammar even without a constraint."""

_Result = TypeVar("_Result")
CompiledCallback: TypeAlias = Callable[[float, Exception | None], object]
"""Called with the seconds of a compilation and its error, on the thread that compiled."""


class CompilerBusy(GuidedError):
    """Too many slow specifications are waiting for compilation."""


class CompileTimeout(GuidedError):
    """A specification did not compile within the operator's time limit."""


class Preparation(Future[_Result]):
    """The future of a request's sequences, or of the ids of its prompt. It shows what the request waits for.

    Attributes:
        make: makes the result from the request, the ids of its prompt without instructions, and the seconds for a
            compilation.
        stage: "prompt": the prompt is being read. "queue": the specification waits for other compilations.
            "compilation": the specification is being compiled.
        stage_begin: when this stage began, by `perf_counter`.
    """

    def __init__(self, make: Callable[[Request, list[int], float], _Result]) -> None:
        super().__init__()
        self.make = make
        self._cpu_clock: int | None = None
        self.enter("prompt")

    def enter(self, stage: Literal["prompt", "queue", "compilation"]) -> None:
        """Begin a stage, on the thread that runs it."""
        if stage == "compilation" and hasattr(time, "pthread_getcpuclockid"):
            self._cpu_clock = time.pthread_getcpuclockid(threading.get_ident())
            self._cpu_begin = time.clock_gettime(self._cpu_clock)
        self.stage_begin, self.stage = perf_counter(), stage

    def cpu_seconds(self) -> float:
        """The CPU time of the compilation so far; on systems that cannot measure it, the time since its beginning."""
        if self._cpu_clock is None:
            return perf_counter() - self.stage_begin
        try:
            return time.clock_gettime(self._cpu_clock) - self._cpu_begin
        except OSError:  # the thread has ended
            return 0.0


class RequestPreparer:
    """See the module docstring.

    Attributes:
        seconds: the time limit of one compilation.
        on_compiled: called after each compilation; None: no callback.
        lanes: the threads that read requests, by size.
    """

    def __init__(self, engine: Engine, seconds: float | None = None) -> None:
        self._engine = engine
        self.seconds = Limits().seconds if seconds is None else seconds
        self.on_compiled: CompiledCallback | None = None
        self.lanes = BodyThreads()
        self.compile_lanes = (
            CompileLane(0.0, 2, yields=False),  # the cache lane, whose calls are short
            CompileLane(QUICK_SECONDS, 2),
            CompileLane(_MEDIUM_SECONDS, 1, _MAX_REQUESTS, _MAX_PER_KEY),
            CompileLane(inf, 1, _MAX_REQUESTS, _MAX_PER_KEY),
        )
        self._table_lane = CompileLane(inf, 1, yields=False)

    @property
    def slow_count(self) -> int:
        """The number of requests in the slow lane, waiting or compiling."""
        return self.compile_lanes[-1].request_count

    def make_tasks(
        self, request: Request, owner: str = "", admit: Callable[[int], object] = lambda _: None, size: int = 0
    ) -> list[Task]:
        """Make the tasks of a request, one per sample, for the engine's `driver`. A refusal becomes their outcome.

        Args:
            request: the request.
            owner: identifies the client's key; "": the client has no key, so no per-key limit applies.
            admit: called on another thread with the number of prompt tokens; raises an error if the queue is full.
            size: the size of the request's body, in bytes.
        """
        future = Preparation(self._make_steppers)
        self.lanes.executor_for(size).submit(self._read_prompt, future, request, owner, admit)
        return [Task.from_future(future, number) for number in range(request.n)]

    def read_prompt(self, request: Request, owner: str = "", size: int = 0) -> Preparation[list[int]]:
        """Read the prompt of a request, with all instructions, and return the future of its ids. Arguments: see
        `make_tasks`."""
        future = Preparation(self._make_prompt_ids)
        self.lanes.executor_for(size).submit(self._read_prompt, future, request, owner, lambda _: None)
        return future

    def close(self) -> None:
        """Start no further work."""
        self.lanes.close()
        for lane in (*self.compile_lanes, self._table_lane):
            lane.close()

    def _read_prompt(
        self, future: Preparation[Any], request: Request, owner: str, admit: Callable[[int], object]
    ) -> None:
        if future.cancelled():
            return
        try:
            ids = self._engine.encode_prompt(request.prompt, raw=request.options.get("raw", False))
            admit(len(ids))
            needs_grammar = request.constraint is not None or any(map(request.options.get, _GRAMMAR_OPTIONS))
            if not needs_grammar:
                _set_outcome(future, future.make(request, ids, self.seconds))
                return
        except Exception as error:
            _set_outcome(future, error)
        else:
            needs_tables = request.options.get("canonical") and not is_spelling_known(self._engine.vocabulary)
            if needs_tables:
                self._table_lane.submit(owner, lambda: self._compute_tables(future, request, ids, owner))
            else:
                self._enter_lane(0, future, request, ids, owner)

    def _compute_tables(self, future: Preparation[Any], request: Request, ids: list[int], owner: str) -> None:
        """Compute the tables that `canonical` needs. Then continue in the first lane, which reports their error."""
        if future.cancelled():
            return
        future.enter("compilation")
        with suppress(UnsupportedError):
            spelling_of(self._engine.vocabulary)
        self._enter_lane(0, future, request, ids, owner)

    def _enter_lane(self, index: int, future: Preparation[Any], request: Request, ids: list[int], owner: str) -> None:
        future.enter("queue")
        if not self.compile_lanes[index].submit(owner, lambda: self._compile(index, future, request, ids, owner)):
            _set_outcome(future, CompilerBusy("too many slow specifications are waiting for compilation: retry later"))

    def _compile(self, index: int, future: Preparation[Any], request: Request, ids: list[int], owner: str) -> None:
        """Compile within the time of a lane. If that is not enough, continue in the next lane."""
        if future.cancelled():
            return
        future.enter("compilation")
        seconds = min(self.compile_lanes[index].seconds, self.seconds)
        try:
            outcome: Any = future.make(request, ids, seconds)
        except Exception as error:
            outcome = error
        if isinstance(outcome, NotCached) or (seconds < self.seconds and _is_timeout(outcome)):
            self._enter_lane(index + 1, future, request, ids, owner)
        else:
            self._finish_compilation(future, outcome)

    def _make_steppers(self, request: Request, ids: list[int], seconds: float) -> list[Stepper]:
        """Prepare a request within a time limit. With 0 seconds, raise `NotCached` unless its grammar is cached."""
        with self._limited_compiler(seconds) as compiler:
            return begin_steppers(self._engine.outputs(request, ids, compiler))

    def _make_prompt_ids(self, request: Request, ids: list[int], seconds: float) -> list[int]:
        """The ids of a request's prompt with all instructions; `seconds` as for `_make_steppers`."""
        with self._limited_compiler(seconds) as compiler:
            return self._engine.prompt_ids(request, ids, compiler)

    @contextmanager
    def _limited_compiler(self, seconds: float) -> Iterator[GrammarCompiler]:
        with gc_paused():
            try:
                compiler = with_time_limit(self._engine.compiler, seconds or self.seconds)
                compiler.finds_only = not seconds
                yield compiler
            except Exception as error:
                _clear_error_frames(error)
                raise

    def _finish_compilation(self, future: Preparation[_Result], outcome: _Result | Exception) -> None:
        seconds = perf_counter() - future.stage_begin
        if _is_timeout(outcome) or (future.cancelled() and future.cpu_seconds() > self.seconds):
            outcome = make_timeout_error(self.seconds)
        if self.on_compiled is not None:
            self.on_compiled(seconds, outcome if isinstance(outcome, Exception) else None)
        _set_outcome(future, outcome)


def with_time_limit(compiler: GrammarCompiler, seconds: float) -> GrammarCompiler:
    """A copy of a compiler, with the same cache, that has a time limit for each specification.

    It issues no Python warnings: clients get warnings in their answers (warnings.py).
    """
    limited_compiler = copy(compiler)
    limited_compiler.limits = replace(limited_compiler.limits, seconds=min(seconds, limited_compiler.limits.seconds))
    limited_compiler.warns = False
    return limited_compiler


@contextmanager
def report_timeout(seconds: float) -> Iterator[None]:
    """Raise CompileTimeout if a compilation in this block reaches its time limit (`with_time_limit`)."""
    try:
        yield
    except LimitExceeded as error:
        if not _is_timeout(error):
            raise
        raise make_timeout_error(seconds) from None


def make_timeout_error(seconds: float) -> CompileTimeout:
    """The error for a specification that did not compile within this time limit."""
    return CompileTimeout(f"the specification did not compile within {seconds:g} seconds: make it smaller")


def _clear_error_frames(error: BaseException | None) -> None:
    """Free the local variables in an error's frames before the garbage collector runs.

    They refer to everything that a compilation has built. The collector would take a quarter of a second to scan a
    million objects, and no other thread runs meanwhile.
    """
    cleared_ids = set[int]()
    while error is not None and id(error) not in cleared_ids:
        cleared_ids.add(id(error))
        clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _is_timeout(outcome: object) -> bool:
    return isinstance(outcome, LimitExceeded) and outcome.limit == "seconds"


def _set_outcome(future: Future[_Result], outcome: _Result | Exception) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
