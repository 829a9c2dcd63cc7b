"""The cost limit of one rendering: templates are untrusted, and may try to hang or to exhaust the memory.

The unit is one character or value that is read or created. Every operation that may take long or grow is charged before
it begins. A loop is charged for its items; a join or a repetition for its result; a comparison or a filter for all the
data it may read. So the cost does not depend on the machine, and a refused template is always refused. The budget grows
with the conversation, so a regular template fits at any size: templates in use are charged at most about ten times the
size of the conversation.
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
STEP: Final = 16  # the charge for a loop step, a visited value, or a call
MOST_CALLS: Final = 100  # nested calls


class _Meter:
    """The rest of a budget, and the depth of nested calls."""

    __slots__ = ("allowed", "calls", "left")

    def __init__(self, allowed: int) -> None:
        self.allowed = self.left = allowed
        self.calls = 0


_METER: ContextVar[_Meter | None] = ContextVar("guided_chat_meter", default=None)


@contextmanager
def metered(size: int) -> Iterator[None]:
    """Set the budget for a conversation of `size` characters and values."""
    token = _METER.set(_Meter(_FREE + _FACTOR * size))
    try:
        yield
    finally:
        _METER.reset(token)


def charge(amount: int) -> None:
    """Charge the budget. Does nothing outside `metered`.

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
    """Enter a nested call. LimitExceeded: there are more than `MOST_CALLS`."""
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
    """Charge for the items of a value that a loop will iterate over. A value without a length is read to its end."""
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
    """Charge for all of a value, which is about to be compared, printed or traversed as a whole."""
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
