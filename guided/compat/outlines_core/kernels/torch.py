"""Bitmasks as torch tensors, as in `outlines_core.kernels.torch`: int32 (1, ceil(vocab / 32)), filled on the CPU."""

from __future__ import annotations

import torch

from guided import logits as _logits
from guided.compat.outlines_core.index import Guide
from guided.compat.outlines_core.kernels.numpy import check_mask, check_row

__all__ = ["allocate_token_bitmask", "apply_token_bitmask_inplace", "fill_next_token_bitmask"]


def allocate_token_bitmask(vocab_size: int) -> torch.Tensor:
    """A bitmask on the CPU that allows all tokens, in pinned memory if CUDA is available."""
    return torch.full((1, (vocab_size + 31) // 32), -1, dtype=torch.int32, pin_memory=torch.cuda.is_available())


def apply_token_bitmask_inplace(logits: torch.Tensor, mask: torch.Tensor) -> None:
    """Set the logits (batch, vocab) of forbidden tokens to -inf.

    Raises:
        ValueError: the mask is not int32, or the shapes do not fit.
    """
    check_mask(mask.dtype, torch.int32, "torch.int32", mask.dim())
    if logits.dim() != 2:
        raise ValueError(f"Invalid logits dimensions: Expected a 2D array, but got {logits.dim()}D.")
    if mask.shape[0] != logits.shape[0]:
        raise ValueError(f"Invalid batch size: the mask has {mask.shape[0]} rows, the logits have {logits.shape[0]}.")
    _apply_token_bitmask_inplace_kernel(logits, mask)


def _apply_token_bitmask_inplace_kernel(logits: torch.Tensor, mask: torch.Tensor) -> None:
    words = (logits.shape[1] + 31) // 32
    _logits.apply_token_bitmask_inplace(logits, mask[:, :words].contiguous())


def fill_next_token_bitmask(guide: Guide, mask: torch.Tensor) -> None:
    """Write a guide's mask into `mask`.

    ValueError: `mask` is not int32, has several rows, is not contiguous, or is not on the CPU.
    """
    check_mask(mask.dtype, torch.int32, "torch.int32", mask.dim())
    check_row(tuple(mask.shape))
    if not mask.is_contiguous():
        raise ValueError("Mask tensor must be contiguous in memory. Use `mask.contiguous()`.")
    if mask.device != torch.device("cpu"):
        raise ValueError(f"Invalid device: Expected `mask` tensor to be on device `cpu`, but found `{mask.device}`.")
    guide.write_mask_into(mask.data_ptr(), mask.numel(), mask.element_size())
