"""A matcher whose calls fail on purpose first, and are then made again.

`FailingMatcher` has the methods of `GrammarMatcher` that `tests.core_support.journey` calls. Before each call a failure
is armed in the core (`guided/automaton/native/base/faults.hpp`): an allocation or a check of a limit, drawn at random
from the points that the call passes. A call that fails must leave its matcher as it was, and whatever is asked
afterwards must be answered as if nothing had happened. Only builds with GUIDED_FAULTS have this.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import guided
from guided.automaton import _core
from guided.matching import GrammarMatcher

arm_fault: Callable[[int], int] | None = getattr(_core, "arm_fault", None)
"""Arms the n-th point from here on; returns the points that were passed before. None: the core has no failures."""


@dataclass
class Failures:
    """Draws the points that fail. `points`: the numbers of points that are drawn from, in turn."""

    rng: random.Random
    points: tuple[int, ...] = (1, 4, 16, 64, 256, 1024, 8192)
    injected: int = 0
    passed: int = 0
    kinds: dict[str, int] = field(default_factory=dict)

    def failing(self, call: Callable[[], Any], unchanged: Callable[[], Any]) -> Any:
        """What `call` returns, at the second try if the first fails. `unchanged`: what a failure must leave alone."""
        assert arm_fault is not None
        before = unchanged()
        arm_fault(self.rng.randrange(self.rng.choice(self.points)))
        try:
            return call()
        except (MemoryError, guided.LimitExceeded) as error:
            self.injected += 1
            self.kinds[type(error).__name__] = self.kinds.get(type(error).__name__, 0) + 1
        finally:
            self.passed += arm_fault(-1)
        assert unchanged() == before
        return call()


class FailingMatcher:
    """A `GrammarMatcher` of which each call fails first, if the point that was drawn is passed."""

    def __init__(self, matcher: GrammarMatcher, failures: Failures) -> None:
        self.matcher, self.failures = matcher, failures

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.matcher, name)
        if not callable(value) or name in ("is_accepting", "is_terminated"):
            return value
        return lambda *args, **named: self.failures.failing(lambda: value(*args, **named), self._seen)

    def fork(self) -> FailingMatcher:
        """A failing fork."""
        return FailingMatcher(self.failures.failing(self.matcher.fork, self._seen), self.failures)

    def _seen(self) -> tuple[int, bool, bool]:
        return self.matcher.steps, self.matcher.is_accepting(), self.matcher.is_terminated()
