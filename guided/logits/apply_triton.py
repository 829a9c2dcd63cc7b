"""Applies token bitmasks to logits on CUDA, with one launch for all rows.

In: logits, the bitmask rows, and which rows to mask (apply.py describes all three). Out: the logits, changed in place.
A program reads the bits of a block of ids, one byte for eight ids. Eight logits that are all allowed are neither read
nor written. Eight that are all forbidden are only written. Otherwise all eight are read and written, since memory is
written in sectors of 32 bytes, and the memory controller has to read a sector that is written in part. So a condition
holds for eight ids together, and each thread loads and stores 16 bytes at once. The last block of a row, which may end
anywhere, stores -inf one by one.

Cost: one launch; one bit read per token, and the logits that are read and written. The worst case is a random half of
the tokens allowed: all logits are read and written.
"""

from __future__ import annotations

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["BLOCK", "mask_kernel", "mask_triton"]

BLOCK: Final = 4096
_SMALL_BLOCK: Final = 1024  # for few rows, where larger blocks would leave most of the GPU idle
_FEW_LOGITS: Final = 1 << 20  # logits


@triton.jit
def mask_kernel(
    logits: tl.tensor, stride: tl.tensor, masks: tl.tensor, mask_stride: tl.tensor, rows: tl.tensor, width: tl.tensor,
    words: tl.tensor, has_rows: tl.constexpr, block: tl.constexpr,
) -> None:  # fmt: skip
    """Mask a block of ids of a row. With `has_rows`, `rows` has the row's number. Grid: (rows, blocks)."""
    row = tl.program_id(0).to(tl.int64)
    if has_rows:
        row = tl.load(rows + row).to(tl.int64)
    begin = tl.program_id(1) * block
    at = begin + tl.arange(0, block)
    line = logits + row * stride
    if (begin + block <= width) & ((begin + block) // 32 <= words):
        byte = tl.arange(0, block // 8)
        # The words as bytes: all GPUs are little-endian.
        bits = tl.load((masks + row * mask_stride).to(tl.pointer_type(tl.uint8)) + begin // 8 + byte).to(tl.int32)
        bits = bits[:, None]
        eight = line + begin + byte[:, None] * 8 + tl.arange(0, 8)[None, :]
        x = tl.load(eight, mask=(bits != 0) & (bits != 255), other=-float("inf"))
        allowed = ((bits >> tl.arange(0, 8)[None, :]) & 1) != 0
        tl.store(eight, tl.where(allowed, x, -float("inf")), mask=bits != 255)
    else:
        word = tl.load(masks + row * mask_stride + (at >> 5), mask=(at >> 5) < words, other=0)
        banned = ((word >> (at & 31)) & 1) == 0
        tl.store(line + at, -float("inf"), mask=banned & (at < width))


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
    block = _SMALL_BLOCK if count * width < _FEW_LOGITS else BLOCK
    with torch.cuda.device_of(logits):  # type: ignore[no-untyped-call]
        mask_kernel[(count, triton.cdiv(width, block))](
            logits, logits.stride(0), masks, masks.stride(0), masks if rows is None else rows, width, masks.shape[1],
            rows is not None, block,
        )  # fmt: skip
