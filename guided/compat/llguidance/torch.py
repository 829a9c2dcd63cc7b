"""Bitmasks as torch tensors, as in `llguidance.torch`: int32 (batch, ceil(vocab / 32)), filled on the CPU."""

from __future__ import annotations

from typing import Any

import torch

from guided import logits as _logits
from guided.compat.llguidance.checks import check_bitmask, check_pair, require
from guided.compat.llguidance.executor import LLExecutor
from guided.compat.llguidance.matcher import LLMatcher
from guided.compat.llguidance.numpy import consume_token_par, get_bitmask_shape

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


def allocate_token_bitmask(batch_size: int, vocab_size: int) -> torch.Tensor:
    """A bitmask on the CPU that allows all tokens, in pinned memory if CUDA is available."""
    shape = get_bitmask_shape(batch_size, vocab_size)
    return torch.full(shape, -1, dtype=torch.int32, pin_memory=torch.cuda.is_available())


def apply_token_bitmask_inplace(logits: torch.Tensor, mask: torch.Tensor) -> None:
    """Set the logits, (vocab,) or (batch, vocab), of forbidden tokens to -inf.

    Raises:
        AssertionError: the mask is not int32, or the shapes do not fit.
    """
    logits = logits.unsqueeze(0) if logits.dim() == 1 else logits
    mask = mask.unsqueeze(0) if mask.dim() == 1 else mask
    check_pair(logits, mask, torch.int32)
    apply_token_bitmask_inplace_kernel(logits, mask)


def apply_token_bitmask_inplace_kernel(logits: torch.Tensor, mask: torch.Tensor) -> None:
    """Like `apply_token_bitmask_inplace`, for 2D tensors only. Any part of the mask beyond the logits is ignored."""
    _logits.apply_token_bitmask_inplace(logits, mask[:, : (logits.shape[1] + 31) // 32].contiguous())


def fill_next_token_bitmask(interp: LLMatcher | Any, bitmask: torch.Tensor, index: int = 0) -> None:
    """Write the mask of a matcher into a row.

    AssertionError: `bitmask` is not int32, not on the CPU, not 2D, or not contiguous.
    """
    require(bitmask.is_cpu, "Mask must be on CPU")
    check_bitmask(bitmask, torch.int32)
    row = bitmask[index, :]
    require(row.is_contiguous(), "Mask must be contiguous")
    interp.unsafe_compute_mask_ptr(row.data_ptr(), row.numel() * row.element_size())


def fill_next_token_bitmask_par(
    executor: LLExecutor, matchers: list[tuple[LLMatcher, int]], bitmask: torch.Tensor
) -> None:
    """Write the mask of each matcher into the row of its index. Errors: see `fill_next_token_bitmask`, `LLExecutor`."""
    batch, words = _check_contiguous(bitmask)
    executor.unsafe_compute_mask_ptr(matchers, bitmask.data_ptr(), words * 4, batch)


def fill_next_token_bitmask_par_with_draft_tokens(
    executor: LLExecutor, matchers: list[tuple[LLMatcher, int, list[int]]], bitmask: torch.Tensor
) -> None:
    """Like `fill_next_token_bitmask_par`, followed by a row with the mask after each allowed draft token."""
    batch, words = _check_contiguous(bitmask)
    executor.unsafe_compute_mask_ptr_with_draft_token(matchers, bitmask.data_ptr(), words * 4, batch)


def _check_contiguous(bitmask: torch.Tensor) -> tuple[int, int]:
    require(bitmask.is_cpu, "Mask must be on CPU")
    return check_bitmask(bitmask, torch.int32, contiguous=bitmask.is_contiguous())
