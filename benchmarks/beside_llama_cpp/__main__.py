"""Compares guided's engine with llama.cpp on the same GGUF files, in turn.

`python -m benchmarks.beside_llama_cpp --node FOLDER [--section speed formats batch extraction bytes accuracy
format-accuracy] [--model FILE ...] [--threads 1 2] [--rounds 5] [--llama-server FILE] [--formats NAME ...] [--positions
1000]`. In: the model's files (SmolLM2's by default); a folder in which `npm install --ignore-scripts
node-llama-cpp@3.21.1` was run; for `batch` and `extraction`, llama.cpp's `llama-server`, compiled for this machine
(peer.py). Out: tables in Markdown. A round runs both engines, one after the other. A ratio is the median of the rounds'
ratios.

- `speed`: milliseconds per token of a prompt of 800 tokens, and of 100 greedy tokens after a prompt of 20.
- `formats`: the same for random weights in each format, with 256 and 50 tokens.
- `batch`: tokens per second of eight streams together (batch.py).
- `extraction`: ten answers under JSON Schemas (extraction.py).
- `bytes`: the bytes that a step reads, and the time that memory takes for them (memory.py).
- `accuracy`, `format-accuracy`: how close distributions are to those of float32, for the models and for random weights
  in each format (accuracy.py).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.beside_llama_cpp.accuracy import ACCURACY_HEAD, accuracy_row, format_accuracy_rows
from benchmarks.beside_llama_cpp.batch import BATCH_HEAD, batch_rows
from benchmarks.beside_llama_cpp.extraction import EXTRACTION_HEAD, extraction_rows
from benchmarks.beside_llama_cpp.memory import MEMORY_HEAD, memory_rows
from benchmarks.beside_llama_cpp.speed import FORMATS, SPEED_HEAD, Lengths, format_rows, speed_rows
from benchmarks.end_to_end import find_weights

_HEADS = {
    "speed": SPEED_HEAD,
    "formats": SPEED_HEAD,
    "batch": BATCH_HEAD,
    "extraction": EXTRACTION_HEAD,
    "bytes": MEMORY_HEAD,
    "accuracy": ACCURACY_HEAD,
    "format-accuracy": ACCURACY_HEAD,
}
_FORMAT_LENGTHS = Lengths(prompt=256, written=50)
_BATCH_TOKENS = 128


def _rows(section: str, arguments: argparse.Namespace) -> Iterator[str]:
    models: list[Path] = [model.resolve() for model in arguments.model or [find_weights()]]
    if section == "formats":
        yield from format_rows(
            arguments.formats, models[0], arguments.threads, arguments.node, arguments.rounds, _FORMAT_LENGTHS
        )
        return
    if section == "format-accuracy":
        yield from format_accuracy_rows(arguments.formats, models[0], arguments.node, arguments.positions)
        return
    if section == "accuracy":
        yield from (accuracy_row(model, model.name, arguments.node, arguments.positions) for model in models)
        return
    server = None if arguments.llama_server is None else arguments.llama_server.resolve()
    for model in models:
        for threads in arguments.threads:
            if section == "speed":
                yield from speed_rows(model, model.name, threads, arguments.node, arguments.rounds, Lengths())
            elif section == "batch":
                yield from batch_rows(model, threads, arguments.node, server, arguments.rounds, _BATCH_TOKENS)
            elif section == "extraction":
                yield from extraction_rows(model, threads, arguments.node, server, arguments.rounds)
            else:
                yield from memory_rows(model, threads, arguments.rounds)


def main() -> int:
    """See the head."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.beside_llama_cpp",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--node", type=Path, required=True, help="a folder with node-llama-cpp")
    parser.add_argument(
        "--llama-server", type=Path, metavar="FILE", help="the llama-server binary; without it, its rows are left out"
    )
    parser.add_argument("--section", nargs="+", choices=_HEADS, default=["speed"])
    parser.add_argument("--model", type=Path, nargs="+", help="GGUF files (SmolLM2's)")
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=list(FORMATS), metavar="NAME")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--positions", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    for section in arguments.section:
        print(f"\n{_HEADS[section]}", flush=True)
        for row in _rows(section, arguments):
            print(row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
