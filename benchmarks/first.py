"""The time to the first mask: real schemas and Lark grammars beside llguidance, and ready-made grammars.

In: a folder of MaskBench's files (not part of the project), the grammars of the section `grammars`, and `grammars/`.
Out: milliseconds from the text of a specification to its first mask, beside llguidance. llguidance refuses the largest
ready-made grammars (templates and priorities), so these are measured for guided only: from their text, from the stored
form, and from the bytes of `CompiledGrammar.to_bytes`. For schemas, the masks of the first walk of an instance are
measured, too.

How: each library has its own process. They take turns, specification by specification, and the order alternates. A time
is the median of three rounds. Tables of the vocabulary are prepared before, and caches of earlier specifications are
dropped. A specification that one library refuses counts for neither.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks import llama3
from benchmarks.grammars import CASES
from benchmarks.statistics import quantile
from benchmarks.workers import Failure, Worker
from benchmarks.workloads import LARK_WARM_UP

__all__ = ["measure_first"]

ROUNDS, ENGINES = 3, ("guided", "llguidance")
WAYS = ("text", "stored", "bytes")
READY_MADE = llama3.ROOT / "grammars"
_LIMIT = 30.0  # seconds of one job


def measure_first(vocabulary: Path, schemas: Path, *, count: int, seed: int = 7) -> dict[str, Any]:
    """`schemas`: quantiles over schemas. `lark` and `ready_made`: a row for each grammar."""
    workers = {name: Worker(name, vocabulary) for name in ENGINES}
    for worker in workers.values():
        worker.call("warm", LARK_WARM_UP)
    try:
        return {
            "schemas": _schemas(workers, schemas, count, seed),
            "lark": [_beside(workers, case.name, case.grammar.read_text(encoding="utf-8")) for case in CASES],
            "ready_made": [_ready_made(workers["guided"], path.stem) for path in sorted(READY_MADE.glob("*.lark"))],
        }
    finally:
        for worker in workers.values():
            worker.close()


def _schemas(workers: dict[str, Worker], folder: Path, count: int, seed: int) -> dict[str, Any]:
    files = sorted(folder.glob("*.json"))
    random.Random(seed).shuffle(files)
    firsts: dict[str, list[float]] = {name: [] for name in workers}
    masks: dict[str, list[float]] = {name: [] for name in workers}
    bytes_first: list[float] = []
    measured = refused = 0
    for file in files:
        if measured == count:
            break
        content = json.loads(file.read_text(encoding="utf-8"))
        texts = [json.dumps(test["data"], ensure_ascii=False) for test in content["tests"] if test["valid"]][:1]
        times = _beside(workers, file.name, json.dumps(content["schema"]), "json_schema", texts)
        if "failure" in times:
            refused += 1
            continue
        measured += 1
        for name in workers:
            firsts[name].append(times[name])
            masks[name] += times[f"{name} masks"]
        stored = workers["guided"].call("first_masks", "schema", json.dumps(content["schema"]), ROUNDS)
        bytes_first += [] if isinstance(stored, Failure) else [median(stored) / 1e6]
    out: dict[str, Any] = {"count": measured, "refused": refused, "masks": len(masks["guided"])}
    for name in workers:
        out[name] = _quantiles(firsts[name]) | {"masks": _quantiles(masks[name])}
    return out | {"from bytes": _quantiles(bytes_first)}


def _quantiles(values: list[float]) -> dict[str, float]:
    return {"p50": median(values), "p90": quantile(values, 0.9), "p99": quantile(values, 0.99),
            "max": max(values), "mean": fmean(values)}  # fmt: skip


def _beside(
    workers: dict[str, Worker], name: str, text: str, kind: str = "lark", instances: list[str] | None = None
) -> dict[str, Any]:
    """Milliseconds to the first mask by engine, and microseconds of the masks of one instance; or `failure`."""
    times: dict[str, list[float]] = {engine: [] for engine in workers}
    walks: dict[str, list[list[int]]] = {engine: [] for engine in workers}
    for turn in range(ROUNDS):
        order = list(workers.items())
        for engine, worker in order if turn % 2 == 0 else order[::-1]:
            result = worker.call("compile_times", name, kind, text, 1, limit=_LIMIT)
            if isinstance(result, Failure):
                return {"name": name, "failure": f"{engine}: {result.reason.splitlines()[0]}"}
            times[engine].append(result["first"][0] / 1e6)
            for instance in instances or ():
                walked = worker.call("walk", name, instance, limit=_LIMIT)
                if isinstance(walked, Failure) or walked["stopped"] is not None:
                    return {"name": name, "failure": f"{engine} does not accept the instance"}
                walks[engine].append(walked["fills"])
    out: dict[str, Any] = {"name": name} | {engine: median(each) for engine, each in times.items()}
    for engine, each in walks.items():
        out[f"{engine} masks"] = [median(position) / 1e3 for position in zip(*each, strict=True)]
    return out


def _ready_made(worker: Worker, name: str) -> dict[str, Any]:
    out: dict[str, Any] = {"name": name}
    for way in WAYS:
        result = worker.call("first_masks", way, name, ROUNDS, limit=_LIMIT)
        if isinstance(result, Failure):
            return {"name": name, "failure": result.reason.splitlines()[0]}
        out[way] = median(result) / 1e6
    return out
