"""Applies token bitmasks to logits on CUDA, with one launch for all rows.

In: logits, bitmask rows, and the rows to mask (apply.py describes all three). Out: the logits, changed in place. A
program reads the bits of a block of ids, one byte for eight ids. If all eight logits are allowed, they are neither read
nor written. If all eight are forbidden, they are only written. Otherwise all eight are read and written, since memory
is written in sectors of 32 bytes, and the memory controller would have to read a partly written sector anyway. So each
decision covers eight ids, and each thread loads and stores 16 bytes at once. The last block of a row, which may end
anywhere, stores -inf one by one.

Cost: one launch; one bit read per token, and the logits that are read and written. In the worst case, a random half of
the tokens is allowed, and all logits are read and written.
"""

from __future__ import annotations

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["BLOCK", "mask_kernel", "mask_triton"]

BLOCK: Final = 4096
_SMALL_BLOCK: Final = 1024  # for few rows: larger blocks would leave most of the GPU idle
_FEW_LOGITS: Final = 1 << 20  # with fewer logits, blocks are small


@triton.jit
def mask_kernel(
    logits: tl.tensor, stride: tl.tensor, masks: tl.tensor, mask_stride: tl.tensor, rows: tl.tensor, width: tl.tensor,
    words: tl.tensor, has_rows: tl.constexpr, block: tl.constexpr,
) -> None:  # fmt: skip
    """Mask a block of a row's ids. If `has_rows`, `rows` contains the indices of the rows. Grid: (rows, blocks)."""
    row = tl.program_id(0).to(tl.int64)
    if has_rows:
        row = tl.load(rows + row).to(tl.int64)
    begin = tl.program_id(1) * block
    offsets = begin + tl.arange(0, block)
    row_logits = logits + row * stride
    if (begin + block <= width) & ((begin + block) // 32 <= words):
        byte_index = tl.arange(0, block // 8)
        # The words as bytes: all GPUs are little-endian.
        bits = tl.load((masks + row * mask_stride).to(tl.pointer_type(tl.uint8)) + begin // 8 + byte_index).to(tl.int32)
        bits = bits[:, None]
        addresses = row_logits + begin + byte_index[:, None] * 8 + tl.arange(0, 8)[None, :]
        x = tl.load(addresses, mask=(bits != 0) & (bits != 255), other=-float("inf"))
        allowed = ((bits >> tl.arange(0, 8)[None, :]) & 1) != 0
        tl.store(addresses, tl.where(allowed, x, -float("inf")), mask=bits != 255)
    else:
        word = tl.load(masks + row * mask_stride + (offsets >> 5), mask=(offsets >> 5) < words, other=0)
        banned = ((word >> (offsets & 31)) & 1) == 0
        tl.store(row_logits + offsets, -float("inf"), mask=banned & (offsets < width))


def mask_triton(logits: Tensor, masks: Tensor, rows: Tensor | None) -> None:
    """Set the logits of every token that the bitmask does not allow to -inf.

    Args:
        logits: (batch, width), of a floating dtype, contiguous in the last dimension.
        masks: int32 (batch, words), contiguous in the last dimension, on the same device.
        rows: int32 (n,), on the same device: the indices of the rows to mask; None: all rows.
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
