"""Bitmasks as numpy arrays, as in `llguidance.numpy`: int32 (batch, ceil(vocab / 32)), 1 means allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from guided import logits as _logits
from guided.compat.llguidance.checks import check_bitmask, check_pair, require
from guided.compat.llguidance.executor import LLExecutor
from guided.compat.llguidance.matcher import LLMatcher
from guided.matching import bitmask as _bitmask

__all__ = [
    "allocate_token_bitmask",
    "apply_token_bitmask_inplace",
    "apply_token_bitmask_inplace_kernel",
    "consume_token_par",
    "fill_next_token_bitmask",
    "fill_next_token_bitmask_par",
    "fill_next_token_bitmask_par_with_draft_tokens",
    "get_bitmask_shape",
]


def get_bitmask_shape(batch_size: int, vocab_size: int) -> tuple[int, int]:
    """The shape of a bitmask: (batch, words)."""
    return (batch_size, (vocab_size + 31) // 32)


def allocate_token_bitmask(batch_size: int, vocab_size: int) -> npt.NDArray[np.int32]:
    """A bitmask that allows all tokens."""
    return _bitmask.allocate_token_bitmask(batch_size, vocab_size)


def apply_token_bitmask_inplace(logits: npt.NDArray[Any], mask: npt.NDArray[np.int32]) -> None:
    """Set the logits, (vocab,) or (batch, vocab), of forbidden tokens to -inf.

    Raises:
        AssertionError: the mask is not int32, or the shapes do not fit.
    """
    logits, mask = np.atleast_2d(logits), np.atleast_2d(mask)
    check_pair(logits, mask, np.int32)
    apply_token_bitmask_inplace_kernel(logits, mask)


def apply_token_bitmask_inplace_kernel(logits: npt.NDArray[Any], mask: npt.NDArray[np.int32]) -> None:
    """Like `apply_token_bitmask_inplace`, for 2D arrays only. Any part of the mask beyond the logits is ignored."""
    _logits.apply_token_bitmask_inplace(logits, np.ascontiguousarray(mask[:, : (logits.shape[1] + 31) // 32]))


def fill_next_token_bitmask(interp: LLMatcher, bitmask: npt.NDArray[np.int32], index: int = 0) -> None:
    """Write the mask of a matcher into a row. AssertionError: `bitmask` is not int32, not 2D, or not contiguous."""
    check_bitmask(bitmask, np.int32)
    row = bitmask[index, :]
    require(row.flags["C_CONTIGUOUS"], "Mask must be contiguous")
    interp.unsafe_compute_mask_ptr(row.ctypes.data, row.size * row.itemsize)


def fill_next_token_bitmask_par(
    executor: LLExecutor, matchers: list[tuple[LLMatcher, int]], bitmask: npt.NDArray[np.int32]
) -> None:
    """Write the mask of each matcher into the row of its index. Errors: see `fill_next_token_bitmask`, `LLExecutor`."""
    batch, words = _check_contiguous(bitmask)
    executor.unsafe_compute_mask_ptr(matchers, bitmask.ctypes.data, words * 4, batch)


def fill_next_token_bitmask_par_with_draft_tokens(
    executor: LLExecutor, matchers: list[tuple[LLMatcher, int, list[int]]], bitmask: npt.NDArray[np.int32]
) -> None:
    """Like `fill_next_token_bitmask_par`, followed by a row with the mask after each allowed draft token."""
    batch, words = _check_contiguous(bitmask)
    executor.unsafe_compute_mask_ptr_with_draft_token(matchers, bitmask.ctypes.data, words * 4, batch)


def consume_token_par(executor: LLExecutor, matchers: list[tuple[LLMatcher, int]]) -> list[bool]:
    """Let each matcher accept its token. A token that is not allowed puts its matcher into the error state."""
    return executor.consume_token_par(matchers)


def _check_contiguous(bitmask: npt.NDArray[np.int32]) -> tuple[int, int]:
    return check_bitmask(bitmask, np.int32, contiguous=bitmask.flags["C_CONTIGUOUS"])
