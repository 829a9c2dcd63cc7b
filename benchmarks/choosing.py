"""Microseconds per row to choose tokens, in one call for all rows, compared with torch, in turn.

`python -m benchmarks.choosing [--rounds 20] [--threads 1]`. Logits are normally distributed, with some peaks. Before
each call, 64 MB are read and the logits written, as in a forward pass, so code and masks are no longer in the caches.
Out: a row for each size of vocabulary, number of rows and kind of choice: the median of the rounds, each of which runs
both.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any, Final

import numpy as np
import torch

from guided.kernels.choose import answer
from guided.matching.bitmask import row_of
from guided.sampling import SamplingParams
from guided.sampling.choice import Bits, Choice, Choose
from guided.sampling.penalties import Penalties
from guided.sampling.reference_choice import choose_row

__all__ = ["main"]

SIZES: Final = 49_152, 151_936
ROWS: Final = 1, 8
_SEEN: Final = 300  # tokens of prompt and output with penalties
_CACHE: Final = 1 << 26  # bytes read between two calls


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of choice.

    Attributes:
        options: options of `SamplingParams`.
        share: the share of the vocabulary that the mask allows; None: there is no mask.
        logprobs: the number of log probabilities to return; None: none.
    """

    name: str
    options: dict[str, Any]
    share: float | None
    logprobs: int | None = None


KINDS: Final = (
    Kind("greedy", {}, None),
    Kind("greedy, a mask of 20 tokens", {}, 0.0),
    Kind("greedy, half is masked", {}, 0.5),
    Kind("greedy, half is masked, 5 log probabilities", {}, 0.5, 5),
    Kind("temperature 1", {"temperature": 1.0}, None),
    Kind("temperature 1, half is masked", {"temperature": 1.0}, 0.5),
    Kind("top-k 50, top-p 0.9, half is masked", {"temperature": 1.0, "top_k": 50, "top_p": 0.9}, 0.5),
    Kind("top-p 0.9, half is masked", {"temperature": 1.0, "top_p": 0.9}, 0.5),
    Kind("repetition penalty, half is masked", {"temperature": 1.0, "repetition_penalty": 1.1}, 0.5),
)


def choices_of(kind: Kind, size: int, rows: int, rng: np.random.Generator) -> list[Choice]:
    """A choice for each row."""
    seen = rng.integers(0, size, _SEEN).tolist()
    out = []
    for row in range(rows):
        params = SamplingParams(**kind.options, seed=row)
        changes = None if params.keeps_logits else Penalties(params, seen, [0], size).changes(seen[:100])
        out.append(Choice(params, 0, size, _mask(kind.share, size, rng), changes=changes, logprobs=kind.logprobs))
    return out


def _mask(share: float | None, size: int, rng: np.random.Generator) -> Bits | None:
    if share is None:
        return None
    chosen = rng.integers(0, size, 20) if share == 0 else (rng.random(size) < share).nonzero()[0]
    return row_of(size, sorted(set(chosen.tolist())))


def measure(call: Callable[[], Any], logits: torch.Tensor, fresh: torch.Tensor, other: torch.Tensor) -> float:
    """Microseconds per row of a call after work similar to a forward pass."""
    other.sum()
    logits.copy_(fresh)
    begin = perf_counter()
    call()
    return 1e6 * (perf_counter() - begin) / len(logits)


def main() -> int:
    """See the head."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.choosing", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rng, other = np.random.default_rng(0), torch.zeros(_CACHE // 4)
    print("| logits | rows | choice | guided, us / row | torch, us / row | torch / guided |\n|--:|--:|---|--:|--:|--:|")
    for size in SIZES:
        for rows in ROWS:
            fresh = torch.from_numpy(rng.normal(0, 2, (rows, size)).astype(np.float32))
            fresh[:, rng.integers(0, size, 30)] += torch.linspace(4, 16, 30)
            logits = fresh.clone()
            for kind in KINDS:
                request = Choose(logits, choices_of(kind, size, rows, rng))
                calls = (
                    lambda request=request: answer([request]),
                    lambda request=request: list(map(choose_row, request.logits, request.choices)),
                )
                times = [[measure(call, logits, fresh, other) for call in calls] for _ in range(arguments.rounds)]
                ours, theirs = (median(side) for side in zip(*times, strict=True))
                ratio = median(b / a for a, b in times)
                print(f"| {size:,} | {rows} | {kind.name} | {ours:.1f} | {theirs:.1f} | {ratio:.1f} x |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
