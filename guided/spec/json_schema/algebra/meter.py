"""Counts the work of reading one schema. In: `Limits`. Out: nothing, or LimitExceeded.

Whatever may take more than linear time passes it, so that neither the counted work nor the wall time goes beyond
what the caller allows. Cost: one addition and one reading of the clock for each step.
"""

from __future__ import annotations

import time

from guided.errors import LimitExceeded
from guided.limits import Limits
from guided.meter import spend

__all__ = ["Meter"]

_STEP = 3_000  # the cost of an ordinary step, in units of `Limits.work`


class Meter:
    """The work and the time of one compilation so far."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.restart()

    def restart(self) -> None:
        """Count from nothing again: another compilation begins."""
        self._begin, self._work = time.monotonic(), 0

    def step(self, cost: int = _STEP) -> None:
        """Count a step that costs so many units of work. LimitExceeded if the work or the seconds are used up."""
        spend()
        self._work += cost
        if self._work > self._limits.work:
            raise LimitExceeded("work", self._work, self._limits.work)
        if (elapsed := time.monotonic() - self._begin) > self._limits.seconds:
            raise LimitExceeded("seconds", elapsed, self._limits.seconds)
