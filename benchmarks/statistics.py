"""Numbers out of repeated lists of times.

A shared machine stops a process now and then for milliseconds, which has nothing to do with the work. Every walk is
therefore repeated, and the time of a position is its median over the repeats; quantiles are taken over positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

__all__ = ["by_position", "quantile", "summary"]

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}


def by_position(repeats: Sequence[Sequence[int]]) -> list[float]:
    """The median time of each position, in microseconds."""
    return [median(times) / 1e3 for times in zip(*repeats, strict=True)]


def quantile(values: Sequence[float], fraction: float) -> float:
    """The value that this part of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(fraction * len(ordered)))]


def summary(values: Sequence[float]) -> dict[str, float]:
    """Quantiles, the largest, the mean, and how many."""
    out = {name: quantile(values, fraction) for name, fraction in QUANTILES.items()}
    return out | {"max": max(values), "mean": sum(values) / len(values), "n": len(values)}
