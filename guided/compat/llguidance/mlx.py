"""Bitmasks as numpy arrays for MLX logits, as in `llguidance.mlx`: int32 (batch, ceil(vocab / 32))."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from guided.compat.llguidance.checks import check_pair
from guided.compat.llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask, get_bitmask_shape
from guided.logits.mlx import import_mlx, mask_logits

__all__ = [
    "allocate_token_bitmask",
    "apply_token_bitmask",
    "apply_token_bitmask_kernel",
    "fill_next_token_bitmask",
    "get_bitmask_shape",
]

import_mlx()  # fail at import if MLX is missing


def apply_token_bitmask_kernel(data: Any, mask: Any) -> Any:
    """Return the logits (batch, vocab) with -inf for forbidden tokens. Both arguments are MLX arrays, on any device."""
    return mask_logits(data, np.array(mask))


def apply_token_bitmask(logits: Any, mask_np: npt.NDArray[np.int32]) -> Any:
    """Return the logits, (vocab,) or (batch, vocab), with -inf for forbidden tokens. The result is (batch, vocab).

    Raises:
        AssertionError: the mask is not int32, or the shapes do not fit.
    """
    mask = np.atleast_2d(mask_np)
    logits = logits.reshape(1, -1) if len(logits.shape) == 1 else logits
    check_pair(logits, mask, np.int32)
    return mask_logits(logits, mask)
