"""Statistics of repeated lists of times.

On a shared machine, other programs sometimes interrupt a process for milliseconds. Every walk is therefore repeated,
and the time of a position is its median over the repeats. Quantiles are taken over positions.
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
    """The quantile for this share."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(fraction * len(ordered)))]


def summary(values: Sequence[float]) -> dict[str, float]:
    """Quantiles, the maximum, the mean, and the count."""
    out = {name: quantile(values, fraction) for name, fraction in QUANTILES.items()}
    return out | {"max": max(values), "mean": sum(values) / len(values), "n": len(values)}
