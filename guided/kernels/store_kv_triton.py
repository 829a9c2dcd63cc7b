"""`store_kv` (store_kv.py) as a Triton kernel: one program for each row."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

__all__ = ["store_kv_triton", "store_kvcache_kernel"]


@triton.jit
def store_kvcache_kernel(
    k: tl.tensor, k_stride: tl.tensor, v: tl.tensor, v_stride: tl.tensor, k_cache: tl.tensor, v_cache: tl.tensor,
    slots: tl.tensor, size: tl.constexpr, padded: tl.constexpr,
) -> None:  # fmt: skip
    """Store the keys and values of one row, unless its slot is -1. Grid: (rows,)."""
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + row)
    if slot >= 0:
        offsets = tl.arange(0, padded)
        is_inside = offsets < size
        tl.store(k_cache + slot * size + offsets, tl.load(k + row * k_stride + offsets, mask=is_inside), mask=is_inside)
        tl.store(v_cache + slot * size + offsets, tl.load(v + row * v_stride + offsets, mask=is_inside), mask=is_inside)


def store_kv_triton(k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slots: Tensor) -> None:
    """See `store_kv`."""
    rows, heads, head_dim = k.shape
    k, v = (x if x.stride()[1:] == (head_dim, 1) else x.contiguous() for x in (k, v))
    size = heads * head_dim
    store_kvcache_kernel[(rows,)](
        k, k.stride(0), v, v.stride(0), k_cache, v_cache, slots, size, triton.next_power_of_2(size)
    )
