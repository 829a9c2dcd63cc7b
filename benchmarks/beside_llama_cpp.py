"""guided's engine beside llama.cpp on the same GGUF files: prompts and decoding, by turns.

`python -m benchmarks.beside_llama_cpp --node FOLDER [--model FILE ...] [--threads 1 2] [--rounds 5]`. In: the model's
files (SmolLM2's by default), and a folder in which `npm install --ignore-scripts node-llama-cpp@3.21.1` was run: its
prebuilt library chooses its kernels for the processor, and it runs its own loop (benchmarks/node/llama_cpp.mjs). Out: a
row for each file and number of threads, in milliseconds per token: a prompt of 800 tokens, and 100 greedy tokens after
a prompt of 20; the ratio is llama.cpp's time over guided's, the median of the rounds, in each of which both run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

from benchmarks.end_to_end import find_weights

__all__ = ["main"]

_PROMPT, _WRITTEN, _SHORT = 800, 100, 20
_TEXT: Final = "The history of the city begins with a small village at the mouth of the river. "
_SCRIPT: Final = Path(__file__).parent / "node" / "llama_cpp.mjs"


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds per token."""

    prompt: float
    decoding: float


class LlamaCpp:
    """A process with llama.cpp."""

    def __init__(self, folder: Path, model: Path, threads: int) -> None:
        command = ["node", str(_SCRIPT), str(model), str(threads)]
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def ask(self, tokens: list[int], write: int) -> dict[str, Any]:
        """Read tokens; write some more, unless `write` is 0."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        print(json.dumps({"tokens": tokens, "write": write}), file=process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(process.stdout.readline())
        return answer

    def measure(self, tokens: list[int]) -> Times:
        """See the head."""
        prompt = self.ask(tokens[:_PROMPT], 0)["seconds"]
        decoding = self.ask(tokens[:_SHORT], _WRITTEN)
        return Times(1000 * prompt / _PROMPT, 1000 * decoding["seconds"] / (len(decoding["tokens"]) - 1))

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait()


def measure_guided(engine: Any, tokens: list[int]) -> Times:
    """See the head. Times of forward passes and choices, as llama.cpp's are without reading the text."""
    begin = perf_counter()
    engine.generate(tokens[:_PROMPT], max_tokens=1, min_tokens=1)
    prompt = perf_counter() - begin
    starts = [perf_counter() for _ in engine.stream(tokens[:_SHORT], max_tokens=_WRITTEN + 1, min_tokens=_WRITTEN + 1)]
    return Times(1000 * prompt / _PROMPT, 1000 * (starts[_WRITTEN] - starts[0]) / _WRITTEN)


def _rows(model: Path, threads: int, folder: Path, rounds: int) -> list[str]:
    import torch

    import guided

    torch.set_num_threads(threads)
    engine = guided.Engine.from_pretrained(str(model))
    tokens = engine.vocabulary.encode(_TEXT * 100)[: _PROMPT + rounds + 1]
    peer = LlamaCpp(folder, model, threads)
    try:
        pairs = [(measure_guided(engine, tokens[i:]), peer.measure(tokens[i:])) for i in range(rounds + 1)][1:]
    finally:
        peer.close()
    out = []
    for what in ("prompt", "decoding"):
        ours, theirs = ([getattr(times, what) for times in side] for side in zip(*pairs, strict=True))
        ratio = median(b / a for a, b in zip(ours, theirs, strict=True))
        out.append(f"| {model.name} | {threads} | {what} | {median(ours):.2f} | {median(theirs):.2f} | {ratio:.2f} x |")
    return out


def main() -> int:
    """See the head."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.beside_llama_cpp", description=__doc__)
    parser.add_argument("--node", type=Path, required=True, help="a folder with node-llama-cpp")
    parser.add_argument("--model", type=Path, nargs="+", help="GGUF files (SmolLM2's)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print("| model | threads | | guided, ms / token | llama.cpp, ms / token | llama.cpp / guided |")
    print("|---|--:|---|--:|--:|--:|", flush=True)
    for model in given.model or [find_weights()]:
        for threads in given.threads:
            print(*_rows(model.resolve(), threads, given.node, given.rounds), sep="\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
