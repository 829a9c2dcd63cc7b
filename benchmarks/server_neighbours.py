"""Runs fifty ordinary streams beside clients whose requests cost as much as possible.

`python -m benchmarks.server_neighbours [--model NAME] [--streams 50] [--rounds 3] [--inputs PATH]`. In: SmolLM2's GGUF
file, or the name of another model, such as `shakespeare`, which comes with guided. Out, as JSON: quantiles of the time
between the pieces of the streams, alone and beside the costly clients, in each round, whose halves meet the same noise;
the ratio of their p99; the server's memory.

The costly clients send four requests at a time, without a pause. By default, these are regular expressions with
lookahead and schemas with a thousand patterns. Each is new, and is refused or cancelled. With `--inputs`, the clients
send the requests of a file that `python -m benchmarks.bad_inputs --worst PATH` has written, in turn. A request whose
budget is too small is sent again with three tokens more than the minimum.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle, pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeAlias

from benchmarks.end_to_end import find_weights
from benchmarks.server_client import Served, ask, served
from benchmarks.server_load import milliseconds

__all__ = ["Load", "measure_neighbours"]

_ROUTE: Final = "/v1/completions"
_SETTLE: Final = 3.0  # seconds until the server has compiled what the costly clients left
_HEAD_START: Final = 1.0  # seconds until the costly clients are at work
_NEEDED: Final = re.compile(rb"needs (?:at most )?([0-9,]+) tokens?")
_Input: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Load:
    """The load.

    Attributes:
        streams: the number of simultaneous ordinary streams.
        tokens: the number of tokens of each stream.
        seconds: for how long each stream is followed by another one; 0: there is one.
        inputs: the requests of the costly clients; empty: they are drawn at random.
    """

    streams: int
    tokens: int
    seconds: float = 0.0
    inputs: Sequence[_Input] = ()


@dataclass(slots=True)
class _Round:
    """The measurements of a round: seconds between pieces, how often the server answered the costly requests with each
    status (0: no answer before the round ended), and the peak memory in bytes.
    """

    gaps: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    memory: int = 0


def measure_neighbours(model: str, load: Load, *, rounds: int) -> dict[str, Any]:
    """See the head."""
    results, memory = [], 0
    with served(model) as server:
        for number in range(rounds + 1):  # the first round is a warm-up
            alone = asyncio.run(_round(server, load, others=0, seed=2 * number))
            beside = asyncio.run(_round(server, load, others=4, seed=2 * number + 1))
            memory = max(memory, beside.memory)
            if number:
                times = {"alone": milliseconds(alone.gaps), "beside": milliseconds(beside.gaps)}
                results.append(
                    times | {"others": {status: count for status, count in beside.statuses.items() if count}}
                )
    ratio = median(each["beside"]["p99"] / each["alone"]["p99"] for each in results)
    most = {"most memory in MiB": memory >> 20}
    return {"streams": load.streams, "ms between pieces": results, "median ratio of p99": round(ratio, 2)} | most


async def _round(server: Served, load: Load, *, others: int, seed: int) -> _Round:
    result = _Round()
    await asyncio.sleep(_SETTLE)
    turn, rng = cycle(load.inputs), random.Random(seed)
    tasks = [
        asyncio.create_task(
            _send_in_turn(server, turn, result.statuses)
            if load.inputs
            else _others(server, random.Random(seed * 10 + at), result.statuses)
        )
        for at in range(others)
    ]
    tasks.append(asyncio.create_task(_watch_memory(server, result)))
    if load.inputs and others:
        await asyncio.sleep(_HEAD_START)
    for gaps in await asyncio.gather(*(_stream(server, load, rng.randrange(1 << 30)) for _ in range(load.streams))):
        result.gaps += gaps
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    return result


async def _stream(server: Served, load: Load, seed: int) -> list[float]:
    """The times between the pieces of streams, one stream after the other."""
    gaps, end = list[float](), time.monotonic() + load.seconds
    while True:
        body = {
            "prompt": "A list of rivers:",
            "ignore_eos": True,
            "max_tokens": load.tokens,
            "stream": True,
            "seed": seed,
        }
        reply = await ask(server.port, _ROUTE, body)
        reply.events()
        gaps += [later - earlier for earlier, later in pairwise(reply.times[1:])]
        if time.monotonic() >= end:
            return gaps


async def _watch_memory(server: Served, found: _Round) -> None:
    while True:
        found.memory = max(found.memory, server.memory())
        await asyncio.sleep(0.1)


async def _others(server: Served, rng: random.Random, statuses: Counter[int]) -> None:
    """Send costly specifications, one after the other."""
    while True:
        a, b = rng.randrange(9, 15), rng.randrange(1000)
        look = f"(?=.*a.{{{a}}}b)(?=.*c.{{{a}}}d)(?=.*e{b}.{{{a}}}f).{{1,200}}"
        fields = {f"name{b}_{i}": {"type": "string", "pattern": f"(ab|c{b}){{1,{a}}}$"} for i in range(1500)}
        field: dict[str, Any] = rng.choice([{"regex": look}, {"json_schema": {"type": "object", "properties": fields}}])
        reply = await ask(server.port, _ROUTE, {"prompt": "x", "max_tokens": 1} | field)
        statuses[reply.status] += 1


async def _send_in_turn(server: Served, turn: Iterator[_Input], statuses: Counter[int]) -> None:
    """Repeatedly send the next request that no other client has sent."""
    for request in turn:
        statuses[0] += 1
        reply = await ask(server.port, request["route"], request["body"])
        if reply.status == 400 and (needed := _NEEDED.search(reply.body)):
            reply = await ask(
                server.port, request["route"], request["body"] | {"max_tokens": int(needed[1].replace(b",", b"")) + 3}
            )
        statuses[0] -= 1
        statuses[reply.status] += 1


def main() -> None:
    """Measure, and print."""
    about = (__doc__ or "").split("\n\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server_neighbours", description=about)
    parser.add_argument("--model", help="SmolLM2's GGUF file, or the name of a model")
    parser.add_argument(
        "--seconds", type=float, default=0.0, help="seconds for which each stream is followed by another one"
    )
    parser.add_argument("--inputs", type=Path, help="requests of the costly clients, see benchmarks.bad_inputs")
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=60)
    args = parser.parse_args()
    model = args.model or str(find_weights())
    inputs = json.loads(args.inputs.read_text(encoding="utf-8")) if args.inputs is not None else ()
    load = Load(args.streams, args.tokens, args.seconds, inputs)
    report = measure_neighbours(model, load, rounds=args.rounds)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
