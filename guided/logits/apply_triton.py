"""Apply token bitmasks to logits on CUDA: one launch for all rows, which stores -inf and reads no logits.

In: logits, the bitmask rows, and which rows to mask (apply.py describes all three). Out: the logits, changed in place.
A program reads the words of a block of ids (one bit for each) and stores -inf where the bit is 0. A block in which all
ids are allowed stores nothing.

Cost: 1/8 byte read per token, and the stores; beside that one launch.
"""

from __future__ import annotations

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["BLOCK", "mask_kernel", "mask_triton"]

BLOCK: Final = 4096


@triton.jit
def mask_kernel(
    logits: tl.tensor, stride: tl.tensor, masks: tl.tensor, mask_stride: tl.tensor, rows: tl.tensor, width: tl.tensor,
    words: tl.tensor, named: tl.constexpr, block: tl.constexpr,
) -> None:  # fmt: skip
    """Mask a block of ids of a row; the row's number is in `rows` if it is `named`. Grid: (rows, blocks)."""
    row = tl.program_id(0).to(tl.int64)
    if named:
        row = tl.load(rows + row).to(tl.int64)
    at = tl.program_id(1) * block + tl.arange(0, block)
    word = tl.load(masks + row * mask_stride + (at >> 5), mask=(at >> 5) < words, other=0)
    banned = ((word >> (at & 31)) & 1) == 0
    tl.store(logits + row * stride + at, -float("inf"), mask=banned & (at < width))


def mask_triton(logits: Tensor, masks: Tensor, rows: Tensor | None) -> None:
    """Set the logits of every token that the bitmask does not allow to -inf.

    Args:
        logits: (batch, width), of a floating type, contiguous in the last dimension.
        masks: int32 (batch, words), contiguous in the last dimension, on the same device.
        rows: int32 (n,), on the same device: the rows to mask; None: all.
    """
    count, width = len(logits) if rows is None else len(rows), logits.shape[1]
    if not (count and width):
        return
    with torch.cuda.device_of(logits):  # type: ignore[no-untyped-call]
        mask_kernel[(count, triton.cdiv(width, BLOCK))](
            logits, logits.stride(0), masks, masks.stride(0), masks if rows is None else rows, width, masks.shape[1],
            rows is not None, BLOCK,
        )  # fmt: skip
