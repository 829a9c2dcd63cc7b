"""The cost of a state: nesting thousands deep for every library, and budgets for guided."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.statistics import by_position, quantile
from benchmarks.workers import Failure, Worker
from benchmarks.workloads import NESTED_ARRAYS, ORDER, WARM_UP, order_instances

__all__ = ["DEPTHS", "SLACKS", "measure_budgets", "measure_nesting"]

DEPTHS = (1_000, 2_000, 5_000, 10_000)
SLACKS = [0, 1, 2, 3, 4, 6, 8, 16, 32, 64, 256]


def measure_nesting(vocabulary: Path) -> list[dict[str, Any]]:
    """Nested arrays, opened and closed: microseconds per step and bytes per level, in a new process for each."""
    out = []
    for engine in ("guided", "xgrammar", "llguidance"):
        for depth in DEPTHS:
            with Worker(engine, vocabulary, limit=60) as worker:
                worker.call("warm", WARM_UP)
                result = worker.call("nest", NESTED_ARRAYS, depth, limit=30)
            row: dict[str, Any] = {"engine": engine, "depth": depth}
            if isinstance(result, Failure):
                out.append(row | {"failure": result.reason})
                break
            out.append(
                row | {"in": result["in"] / depth / 1e3, "out": result["out"] / depth / 1e3, "bytes": result["bytes"]}
            )
    return out


def measure_budgets(vocabulary: Path, *, repeats: int) -> dict[str, Any]:
    """Compare masks with a budget with plain masks, at the same positions of the nested schema's instances."""
    schema, instances = json.dumps(ORDER), order_instances(4)
    kinds: dict[str, list[list[int]]] = {}
    with Worker("guided", vocabulary) as worker:
        worker.call("warm", WARM_UP)
        for _ in range(repeats):
            worker.call("recompile", "order", "json_schema", schema)
            whole: dict[str, list[int]] = {}
            for text in instances:
                result = worker.call("budgets", "order", text, SLACKS)
                if isinstance(result, Failure):
                    raise RuntimeError(result.reason)
                slacks = {f"slack {slack}": times for slack, times in result.pop("slack").items()}
                for kind, times in (result | slacks).items():
                    whole.setdefault(kind, []).extend(times)
            for kind, times in whole.items():
                kinds.setdefault(kind, []).append(times)
    plain = by_position(kinds["plain"])
    out = {}
    for kind, walks in kinds.items():
        times = by_position(walks)
        ratios = [time / base for time, base in zip(times, plain, strict=True)]
        out[kind] = {
            "p50": median(times),
            "p99": quantile(times, 0.99),
            "mean": sum(times) / len(times),
            "ratio": median(ratios),
            "ratio_p99": quantile(ratios, 0.99),
            "ratio_of_means": sum(times) / sum(plain),
        }
    return out
