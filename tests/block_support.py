"""Quantised matrices for tests: blocks of every format of ggml that stays quantised."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from benchmarks.beside_llama_cpp.random_gguf import HALVES, random_blocks
from guided.files.dequantise import Blocks
from guided.files.gguf import GGML_TYPES

__all__ = ["FORMATS", "HALVES", "NUMBERS", "quantise_q4_1", "random_blocks"]

FORMATS: Final = tuple(HALVES)
NUMBERS: Final = {GGML_TYPES[kind][0]: kind for kind in FORMATS}  # by name: "Q4_0"


def quantise_q4_1(weight: npt.NDArray[np.float32]) -> Blocks:
    """A matrix rounded to 16 numbers between the smallest and the largest of 32 neighbours."""
    groups = weight.reshape(-1, 32)
    low = groups.min(1, keepdims=True)
    scale = np.maximum((groups.max(1, keepdims=True) - low) / 15, 1e-4).astype("<f2")
    numbers = np.rint((groups - low) / scale.astype(np.float32)).clip(0, 15).astype(np.uint8)
    halves = np.concatenate((scale, low.astype("<f2")), axis=1).view(np.uint8)
    raw = np.concatenate((halves, numbers[:, :16] | numbers[:, 16:] << 4), axis=1)
    return Blocks(raw.reshape(len(weight), -1), NUMBERS["Q4_1"], weight.shape[1])
