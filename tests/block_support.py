"""Quantised matrices for tests: random blocks of every format of ggml that stays quantised."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from guided.files.dequantise import Blocks
from guided.files.gguf import GGML_TYPES

__all__ = ["FORMATS", "HALVES", "NUMBERS", "quantise_q4_1", "random_blocks"]

HALVES: Final[Mapping[int, tuple[int, ...]]] = MappingProxyType(
    {
        2: (0,), 3: (0, 2), 6: (0,), 7: (0, 2), 8: (0,), 10: (80, 82), 11: (108,), 12: (0, 2), 13: (0, 2), 14: (208,),
        20: (0,), 23: (0,),
    }
)  # fmt: skip
"""By the number of a format: where its blocks have float16 numbers."""
FORMATS: Final = tuple(HALVES)
NUMBERS: Final = {GGML_TYPES[kind][0]: kind for kind in FORMATS}  # by name: "Q4_0"


def random_blocks(kind: int, rows: int, columns: int, seed: int = 0, size: float | None = None) -> Blocks:
    """Random bytes, but scales and offsets of blocks are finite. `size`: the standard deviation of the values."""
    rng, (_, block, nbytes) = np.random.default_rng(seed), GGML_TYPES[kind]
    raw = rng.integers(0, 256, (rows * columns // block, nbytes), dtype=np.uint8)
    halves = rng.uniform(0.5, 1.5, (len(HALVES[kind]), len(raw), 1)) * rng.choice([-1, 1], (len(raw), 1))
    _put_halves(raw, kind, halves)
    whole = Blocks(raw.reshape(rows, -1), kind, columns)
    if size is not None:
        _put_halves(raw, kind, halves * (size / whole.values().std()))
    return whole


def _put_halves(raw: npt.NDArray[np.uint8], kind: int, halves: npt.NDArray[np.float64]) -> None:
    for at, half in zip(HALVES[kind], halves, strict=True):
        raw[:, at : at + 2] = half.astype("<f2").view(np.uint8)


def quantise_q4_1(weight: npt.NDArray[np.float32]) -> Blocks:
    """A matrix rounded to 16 numbers between the least and the greatest of 32 neighbours."""
    groups = weight.reshape(-1, 32)
    low = groups.min(1, keepdims=True)
    scale = np.maximum((groups.max(1, keepdims=True) - low) / 15, 1e-4).astype("<f2")
    numbers = np.rint((groups - low) / scale.astype(np.float32)).clip(0, 15).astype(np.uint8)
    halves = np.concatenate((scale, low.astype("<f2")), axis=1).view(np.uint8)
    raw = np.concatenate((halves, numbers[:, :16] | numbers[:, 16:] << 4), axis=1)
    return Blocks(raw.reshape(len(weight), -1), NUMBERS["Q4_1"], weight.shape[1])
