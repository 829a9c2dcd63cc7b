"""Tokens per second of eight streams together: in one process, and over HTTP from the libraries' own servers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.beside_llama_cpp.peer import NodePeer, llama_server
from benchmarks.runners import Process
from benchmarks.server_client import Served, ask, served

__all__ = ["BATCH_HEAD", "batch_rows"]

BATCH_HEAD: Final = (
    "| model | threads | 8 streams | guided, tokens / s | llama.cpp, tokens / s | guided / llama.cpp |\n"
    "|---|--:|---|--:|--:|--:|"
)
_SUBJECTS: Final = ("a fox", "rain", "Oslo", "tea", "a king", "bees", "chess", "Mars")
_Run = Callable[[list[list[int]]], float]  # seconds until all streams have ended


def batch_rows(model: Path, threads: int, node: Path, server: Path | None, rounds: int, written: int) -> list[str]:
    """Rows of rates. The first round is a warm-up. No two rounds have the same prompts."""
    from guided import Vocabulary

    vocabulary = Vocabulary.from_gguf(model)
    prompts = [
        [vocabulary.encode(f"{number} stories, the first about {what}:") for what in _SUBJECTS]
        for number in range(rounds + 1)
    ]
    with ExitStack() as stack:
        pairs = {"one process": _in_process(stack, model, threads, node, written)}
        if server is not None:
            pairs["servers, HTTP"] = _over_http(stack, model, threads, server, written)
        times = {name: [[run(each) for run in pair] for each in prompts][1:] for name, pair in pairs.items()}
    out = []
    for name, rows in times.items():
        ours, theirs = ([len(_SUBJECTS) * written / row[side] for row in rows] for side in (0, 1))
        ratio = median(a / b for a, b in zip(ours, theirs, strict=True))
        cells = f"{median(ours):.1f} | {median(theirs):.1f} | {ratio:.2f} x"
        out.append(f"| {model.name} | {threads} | {name} | {cells} |")
    return out


def _in_process(stack: ExitStack, model: Path, threads: int, node: Path, written: int) -> tuple[_Run, _Run]:
    """Compare guided's engine with eight sequences of one context in node-llama-cpp's batch queue."""
    engine = Process("guided", model, threads, "auto")
    stack.callback(engine.close)
    peer = stack.enter_context(NodePeer(node, model, threads, len(_SUBJECTS)))

    def run_guided(prompts: list[list[int]]) -> float:
        return float(engine.call("decode", prompts, written))

    def run_peer(prompts: list[list[int]]) -> float:
        answer = peer.run(prompts, written)
        assert all(len(tokens) == written for tokens in answer.tokens)
        return answer.seconds

    return run_guided, run_peer


def _over_http(stack: ExitStack, model: Path, threads: int, binary: Path, written: int) -> tuple[_Run, _Run]:
    """Compare `guided serve` with `llama-server`: the same requests to the same route, without streaming."""
    ours = stack.enter_context(served(str(model), "--threads", str(threads)))
    theirs = stack.enter_context(llama_server(binary, model, threads))
    body = {"max_tokens": written, "temperature": 0, "ignore_eos": True}
    greedy = {"samplers": ["top_k"], "top_k": 1}  # the fewest steps that llama-server takes for a token
    return (
        lambda prompts: asyncio.run(_ask_together(ours, prompts, body)),
        lambda prompts: asyncio.run(_ask_together(theirs, prompts, body | greedy)),
    )


async def _ask_together(server: Served, prompts: list[list[int]], body: dict[str, Any]) -> float:
    begin = time.perf_counter()
    bodies = [body | {"prompt": prompt} for prompt in prompts]
    replies = await asyncio.gather(*(ask(server.port, "/v1/completions", each) for each in bodies))
    seconds = time.perf_counter() - begin
    if any(reply.json()["usage"]["completion_tokens"] != body["max_tokens"] for reply in replies):
        raise RuntimeError(f"{server.name} wrote fewer tokens than it was asked for")
    return seconds
