"""Checks that the CPU time of a call is linear in the size of its input."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

__all__ = ["assert_linear"]

_FACTOR = 8
_MIN_SECONDS = 0.5  # less is not compared, since short times vary


def assert_linear(run: Callable[[int], object], size: int) -> None:
    """Fail if 8 times the size takes more than 24 times as long. A quadratic cost takes 64 times as long.

    `size`: such that a linear cost is well below half a second for 8 times this size, and a quadratic cost above it.
    """
    run(size)  # one-time initialization
    large = _seconds(run, _FACTOR * size)
    if large > _MIN_SECONDS:
        small = min(_seconds(run, size) for _ in range(3))
        assert large <= 3 * _FACTOR * small, (
            f"{small:.3f} s for size {size}, {large:.3f} s for {_FACTOR} times the size"
        )


def _seconds(run: Callable[[int], object], size: int) -> float:
    begin = process_time()
    run(size)
    return process_time() - begin
