"""Runs a sequence from one request to the next: where its matcher is slow, on a thread of its own.

In: a sequence, and what answers its last request: logits, or tokens that were chosen. Out: `Said`: its events, and its
next request. A mask
under a budget, or a step of a grammar made to be slow, may take up to a few tenths of a second, as long as
`Limits.call_work` allows. On the scheduler's thread every other sequence would wait. So a sequence whose steps take
longer than `SLOW` takes them on another thread, until 32 in a row were quick, and the scheduler runs the other
sequences meanwhile. The core releases Python's lock while it computes, and these threads yield the cores to those of
the model.

The first steps can be taken before the scheduler sees the sequence at all (`begin`), on the thread that has compiled
its grammar.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from math import inf
from time import perf_counter, thread_time
from typing import Final, Generic, NamedTuple, TypeVar

from torch import Tensor

from guided.engine.asking import NO_DRAFTS, Draft, Forward
from guided.engine.polite_pool import PolitePool
from guided.engine.result import StreamEvent
from guided.engine.sequence import Sequence
from guided.kernels.choose import answer
from guided.sampling.choice import Answer, Choose

__all__ = ["SLOW", "Aside", "Said", "Stepper", "begun"]

SLOW: Final = 0.01  # seconds of this thread's time
_AGE: Final = SLOW / 4
_QUICK_STEPS: Final = 32  # in a row, after which a sequence is not slow any more
_THREADS: Final = 2
_Key = TypeVar("_Key")


class Said(NamedTuple):
    """What has come of a step.

    Attributes:
        events: in their order.
        request: what it needs now; None: the sequence has ended.
        error: why it has.
    """

    events: list[StreamEvent]
    request: Forward | Choose | Draft | None = None
    error: Exception | None = None


class Stepper:
    """A sequence on its way, and how slow its steps are."""

    def __init__(self, sequence: Sequence) -> None:
        self.sequence, self.is_slow = sequence, False
        self._steps, self._quick = sequence.steps(), 0
        self._begun: Said | None = None

    def begin(self) -> None:
        """Take the first step, and fill the first mask, now: `advance(None)` then answers at once."""
        self._begun = self._advance(None)
        if self._begun.request is not None:
            self.fill_mask()

    def advance(self, sent: Tensor | Answer | None) -> Said:
        """Go on with what answers the last request; None at the beginning."""
        said, self._begun = self._begun or self._advance(sent), None
        return said

    def advance_alone(self, logits: Tensor | None) -> Said:
        """Go on up to the next forward pass: tokens are chosen for this sequence alone, and none are drafted."""
        said = self.advance(logits)
        events = said.events
        while isinstance(said.request, Choose | Draft):
            said = self.advance(answer([said.request])[0] if isinstance(said.request, Choose) else NO_DRAFTS)
            events += said.events
        return said._replace(events=events)

    def fill_mask(self) -> None:
        """What needs no logits. Raises what the matcher raises."""
        begin = _clock.begin()
        self.sequence.meanwhile()
        self._note(_clock.took(begin))

    def close(self) -> None:
        """There will be no further step. Not while one is being taken."""
        self._steps.close()

    def _advance(self, sent: Tensor | Answer | None) -> Said:
        events: list[StreamEvent] = []
        begin = _clock.begin()
        try:
            while isinstance(said := self._steps.send(sent), StreamEvent):
                sent = None
                events.append(said)
        except StopIteration:
            return Said(events)
        except Exception as error:
            return Said(events, error=error)
        self._note(_clock.took(begin))
        return Said(events, said)

    def _note(self, seconds: float) -> None:
        self._quick = 0 if seconds > SLOW else self._quick + 1
        self.is_slow = self._quick == 0 or (self.is_slow and self._quick < _QUICK_STEPS)


class _Clock(threading.local):
    """The time of a thread, for pieces of work of which only long ones matter: to ask the system takes a microsecond.

    The system is asked once in `_AGE` seconds. A piece that takes long by the wall clock has taken at least what the
    thread has computed since then, less all that went by before the piece began.
    """

    wall, cpu = -inf, 0.0

    def begin(self) -> float:
        """The wall clock, at the beginning of a piece."""
        now = perf_counter()
        if now - self.wall > _AGE:
            self.wall, self.cpu = now, thread_time()
        return now

    def took(self, begin: float) -> float:
        """How long the piece took: by the wall clock if that is short, else at least so much of the thread's time."""
        wall = perf_counter() - begin
        return wall if wall <= SLOW else thread_time() - self.cpu - (begin - self.wall)


_clock = _Clock()


def begun(sequences: Iterable[Sequence]) -> list[Stepper]:
    """Sequences that have taken their first steps on this thread."""
    steppers = list(map(Stepper, sequences))
    for stepper in steppers:
        stepper.begin()
    return steppers


class Aside(Generic[_Key]):
    """Steps that are being taken on other threads, each of somebody."""

    def __init__(self) -> None:
        self._pool: PolitePool | None = None
        self._steps: dict[_Key, Future[Said]] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._steps

    def __len__(self) -> int:
        return len(self._steps)

    def start(self, key: _Key, stepper: Stepper, logits: Tensor | None) -> None:
        """Take somebody's next step."""
        if self._pool is None:
            self._pool = PolitePool(_THREADS, "guided step")
        self._steps[key] = self._pool.submit(stepper.advance_alone, logits)

    def done(self, patience: float) -> list[tuple[_Key, Said]]:
        """Steps that have ended; waits for one, at most so many seconds."""
        if patience > 0:
            wait(self._steps.values(), patience, FIRST_COMPLETED)
        ended = [(key, step.result()) for key, step in self._steps.items() if step.done()]
        for key, _ in ended:
            del self._steps[key]
        return ended
