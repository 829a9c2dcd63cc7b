"""Computes the logits with a model and a cache from the library, in forward passes of a chosen size.

Guided decoding does not depend on how the logits are computed. A `Reader` can compute them in several ways, and the
other modules here work with all of them. By default, it keeps keys and values and reads only new tokens. With
`remember=False`, it computes everything again for each token. `cache` stores the keys and values in contiguous tensors
or in blocks. A long prompt is read in one forward pass, or in several of `chunk` tokens. The weights of `model` are
floats or 4-bit integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import torch
from torch import Tensor

from guided.attention.segments import step_attention
from guided.kv.cache import CacheShape, KVCache, Lease
from guided.kv.dense import DenseCache
from guided.models.decoder import caps_scores
from guided.models.model import Model

__all__ = ["Reader"]


class Reader:
    """idx (B, T) -> logits of the next token (B, V)."""

    def __init__(
        self, model: Model, *, cache: KVCache | None = None, chunk: int | None = None, remember: bool = True
    ) -> None:
        config = model.config
        self.model, self.chunk, self.remember = model, chunk or config.context, remember
        shape = CacheShape(config.layers, config.kv_heads, config.head_dim, model.dtype, model.device)
        self.cache = DenseCache(shape, 1 << 20) if cache is None else cache  # it grows on demand
        self.read = 0  # the total number of tokens read, for measurements
        self._leases: list[Lease] = []

    @torch.inference_mode()
    def __call__(self, idx: Tensor) -> Tensor:
        """Read the new tokens of each row, and return the logits of the next token."""
        rows: list[list[int]] = idx.tolist()
        if idx.shape[1] > self.model.config.context:
            raise ValueError(f"{idx.shape[1]} tokens, but the model's context is {self.model.config.context}")
        while len(self._leases) > len(rows):
            self.cache.close(self._leases.pop())
        while len(self._leases) < len(rows):
            self._leases.append(self.cache.open([]))
        reused_count = min(self._count_reusable(lease, row) for lease, row in zip(self._leases, rows, strict=True))
        for lease in self._leases:
            self.cache.truncate(lease, reused_count)
        hidden = idx.new_empty(0)
        for start in range(reused_count, idx.shape[1], self.chunk):
            hidden = self._step([row[start : start + self.chunk] for row in rows])
        return self.model.logits(hidden)

    def _count_reusable(self, lease: Lease, row: Sequence[int]) -> int:
        """The number of leading tokens that need not be read again. The last token is always read."""
        matching_pairs = takewhile(lambda pair: pair[0] == pair[1], zip(lease.tokens, row[:-1], strict=False))
        return sum(1 for _ in matching_pairs) if self.remember else 0

    def _step(self, chunks: list[list[int]]) -> Tensor:
        """One forward pass over chunks of equal length, one per row. Returns their last hidden states, (B, dim)."""
        count, start, device = len(chunks[0]), self._leases[0].length, self.model.device
        counts = [count] * len(chunks)
        if not all(self.cache.reserve(lease, count) for lease in self._leases):
            raise MemoryError(f"the cache has no space for {len(chunks)} x {count} more tokens")
        plan = self.cache.plan(self._leases, counts)
        attend = step_attention(plan, counts, has_softcap=caps_scores(self.model.config))
        tokens = torch.tensor(chunks, device=device).flatten()
        positions = torch.arange(start, start + count, device=device).repeat(len(chunks))
        hidden = self.model.forward(tokens, positions, attend)
        for lease, chunk in zip(self._leases, chunks, strict=True):
            self.cache.advance(lease, chunk)
        self.read += len(tokens)
        return hidden[count - 1 :: count]
