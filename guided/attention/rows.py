"""Attention over a `RowCache` (kv/rows.py): rows of any length, each with the same number of new positions.

In: queries, keys and values of the new positions, row by row. Out: the attention output. Each row is a separate
sequence (step.py), independent of the others. On every device the output equals that of `flash_attn_with_kvcache` with
`cache_seqlens`. The caller increases the lengths of the rows (`cache.advance`) after the pass. The engine does not use
this module; see kv/rows.py for what it is for.
"""

from __future__ import annotations

from torch import Tensor

from guided.attention.step import ViewAttention
from guided.kv.cache import KVView
from guided.kv.rows import RowCache
from guided.models.model import DEFAULT_ATTENTION, AttentionKind

__all__ = ["RowAttention"]


class RowAttention:
    """An `Attend` (models/model.py) for `new_count` tokens of each row, row by row."""

    def __init__(self, cache: RowCache, new_count: int) -> None:
        self._cache, self._new_count = cache, new_count
        self._ends = (cache.cache_seqlens + new_count).tolist()
        self._attention: ViewAttention | None = None

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, kind: AttentionKind = DEFAULT_ATTENTION) -> Tensor:
        """See `Attend`."""
        cache, shape = self._cache, (self._cache.rows, self._new_count, *k.shape[1:])
        cache.insert_kv(layer, k.reshape(shape), v.reshape(shape))
        if self._attention is None:  # the first insertion allocated the memory of all layers
            assert cache.k_cache is not None and cache.v_cache is not None
            rows = enumerate(self._ends)
            views = [KVView(cache.k_cache[:, row], cache.v_cache[:, row], slice(0, end)) for row, end in rows]
            spans = [(row * self._new_count, (row + 1) * self._new_count) for row in range(cache.rows)]
            self._attention = ViewAttention(views, spans)
        return self._attention(layer, q, kind)
