"""Random rows of logits, bitmasks and choices of every kind; and choices in arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from guided.kernels.choice_table import make_choice_table
from guided.kernels.transfer import staged_zeros
from guided.sampling.choice import Bits, Choice, Ramp
from guided.sampling.params import SamplingParams
from guided.sampling.penalties import Penalties
from guided.sampling.prepared import PreparedChoices

__all__ = ["can_be_prepared", "draw_choice", "draw_logits", "draw_mask", "prepare"]


def draw_mask(rng: np.random.Generator, size: int, share: float) -> Bits:
    """A row that allows about this share of the ids; 0 allows none, 1 allows all."""
    flags = rng.random(-(-size // 32) * 32) < share
    return np.packbits(flags, bitorder="little").view(np.int32)


def draw_logits(rng: np.random.Generator, rows: int, width: int) -> npt.NDArray[np.float32]:
    """Normally distributed numbers with a few peaks. Sometimes a part of a row is -inf."""
    logits = rng.normal(0, 2, (rows, width)).astype(np.float32)
    for row in logits:
        row[rng.integers(0, width, min(width, 30))] += rng.uniform(2, 12, min(width, 30)).astype(np.float32)
        if rng.random() < 0.1:
            row[rng.random(width) < 0.5] = -math.inf
    return logits


def draw_choice(rng: np.random.Generator, size: int) -> Choice:
    """A random choice: with or without a mask and a temperature, with filters, penalties and log probabilities."""
    options = _options(rng, size)
    params = SamplingParams(**options, seed=int(rng.integers(1 << 60)))
    output = rng.integers(0, size, rng.integers(0, 30)).tolist()
    changes = None
    if not params.keeps_logits:
        changes = Penalties(params, rng.integers(0, size, 20).tolist(), [0], size).changes(output)
    allowed = unbudgeted = ramp = None
    if rng.random() < 0.75:
        allowed = draw_mask(rng, size, rng.choice([0.0, 0.001, 0.5, 0.99, 1.0], p=[0.03, 0.37, 0.3, 0.2, 0.1]))
        if rng.random() < 0.3:
            unbudgeted = allowed | draw_mask(rng, size, 0.2)
        if rng.random() < 0.3:
            ramp = Ramp(float(rng.choice([0.5, 40.0])), allowed & draw_mask(rng, size, 0.5))
    logprobs = None if rng.random() < 0.6 else int(rng.choice([0, 1, 5, 20]))
    position, raw = len(output), bool(rng.integers(2))
    return Choice(params, position, size, allowed, unbudgeted, ramp, changes, logprobs, raw)


def _options(rng: np.random.Generator, size: int) -> dict[str, Any]:
    """Random sampling parameters of a request."""
    options: dict[str, Any] = {"temperature": float(rng.choice([0.0, 0.5, 1.0, 3.0]))}
    if rng.random() < 0.5:
        return options
    some: dict[str, Any] = {
        "top_k": int(rng.choice([1, 7, 40, 10**9])),
        "top_p": float(rng.choice([0.3, 0.9, 1.0])),
        "min_p": float(rng.choice([0.0, 0.05, 0.7])),
        "repetition_penalty": float(rng.choice([0.5, 1.3])),
        "presence_penalty": float(rng.choice([-1.0, 0.7])),
        "frequency_penalty": float(rng.choice([-0.5, 0.2])),
        "logit_bias": {int(id): float(rng.normal(0, 5)) for id in rng.integers(0, size, 5)},
        "bad_words": [[int(id)] for id in rng.integers(0, size, 3)],
        "min_tokens": int(rng.integers(0, 30)),
        "allowed_token_ids": sorted({int(id) for id in rng.integers(0, size, 40)}),
    }
    return options | {name: value for name, value in some.items() if rng.random() < 0.25}


def can_be_prepared(choice: Choice) -> bool:
    """Whether a choice needs only what `PreparedChoices` have."""
    others = choice.unbudgeted, choice.ramp, choice.changes, choice.logprobs
    return all(other is None for other in others) and choice.top_k <= 1024


def prepare(choices: Sequence[Choice], rows: Sequence[int], logits: Tensor) -> PreparedChoices:
    """The same choices in arrays. Their bitmasks are in every other row of the masks."""
    size = choices[0].size
    tables = [make_choice_table([choice], [0], torch.device("cpu")) for choice in choices]
    masks = staged_zeros(2 * len(choices), -(-size // 32), torch.int32, logits.device)
    for index, choice in enumerate(choices):
        masks[2 * index] = 0 if choice.allowed is None else torch.from_numpy(choice.allowed)

    def column(name: str, dtype: type) -> Any:
        return np.array([getattr(table, name).item() for table in tables], dtype)

    return PreparedChoices(
        logits=logits,
        size=size,
        row=np.array(rows, np.int64),
        masks=masks,
        mask=np.array([-1 if choice.allowed is None else 2 * index for index, choice in enumerate(choices)], np.int64),
        uniform=column("uniform", np.float64),
        scale=column("scale", np.float64),
        top_p=column("top_p", np.float64),
        top_k=column("top_k", np.int64),
        min_p=column("min_p", np.float64),
        make_choice=choices.__getitem__,
    )
