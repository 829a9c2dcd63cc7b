"""Stores the keys and values of new positions in the slots of a cache.

In: rows of keys and values, and a slot for each row. Out: the cache, changed in place. Rows with slot -1 (padding) are
skipped.

There are two versions: a single Triton kernel on CUDA (store_kv_triton.py), otherwise torch operations. Both have
static shapes and copy nothing back to the host, so a CUDA graph can contain them. Without padding, torch is as fast as
the kernel, but it needs about ten launches to skip rows.
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
    """Write the rows of `k` and `v` to the slots `slots` of the caches. All tensors are contiguous.

    Args:
        k, v: the rows, (n, kv_heads, head_dim).
        k_cache, v_cache: the caches, (slot_count, kv_heads, head_dim).
        slots: (n,) int64, all different except -1.
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
    """See `store_kv`. A skipped row repeats the write of the first stored row. If all rows are skipped, they overwrite
    the last slot (-1) with its own contents."""
    is_stored = slots >= 0
    source_rows = torch.where(is_stored, torch.arange(len(slots), device=slots.device), is_stored.int().argmax())
    target_slots, has_rows = slots[source_rows], is_stored.any()
    for new_rows, cache in ((k, k_cache), (v, v_cache)):
        cache[target_slots] = torch.where(has_rows, new_rows[source_rows], cache[target_slots])
