"""How much a piece of work may cost, whatever its loops do: in time, in steps, and until somebody stops it.

In: bounds, for a block of code. Out: LimitExceeded from the loops within it once a bound is reached.

    with metered(2.0, work=1_000_000, stop=event):
        ...                     # loops call spend(); the core's compilations take at most seconds_left()

Loops need not be given the meter: it belongs to the thread (a context variable). Meters nest; what is spent counts for
all of them, and an inner one never allows more time than those around it. Without a meter `spend` does nothing.

Cost: some 0.2 us for each call of `spend`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event
from time import perf_counter
from typing import Final

from guided.errors import LimitExceeded

__all__ = ["is_exhausted", "may_succeed_later", "metered", "seconds_left", "spend"]

_UNBOUNDED: Final = 1 << 62
_LESS: Final = "ask for less at once, or make the specification smaller"


class _Meter:
    __slots__ = ("begin", "end", "outer", "spent", "stop", "work")

    def __init__(self, seconds: float, work: int, stop: Event | None, outer: _Meter | None) -> None:
        self.begin, self.work, self.outer, self.spent = perf_counter(), work, outer, 0
        self.stop = stop
        self.end = self.begin + seconds
        if outer is not None:
            self.end = min(self.end, outer.end)

    def check(self) -> None:
        """Raises LimitExceeded if nothing is left of this meter, or of one around it."""
        now = perf_counter()
        if now > self.end:
            raise LimitExceeded("seconds", now - self.begin, self.end - self.begin, fixed=True, hint=_LESS)
        at: _Meter | None = self
        while at is not None:
            if at.spent > at.work:
                raise LimitExceeded("work", at.spent, at.work, fixed=True, hint=_LESS)
            if at.stop is not None and at.stop.is_set():
                raise LimitExceeded("seconds", now - at.begin, now - at.begin, fixed=True, hint="nobody waits for it")
            at = at.outer


_current: ContextVar[_Meter | None] = ContextVar("meter", default=None)


@contextmanager
def metered(seconds: float, *, work: int = _UNBOUNDED, stop: Event | None = None) -> Iterator[None]:
    """Bound what the block does on this thread: seconds of wall time, and steps. When `stop` is set, it ends."""
    token = _current.set(_Meter(seconds, work, stop, _current.get()))
    try:
        yield
    finally:
        _current.reset(token)


def spend(work: int = 1) -> None:
    """Count steps, in every loop whose length depends on what a caller gave.

    Raises:
        LimitExceeded: a bound of a meter around it is reached.
    """
    meter = _current.get()
    if meter is None:
        return
    at: _Meter | None = meter
    while at is not None:
        at.spent += work
        at = at.outer
    meter.check()


def seconds_left(most: float) -> float:
    """How long the next piece of work may take: `most` seconds, or less where a meter allows less."""
    meter = _current.get()
    return most if meter is None else max(0.0, min(most, meter.end - perf_counter()))


def is_exhausted() -> bool:
    """Whether a meter around this code allows nothing more. False without a meter."""
    meter = _current.get()
    try:
        if meter is not None:
            meter.check()
    except LimitExceeded:
        return True
    return False


def may_succeed_later(error: BaseException) -> bool:
    """Whether the same work may succeed another time: a meter around it, or the bound of a call, has ended it."""
    return is_exhausted() or (isinstance(error, LimitExceeded) and error.limit == "call_work")
