"""Views the caller's tensors as numpy arrays that share their memory."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["as_array", "as_rows", "copy_visible_bits"]


def as_array(tensor: Any, dtype: type, name: str) -> np.ndarray[Any, Any]:
    """View a one-dimensional tensor as an array. RuntimeError: the dtype or shape is wrong, or it is not on the CPU."""
    array = _share_memory(tensor, name)
    if array.dtype != dtype or array.ndim != 1:
        raise RuntimeError(f"The {name} tensor must be a 1D {np.dtype(dtype)} tensor, not {array.dtype} {array.shape}")
    return array


def as_rows(bitmask: Any, size: int, *, dimensions: tuple[int, ...] = (1, 2)) -> np.ndarray[Any, Any]:
    """View a bitmask as int32 (batch, words).

    Raises:
        RuntimeError: it is not int32, not on the CPU or not contiguous, or its width does not match the vocabulary.
    """
    rows = _share_memory(bitmask, "token_bitmask")
    if rows.dtype != np.int32 or rows.ndim not in dimensions or not rows.flags.c_contiguous:
        raise RuntimeError(f"The token_bitmask tensor must be contiguous and int32, not {rows.dtype} {rows.shape}")
    rows = rows[None] if rows.ndim == 1 else rows
    words = (size + 31) // 32
    if rows.shape[1] != words:
        raise RuntimeError(f"The token_bitmask tensor has rows of {rows.shape[1]} words; {size} tokens need {words}")
    return rows


def copy_visible_bits(full_row: np.ndarray[Any, Any], row: np.ndarray[Any, Any], size: int) -> None:
    """Copy the bits of the first `size` ids into a row, but not the bits of hidden ids (`tokenizer_info.py`)."""
    row[:] = full_row[: len(row)]
    if size % 32:
        row[-1] &= np.int32((1 << size % 32) - 1)


def _share_memory(tensor: Any, name: str) -> np.ndarray[Any, Any]:
    if isinstance(tensor, np.ndarray):
        return tensor
    try:  # numpy treats DLPack memory as read-only, so torch's method comes first
        array = tensor.numpy() if hasattr(tensor, "numpy") else np.from_dlpack(tensor)
    except (AttributeError, TypeError, BufferError, RuntimeError, ValueError) as error:
        raise RuntimeError(f"The {name} tensor must be on the CPU and share its memory: {error}") from None
    if not isinstance(array, np.ndarray) or not array.flags.writeable:
        raise RuntimeError(f"The {name} tensor must be writable")
    return array
