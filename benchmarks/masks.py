"""Masks, steps, compilation, memory and vocabulary preparation on the nested schema, for all libraries in turn."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.engines import ENGINES
from benchmarks.statistics import by_position, summary
from benchmarks.workers import Failure, Worker
from benchmarks.workloads import ORDER, PATTERNS, WARM_UP, Workload, order_instances

__all__ = ["measure_masks", "measure_patterns"]


def measure_masks(vocabulary: Path, *, repeats: int) -> dict[str, Any]:
    """The nested schema: for each engine its summaries, in microseconds, bytes and milliseconds."""
    schema, instances = json.dumps(ORDER), order_instances()
    workers = {name: Worker(name, vocabulary) for name in ENGINES}
    raw: dict[str, dict[str, Any]] = {name: {"first": [], "again": [], "accept": [], "evicted": []} for name in workers}
    for name, worker in workers.items():
        raw[name]["prepare"] = [worker.prepared["ns"]]
        worker.call("warm", WARM_UP)
        raw[name]["compile"] = _checked(name, worker.call("compile_times", "order", "json_schema", schema, 1))
    for turn in range(repeats):
        for name, worker in workers.items():
            raw[name]["prepare"] += worker.call("prepare_again", 1)
            _checked(name, worker.call("recompile", "order", "json_schema", schema))
        for run in ("first", "again"):
            for name in workers:
                raw[name][run].append([])
                if run == "first":
                    raw[name]["accept"].append([])
            for text in instances:
                for name, worker in workers.items():
                    walked = _checked(name, worker.call("walk", "order", text))
                    if walked["stopped"] is not None:
                        raise RuntimeError(f"{name} refuses an instance at token {walked['stopped']}: {text}")
                    raw[name][run][-1] += walked["fills"]
                    if turn == 0:  # later repeats begin with a new grammar
                        raw[name]["bytes"] = raw[name].get("bytes", 0) + walked["bytes"]
                    if run == "first":
                        raw[name]["accept"][-1] += walked["accepts"]
        for name, worker in workers.items():
            _checked(name, worker.call("recompile", "order", "json_schema", schema))
            raw[name]["evicted"].append(_checked(name, worker.call("walk", "order", instances[0], None, True))["fills"])
    out = {}
    for name, worker in workers.items():
        times = _checked(name, worker.call("compile_times", "order", "json_schema", schema, repeats))
        worker.close()
        mine = raw[name]
        mine["alone"] = [fills[: len(mine["evicted"][0])] for fills in mine["first"]]  # of the first instance
        out[name] = {
            run: summary(by_position(mine[run])) for run in ("first", "again", "accept", "alone", "evicted")
        } | {
            "times": by_position(mine["first"]),
            "compile": median(times["compile"]) / 1e6,
            "first_mask": median(times["first"]) / 1e6,
            "compile_first": mine["compile"]["compile"][0] / 1e6,
            "prepare": median(mine["prepare"]) / 1e6,
            "prepare_bytes": worker.prepared["bytes"],
            "bytes": mine["compile"]["bytes"] + mine["bytes"],
        }
    return out


def measure_patterns(vocabulary: Path, *, repeats: int) -> list[dict[str, Any]]:
    """The specifications that explode if repetition is unrolled: a row for each workload and engine."""
    names = ("guided", "xgrammar", "llguidance")
    workers = {name: Worker(name, vocabulary) for name in names}
    for worker in workers.values():
        worker.call("warm", WARM_UP)
    out = []
    for workload in PATTERNS:
        for name, worker in workers.items():
            row: dict[str, Any] = {"workload": workload.name, "engine": name}
            out.append(row | _pattern(worker, workload, repeats))
    for worker in workers.values():
        worker.close()
    return out


def _pattern(worker: Worker, workload: Workload, repeats: int) -> dict[str, Any]:
    identity = (workload.name, workload.kind, workload.text)
    compiled = worker.call("compile_times", *identity, repeats, limit=60)
    if isinstance(compiled, Failure):
        return {"failure": compiled.reason}
    out = {
        "compile": median(compiled["compile"][1:] or compiled["compile"]) / 1e6,
        "compile_first": compiled["compile"][0] / 1e6,
        "first_mask": median(compiled["first"][1:] or compiled["first"]) / 1e6,
        "bytes": compiled["bytes"],
    }
    slow = out["compile"] > 500
    walks: list[list[int]] = []
    for _ in range(1 if slow else repeats):
        if not slow:
            worker.call("recompile", *identity, limit=60)
        walks.append([])
        for text in workload.instances:
            walked = worker.call("walk", workload.name, text, workload.most, limit=60)
            if isinstance(walked, Failure):
                return out | {"failure": f"compiled, but masks: {walked.reason}"}
            if walked["stopped"] is not None:
                out["refused"] = out.get("refused", 0) + 1
            walks[-1] += walked["fills"]
            out["bytes"] += walked["bytes"] if len(walks) == 1 else 0  # later repeats begin with a new grammar
    return out | {"masks": summary(by_position(walks))}


def _checked(name: str, answer: Any) -> Any:
    if isinstance(answer, Failure):
        raise RuntimeError(f"{name}: {answer.reason}")
    return answer
