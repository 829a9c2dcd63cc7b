"""Masks with a budget of 1,000 tokens, compared with plain masks, on the first walks of real schemas.

In: a folder of MaskBench's files (`{"schema": ..., "tests": [...]}`), not part of the project. Out, over the first 400
schemas in a random order with a fixed seed that compile and have a valid instance: the mean CPU time of a mask of each
kind, its quantiles, and the schemas to whose masks the budget adds most.

How: each kind has its own process, which compiles a schema and walks along at most two of its instances. As in a
server, the vocabulary's caches are kept from one schema to the next. The two processes take turns, schema by schema,
and the order alternates. At each position, the budget is the number of remaining tokens of the instance, plus 1,000.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.statistics import quantile
from benchmarks.workers import Failure, Worker
from benchmarks.workloads import WARM_UP

__all__ = ["measure_first_walks"]

LEFT = 1000
KINDS: dict[str, int | None] = {"plain": None, "budget": LEFT}
_INSTANCES, _SECONDS, _NAMED = 2, 60.0, 3


def measure_first_walks(vocabulary: Path, schemas: Path, *, count: int, seed: int = 5) -> dict[str, Any]:
    """Measure both kinds. A schema that one of them does not finish counts for neither."""
    files = sorted(schemas.glob("*.json"))
    random.Random(seed).shuffle(files)
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    extra: dict[str, float] = {}
    walked = refused = 0
    with Worker("guided", vocabulary) as plain, Worker("guided", vocabulary) as budget:
        workers = {"plain": plain, "budget": budget}
        for worker in workers.values():
            worker.call("warm", WARM_UP)
        for file in files:
            if walked == count:
                break
            case = _read(file)
            if case is None:
                continue
            order = list(KINDS.items()) if walked % 2 == 0 else list(KINDS.items())[::-1]
            results = {kind: workers[kind].call("first_walk", *case, left, limit=_SECONDS) for kind, left in order}
            if any(isinstance(answer, Failure) for answer in results.values()):
                refused += 1
                continue
            walked += 1
            for kind, answer in results.items():
                times[kind] += [ns / 1e3 for ns in answer]
            extra[file.name] = (sum(results["budget"]) - sum(results["plain"])) / 1e3
    out: dict[str, Any] = {
        kind: {"mean": fmean(mine), **{f"p{q * 100:g}": quantile(mine, q) for q in (0.5, 0.99)}, "max": max(mine)}
        for kind, mine in times.items()
    }
    return out | {
        "schemas": walked,
        "refused": refused,
        "masks": len(times["plain"]),
        "left": LEFT,
        "most": sorted(extra.items(), key=lambda item: -item[1])[:_NAMED],
        "ratio": out["budget"]["mean"] / out["plain"]["mean"],
    }


def _read(file: Path) -> tuple[str, list[str]] | None:
    """The schema and its valid instances, or None if no instance is valid."""
    content = json.loads(file.read_text(encoding="utf-8"))
    valid = [test["data"] for test in content["tests"] if test["valid"]][:_INSTANCES]
    texts = [json.dumps(value, ensure_ascii=False, separators=(",", ":")) for value in valid]
    return (json.dumps(content["schema"]), texts) if texts else None
