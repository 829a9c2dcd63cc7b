"""Measures prompts and decoding of one sequence: guided's engine and llama.cpp in turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

from benchmarks.beside_llama_cpp.peer import NodePeer
from benchmarks.beside_llama_cpp.random_gguf import write_random_gguf

__all__ = ["FORMATS", "SPEED_HEAD", "Lengths", "format_rows", "load_engine", "speed_rows"]

SPEED_HEAD: Final = (
    "| model | threads | | guided, ms / token | llama.cpp, ms / token | llama.cpp / guided |\n|---|--:|---|--:|--:|--:|"
)
FORMATS: Final = (
    *("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"),
    *("F16", "BF16", "F32"),
)
_SHORT: Final = 20  # tokens of the prompt before the measured ones
_TEXT: Final = "The history of the city begins with a small village at the mouth of the river. "


@dataclass(frozen=True, slots=True)
class Lengths:
    """The number of tokens of a prompt, and of tokens written after a short prompt."""

    prompt: int = 800
    written: int = 100


@dataclass(frozen=True, slots=True)
class _Times:
    """Milliseconds per token."""

    prompt: float
    decoding: float


def load_engine(model: Path, threads: int, dtype: str = "auto") -> Any:
    """guided's engine in this process."""
    import guided  # before torch, since guided sets how OpenMP's threads wait

    # isort: split
    import torch

    torch.set_num_threads(threads)
    return guided.Engine.from_pretrained(str(model), dtype=dtype)


def speed_rows(model: Path, name: str, threads: int, node: Path, rounds: int, lengths: Lengths) -> list[str]:
    """A row for prompts and one for decoding. The first round is a warm-up. No two prompts begin alike."""
    engine = load_engine(model, threads)
    tokens = engine.vocabulary.encode(_TEXT * 100)[: lengths.prompt + rounds + 1]
    with NodePeer(node, model, threads) as peer:
        pairs = [
            (_measure_guided(engine, tokens[i:], lengths), _measure_peer(peer, tokens[i:], lengths))
            for i in range(rounds + 1)
        ][1:]
    out = []
    for what in ("prompt", "decoding"):
        ours, theirs = ([getattr(times, what) for times in side] for side in zip(*pairs, strict=True))
        ratio = median(b / a for a, b in zip(ours, theirs, strict=True))
        out.append(f"| {name} | {threads} | {what} | {median(ours):.2f} | {median(theirs):.2f} | {ratio:.2f} x |")
    return out


def format_rows(
    formats: list[str], tokenizer: Path, threads: list[int], node: Path, rounds: int, lengths: Lengths
) -> Iterator[str]:
    """The rows of `speed_rows` for random weights in each format. `tokenizer`: a file with a tokenizer."""
    with TemporaryDirectory() as folder:
        for name in formats:
            path = Path(folder) / f"{name}.gguf"
            write_random_gguf(path, name, tokenizer)
            for count in threads:
                yield from speed_rows(path, name, count, node, rounds, lengths)
            path.unlink()


def _measure_peer(peer: NodePeer, tokens: list[int], lengths: Lengths) -> _Times:
    prompt = peer.run([tokens[: lengths.prompt]], 0).seconds
    decoding = peer.run([tokens[:_SHORT]], lengths.written + 1)
    assert len(decoding.tokens[0]) == lengths.written + 1
    return _Times(1000 * prompt / lengths.prompt, 1000 * (decoding.seconds - decoding.first) / lengths.written)


def _measure_guided(engine: Any, tokens: list[int], lengths: Lengths) -> _Times:
    """The times of forward passes and choices of tokens, as for llama.cpp."""
    begin = perf_counter()
    engine.generate(tokens[: lengths.prompt], max_tokens=1, ignore_eos=True)
    prompt = perf_counter() - begin
    stream = engine.stream(tokens[:_SHORT], max_tokens=lengths.written + 1, ignore_eos=True)
    times = [perf_counter() for _ in stream]
    return _Times(1000 * prompt / lengths.prompt, 1000 * (times[lengths.written] - times[0]) / lengths.written)
