"""What one rendering may cost: templates come from strangers, and may be written to hang or to fill the memory.

The unit is a character, or a value, that is looked at or made. Whatever can take long or grow charges before it begins:
loops their items, joining and repeating their result, comparisons and filters what they look at, all of it if they
look at all of it. So what a rendering takes does not depend on the machine, and what is refused once is refused always.
The budget grows with the conversation, so that an honest template of any size has room: those in use charge at most
some ten times the size of the conversation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from guided.errors import LimitExceeded

__all__ = ["MOST_CALLS", "STEP", "charge", "measure", "metered", "one_more_call", "sized"]

_FREE: Final = 20_000_000
_FACTOR: Final = 64
STEP: Final = 16  # of a loop, of a walk through a value, or a call
MOST_CALLS: Final = 100  # inside each other


class _Meter:
    """What is left of a budget, and how many calls are inside each other."""

    __slots__ = ("allowed", "calls", "left")

    def __init__(self, allowed: int) -> None:
        self.allowed = self.left = allowed
        self.calls = 0


_METER: ContextVar[_Meter | None] = ContextVar("guided_chat_meter", default=None)


@contextmanager
def metered(size: int) -> Iterator[None]:
    """A budget for a conversation of `size` characters and values."""
    token = _METER.set(_Meter(_FREE + _FACTOR * size))
    try:
        yield
    finally:
        _METER.reset(token)


def charge(amount: int) -> None:
    """Pay for what comes; nothing outside `metered`.

    Raises:
        LimitExceeded: the budget is used up.
    """
    meter = _METER.get()
    if meter is None:
        return
    meter.left -= amount
    if meter.left < 0:
        raise _exceeded("work of the chat template", meter.allowed - meter.left, meter.allowed)


@contextmanager
def one_more_call() -> Iterator[None]:
    """A call inside those that run. LimitExceeded: there are more than `MOST_CALLS`."""
    meter = _METER.get()
    if meter is None:
        yield
        return
    charge(STEP)
    meter.calls += 1
    try:
        if meter.calls > MOST_CALLS:
            raise _exceeded("calls inside each other in the chat template", meter.calls, MOST_CALLS)
        yield
    finally:
        meter.calls -= 1


def _exceeded(limit: str, given: int, allowed: int) -> LimitExceeded:
    return LimitExceeded(limit, given, allowed, fixed=True, hint="use another chat template, or a shorter conversation")


def sized(value: Any) -> Any:
    """The value, whose items are paid for: a loop goes over them. What has no length is read to its end."""
    try:
        charge(STEP * (len(value) + 1))
    except TypeError:
        out = []
        for item in value:
            charge(STEP)
            out.append(item)
        return out
    return value


def measure(value: Any) -> Any:
    """The value, all of which is paid for: it is compared, written or walked through as a whole."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            charge(len(one) + STEP)
            continue
        charge(STEP)
        if isinstance(one, Mapping):
            waiting += one.keys()
            waiting += one.values()
        elif isinstance(one, list | tuple | set | frozenset):
            waiting += one
    return value
