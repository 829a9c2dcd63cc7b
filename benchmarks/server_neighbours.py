"""Fifty ordinary streams, and beside them clients whose requests cost as much as they may.

`python -m benchmarks.server_neighbours [--model NAME] [--streams 50] [--rounds 3] [--inputs PATH]`. In: SmolLM2's GGUF
file, or the name of another model, such as `shakespeare`, which comes with guided. Out, as JSON: quantiles of the time
between the pieces of the streams, alone and beside the others, in each round, whose halves meet the same noise; the
ratio of their p99; the server's memory. The others ask four at a time and without a pause. By default they ask for
regular expressions with lookahead and for schemas with a thousand patterns, each a new one, and are refused or
cancelled. With `--inputs` they send the requests of a file that `python -m benchmarks.bad_inputs --worst PATH` has
written, in turn; a request whose budget is too small is sent again with three tokens more than the least.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import cycle, pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeAlias

from benchmarks.end_to_end import find_weights
from benchmarks.server_client import Served, ask, served
from benchmarks.server_load import milliseconds

__all__ = ["measure_neighbours"]

_ROUTE: Final = "/v1/completions"
_SETTLE: Final = 3.0  # seconds for what others have left to compile
_NEEDED: Final = re.compile(rb"needs (?:at most )?([0-9,]+) tokens?")
_Input: TypeAlias = dict[str, Any]


def measure_neighbours(
    model: str, *, streams: int, rounds: int, tokens: int, inputs: Sequence[_Input] = ()
) -> dict[str, Any]:
    """See the head. `inputs`: what the others send; none: what is drawn."""
    found, memory = [], [0]
    with served(model) as server:
        for number in range(rounds + 1):  # the first warms
            alone, _ = asyncio.run(_round(server, streams, tokens, others=0, seed=2 * number, inputs=inputs))
            memory.append(server.memory())
            beside, bombs = asyncio.run(_round(server, streams, tokens, others=4, seed=2 * number + 1, inputs=inputs))
            memory.append(server.memory())
            if number:
                found.append({"alone": milliseconds(alone), "beside": milliseconds(beside), "others": bombs})
    ratio = median(each["beside"]["p99"] / each["alone"]["p99"] for each in found)
    most = {"most memory in MiB": max(memory) >> 20}
    return {"streams": streams, "ms between pieces": found, "median ratio of p99": round(ratio, 2)} | most


async def _round(
    server: Served, streams: int, tokens: int, *, others: int, seed: int, inputs: Sequence[_Input]
) -> tuple[list[float], dict[int, int]]:
    """The times between pieces of all streams, and how often the others were told which status."""
    told: dict[int, int] = {}
    await asyncio.sleep(_SETTLE)
    if inputs:
        turn = cycle(inputs)
        bad = [asyncio.create_task(_send_in_turn(server, turn, told)) for _ in range(others)]
    else:
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


async def _send_in_turn(server: Served, turn: Iterator[_Input], told: dict[int, int]) -> None:
    """Send the next request that nobody else has sent, again and again."""
    for request in turn:
        reply = await ask(server.port, request["route"], request["body"])
        if reply.status == 400 and (needed := _NEEDED.search(reply.body)):
            reply = await ask(
                server.port, request["route"], request["body"] | {"max_tokens": int(needed[1].replace(b",", b"")) + 3}
            )
        told[reply.status] = told.get(reply.status, 0) + 1


def main() -> None:
    """Measure, and print."""
    about = (__doc__ or "").split("\n\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server_neighbours", description=about)
    parser.add_argument("--model", help="SmolLM2's GGUF file, or the name of a model")
    parser.add_argument("--inputs", type=Path, help="requests that the others send, see benchmarks.bad_inputs")
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=60)
    args = parser.parse_args()
    model = args.model or str(find_weights())
    inputs = json.loads(args.inputs.read_text(encoding="utf-8")) if args.inputs is not None else ()
    report = measure_neighbours(model, streams=args.streams, rounds=args.rounds, tokens=args.tokens, inputs=inputs)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
