"""Runs a model over the new tokens of some sequences: token ids in, logits of the last positions out.

Ties model, cache and attention together; the only place where they meet. What the sequences have to do with each other,
and how much of each is run at once, is the scheduler's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from guided.attention.flash import FlashAttention
from guided.attention.pieces import step_attention
from guided.engine.graphs import Capture, CudaCapture, DecodeGraphs
from guided.kernels.transfer import send
from guided.kv.cache import CacheShape, KVCache, Lease
from guided.kv.paged import PagedCache
from guided.kv.quantised import QuantisedCache, quantised
from guided.models.model import Attend, Model

__all__ = ["Chunk", "KVDtype", "ModelRunner", "cache_shape", "default_cache"]

KVDtype: TypeAlias = Literal["auto", "int8"]
"""How keys and values are kept: "auto" as the model computes them."""

_POSITIONS = 4096  # that fit into the default cache at least


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some tokens of one sequence, after those that its lease holds; room for them is reserved.

    Attributes:
        lease: where the keys and values of the sequence are.
        tokens: ids, at least one.
        keep: logits are wanted after each of the last so many.
    """

    lease: Lease
    tokens: Sequence[int]
    keep: int = 1


def cache_shape(model: Model) -> CacheShape:
    """What a cache for this model holds."""
    c = model.config
    return CacheShape(c.layers, c.kv_heads, c.head_dim, model.dtype, model.device)


def default_cache(model: Model, kv_dtype: KVDtype = "auto") -> KVCache:
    """A paged cache of twice the model's context."""
    if kv_dtype not in ("auto", "int8"):
        raise ValueError(f"kv_dtype is {kv_dtype!r}; known are 'auto' and 'int8'")
    block = 16 if model.device.type == "cpu" else 256  # what flash-attn reads; the CPU's kernel takes any
    blocks = -(-max(2 * model.config.context, _POSITIONS) // block)
    shape = cache_shape(model)
    if kv_dtype == "auto":
        return PagedCache(shape, blocks, block)
    return QuantisedCache(PagedCache(quantised(shape), blocks, block), shape)


class ModelRunner:
    """A model and its cache."""

    def __init__(self, model: Model, cache: KVCache, *, capture: Capture | None = None) -> None:
        """`capture`: makes the graphs for decoding (graphs.py), where flash-attn reads the cache; CUDA's by default."""
        self.model, self.cache = model, cache
        self._capture = capture or CudaCapture(model.device)
        self._graphs: DecodeGraphs | None = None

    @torch.inference_mode()
    def step(self, chunks: Sequence[Chunk]) -> Tensor:
        """One forward pass. Float32 logits, one row for each position that is kept, in order; owned by the caller.

        Returns:
            (sum of `keep`, vocab_size); on an accelerator launched, not waited for.
        """
        device = self.model.device
        attend = step_attention(self.cache, [c.lease for c in chunks], [len(c.tokens) for c in chunks])
        tokens = send([t for c in chunks for t in c.tokens], torch.int64, device)
        starts = [(c.lease.length, len(c.tokens)) for c in chunks]
        positions = send([p for start, n in starts for p in range(start, start + n)], torch.int64, device)
        hidden = self._forward(tokens, positions, attend)
        kept, first = list[int](), 0
        for chunk in chunks:
            self.cache.advance(chunk.lease, chunk.tokens)
            first += len(chunk.tokens)
            kept += range(first - chunk.keep, first)
        if not kept:
            return hidden.new_empty((0, self.model.config.vocab_size), dtype=torch.float32)
        if len(kept) < len(hidden):
            hidden = hidden[send(kept, torch.int64, device)]
        return self.model.logits(hidden)

    def _forward(self, tokens: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Hidden states, by a graph where there can be one."""
        if isinstance(attend, FlashAttention):
            if self._graphs is None:
                self._graphs = DecodeGraphs(self.model, attend.k, attend.v, self._capture)
            if self._graphs.fits(attend.step):
                return self._graphs.run(tokens, positions, attend.step)
        return self.model.forward(tokens, positions, attend)
