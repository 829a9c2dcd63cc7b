"""Measures what one call costs. In: functions. Out: a line of JSON for each call, written to a pipe.

It measures CPU time, since other programs may use the machine. It also writes a line before each call, so the reader
knows in which call a process died.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, TypeVar

from guided.errors import GuidedError, LimitExceeded

__all__ = ["Meter", "resident"]

_Result = TypeVar("_Result")
_STATUS = Path("/proc/self/status")


def resident(field: str = "VmRSS") -> int:
    """Resident bytes of this process. `VmHWM`: the maximum since `clear_peak`."""
    for line in _STATUS.read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) << 10
    return 0


class Meter:
    """Measures calls, and writes their costs to a file descriptor.

    Attributes:
        refused: how the last call was refused; "" if it returned.
    """

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self.refused = ""

    def call(self, name: str, act: Callable[[], _Result], **facts: Any) -> _Result | None:
        """The result of `act`, or None if it raises an error of guided or a MemoryError."""
        self.begin(name)
        before, wall, cpu = resident(), perf_counter(), process_time()
        result, self.refused = None, ""
        try:
            result = act()
        except LimitExceeded as error:
            self.refused = f"limit {error.limit}"
        except (GuidedError, MemoryError, RecursionError, TypeError, ValueError) as error:
            self.refused = type(error).__name__
        cost = {"cpu": process_time() - cpu, "wall": perf_counter() - wall, "memory": resident("VmHWM") - before}
        self._write({"call": name, "refused": self.refused, **cost, **facts})
        return result

    def begin(self, name: str) -> None:
        """Record that a call begins, in case the process dies in it. The peak of memory is counted from here."""
        self._write({"begin": name})
        Path("/proc/self/clear_refs").write_text("5")

    def note(self, name: str, refused: str, cpu: float, wall: float, memory: int) -> None:
        """Record the cost of a call that was measured elsewhere."""
        self._write({"call": name, "refused": refused, "cpu": cpu, "wall": wall, "memory": memory})

    def _write(self, row: dict[str, Any]) -> None:
        os.write(self._pipe, (json.dumps(row) + "\n").encode())
