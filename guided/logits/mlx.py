"""Masks MLX logits. In: logits and a bitmask, both with one or two dimensions. Out: new logits.

MLX arrays cannot be changed in place, so this is not part of `apply_token_bitmask_inplace`. MLX is imported on first
use. Cost: one bool per logit is copied to MLX.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from guided.matching.bitmask import bits_of

__all__ = ["import_mlx", "mask_logits"]


def import_mlx() -> Any:
    """Import the module `mlx.core`.

    Raises:
        ModuleNotFoundError: MLX is not installed; the message says what to install.
    """
    try:
        return import_module("mlx.core")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "MLX logits need the package mlx: pip install 'guided-decoding[mlx-lm]' (on Linux also 'mlx[cpu]')",
            name="mlx",
        ) from error


def mask_logits(logits: Any, bitmask: npt.NDArray[np.int32]) -> Any:
    """Return the logits, (vocab,) or (rows, vocab), with -inf for each token that the bitmask does not allow.

    Args:
        logits: an MLX array. Logits at ids beyond the bitmask's last word are masked, too.
        bitmask: int32, (words,) or (rows, words), with the same number of rows.
    """
    core, width = import_mlx(), logits.shape[-1]
    bits = bits_of(bitmask)[..., :width]
    allowed = np.zeros((*bits.shape[:-1], width), np.bool_)
    allowed[..., : bits.shape[-1]] = bits
    return core.where(core.array(allowed), logits, core.array(-np.inf, logits.dtype))
