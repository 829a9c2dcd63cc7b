"""Runs a model over the new tokens of some sequences: token ids in, logits of the last positions out.

Ties model, cache and attention together; the only place where they meet. What the sequences have to do with each other,
and how much of each is run at once, is the scheduler's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from guided.attention.flash import FlashAttention
from guided.attention.pieces import step_attention
from guided.engine.graphs import Capture, CudaCapture, DecodeGraphs
from guided.errors import brief
from guided.kernels.transfer import send
from guided.kv.cache import CacheShape, KVCache, Lease, PiecewisePlan, Plan
from guided.kv.paged import PagedCache
from guided.kv.quantised import QuantisedCache, quantised
from guided.models.model import Attend, Model

__all__ = [
    "Batch",
    "Chunk",
    "KVDtype",
    "ModelRunner",
    "cache_shape",
    "check_kv_dtype",
    "default_blocks",
    "default_cache",
]

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


def default_blocks(model: Model) -> tuple[int, int]:
    """How many blocks an engine's cache has by default, for twice the model's context, and positions of each."""
    size = 16 if model.device.type == "cpu" else 256  # what flash-attn reads; the CPU's kernel takes any
    return -(-max(2 * model.config.context, _POSITIONS) // size), size


def check_kv_dtype(kv_dtype: str) -> None:
    """Raise ValueError unless it is a `KVDtype`."""
    if kv_dtype not in (known := get_args(KVDtype)):
        raise ValueError(f"kv_dtype is {brief(kv_dtype)}; known are {' and '.join(map(repr, known))}")


def default_cache(model: Model, kv_dtype: KVDtype) -> KVCache:
    """A paged cache of so many blocks. Raises as `check_kv_dtype`."""
    check_kv_dtype(kv_dtype)
    shape = cache_shape(model)
    if kv_dtype == "auto":
        return PagedCache(shape, *default_blocks(model))
    return QuantisedCache(PagedCache(quantised(shape), *default_blocks(model)), shape)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one forward pass is made of, in plain numbers.

    Attributes:
        tokens: ids, those of the first sequence first.
        counts: how many of them each sequence has.
        lengths: positions of each sequence, these included.
        kept: which of the tokens logits are wanted after.
        plan: where their keys and values go.
    """

    tokens: Sequence[int]
    counts: Sequence[int]
    lengths: Sequence[int]
    kept: Sequence[int]
    plan: Plan | PiecewisePlan


class ModelRunner:
    """A model and its cache."""

    def __init__(self, model: Model, cache: KVCache, *, capture: Capture | None = None) -> None:
        """`capture`: makes the graphs for decoding (graphs.py), where flash-attn reads the cache; CUDA's by default."""
        self.model, self.cache = model, cache
        self._capture = capture or CudaCapture(model.device)
        self._graphs: DecodeGraphs | None = None

    def step(self, chunks: Sequence[Chunk]) -> Tensor:
        """One forward pass. Float32 logits, one row for each position that is kept, in order; owned by the caller.

        Returns:
            (sum of `keep`, vocab_size); on an accelerator launched, not waited for.
        """
        counts = [len(chunk.tokens) for chunk in chunks]
        kept = [at for c, end in zip(chunks, accumulate(counts), strict=True) for at in range(end - c.keep, end)]
        batch = Batch(
            tokens=[token for chunk in chunks for token in chunk.tokens],
            counts=counts,
            lengths=[c.lease.length + n for c, n in zip(chunks, counts, strict=True)],
            kept=kept,
            plan=self.cache.plan([chunk.lease for chunk in chunks], counts),
        )
        logits = self.run(batch)
        for chunk in chunks:
            self.cache.advance(chunk.lease, chunk.tokens)
        return logits

    @torch.inference_mode()
    def run(self, batch: Batch) -> Tensor:
        """The logits of `step`."""
        device = self.model.device
        attend = step_attention(batch.plan, batch.counts)
        tokens = send(batch.tokens, torch.int64, device)
        each = zip(batch.counts, batch.lengths, strict=True)
        positions = send([at for n, end in each for at in range(end - n, end)], torch.int64, device)
        hidden = self._forward(tokens, positions, attend)
        if not batch.kept:
            return hidden.new_empty((0, self.model.config.vocab_size), dtype=torch.float32)
        if len(batch.kept) < len(hidden):
            hidden = hidden[send(batch.kept, torch.int64, device)]
        return self.model.logits(hidden)

    def _forward(self, tokens: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Hidden states, by a graph where there can be one."""
        if isinstance(attend, FlashAttention):
            if self._graphs is None:
                self._graphs = DecodeGraphs(self.model, attend.k, attend.v, self._capture)
            if self._graphs.fits(attend.step):
                return self._graphs.run(tokens, positions, attend.step)
        return self.model.forward(tokens, positions, attend)
