"""The cost of reading one pattern, held against `Limits`: nodes and seconds."""

from __future__ import annotations

from time import monotonic

from guided.errors import LimitExceeded
from guided.limits import Limits
from guided.meter import spend

__all__ = ["Budget"]


class Budget:
    """The nodes and the seconds spent on one pattern so far."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._start, self._nodes = monotonic(), 0

    def spend(self, nodes: int) -> None:
        """Count nodes and check the time. LimitExceeded beyond a limit."""
        self._nodes += nodes
        spend(nodes)
        if self._nodes > self.limits.nodes:
            raise LimitExceeded("nodes", self._nodes, self.limits.nodes)
        seconds = monotonic() - self._start
        if seconds > self.limits.seconds:
            raise LimitExceeded("seconds", seconds, self.limits.seconds)
