"""Runs a sequence from one request to the next. A sequence with a slow matcher runs on another thread.

In: a sequence, and the answer to its last request: logits or chosen tokens. Out: `StepOutcome`: its events, and its
next request. A mask under a budget, or a step of a grammar designed to be slow, may take a few tenths of a second, up
to `Limits.call_work`. On the scheduler's thread, this would delay all other sequences. So a sequence with a step longer
than `SLOW_SECONDS` runs on another thread until 32 steps in a row have been quick. Meanwhile the scheduler runs the
other sequences. The core releases the GIL while it computes, and these threads yield the CPU cores to the model's
threads.

The thread that compiled the grammar can run the first step before the scheduler sees the sequence (`begin`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from math import inf
from time import perf_counter, thread_time
from typing import Final, Generic, NamedTuple, TypeVar

from guided.engine.masks import MatcherStep, StepResult
from guided.engine.polite_pool import PolitePool
from guided.engine.result import StreamEvent
from guided.engine.staged_output import Output
from guided.engine.step_requests import NO_DRAFTS, Draft, Forward, LogitRows
from guided.errors import GuidedError
from guided.kernels.choose import answer
from guided.sampling.choice import Answer, Choose

__all__ = ["SLOW_SECONDS", "BackgroundSteps", "StepOutcome", "Stepper", "begin_steppers"]

SLOW_SECONDS: Final = 0.01  # seconds of thread time
_MAX_AGE: Final = SLOW_SECONDS / 4  # seconds: the maximum age of a reading of the thread time
_QUICK_STEPS: Final = 32  # after this many quick steps in a row, a sequence is no longer slow
_THREADS: Final = 2
_Key = TypeVar("_Key")


class StepOutcome(NamedTuple):
    """The outcome of a step.

    Attributes:
        events: the events in order.
        request: the next request; None if the sequence has ended.
        error: the error that ended the sequence, if any.
    """

    events: list[StreamEvent]
    request: Forward | Choose | Draft | None = None
    error: Exception | None = None


class Stepper:
    """A running sequence, with a record of how slow its steps are."""

    def __init__(self, sequence: Output) -> None:
        self.sequence, self.is_slow = sequence, False
        self._steps, self._quick_steps = sequence.steps(), 0
        self._first_outcome: StepOutcome | None = None

    def begin(self) -> None:
        """Run the first step and fill the first mask now, so that `advance(None)` returns at once."""
        self._first_outcome = self._advance(None)
        if self._first_outcome.request is not None:
            self.fill_mask()

    def advance(self, reply: LogitRows | Answer | None) -> StepOutcome:
        """Continue with the answer to the last request; None to begin."""
        outcome, self._first_outcome = self._first_outcome or self._advance(reply), None
        return outcome

    def advance_alone(self, logits: LogitRows | None) -> StepOutcome:
        """Continue up to the next forward pass. Choose tokens for this sequence alone, without drafts."""
        outcome = self.advance(logits)
        events = outcome.events
        while isinstance(outcome.request, Choose | Draft):
            outcome = self.advance(answer([outcome.request])[0] if isinstance(outcome.request, Choose) else NO_DRAFTS)
            events += outcome.events
        return outcome._replace(events=events)

    def fill_mask(self) -> None:
        """Fill the next mask, which needs no logits. Raises the matcher's errors."""
        sequence = self.sequence
        if sequence.masks is None or sequence.masks.is_ready(sequence.budget(0)):
            return
        begin = _clock.begin()
        sequence.fill_mask()
        self.record_duration(_clock.end(begin))

    def next_matcher_step(self, reply: Answer | None) -> MatcherStep | None:
        """What the core can do for the matcher; None if there is nothing, or it must be done in Python.

        `reply`: the answer to the last request, after which the matcher accepts the chosen token. None: no token was
        chosen, but the next mask may be missing.
        """
        sequence, masks = self.sequence, self.sequence.masks
        if self.is_slow or masks is None:
            return None
        if reply is None:
            return masks.next_step(None, sequence.budget(0)) if sequence.is_choosing else None
        if len(reply.rows) != 1 or isinstance(choice := reply.rows[0], GuidedError):
            return None
        return masks.next_step(choice.token, sequence.budget(1))

    def record_matcher_step(self, step: MatcherStep, result: StepResult) -> None:
        """Record the result of `next_matcher_step`."""
        if self.sequence.masks is not None:
            self.sequence.masks.record_step(step, result)
        if (seconds := result[-1]) > SLOW_SECONDS:
            self.record_duration(seconds)

    def close(self) -> None:
        """End the sequence. Must not be called during a step."""
        self._steps.close()

    def _advance(self, reply: LogitRows | Answer | None) -> StepOutcome:
        events: list[StreamEvent] = []
        begin = _clock.begin()
        try:
            while isinstance(yielded := self._steps.send(reply), StreamEvent):
                reply = None
                events.append(yielded)
        except StopIteration:
            return StepOutcome(events)
        except Exception as error:
            return StepOutcome(events, error=error)
        self.record_duration(_clock.end(begin))
        return StepOutcome(events, yielded)

    def record_duration(self, seconds: float) -> None:
        """Record how long a step took."""
        self._quick_steps = 0 if seconds > SLOW_SECONDS else self._quick_steps + 1
        self.is_slow = self._quick_steps == 0 or (self.is_slow and self._quick_steps < _QUICK_STEPS)


class _Clock(threading.local):
    """Measures the thread time of long pieces of work. Reading the thread time is a system call, which takes 1 us.

    So it is not read at the beginning of each piece of work, but at most once in `_MAX_AGE` seconds. If a piece is long
    by the wall clock, its thread time is at least the thread time since the last reading, minus the wall time between
    this reading and the beginning of the piece.
    """

    wall, cpu = -inf, 0.0

    def begin(self) -> float:
        """Begin a piece of work; return the wall time."""
        now = perf_counter()
        if now - self.wall > _MAX_AGE:
            self.wall, self.cpu = now, thread_time()
        return now

    def end(self, begin: float) -> float:
        """The duration of the piece: its wall time if that is short, otherwise a lower bound on its thread time."""
        wall = perf_counter() - begin
        return wall if wall <= SLOW_SECONDS else thread_time() - self.cpu - (begin - self.wall)


_clock = _Clock()


def begin_steppers(sequences: Iterable[Output]) -> list[Stepper]:
    """Make steppers, and run the first steps of the sequences on this thread."""
    steppers = list(map(Stepper, sequences))
    for stepper in steppers:
        stepper.begin()
    return steppers


class BackgroundSteps(Generic[_Key]):
    """Steps that run on other threads, one for each key. `yields`: whether long steps yield (polite_pool.py)."""

    def __init__(self) -> None:
        self.yields = False
        self._pool: PolitePool | None = None
        self._steps: dict[_Key, Future[StepOutcome]] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._steps

    def __len__(self) -> int:
        return len(self._steps)

    def start(self, key: _Key, stepper: Stepper, logits: LogitRows | None) -> None:
        """Start the next step of a stepper."""
        if self._pool is None:
            self._pool = PolitePool(_THREADS, "guided step")
        self._pool.yields = self.yields
        self._steps[key] = self._pool.submit(stepper.advance_alone, logits)

    def take_finished(self, timeout: float) -> list[tuple[_Key, StepOutcome]]:
        """Remove and return the finished steps. Wait up to `timeout` seconds for one."""
        if timeout > 0:
            wait(self._steps.values(), timeout, FIRST_COMPLETED)
        outcomes = [(key, step.result()) for key, step in self._steps.items() if step.done()]
        for key, _ in outcomes:
            del self._steps[key]
        return outcomes
