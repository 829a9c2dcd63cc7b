"""How far `min_tokens_to_finish` is from the exact minimum, on real schemas.

In: a folder of MaskBench's files (`{"schema": ..., "tests": [...]}`), not part of the project. Out: for each style, the
distribution of bound minus exact minimum, over the first 100 schemas that compile and whose shortest completion has
more than two tokens (`{}` and the end would measure nothing).
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.llama3 import ROOT
from benchmarks.workers import Failure, Worker

__all__ = ["WAYS", "find_schemas", "measure_slack"]

WAYS: dict[str, dict[str, Any]] = {
    "defaults (any whitespace, any number spelling)": {},
    'as the engine writes (", " and ": ", plain numbers)': {"whitespace": "single_space", "numbers": "plain"},
}


def find_schemas(location: str | None = None) -> Path:
    """The folder: `location`, or `maskbench` below $GUIDED_ASSETS or below a folder `shared` beside the repository.

    Raises:
        FileNotFoundError: there is no such folder.
    """
    if location:
        roots = [Path(location)]
    else:
        beside = [os.environ.get("GUIDED_ASSETS"), ROOT.parent / "shared"]
        roots = [path for root in beside if root for path in Path(root).rglob("maskbench")]
    for root in roots:
        if root.is_dir() and next(root.glob("*.json"), None):
            return root
    raise FileNotFoundError(
        f"no schemas{f' in {location}' if location else ''}: pass --schemas with MaskBench's data folder"
    )


def measure_slack(vocabulary: Path, schemas: Path, *, count: int, seconds: float, seed: int = 5) -> dict[str, Any]:
    """For each style: the number of schemas by their slack."""
    files = sorted(schemas.glob("*.json"))
    random.Random(seed).shuffle(files)
    out = {}
    with Worker("guided", vocabulary) as worker:
        for way, options in WAYS.items():
            out[way] = _one_way(worker, files, options | {"unknown_format": "ignore"}, count, seconds)
    return out


def _one_way(worker: Worker, files: list[Path], options: dict[str, Any], count: int, seconds: float) -> dict[str, Any]:
    slacks: Counter[int] = Counter()
    refused = trivial = cut_off = attempts = 0
    largest = 0
    for file in files:
        if attempts == count:
            break
        schema = json.dumps(json.loads(file.read_text(encoding="utf-8"))["schema"])
        result = worker.call("slack", schema, options, seconds, limit=20 * seconds + 120)
        if isinstance(result, Failure):
            refused += 1
        elif result["bound"] <= 2:
            trivial += 1
        else:
            attempts += 1
            largest = max(largest, result["bound"])
            if result["exact"] is None:
                cut_off += 1
            else:
                slacks[result["bound"] - result["exact"]] += 1
    return {
        "schemas": attempts,
        "slacks": dict(sorted(slacks.items())),
        "cut_off": cut_off,
        "refused": refused,
        "trivial": trivial,
        "largest_bound": largest,
        "seconds": seconds,
    }
