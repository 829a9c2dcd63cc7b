"""What the server adds to the cost of the engine: eight streams over HTTP, beside `Engine.generate_batch` of the same
requests.

`python -m benchmarks.server_speed [--model PATH] [--threads 1 2] [--interval 1] [--wake-at 1] [--rounds 5] [--tokens
128]`. In: SmolLM2's GGUF file. Out, as JSON: tokens per second of both, and the ratio within each round, whose runs
meet the same noise. The engine and the server have their own processes with the same number of threads, and take turns.
The client that reads the streams shares the machine with the server, and its time counts against the server. A client
that is woken for each event costs the server most, since a write includes waking the reader. With `--wake-at 16384`,
the client is woken when that many bytes have arrived. Then it costs almost nothing, as if it ran on another machine.
Texts are greedy, free, and of a fixed length. With an interval of 1, each token is a separate event, which is the most
work per token for a server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.end_to_end import find_weights
from benchmarks.runners import Process
from benchmarks.server_client import Served, ask, served

__all__ = ["measure_server_speed"]

_PROMPTS = [f"A story about {what}:" for what in ("a fox", "rain", "Oslo", "tea", "a king", "bees", "chess", "Mars")]


def measure_server_speed(
    model: Path, *, threads: int, interval: int, wake_at: int, rounds: int, tokens: int
) -> dict[str, Any]:
    """Tokens per second of both in each round, and the medians. The first round is a warm-up."""
    from guided import Vocabulary

    vocabulary = Vocabulary.from_gguf(model)
    prompts = [vocabulary.encode(prompt) for prompt in _PROMPTS]
    engine = Process("guided", model, threads, "auto")
    speeds = list[tuple[float, float]]()
    try:
        with served(str(model), "--threads", str(threads), "--stream-interval", str(interval)) as server:
            for number in range(rounds + 1):
                pair = (
                    len(prompts) * tokens / engine.call("decode", prompts, tokens),
                    asyncio.run(_streamed(server, prompts, tokens, wake_at)),
                )
                if number:
                    speeds.append(pair)
    finally:
        engine.close()
    return {
        "threads": threads,
        "stream interval": interval,
        "client is woken at bytes": wake_at,
        "engine tokens/s": [round(mine, 1) for mine, _ in speeds],
        "server tokens/s": [round(its, 1) for _, its in speeds],
        "median overhead": round(1 - median(its / mine for mine, its in speeds), 4),
    }


async def _streamed(server: Served, prompts: list[list[int]], tokens: int, wake_at: int) -> float:
    """Tokens per second of all streams together."""
    options = {"max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}
    bodies = [options | {"prompt": prompt, "stream_options": {"include_usage": True}} for prompt in prompts]
    begin = time.perf_counter()
    replies = await asyncio.gather(*(ask(server.port, "/v1/completions", body, wake_at=wake_at) for body in bodies))
    seconds = time.perf_counter() - begin
    written = [reply.events()[-1]["usage"]["completion_tokens"] for reply in replies]
    if written != [tokens] * len(prompts):
        raise RuntimeError(f"{tokens} tokens were asked for, and came: {written}")
    return len(prompts) * tokens / seconds


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server_speed", description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", help="SmolLM2's GGUF file")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="threads of the engine (1 2)")
    parser.add_argument("--interval", type=int, nargs="+", default=[1], help="tokens between parts of a stream (1)")
    parser.add_argument("--wake-at", type=int, nargs="+", default=[1], help="bytes at which the client is woken (1)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=128, help="tokens of each answer (128)")
    args = parser.parse_args()
    model = find_weights(args.model)
    sizes = {"rounds": args.rounds, "tokens": args.tokens}
    for threads, interval, wake_at in product(args.threads, args.interval, args.wake_at):
        report = measure_server_speed(model, threads=threads, interval=interval, wake_at=wake_at, **sizes)
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
