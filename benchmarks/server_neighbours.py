"""Fifty ordinary streams, and beside them clients whose specifications cost as much to compile as they may.

`python -m benchmarks.server_neighbours [--model PATH] [--streams 50] [--rounds 3]`. In: SmolLM2's GGUF file. Out, as
JSON: quantiles of the time between the pieces of the streams, alone and beside the others, in each round, whose halves
meet the same noise; and the ratio of their p99. The others ask, four at a time and without a pause, for regular
expressions with lookahead and for schemas with a thousand patterns, each a new one, and are refused or cancelled.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from contextlib import suppress
from itertools import pairwise
from statistics import median
from typing import Any, Final

from benchmarks.end_to_end import find_weights
from benchmarks.server_client import Served, ask, served
from benchmarks.server_load import milliseconds

__all__ = ["measure_neighbours"]

_ROUTE: Final = "/v1/completions"
_SETTLE: Final = 3.0  # seconds for what others have left to compile


def measure_neighbours(model: str, *, streams: int, rounds: int, tokens: int) -> dict[str, Any]:
    """See the head."""
    found = []
    with served(model) as server:
        for number in range(rounds + 1):  # the first warms
            alone, _ = asyncio.run(_round(server, streams, tokens, others=0, seed=2 * number))
            beside, bombs = asyncio.run(_round(server, streams, tokens, others=4, seed=2 * number + 1))
            if number:
                found.append({"alone": milliseconds(alone), "beside": milliseconds(beside), "others": bombs})
    ratio = median(each["beside"]["p99"] / each["alone"]["p99"] for each in found)
    return {"streams": streams, "ms between pieces": found, "median ratio of p99": round(ratio, 2)}


async def _round(
    server: Served, streams: int, tokens: int, *, others: int, seed: int
) -> tuple[list[float], dict[int, int]]:
    """The times between pieces of all streams, and how often the others were told which status."""
    told: dict[int, int] = {}
    await asyncio.sleep(_SETTLE)
    bad = [asyncio.create_task(_others(server, random.Random(seed * 10 + at), told)) for at in range(others)]
    body = {"prompt": "A list of rivers:", "ignore_eos": True, "max_tokens": tokens, "stream": True, "seed": seed}
    replies = await asyncio.gather(*(ask(server.port, _ROUTE, body) for _ in range(streams)))
    for task in bad:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    for reply in replies:
        reply.events()
    return [later - earlier for reply in replies for earlier, later in pairwise(reply.times[1:])], told


async def _others(server: Served, rng: random.Random, told: dict[int, int]) -> None:
    """One costly specification after the other."""
    while True:
        a, b = rng.randrange(9, 15), rng.randrange(1000)
        look = f"(?=.*a.{{{a}}}b)(?=.*c.{{{a}}}d)(?=.*e{b}.{{{a}}}f).{{1,200}}"
        fields = {f"name{b}_{i}": {"type": "string", "pattern": f"(ab|c{b}){{1,{a}}}$"} for i in range(1500)}
        field: dict[str, Any] = rng.choice([{"regex": look}, {"json_schema": {"type": "object", "properties": fields}}])
        reply = await ask(server.port, _ROUTE, {"prompt": "x", "max_tokens": 1} | field)
        told[reply.status] = told.get(reply.status, 0) + 1


def main() -> None:
    """Measure, and print."""
    about = __doc__.split("\n\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server_neighbours", description=about)
    parser.add_argument("--model", help="SmolLM2's GGUF file")
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=60)
    args = parser.parse_args()
    model = str(find_weights(args.model))
    report = measure_neighbours(model, streams=args.streams, rounds=args.rounds, tokens=args.tokens)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
