"""How close the distribution of the next token is to that of the same weights in float32.

In: a model's file. Out: the mean KL divergence from guided with `dtype="float32"`, which dequantises all weights and
rounds nothing else, and the share of positions at which the most likely token is the same. Both are reported for guided
with its default dtype and for llama.cpp. The text is this project's README. Random weights use random tokens, since
such a model writes nothing meaningful.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.beside_llama_cpp.random_gguf import write_random_gguf
from benchmarks.beside_llama_cpp.speed import load_engine

__all__ = ["ACCURACY_HEAD", "accuracy_row", "format_accuracy_rows"]

ACCURACY_HEAD: Final = (
    "| model | positions | KL, guided | KL, llama.cpp | same token, guided | same token, llama.cpp |\n"
    "|---|--:|--:|--:|--:|--:|"
)
_SCRIPT: Final = Path(__file__).parent.parent / "node" / "probabilities.mjs"
_README: Final = Path(__file__).parents[2] / "README.md"
_PIECE: Final = 100  # positions whose numbers are kept in float64

Floats = npt.NDArray[np.float32]


def accuracy_row(model: Path, name: str, node: Path, positions: int, *, threads: int = 2, random: bool = False) -> str:
    """A row of the table. `random`: the weights are random."""
    exact = load_engine(model, threads, "float32")
    if random:
        ids = np.random.default_rng(0).integers(0, exact.vocabulary.size, positions).tolist()
    else:
        ids = exact.vocabulary.encode(_README.read_text("utf-8"))[:positions]
    want = _logits(exact, ids)
    del exact
    ours = _logits(load_engine(model, threads), ids)
    sides = [_compare(want, lambda part: _log_softmax(ours[part]))]
    theirs = _probabilities(model, ids, node, threads)
    sides.append(_compare(want, lambda part: np.log(np.maximum(theirs[part], 1e-30)).astype(np.float64)))
    kl, same = zip(*sides, strict=True)
    return f"| {name} | {len(ids):,} | {kl[0]:.2e} | {kl[1]:.2e} | {100 * same[0]:.1f} % | {100 * same[1]:.1f} % |"


def format_accuracy_rows(formats: list[str], tokenizer: Path, node: Path, positions: int) -> Iterator[str]:
    """Rows for random weights in each format. `tokenizer`: a file with a tokenizer."""
    with TemporaryDirectory() as folder:
        for name in formats:
            path = Path(folder) / f"{name}.gguf"
            write_random_gguf(path, name, tokenizer)
            yield accuracy_row(path, name, node, positions, random=True)
            path.unlink()


def _logits(engine: Any, ids: list[int]) -> Floats:
    logits: Floats = engine.logits(ids, keep=len(ids)).numpy()[:, : engine.vocabulary.size]
    return logits


def _probabilities(model: Path, ids: list[int], node: Path, threads: int) -> Floats:
    """llama.cpp's logits of the next token after each of the ids: (ids, vocabulary)."""
    with TemporaryDirectory() as folder:
        tokens, out = Path(folder) / "tokens.json", Path(folder) / "probabilities"
        tokens.write_text(json.dumps(ids))
        command = ["node", "--max-old-space-size=8000", str(_SCRIPT), str(model), str(threads), str(tokens), str(out)]
        subprocess.run(command, cwd=node, check=True)
        return np.fromfile(out, np.float32).reshape(len(ids), -1)


def _compare(want: Floats, other: Callable[[slice], npt.NDArray[np.float64]]) -> tuple[float, float]:
    """The mean divergence of log probabilities from these logits, and the share of positions with the same most likely
    token.
    """
    divergence, same = 0.0, 0
    for start in range(0, len(want), _PIECE):
        part = slice(start, start + _PIECE)
        expected, actual = _log_softmax(want[part]), other(part)[:, : want.shape[1]]
        actual = actual - np.logaddexp.reduce(actual, axis=1, keepdims=True)
        divergence += float((np.exp(expected) * (expected - actual)).sum())
        same += int((expected.argmax(1) == actual.argmax(1)).sum())
    return divergence / len(want), same / len(want)


def _log_softmax(logits: Floats) -> npt.NDArray[np.float64]:
    wide = logits.astype(np.float64)
    return wide - np.logaddexp.reduce(wide, axis=1, keepdims=True)
