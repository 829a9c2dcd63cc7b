"""Bitmasks as numpy arrays, as in `outlines_core.kernels.numpy`: int32 (1, ceil(vocab / 32)), 1 means allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from guided import logits as _logits
from guided.compat.outlines_core.index import Guide
from guided.matching import bitmask as _bitmask

__all__ = ["allocate_token_bitmask", "apply_token_bitmask_inplace", "fill_next_token_bitmask"]


def allocate_token_bitmask(vocab_size: int) -> npt.NDArray[np.int32]:
    """A bitmask that allows all tokens."""
    return _bitmask.allocate_token_bitmask(1, vocab_size)


def apply_token_bitmask_inplace(logits: npt.NDArray[Any], mask: npt.NDArray[np.int32]) -> None:
    """Set the logits, (vocab,) or (batch, vocab), of forbidden tokens to -inf.

    Raises:
        ValueError: the mask is not int32, or the shapes do not fit.
    """
    logits, mask = np.atleast_2d(logits), np.atleast_2d(mask)
    check_mask(mask.dtype, np.int32, "np.int32", mask.ndim)
    if logits.ndim != 2:
        raise ValueError(f"Invalid logits dimensions: Expected a 2D array, but got {logits.ndim}D.")
    if mask.shape[0] != logits.shape[0]:
        raise ValueError(f"Invalid batch size: the mask has {mask.shape[0]} rows, the logits have {logits.shape[0]}.")
    _apply_token_bitmask_inplace_kernel(logits, mask)


def _apply_token_bitmask_inplace_kernel(logits: npt.NDArray[Any], mask: npt.NDArray[np.int32]) -> None:
    words = (logits.shape[1] + 31) // 32
    _logits.apply_token_bitmask_inplace(logits, np.ascontiguousarray(mask[:, :words]))


def fill_next_token_bitmask(guide: Guide, mask: npt.NDArray[np.int32]) -> None:
    """Write a guide's mask into `mask`. ValueError: `mask` is not int32, has several rows, or is not contiguous."""
    check_mask(mask.dtype, np.int32, "np.int32", mask.ndim)
    check_row(mask.shape)
    if not mask.flags["C_CONTIGUOUS"]:
        raise ValueError("Mask array must be contiguous in memory. Use `np.ascontiguousarray(mask)`.")
    guide.write_mask_into(mask.ctypes.data, mask.size, mask.itemsize)


def check_mask(dtype: object, expected: object, name: str, dimensions: int) -> None:
    """Raise ValueError if the dtype or the number of dimensions of a mask is wrong."""
    if dtype != expected:
        raise ValueError(f"Invalid mask dtype: Expected `{name}`, but got `{dtype}`.")
    if dimensions != 2:
        raise ValueError(f"Invalid mask dimensions: Expected a 2D array, but got {dimensions}D.")


def check_row(shape: tuple[int, ...]) -> None:
    """Raise ValueError if a mask does not have exactly one row."""
    if shape[0] != 1:
        raise ValueError(
            f"Invalid batch size: Batch mask writes are not supported. Expected shape[0] == 1, but got shape {shape}."
        )
