"""Sends requests of every kind to a server at random times, and judges every answer.

`python -m benchmarks.server_load [--model PATH] [--requests 1000] [--rate 1.5] [--burst 60] [-- OPTION ...]`. In:
SmolLM2's GGUF file, or the name of another model with a chat template. Options after `--` are passed to `guided serve`.
Out, as JSON: the outcomes of the requests, by kind; p50, p90 and p99 of the time to the first token, of the time
between tokens, and of refusals; the server's memory over time. The exit code is 1 if an answer is wrong or lost, if a
refusal under overload takes too long, or if memory grows.

The load is open: requests come at random times (a Poisson process), whether or not others have been answered. At the
end, a burst of more requests than the server can queue arrives within half a second. Memory growth compares the second
quarter of the time with the last one. By then the whole KV cache, which is touched on first use, is in use, and all
grammars of the mix are compiled.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any, Final

from benchmarks.end_to_end import find_weights
from benchmarks.server_client import Reply, Served, ask, served
from benchmarks.server_requests import LoadRequest, draw
from benchmarks.statistics import quantile

__all__ = ["LoadCounts", "milliseconds"]

_ROUTE: Final = "/v1/chat/completions"
_MAX_REFUSAL: Final = 0.05  # seconds
_BURST_RATE: Final = 150.0  # requests per second
_MAX_GROWTH: Final = 48  # MiB


@dataclass(slots=True)
class LoadCounts:
    """The results of a load.

    Attributes:
        outcomes: the number of requests by kind and outcome.
        wrong: descriptions of wrong or lost answers.
        first, between: seconds to the first token of streams, and between their pieces, without slow readers.
        refusals: seconds until a refusal under overload.
        memory: seconds since the start, and MiB of the server.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    between: list[float] = field(default_factory=list)
    refusals: list[float] = field(default_factory=list)
    memory: list[tuple[int, float]] = field(default_factory=list)

    def add(self, request: LoadRequest, reply: Reply) -> None:
        """Count an answer."""
        verdict = request.verdict(reply)
        self.outcomes[f"{request.kind}: {verdict.split(':')[0]}"] += 1
        if verdict.startswith(("WRONG", "LOST")):
            self.wrong.append(f"{request.kind}: {verdict}")
        if verdict == "overloaded":
            self.refusals.append(reply.seconds)
        if (
            verdict == "ok"
            and reply.headers.get("content-type", "").startswith("text/event-stream")
            and not request.pause
        ):
            self.first.append(reply.times[0])
            self.between += [later - earlier for earlier, later in pairwise(reply.times)]

    @property
    def growth(self) -> float:
        """The growth of the server in MiB: the difference of the medians of the second and of the last quarter of the
        time.
        """
        quarter = len(self.memory) // 4
        second, last = self.memory[quarter : 2 * quarter], self.memory[-quarter:]
        return median(mib for _, mib in last) - median(mib for _, mib in second) if quarter else 0.0


def milliseconds(values: list[float]) -> dict[str, float]:
    """Quantiles of times in seconds."""
    return {f"p{q}": round(1e3 * quantile(values, q / 100), 1) for q in (50, 90, 99, 100)} if values else {}


async def _one(server: Served, request: LoadRequest, counts: LoadCounts) -> None:
    """Send a request, and judge its answer."""
    try:
        reply = await ask(server.port, _ROUTE, request.body, pause=request.pause, leave_after=request.leave_after)
    except OSError as error:
        counts.wrong.append(f"{request.kind}: LOST: {error}")
        return
    counts.add(request, reply)


async def _arrivals(server: Served, counts: LoadCounts, *, requests: int, rate: float, rng: random.Random) -> float:
    """Send an open load. Return the seconds until all requests are answered."""
    begin = time.monotonic()
    watch = asyncio.create_task(_watch(server, counts, begin))
    async with asyncio.TaskGroup() as group:
        for number in range(requests):
            group.create_task(_one(server, draw(rng), counts))
            await asyncio.sleep(rng.expovariate(rate))
            if number % 100 == 99:
                print(f"{number + 1} of {requests}: {dict(counts.outcomes)}", file=sys.stderr, flush=True)
    watch.cancel()
    return time.monotonic() - begin


async def _watch(server: Served, counts: LoadCounts, begin: float) -> None:
    while True:
        counts.memory.append((round(time.monotonic() - begin), round(server.memory() / (1 << 20), 1)))
        await asyncio.sleep(5)


async def _burst(server: Served, counts: LoadCounts, number: int, rng: random.Random) -> None:
    """Send more requests than the server can queue, a hundred times as fast as it can answer them."""
    mix = [request for request in (draw(rng) for _ in range(4 * number)) if request.status == 200 and not request.pause]
    async with asyncio.TaskGroup() as group:
        for request in mix[:number]:
            group.create_task(_one(server, request, counts))
            await asyncio.sleep(rng.expovariate(_BURST_RATE))


def main() -> int:
    """Run, and print the results as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server_load", description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", help="SmolLM2's GGUF file, or the name of another model")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=1.5, help="requests per second (1.5)")
    parser.add_argument("--burst", type=int, default=60, help="number of simultaneous requests at the end (60)")
    parser.add_argument("--room", type=int, default=32, help="--max-queued-requests of the server (32)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("options", nargs="*", help="options of guided serve")
    args = parser.parse_args()
    rng, counts, burst = random.Random(args.seed), LoadCounts(), LoadCounts()
    model = args.model or str(find_weights(args.model))
    with served(model, "--max-queued-requests", str(args.room), *args.options) as server:
        seconds = asyncio.run(_arrivals(server, counts, requests=args.requests, rate=args.rate, rng=rng))
        asyncio.run(_burst(server, burst, args.burst, rng))
        code = server.stop()
    refusals, answered = counts.refusals + burst.refusals, sum(counts.outcomes.values()) - len(counts.refusals)
    report: dict[str, Any] = {
        "seed": args.seed,
        "seconds": round(seconds),
        "requests": args.requests,
        "answered per minute": round(60 * answered / seconds, 1),
        "outcomes": dict(sorted(counts.outcomes.items())),
        "outcomes of the burst": dict(sorted(burst.outcomes.items())),
        "ms to the first token": milliseconds(counts.first),
        "ms between tokens": milliseconds(counts.between),
        "ms of a refusal for want of room": milliseconds(refusals),
        "seconds, MiB": counts.memory[:: max(1, len(counts.memory) // 24)],
        "grown MiB": round(counts.growth, 1),
        "exit code of the server": code,
        "lines in its log": len(server.log),
        "the last of them": [line.rstrip() for line in server.log][-5:],
        "wrong or lost": (counts.wrong + burst.wrong)[:20],
    }
    print(json.dumps(report, indent=1))
    slow = bool(refusals) and max(refusals) > _MAX_REFUSAL
    return int(bool(counts.wrong or burst.wrong or code or slow or counts.growth > _MAX_GROWTH))


if __name__ == "__main__":
    sys.exit(main())
