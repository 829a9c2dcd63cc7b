"""A pause of Python's cyclic garbage collector, for work that makes many objects and soon drops them.

Each full collection looks at all objects of the process; while a large schema is read that costs a third of the time
and finds nothing. What references free is freed as ever, and circles are found after the pause.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collection_paused"]

_lock = threading.Lock()
_pauses = 0
_was_on = False


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pauses may overlap, in any threads. A collector that was off at the first stays off after the last."""
    global _pauses, _was_on
    with _lock:
        if _pauses == 0:
            _was_on = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if _pauses == 0 and _was_on:
                gc.enable()
