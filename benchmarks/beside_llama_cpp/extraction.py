"""Seconds for each answer of the ten extractions of extraction.py, under their schemas, greedy, one after the other.

A time is all that a caller waits for: compiling the schema, which is new in each round, reading the prompt, and writing
the answer. The prompts of a round begin alike, and both engines reuse that prefix; prompts of different rounds do not.
Answers differ in length, so milliseconds per token are reported, too. llama.cpp uses its own grammars. `llama-server`
derives them from the schema. The grammars of node-llama-cpp omit patterns and bounds of numbers, so it writes other
answers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

from benchmarks.beside_llama_cpp.peer import NodePeer, llama_server, request
from benchmarks.beside_llama_cpp.speed import load_engine
from benchmarks.extraction import INSTRUCTIONS, TASKS, is_json
from benchmarks.server_client import Served

__all__ = ["EXTRACTION_HEAD", "extraction_rows"]

EXTRACTION_HEAD: Final = (
    "| model | threads | peer | guided, s | peer, s | peer / guided | guided, tokens | peer, tokens "
    "| guided, ms / token | peer, ms / token | valid |\n|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|"
)
_MAX_TOKENS: Final = 200  # tokens of an answer


@dataclass(frozen=True, slots=True)
class _Round:
    """The total seconds and tokens of ten answers, and how many of them are JSON."""

    seconds: float
    tokens: int
    valid: int


_Ask = Callable[[list[int], Any], tuple[float, int, str]]  # seconds, tokens, text


def extraction_rows(model: Path, threads: int, node: Path, server: Path | None, rounds: int) -> list[str]:
    """A row for each way to run llama.cpp. Each alternates with guided, task by task. The first round is a warm-up."""
    engine = load_engine(model, threads)
    with ExitStack() as stack:
        sides: dict[str, _Ask] = {"guided": lambda prompt, schema: _ask_guided(engine, prompt, schema)}
        if server is not None:
            served = stack.enter_context(llama_server(server, model, threads))
            sides["llama-server"] = lambda prompt, schema: _ask_server(served, prompt, schema)
        peer = stack.enter_context(NodePeer(node, model, threads))
        sides["node-llama-cpp"] = lambda prompt, schema: _ask_node(peer, prompt, schema)
        rows = [_run_round(engine, sides, number) for number in range(rounds + 1)][1:]
    return [_row(f"{model.name} | {threads}", name, rows) for name in list(sides)[1:]]


def _run_round(engine: Any, sides: dict[str, _Ask], number: int) -> dict[str, _Round]:
    engine.__dict__.pop("compiler", None)  # a new compiler has seen no schema
    engine.compiler.compile_regex("[a-z]")  # and has prepared the vocabulary
    answers: dict[str, list[tuple[float, int, str]]] = {name: [] for name in sides}
    for text, schema in TASKS:
        system = f"Batch {number} of messages. {INSTRUCTIONS}"
        prompt = engine.encode_prompt([{"role": "system", "content": system}, {"role": "user", "content": text}])
        for name, ask in sides.items():
            answers[name].append(ask(prompt, schema))
    return {
        name: _Round(
            sum(each[0] for each in results),
            sum(each[1] for each in results),
            sum(is_json(each[2]) for each in results),
        )
        for name, results in answers.items()
    }


def _ask_guided(engine: Any, prompt: list[int], schema: Any) -> tuple[float, int, str]:
    begin = perf_counter()
    result = engine.generate(prompt, schema, max_tokens=_MAX_TOKENS)
    return perf_counter() - begin, len(result.tokens), result.text


def _ask_node(peer: NodePeer, prompt: list[int], schema: Any) -> tuple[float, int, str]:
    answer = peer.run([prompt], _MAX_TOKENS, schema)
    return answer.seconds, len(answer.tokens[0]), answer.texts[0]


def _ask_server(server: Served, prompt: list[int], schema: Any) -> tuple[float, int, str]:
    body = {"prompt": prompt, "json_schema": schema, "n_predict": _MAX_TOKENS, "temperature": 0, "cache_prompt": True}
    begin = perf_counter()
    answer = request(server, "/completion", body | {"samplers": ["top_k"], "top_k": 1, "id_slot": 0}).json()
    return perf_counter() - begin, int(answer["tokens_predicted"]), str(answer["content"])


def _row(label: str, name: str, rows: list[dict[str, _Round]]) -> str:
    ours, theirs = [row["guided"] for row in rows], [row[name] for row in rows]
    ratio = median(b.seconds / a.seconds for a, b in zip(ours, theirs, strict=True))
    seconds, tokens, each = ([median(map(value, side)) for side in (ours, theirs)] for value in _VALUES)
    valid = f"{min(row.valid for row in ours)}, {min(row.valid for row in theirs)}"
    cells = f"{seconds[0]:.2f} | {seconds[1]:.2f} | {ratio:.2f} x | {tokens[0]:.0f} | {tokens[1]:.0f}"
    return f"| {label} | {name} | {cells} | {each[0]:.2f} | {each[1]:.2f} | {valid} |"


_VALUES: Final[tuple[Callable[[_Round], float], ...]] = (
    lambda row: row.seconds,
    lambda row: row.tokens,
    lambda row: 1000 * row.seconds / row.tokens,
)
