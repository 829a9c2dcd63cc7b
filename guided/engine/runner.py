"""Runs a model over new tokens of several sequences. In: token ids. Out: the logits of the last positions.

In the engine, only this module combines model, cache and attention. The scheduler decides which sequences run, and how
many of their tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from guided.attention.paged_step import PagedAttention
from guided.attention.segments import step_attention
from guided.engine.cache_size import CacheSize, choose_cache_size
from guided.engine.forward_batch import ForwardBatch
from guided.engine.graphs import Capture, CudaCapture, StepGraphs
from guided.errors import brief
from guided.kernels.transfer import send
from guided.kv.cache import CacheShape, KVCache, Lease
from guided.kv.paged import PagedCache, PagedPlan
from guided.kv.quantised import QuantisedCache, packed_shape
from guided.models.decoder import Decoder, caps_scores
from guided.models.model import Model

__all__ = [
    "Chunk",
    "KVDtype",
    "ModelRunner",
    "TokensAhead",
    "bytes_per_token",
    "cache_shape",
    "check_kv_dtype",
    "default_cache",
]

KVDtype: TypeAlias = Literal["auto", "int8"]
"""The dtype of stored keys and values. "auto": the dtype in which the model computes them, or bfloat16 if the model's
weights stay quantised."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The next tokens of one sequence. The caller must have reserved their positions in the lease.

    Attributes:
        lease: the sequence's lease of the cache.
        tokens: ids, at least one.
        keep: the number of last positions that need logits.
    """

    lease: Lease
    tokens: Sequence[int]
    keep: int = 1


@dataclass(frozen=True, slots=True)
class TokensAhead:
    """One token for each of several sequences, chosen on the device and not yet known to the host. The pass keeps the
    logits after each of these tokens.

    Attributes:
        leases: the leases of the sequences, each with a position reserved for the token.
        tokens: int64 (leases + runs,), on the device.
        tables, lengths: for each sequence in a run, its block ids, and its number of positions with the new one. The
            paged cache does not know the tokens of its last positions yet.
    """

    leases: Sequence[Lease]
    tokens: Tensor
    tables: Sequence[Sequence[int]] = ()
    lengths: Sequence[int] = ()


def cache_shape(model: Model) -> CacheShape:
    """The shape of a cache for this model."""
    c, dtype = model.config, model.kv_dtype if isinstance(model, Decoder) else model.dtype
    return CacheShape(c.layers, c.kv_heads, c.head_dim, dtype, model.device)


def check_kv_dtype(kv_dtype: str) -> None:
    """Raise ValueError unless `kv_dtype` is a `KVDtype`."""
    if kv_dtype not in (kv_dtypes := get_args(KVDtype)):
        raise ValueError(f"kv_dtype is {brief(kv_dtype)}, but must be {' or '.join(map(repr, kv_dtypes))}")


def bytes_per_token(model: Model, kv_dtype: KVDtype) -> int:
    """The number of bytes of one position in a default cache."""
    shape = cache_shape(model)
    return (shape if kv_dtype == "auto" else packed_shape(shape)).bytes_per_token


def default_cache(model: Model, kv_dtype: KVDtype, size: CacheSize | None = None) -> KVCache:
    """Make a paged cache of the default size (cache_size.py), or of the given size.

    Raises:
        ValueError: see `check_kv_dtype`. GuidedError: there is not enough memory.
    """
    check_kv_dtype(kv_dtype)
    shape = cache_shape(model)
    size = size or choose_cache_size(bytes_per_token(model, kv_dtype), shape.device, model.config.context)
    with size.allocation():
        if kv_dtype == "auto":
            return PagedCache(shape, *size.blocks)
        return QuantisedCache(PagedCache(packed_shape(shape), *size.blocks), shape)


class ModelRunner:
    """A model and its cache.

    Attributes:
        can_run_ahead: whether `step` accepts tokens that the host does not know yet.
    """

    can_run_ahead = True

    def __init__(
        self, model: Model, cache: KVCache, *, capture: Capture | None = None, invariant: bool = False
    ) -> None:
        """Combine a model and a cache.

        Args:
            model: the model.
            cache: a cache with the model's `cache_shape`.
            capture: captures the graphs (graphs.py) of passes over a paged cache on CUDA; `CudaCapture` by default.
            invariant: see `step_attention`.
        """
        self.model, self.cache = model, cache
        self._has_softcap, self._invariant = caps_scores(model.config), invariant
        self._capture = capture or CudaCapture(model.device)
        self._graphs: StepGraphs | None = None

    def step(self, chunks: Sequence[Chunk], ahead: TokensAhead | None = None) -> Tensor:
        """Run one forward pass over chunks, and over tokens that the host does not know yet.

        The cache does not record the positions of such tokens. The caller records them with `cache.advance` once the
        tokens are known. If other tokens are chosen in the end, the next pass overwrites the positions.

        Returns:
            Float32 logits of the kept positions, in order, shape (sum of `keep`, vocab_size). The caller owns them. On
            an accelerator, the pass has been launched but may not have finished.
        """
        all_chunks = [*chunks, *(Chunk(lease, [0]) for lease in ahead.leases)] if ahead is not None else chunks
        counts = [len(chunk.tokens) for chunk in all_chunks]
        kept_positions = [
            i for c, end in zip(all_chunks, accumulate(counts), strict=True) for i in range(end - c.keep, end)
        ]
        tokens = [token for chunk in all_chunks for token in chunk.tokens]
        lengths = [c.lease.length + n for c, n in zip(all_chunks, counts, strict=True)]
        plan = self.cache.plan([chunk.lease for chunk in all_chunks], counts)
        if ahead is not None and ahead.lengths:
            assert isinstance(plan, PagedPlan)
            plan, run_count = plan.with_single_tokens(ahead.tables, ahead.lengths), len(ahead.lengths)
            kept_positions += range(len(tokens), len(tokens) + run_count)
            tokens += [0] * run_count
            counts += [1] * run_count
            lengths += ahead.lengths
        batch = ForwardBatch(tokens, counts, lengths, kept_positions, plan, None if ahead is None else ahead.tokens)
        logits = self.run(batch)
        for chunk in chunks:
            self.cache.advance(chunk.lease, chunk.tokens)
        return logits

    @torch.inference_mode()
    def run(self, batch: ForwardBatch) -> Tensor:
        """Run the pass of `step`, and return its logits."""
        hidden = self._forward(batch)
        if not batch.kept_positions:
            return hidden.new_empty((0, self.model.config.vocab_size), dtype=torch.float32)
        if len(batch.kept_positions) < len(hidden):
            hidden = hidden[send(batch.kept_positions, torch.int64, self.model.device)]
        return self.model.logits(hidden)

    def _forward(self, batch: ForwardBatch) -> Tensor:
        """Compute the hidden states, with a CUDA graph if one fits."""
        if self._graphs is not None and self._graphs.fits(batch):
            hidden = self._graphs.run(batch)
            if hidden is not None:
                return hidden
        device = self.model.device
        attend = step_attention(batch.plan, batch.counts, has_softcap=self._has_softcap, invariant=self._invariant)
        if self._graphs is None and isinstance(attend, PagedAttention):
            self._graphs = StepGraphs(self.model, attend, self._capture)
            return self._forward(batch)
        tokens = send(batch.tokens, torch.int64, device)
        if batch.tokens_ahead is not None:
            tokens[len(tokens) - len(batch.tokens_ahead) :] = batch.tokens_ahead
        spans = zip(batch.counts, batch.lengths, strict=True)
        positions = send([i for n, end in spans for i in range(end - n, end)], torch.int64, device)
        return self.model.forward(tokens, positions, attend)
