"""The bounds for every call of the search, and the growth that it reports.

Out: `bound_of(call)`, in CPU seconds and bytes, and thresholds. A call into the core takes at most 100 ms.
`Limits.seconds` bounds compilation and remarks; an explanation has its own `SECONDS`. The bound on memory is
`Limits.memory` plus a tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from guided.limits import Limits
from guided.matching.explain.explanation import SECONDS

__all__ = ["FLOOR", "LIMITS", "STEEP", "Bound", "bound_of"]

LIMITS: Final = Limits(seconds=2.0)
"""The limits of the search: seconds are fewer than by default, so that the search is quick."""
STEEP: Final = 1.5
"""The exponent of growth above which a cost counts as faster than linear; n log n stays below."""

FLOOR: Final = 0.2
"""The part of its bound below which a cost's growth is not looked at."""

_RUN: Final = 0.1  # seconds of one call into the core, or of a turn of the event loop
_NEIGHBOUR: Final = 0.5  # additional seconds that another client may wait
_SLACK: Final = 0.5  # seconds between two checks of the clock, on a busy machine
_RUN_MEMORY: Final = LIMITS.memory + (64 << 20)
_COMPILE_MEMORY: Final = 1 << 30
_SPECIFICATION: Final = ("compile", "lint", "sample", "captures", "call", "request")
"""Calls that read the specification or many masks: bounded as a compilation is."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The bounds of one call: CPU seconds, and bytes of memory at its peak."""

    seconds: float
    memory: int


def bound_of(call: str) -> Bound:
    """The bound of a call, by its name."""
    if call.startswith("explain"):
        return Bound(SECONDS + _SLACK, _COMPILE_MEMORY)
    if call.startswith(_SPECIFICATION):
        return Bound(LIMITS.seconds + _SLACK, _COMPILE_MEMORY)
    return Bound(_NEIGHBOUR if call == "neighbour" else _RUN, _RUN_MEMORY)
