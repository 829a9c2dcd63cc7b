"""A matcher whose calls each fail repeatedly before they succeed.

`FailingMatcher` has the methods of `GrammarMatcher` that `tests.core_support.journey` calls. Before a call succeeds,
the core (`guided/automaton/native/base/faults.hpp`) injects a failure at one point after another: at an allocation, or
at a check of a limit. A failed call must leave its matcher unchanged, and later calls must return the same answers as
without failures. This requires a build with GUIDED_FAULTS.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import guided
from guided.automaton import _core
from guided.matching import Explanation, GrammarMatcher

arm_fault: Callable[[int], int] | None = getattr(_core, "arm_fault", None)
"""Arms the n-th point from here on; returns the points that were passed before, a failing one included. None: the core
has no failures."""


class Failures:
    """Sweeps over the failure points of each call: first all points, then fewer and fewer, drawn at random, up to the
    last one.

        Attributes:
            injected: the number of failures, by the name of their error. "none": the call succeeded nevertheless.
    """

    def __init__(self, seed: int, dense: int = 16) -> None:
        self._rng, self._dense = random.Random(seed), dense
        self.injected = Counter[str]()

    def failing(self, call: Callable[[], Any], unchanged: Callable[[], Any]) -> Any:
        """The result of `call`, once it succeeds. `unchanged`: the state that failures must not change."""
        assert arm_fault is not None
        before = unchanged()
        for point in self._points():
            arm_fault(point)
            try:
                answer, failure = call(), "none"
            except (MemoryError, guided.LimitExceeded) as error:
                failure = type(error).__name__
            finally:
                has_failed = arm_fault(-1) > point
            if has_failed:
                self.injected[failure] += 1
            if failure == "none":
                return answer
            assert has_failed and unchanged() == before
        raise AssertionError("points have no end")

    def _points(self) -> Iterator[int]:
        point = self._rng.randrange(3)
        while True:
            yield point
            point += 1 + self._rng.randrange(1 + point // self._dense)


class FailingMatcher:
    """A `GrammarMatcher` of which each call fails at one point after another before it is made."""

    def __init__(self, matcher: GrammarMatcher, failures: Failures) -> None:
        self.matcher, self.failures = matcher, failures

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.matcher, name)
        if not callable(value) or name in ("is_accepting", "is_terminated"):
            return value
        return lambda *args, **named: self.failures.failing(lambda: value(*args, **named), self._seen)

    def explain(self, asked: str) -> Explanation:
        """A complete explanation. A partial one means that a failure interrupted it."""

        def whole() -> Explanation:
            told = self.matcher.explain(asked)
            if told.is_partial:
                raise MemoryError("the explanation is partial")
            return told

        told: Explanation = self.failures.failing(whole, self._seen)
        return told

    def fork(self) -> FailingMatcher:
        """A failing fork."""
        return FailingMatcher(self.failures.failing(self.matcher.fork, self._seen), self.failures)

    def _seen(self) -> tuple[int, bool, bool]:
        return self.matcher.steps, self.matcher.is_accepting(), self.matcher.is_terminated()
