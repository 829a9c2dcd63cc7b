"""Sixty-four requests at once for ten minutes: mixed constraints, cancellations, budgets that are too small.

`python -m benchmarks.soak --model PATH [--seconds 600] [--requests 64]`. In: SmolLM2's GGUF file. Out: the numbers of
requests that completed, were refused, were cancelled, or failed; memory over time; the times of the engine's steps. The
exit code is 1 if a constrained output is not in its language, if a request failed unexpectedly, or if memory grew.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import random
import re
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.end_to_end import find_weights
from benchmarks.extraction import INSTRUCTIONS, TASKS
from benchmarks.statistics import quantile

_PATTERN = r"[A-Z][a-z]{2,12}( [A-Z][a-z]{2,12}){1,3}"
_CHOICES = ["positive", "negative", "neutral", "mixed"]


class Soak:
    """The engine, and the results so far."""

    def __init__(self, model: Path, seconds: float) -> None:
        import torch

        from guided import Engine

        torch.set_num_threads(2)
        self.engine = Engine.from_pretrained(model)
        self.end = time.monotonic() + seconds
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.steps: list[float] = []
        self.tokens = 0
        self.lock = threading.Lock()
        step = self.engine.scheduler.step

        def timed() -> Any:
            begin = time.perf_counter()
            out = step()
            self.steps.append(time.perf_counter() - begin)
            return out

        self.engine.scheduler.step = timed  # type: ignore[method-assign]

    def requests(self, number: int) -> None:
        """Send one request after the other, until the time is over."""
        rng = random.Random(number)
        while time.monotonic() < self.end:
            try:
                kind, tokens = self.request(rng)
            except Exception as error:  # every error is reported
                kind, tokens = type(error).__name__, 0
                if kind != "BudgetError":
                    self.wrong.append(f"{kind}: {error}")
            with self.lock:
                self.counts[kind] += 1
                self.tokens += tokens

    def request(self, rng: random.Random) -> tuple[str, int]:
        """The outcome of a request, and its tokens."""
        text, schema = rng.choice(TASKS)
        prompt = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": text}]
        options: dict[str, Any] = {
            "temperature": rng.choice([0.0, 0.8]),
            "max_tokens": rng.choice([5, 60, 200, 300]),
            "drafts": rng.choice([0, 3]),
            "seed": rng.randrange(1000),
        }
        kind = rng.choice(["schema", "schema", "pattern", "choice", "free"])
        constraint: Any = {"schema": schema, "pattern": _PATTERN, "choice": _CHOICES, "free": None}[kind]
        if rng.random() < 0.1:  # a client disconnects
            stream = self.engine.stream(prompt, constraint, **options)
            tokens = 0
            for event in stream:
                tokens += len(event.tokens)
                if tokens > 10:
                    break
            stream.close()  # type: ignore[attr-defined]
            return "cancelled", tokens
        result = self.engine.generate(prompt, constraint, **options)
        if kind != "free" and not self.fits(kind, schema, result.text):
            self.wrong.append(f"{kind}: {result.text!r}")
        return f"{kind}, {result.finish_reason}", len(result.tokens)

    def fits(self, kind: str, schema: Any, text: str) -> bool:
        """Whether an output satisfies its constraint."""
        if kind == "schema":
            return set(json.loads(text)) == set(schema["properties"])
        return re.fullmatch(_PATTERN, text) is not None if kind == "pattern" else text in _CHOICES


def _give_back() -> None:
    """Return freed memory to the system. Memory that glibc's malloc retains is not a leak, but would hide one."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def main() -> int:
    """Run, and print the results as JSON."""
    import psutil

    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", help="SmolLM2's GGUF file")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--requests", type=int, default=64)
    args = parser.parse_args()
    soak = Soak(find_weights(args.model), args.seconds)
    threads = [threading.Thread(target=soak.requests, args=(i,)) for i in range(args.requests)]
    begin, memory, process = time.monotonic(), list[tuple[int, int, int]](), psutil.Process()
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(min(15.0, args.seconds / 20))
        gc.collect()
        resident = process.memory_info().rss >> 20
        _give_back()
        memory.append((round(time.monotonic() - begin), process.memory_info().rss >> 20, resident))
        print(f"{memory[-1]}, {dict(soak.counts)}", file=sys.stderr, flush=True)
    settled = [used for seconds, used, _ in memory if seconds > args.seconds / 3]
    grown = settled[-1] - settled[0] if settled else 0
    cache = soak.engine.scheduler.runner.cache
    report = {
        "seconds": round(time.monotonic() - begin),
        "requests at once": args.requests,
        "outcomes": dict(soak.counts),
        "tokens per second": round(soak.tokens / (time.monotonic() - begin), 1),
        "step ms": {f"p{q}": round(1e3 * quantile(soak.steps, q / 100), 1) for q in (50, 90, 99, 100)},
        "seconds, MiB in use, MiB with what malloc keeps": memory,
        "grown MiB in the last two thirds": grown,
        "positions still held": cache.capacity - cache.available,
        "preemptions": soak.engine.scheduler.preemptions,
        "wrong": soak.wrong[:20],
    }
    print(json.dumps(report, indent=1))
    return int(bool(soak.wrong) or grown > 64 or cache.available != cache.capacity)


if __name__ == "__main__":
    sys.exit(main())
