"""Storing the keys and values of new positions in the slots of a cache.

In: keys and values of some rows, a slot for each. Out: the cache, changed in place; rows of slot -1 are skipped, which
is how a batch is padded. Both forms have static shapes and read nothing back, so that a CUDA graph can hold them. On
CUDA one Triton kernel (store_kv_triton.py) does all of it; torch, which writes without padding as fast, would need some
ten launches for the skipping.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from guided.packages import triton_function

__all__ = ["store_kv", "store_kv_torch"]

Store: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], None]


def store_kv(k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slots: Tensor) -> None:
    """Write rows k, v (n, kv_heads, head_dim) to the cache (slots, kv_heads, head_dim), contiguous, at slots (n,).

    slots: int64, different from one another but for -1.
    """
    kernel: Store | None = None
    if k.device.type == "cuda":
        kernel = triton_function("guided.kernels.store_kv_triton", "store_kv_triton")
    if kernel is None:
        store_kv_torch(k, v, k_cache, v_cache, slots)
    else:
        with torch.cuda.device(k.device):
            kernel(k, v, k_cache, v_cache, slots)


def store_kv_torch(k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slots: Tensor) -> None:
    """See `store_kv`. A row that is skipped writes once more what the first row that is kept writes; where none is, all
    write to the last slot (-1) what stands there."""
    kept = slots >= 0
    row = torch.where(kept, torch.arange(len(slots), device=slots.device), kept.int().argmax())
    target, some = slots[row], kept.any()
    for new, stored in ((k, k_cache), (v, v_cache)):
        stored[target] = torch.where(some, new[row], stored[target])
