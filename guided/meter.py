"""How much a piece of work may cost, whatever its loops do: in time, in steps, and until somebody stops it.

In: bounds, for a block of code. Out: LimitExceeded from the loops within it once a bound is reached.

    with metered(2.0, work=1_000_000, stop=event):
        ...                     # loops call spend(); the core's compilations take at most seconds_left()

    with compiling(limits):     # the same, by the fields of `Limits`, which the error then names
        ...

Loops need not be given the meter: it belongs to the thread (a context variable). Meters nest; what is spent counts for
all of them, and an inner one never allows more time than those around it. Without a meter `spend` does nothing.

Cost: some 0.1 us for each call of `spend`.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from threading import Event
from time import perf_counter
from typing import Final

from guided.errors import LimitExceeded
from guided.limits import Limits

__all__ = [
    "STEP", "Meter", "compiling", "fail_if_exhausted", "is_exhausted", "may_succeed_later", "metered", "seconds_left",
    "spend",
]  # fmt: skip

STEP: Final = 3_000
"""The work of an ordinary step in Python, in the units of `Limits.work`."""
_UNBOUNDED: Final = 1 << 62
_LESS: Final = "ask for less at once, or make the specification smaller"


class Meter:
    """What may be spent, and what is spent so far. A meter that is entered again keeps its count of work.

    While it is entered, `most` and `until` are what it and all meters around it allow. What is spent in it is added to
    the one around it in the end, so that each step changes one number.
    """

    __slots__ = (
        "before", "begin", "fixed", "most", "outer", "seconds", "spent", "stop", "stops", "token", "until", "work",
    )  # fmt: skip

    def __init__(self, seconds: float, work: int, stop: Event | None, fixed: bool) -> None:
        self.seconds, self.work, self.stop, self.fixed, self.spent = seconds, work, stop, fixed, 0

    def __enter__(self) -> None:
        self.outer = outer = _current.get()
        self.begin, self.before = perf_counter(), self.spent
        self.until, self.most, self.stops = self.begin + self.seconds, self.work, self.stop is not None
        if outer is not None:
            self.until = min(self.until, outer.until)
            self.most = min(self.most, self.spent + outer.most - outer.spent)
            self.stops |= outer.stops
        self.token: Token[Meter | None] = _current.set(self)

    def __exit__(self, *_: object) -> None:
        _current.reset(self.token)
        if self.outer is not None:
            self.outer.spent += self.spent - self.before

    def check(self, now: float, inside: int) -> None:
        """Raises LimitExceeded if nothing is left of it alone. `inside`: what the meters within it have spent."""
        if now > self.begin + self.seconds:
            raise self._exceeded("seconds", now - self.begin, self.seconds)
        if self.spent + inside > self.work:
            raise self._exceeded("work", self.spent + inside, self.work)
        if self.stop is not None and self.stop.is_set():
            passed = now - self.begin
            raise LimitExceeded("seconds", passed, passed, fixed=True, hint="nobody waits for it")

    def _exceeded(self, limit: str, given: float, allowed: float) -> LimitExceeded:
        return LimitExceeded(limit, given, allowed, fixed=self.fixed, hint=_LESS if self.fixed else "")


_current: ContextVar[Meter | None] = ContextVar("meter", default=None)


def metered(seconds: float, *, work: int = _UNBOUNDED, stop: Event | None = None) -> Meter:
    """Bound what a block does on this thread: seconds of wall time, and steps. When `stop` is set, it ends."""
    return Meter(seconds, work, stop, True)


def compiling(limits: Limits, *, work: bool = True) -> Meter:
    """Bound a block that reads or compiles a specification: the seconds of `limits`, and its work."""
    return Meter(limits.seconds, limits.work if work else _UNBOUNDED, None, False)


def spend(work: int = 1) -> None:
    """Count steps, in every loop whose length depends on what a caller gave.

    Raises:
        LimitExceeded: a bound of a meter around it is reached.
    """
    meter = _current.get()
    if meter is not None:
        meter.spent += work
        if meter.spent > meter.most or perf_counter() > meter.until or meter.stops:
            _check(meter)


def seconds_left(most: float) -> float:
    """How long the next piece of work may take: `most` seconds, or less where a meter allows less."""
    meter = _current.get()
    return most if meter is None else max(0.0, min(most, meter.until - perf_counter()))


def is_exhausted() -> bool:
    """Whether a meter around this code allows nothing more. False without a meter."""
    try:
        fail_if_exhausted()
    except LimitExceeded:
        return True
    return False


def may_succeed_later(error: BaseException) -> bool:
    """Whether the same work may succeed another time: a meter around it, or the bound of a call, has ended it."""
    return is_exhausted() or (isinstance(error, LimitExceeded) and error.limit == "call_work")


def fail_if_exhausted(place: str = "") -> None:
    """Raises LimitExceeded if a meter around this code allows nothing more; `place`: what is being read."""
    try:
        _check(_current.get())
    except LimitExceeded as error:
        error.place = place
        raise


def _check(meter: Meter | None) -> None:
    """Raises LimitExceeded if nothing is left of a meter, or of one around it."""
    now, inside = perf_counter(), 0
    while meter is not None:
        meter.check(now, inside)
        inside += meter.spent - meter.before
        meter = meter.outer
