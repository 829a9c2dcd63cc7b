"""Counts the nodes of one pattern against `Limits.nodes`. Each node also charges one step to the current meter."""

from __future__ import annotations

from guided.errors import LimitExceeded
from guided.limits import Limits
from guided.meter import spend

__all__ = ["Budget"]


class Budget:
    """Counts the nodes that one pattern has used so far."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._nodes = 0

    def spend(self, nodes: int) -> None:
        """Count `nodes` more nodes. Raises LimitExceeded beyond the limit, or if the meter is exhausted."""
        self._nodes += nodes
        spend(nodes)
        if self._nodes > self.limits.nodes:
            raise LimitExceeded("nodes", self._nodes, self.limits.nodes)
