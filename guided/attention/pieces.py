"""The attention of a forward pass over a cache whose keys and values pass by in pieces.

Each piece is attended to by the queries that read it, and merged into what they have read so far (merge.py). Which of
the attentions a step has is decided here, by the plan that the cache makes. Memory: one piece's, and the outputs in
float32. Cost: beside the kernel's some ten small calls for each piece.

On a CPU, where nothing is gained by keeping keys apart, the pieces of a sequence and layer are put side by side
instead, and read as those of any other cache are (step.py): what is merged would depend on where pieces begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import torch
from torch import Tensor

from guided.attention.flash import FlashAttention, FlashStep, reads
from guided.attention.merge import attention_with_lse, merge_attention_outputs
from guided.attention.step import PlaceAttention, StepAttention
from guided.kv.cache import PiecewisePlan, Place, Plan
from guided.kv.paged import PagedPlan
from guided.models.model import Attend

__all__ = ["MergedPieces", "WholePieces", "step_attention"]


def step_attention(plan: Plan | PiecewisePlan, counts: Sequence[int]) -> Attend:
    """The attention of a forward pass over so many new tokens of each sequence."""
    if isinstance(plan, PiecewisePlan):
        return (WholePieces if plan.device.type == "cpu" else MergedPieces)(plan, counts)
    if isinstance(plan, PagedPlan) and reads(plan.k):
        return FlashAttention(plan.k, plan.v, FlashStep.of(plan))
    return StepAttention(plan, counts)


def _spans(counts: Sequence[int]) -> list[slice]:
    return [slice(end - count, end) for count, end in zip(counts, accumulate(counts), strict=True)]


class WholePieces:
    """Puts the pieces of a sequence side by side; an `Attend`."""

    def __init__(self, plan: PiecewisePlan, counts: Sequence[int]) -> None:
        self._plan, self._counts, self._spans = plan, counts, _spans(counts)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Store the new keys and values of a layer; what the queries read, in the shape of q: (n, heads, head_dim)."""
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
        for index, new in enumerate(self._spans):
            if (place := self._whole(layer, index, k[new], v[new])) is not None:
                out[new] = PlaceAttention([place], [(0, self._counts[index])])(0, q[new])
        return out

    def _whole(self, layer: int, index: int, k: Tensor, v: Tensor) -> Place | None:
        """All that the sequence has; None: no pieces."""
        place = None
        for piece in self._plan.pieces(layer, index, k, v):
            if place is None:
                place = _room(piece.stored, self._plan.lengths[index])
            first, stored = 0, piece.stored
            for where in piece.where:
                last = first + len(where)
                place.k[0, where.start : where.stop] = stored.k[0, first:last]
                place.v[0, where.start : where.stop] = stored.v[0, first:last]
                first = last
        return place


def _room(stored: Place, length: int) -> Place:
    """For a layer of so many positions, which are stored as those of the piece are."""
    shape = (1, length, *stored.k.shape[2:])
    return replace(stored, k=stored.k.new_empty(shape), v=stored.v.new_empty(shape), slots=slice(0, length))


class MergedPieces:
    """Merges what is read of each piece; an `Attend`."""

    def __init__(self, plan: PiecewisePlan, counts: Sequence[int]) -> None:
        self._plan, self._spans = plan, _spans(counts)
        self._masks: dict[tuple[int, int], Tensor | None] = {}  # the same for all layers

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Store the new keys and values of a layer; what the queries read, in the shape of q: (n, heads, head_dim)."""
        exact = torch.promote_types(q.dtype, torch.float32)
        out = q.new_zeros(q.shape, dtype=exact)
        lse = q.new_full(q.shape[:2], -torch.inf, dtype=exact)
        for index, new in enumerate(self._spans):
            for piece in self._plan.pieces(layer, index, k[new], v[new]):
                some = slice(new.start + piece.queries.start, new.start + piece.queries.stop)
                keys, values = piece.read()
                mask = self._mask(some.stop - some.start, len(keys), q.device) if piece.causal else None
                part = attention_with_lse(q[some], keys, values, mask)
                out[some], lse[some] = merge_attention_outputs(out[some], lse[some], *part)
        return out.to(q.dtype)

    def _mask(self, new: int, total: int, device: torch.device) -> Tensor | None:
        """What the last queries read, each up to itself."""
        if new == 1:
            return None
        if (new, total) not in self._masks:
            ones = torch.ones(new, total, dtype=torch.bool, device=device)
            self._masks[new, total] = ones.tril(total - new)
        return self._masks[new, total]
