"""Runs a model over one growing sequence: token ids in, logits of the last positions out.

Ties model, cache and attention together; the only place where they meet. Long inputs pass in chunks of bounded size,
which changes nothing but the memory that is needed. `truncate` goes back to an earlier length (a shared prompt,
rejected drafts).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from guided.attention.sdpa import causal_mask, sdpa
from guided.kv.dense import DenseCache
from guided.models.llama import Llama

__all__ = ["ModelRunner"]

_CHUNK = 512  # positions in one forward pass: bounds the attention mask and the activations


class ModelRunner:
    """A model with the cache of one sequence of at most `capacity` tokens."""

    def __init__(self, model: Llama, capacity: int) -> None:
        c = model.config
        self.model = model
        self.cache = DenseCache(
            c.layers, c.kv_heads, c.head_dim, capacity=capacity, dtype=model.dtype, device=model.device
        )

    @property
    def length(self) -> int:
        """Tokens seen so far."""
        return self.cache.length

    def truncate(self, length: int) -> None:
        """Forget the tokens at `length` and after it."""
        self.cache.truncate(length)

    @torch.inference_mode()
    def forward(self, tokens: Sequence[int], keep: int = 1) -> Tensor:
        """Append `tokens`; float32 logits after each of the last `keep` of them, (keep, vocab_size)."""
        rows: list[Tensor] = []
        first_kept = len(tokens) - keep
        for start in range(0, len(tokens), _CHUNK):
            chunk = tokens[start : start + _CHUNK]
            hidden = self._chunk(chunk)
            if start + len(chunk) > first_kept:
                rows.append(self.model.logits(hidden[max(0, first_kept - start) :]))
        return rows[0] if len(rows) == 1 else torch.cat(rows)

    def _chunk(self, tokens: Sequence[int]) -> Tensor:
        """Hidden states of the new tokens, (new, dim)."""
        cache, device = self.cache, self.model.device
        start, end = cache.length, cache.length + len(tokens)
        mask = causal_mask(len(tokens), end, device)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = cache.store(layer, k, v)
            return sdpa(q, keys, values, mask)

        ids = torch.tensor([tokens], dtype=torch.int64, device=device)
        hidden = self.model.forward(ids, torch.arange(start, end, device=device), attend)
        cache.advance(len(tokens))
        return hidden[0]
