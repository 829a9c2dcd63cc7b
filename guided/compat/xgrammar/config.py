"""xgrammar's process-wide settings.

The recursion depth is stored but has no effect, since guided's matchers do not recurse. `guided.Limits` bounds the cost
of compiling.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = [
    "get_max_recursion_depth",
    "get_serialization_version",
    "max_recursion_depth",
    "set_max_recursion_depth",
]

SERIALIZATION_VERSION: Final = "guided-1"
_DEFAULT_DEPTH: Final = 10_000
_MAX_DEPTH: Final = 1_000_000
_lock = threading.Lock()
_depth: int | None = None


def get_max_recursion_depth() -> int:
    """The depth that was set; otherwise the value of XGRAMMAR_MAX_RECURSION_DEPTH in the environment; otherwise
    10,000."""
    with _lock:
        if _depth is not None:
            return _depth
    value = os.environ.get("XGRAMMAR_MAX_RECURSION_DEPTH", "")
    return int(value) if value.isdecimal() and 0 < int(value) <= _MAX_DEPTH else _DEFAULT_DEPTH


def set_max_recursion_depth(max_recursion_depth: int) -> None:
    """Store a depth. RuntimeError: it is not from 1 to 1,000,000."""
    if not isinstance(max_recursion_depth, int) or not 0 < max_recursion_depth <= _MAX_DEPTH:
        raise RuntimeError(
            f"max_recursion_depth must be an integer from 1 to {_MAX_DEPTH}, not {max_recursion_depth!r}"
        )
    global _depth
    with _lock:
        _depth = max_recursion_depth


@contextmanager
def max_recursion_depth(temp_depth: int) -> Iterator[None]:
    """Set a depth for the duration of the block."""
    previous_depth = get_max_recursion_depth()
    set_max_recursion_depth(temp_depth)
    try:
        yield
    finally:
        set_max_recursion_depth(previous_depth)


def get_serialization_version() -> str:
    """The format version of `serialize_json`, which differs from xgrammar's: neither reads the other's grammars."""
    return SERIALIZATION_VERSION
