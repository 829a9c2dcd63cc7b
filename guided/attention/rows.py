"""Attention over a cache of rows (kv/rows.py): as many new positions in each row, rows of any length.

In: queries, keys and values of the new positions, row by row. Out: what the queries read. It does what
`flash_attn_with_kvcache` does with `cache_seqlens`, by torch's kernel and a mask, everywhere. The caller moves the rows
on (`cache.advance`) after the pass.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from guided.kv.rows import RowCache

__all__ = ["RowAttention"]


class RowAttention:
    """An `Attend` (models/model.py): tokens are those of row 0, then those of row 1, and so on, `new` of each."""

    def __init__(self, cache: RowCache, new: int) -> None:
        self._cache, self._new = cache, new
        last = cache.cache_seqlens.unsqueeze(1) + torch.arange(new)  # (rows, new): what each query reads up to
        seen = torch.arange(int(cache.cache_seqlens.max()) + new) <= last.unsqueeze(2)
        self._mask = seen.unsqueeze(1)  # (rows, 1, new, positions)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """See `Attend`."""
        rows = (self._cache.rows, self._new)
        keys, values = self._cache.insert_kv(layer, k.reshape(*rows, *k.shape[1:]), v.reshape(*rows, *v.shape[1:]))
        out = F.scaled_dot_product_attention(
            q.reshape(*rows, *q.shape[1:]).transpose(1, 2),
            keys.transpose(1, 2),
            values.transpose(1, 2),
            attn_mask=self._mask.to(q.device),
            enable_gqa=q.shape[1] != k.shape[1],
        )
        return out.transpose(1, 2).flatten(0, 1)
