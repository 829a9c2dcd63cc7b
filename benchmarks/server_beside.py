"""Compares guided's server with another one: answers per minute under a JSON Schema, on the same file of weights.

`python -m benchmarks.server_beside --other 'COMMAND ... {port}' [--model PATH] [--requests 40] [--rounds 3]`. In:
SmolLM2's GGUF file, and the command that starts the other server, which is not installed with guided. `{port}` and
`{model}` are filled in. For llama.cpp's server, with two threads, as guided uses on two cores:

    --other 'python -m llama_cpp.server --model {model} --port {port} --n_threads 2 --n_threads_batch 2 --n_ctx 2048
             --interrupt_requests False --verbose False'

Out, as JSON: right answers per minute, tokens per second and quantiles of the time to an answer of both, in each round,
and the median of the ratios within rounds. Both servers get the same greedy requests with the same `max_tokens`.
Requests come at the same random times for both, faster than either can answer. The servers take turns: one waits while
the other works. An answer counts if it satisfies its schema.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shlex
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.end_to_end import find_weights
from benchmarks.server_client import Reply, Served, ask, free_port, other_server, served
from benchmarks.server_load import milliseconds
from benchmarks.server_requests import LoadRequest, schema_request

__all__ = ["measure_beside"]

_RATE: Final = 8.0  # requests per second
_PATIENCE: Final = 600.0  # seconds for all answers of a round


def measure_beside(model: Path, other: str, *, requests: int, rounds: int, max_tokens: int) -> dict[str, Any]:
    """See the head. The first round is a warm-up and does not count."""
    with ExitStack() as stack:
        port = free_port()
        command = shlex.split(other.format(port=port, model=model))
        servers = {
            "guided": stack.enter_context(served(str(model))),
            "llama.cpp": stack.enter_context(other_server(command, port, "llama.cpp")),
        }
        results: list[dict[str, Any]] = []
        for number in range(rounds + 1):
            count = requests if number else 10
            results.append({})
            for name, server in servers.items():
                results[-1][name] = asyncio.run(_load(server, name, count, max_tokens, seed=number))
                print(f"round {number} of {rounds}: {name}: {results[-1][name]}", file=sys.stderr, flush=True)
    ratios = [each["guided"]["per minute"] / max(each["llama.cpp"]["per minute"], 0.01) for each in results[1:]]
    return {
        "requests": requests,
        "max_tokens": max_tokens,
        "rounds": results[1:],
        "median ratio": round(median(ratios), 2),
    }


async def _load(server: Served, dialect: str, requests: int, max_tokens: int, *, seed: int) -> dict[str, Any]:
    """The results of a server under an open load."""
    rng, answers = random.Random(seed), list[tuple[LoadRequest, Reply]]()

    async def one(request: LoadRequest) -> None:
        answers.append((request, await ask(server.port, "/v1/chat/completions", request.body)))

    begin = time.perf_counter()
    async with asyncio.timeout(_PATIENCE), asyncio.TaskGroup() as group:
        for number in range(requests):
            group.create_task(one(schema_request(number, max_tokens, dialect=dialect)))
            await asyncio.sleep(rng.expovariate(_RATE))
    seconds = time.perf_counter() - begin
    right = [reply for request, reply in answers if request.verdict(reply) == "ok"]
    written = sum(reply.json()["usage"]["completion_tokens"] for reply in right)
    verdicts = [request.verdict(reply) for request, reply in answers]
    return {
        "per minute": round(60 * len(right) / seconds, 1),
        "right": len(right),
        "tokens per answer": round(written / max(1, len(right)), 1),
        "tokens per second": round(written / seconds, 1),
        "ms to an answer": milliseconds([reply.seconds for _, reply in answers]),
        "wrong": [verdict[:160] for verdict in verdicts if verdict != "ok"][:3],
    }


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server_beside", description=__doc__.split("\n\n")[0])
    parser.add_argument("--other", required=True, metavar="COMMAND", help="the command that starts the other server")
    parser.add_argument("--model", help="SmolLM2's GGUF file")
    parser.add_argument("--requests", type=int, default=40, help="number of requests in a round (40)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=140)
    args = parser.parse_args()
    report = measure_beside(
        find_weights(args.model), args.other, requests=args.requests, rounds=args.rounds, max_tokens=args.max_tokens
    )
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
