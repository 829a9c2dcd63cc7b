"""A meter limits the time and the steps of a block of code, and can be stopped from another thread.

In: limits for a block of code. Out: loops in the block raise LimitExceeded once a limit is exceeded.

    with limit_work(2.0, work=1_000_000, stop=event):
        ...                     # loops call spend(); the core's compilations take at most seconds_left()

    with limit_compilation(limits):     # the limits are fields of `Limits`, and errors name the field
        ...

The meter is a context variable, so loops need no argument for it. Meters nest. Steps count for all of them, and an
inner meter never allows more than the outer ones. Without a meter, `spend` does nothing.

Cost: about 0.1 us for each call of `spend`.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from threading import Event
from time import perf_counter
from typing import Final

from guided.errors import LimitExceeded
from guided.limits import Limits

__all__ = [
    "STEP",
    "Meter",
    "fail_if_exhausted",
    "is_exhausted",
    "is_temporary",
    "limit_compilation",
    "limit_work",
    "seconds_left",
    "spend",
]  # fmt: skip

STEP: Final = 3_000
"""The work of an ordinary step in Python, in the units of `Limits.work`."""
_UNBOUNDED: Final = 1 << 62
_HINT: Final = "request less at once, or make the specification smaller"


class Meter:
    """The limits of a block and the work so far (`spent`). A meter that is entered again keeps its count of work.

    While it is entered, `max_work` and `deadline` are the tightest limits of this meter and all outer ones. On exit,
    its work is added to the outer meter, so each step changes only one number. `is_fixed`: no field of `Limits` raises
    the limits, and errors say so.
    """

    __slots__ = (
        "begin",
        "can_stop",
        "deadline",
        "is_fixed",
        "max_work",
        "outer",
        "seconds",
        "spent",
        "spent_before",
        "stop",
        "token",
        "work",
    )  # fmt: skip

    def __init__(self, seconds: float, work: int, stop: Event | None, is_fixed: bool) -> None:
        self.seconds, self.work, self.stop, self.is_fixed, self.spent = seconds, work, stop, is_fixed, 0

    def __enter__(self) -> None:
        self.outer = outer = _current_meter.get()
        self.begin, self.spent_before = perf_counter(), self.spent
        self.deadline, self.max_work, self.can_stop = self.begin + self.seconds, self.work, self.stop is not None
        if outer is not None:
            self.deadline = min(self.deadline, outer.deadline)
            self.max_work = min(self.max_work, self.spent + outer.max_work - outer.spent)
            self.can_stop |= outer.can_stop
        self.token: Token[Meter | None] = _current_meter.set(self)

    def __exit__(self, *_: object) -> None:
        _current_meter.reset(self.token)
        if self.outer is not None:
            self.outer.spent += self.spent - self.spent_before

    def check(self, now: float, inner_work: int) -> None:
        """Raise LimitExceeded if this meter itself is exhausted. `inner_work` is the work of the meters nested in
        it.
        """
        if now > self.begin + self.seconds:
            raise self._make_limit_error("seconds", now - self.begin, self.seconds)
        if self.spent + inner_work > self.work:
            raise self._make_limit_error("work", self.spent + inner_work, self.work)
        if self.stop is not None and self.stop.is_set():
            elapsed = now - self.begin
            raise LimitExceeded("seconds", elapsed, elapsed, fixed=True, hint="the work was cancelled")

    def _make_limit_error(self, limit: str, given: float, allowed: float) -> LimitExceeded:
        return LimitExceeded(limit, given, allowed, fixed=self.is_fixed, hint=_HINT if self.is_fixed else "")


_current_meter: ContextVar[Meter | None] = ContextVar("meter", default=None)


def limit_work(seconds: float, *, work: int = _UNBOUNDED, stop: Event | None = None) -> Meter:
    """Limit a block on this thread, in seconds of wall time and in steps. It also ends once `stop` is set."""
    return Meter(seconds, work, stop, True)


def limit_compilation(limits: Limits, *, work: bool = True) -> Meter:
    """Limit a block that reads or compiles a specification by `limits.seconds` and, if `work`, `limits.work`."""
    return Meter(limits.seconds, limits.work if work else _UNBOUNDED, None, False)


def spend(work: int = 1) -> None:
    """Count steps. Every loop whose length depends on a caller's input calls this.

    Raises:
        LimitExceeded: this thread's meter, or an outer one, is exhausted.
    """
    meter = _current_meter.get()
    if meter is not None:
        meter.spent += work
        if meter.spent > meter.max_work or perf_counter() > meter.deadline or meter.can_stop:
            _check(meter)


def seconds_left(max_seconds: float) -> float:
    """The seconds that the next piece of work may take: `max_seconds`, or less if a meter allows less."""
    meter = _current_meter.get()
    return max_seconds if meter is None else max(0.0, min(max_seconds, meter.deadline - perf_counter()))


def is_exhausted() -> bool:
    """Whether a meter of this thread is exhausted. False without a meter."""
    try:
        fail_if_exhausted()
    except LimitExceeded:
        return True
    return False


def is_temporary(error: BaseException) -> bool:
    """Whether repeating the work may succeed, because only a meter or `Limits.call_work` ended it."""
    return is_exhausted() or (isinstance(error, LimitExceeded) and error.limit == "call_work")


def fail_if_exhausted(place: str = "") -> None:
    """Raise LimitExceeded if a meter of this thread is exhausted. `place` is the part of the specification that is
    being read.
    """
    try:
        _check(_current_meter.get())
    except LimitExceeded as error:
        error.place = place
        raise


def _check(meter: Meter | None) -> None:
    """Raise LimitExceeded if a meter, or an outer one, is exhausted."""
    now, inner_work = perf_counter(), 0
    while meter is not None:
        meter.check(now, inner_work)
        inner_work += meter.spent - meter.spent_before
        meter = meter.outer
