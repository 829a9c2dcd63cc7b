"""How long the twin may take where somebody waits for it.

In: seconds, for a block of code. Out: LimitExceeded from the twin's loops once they are over. Tests set no bound; an
explanation does, since the twin's cost can grow exponentially with a specification, and what it adds is a help only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter

from guided.errors import LimitExceeded

__all__ = ["be_patient", "patience"]

_deadline: ContextVar[tuple[float, float] | None] = ContextVar("deadline", default=None)


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Within the block, and on its thread, the twin takes no more than so many seconds."""
    token = _deadline.set((perf_counter() + seconds, seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


def be_patient() -> None:
    """Called in the twin's loops.

    Raises:
        LimitExceeded: the time is over.
    """
    bound = _deadline.get()
    if bound is not None and (now := perf_counter()) > bound[0]:
        raise LimitExceeded("seconds", bound[1] + now - bound[0], bound[1])
