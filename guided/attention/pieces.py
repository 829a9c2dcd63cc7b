"""The attention of a forward pass over a cache whose keys and values pass by in pieces.

Each piece is attended to by the queries that read it, and merged into what they have read so far (merge.py). Which of
the attentions a step has is decided here, by the plan that the cache makes. Memory: one piece's, and the outputs in
float32. Cost: beside the kernel's some ten small calls for each piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from guided.attention.flash import FlashAttention, FlashStep, reads
from guided.attention.merge import attention_with_lse, merge_attention_outputs
from guided.attention.step import StepAttention
from guided.kv.cache import PiecewisePlan, Plan
from guided.kv.paged import PagedPlan
from guided.models.model import Attend

__all__ = ["PieceAttention", "step_attention"]


def step_attention(plan: Plan | PiecewisePlan, counts: Sequence[int]) -> Attend:
    """The attention of a forward pass over so many new tokens of each sequence."""
    if isinstance(plan, PiecewisePlan):
        return PieceAttention(plan, counts)
    if isinstance(plan, PagedPlan) and reads(plan.k):
        return FlashAttention(plan.k, plan.v, FlashStep.of(plan))
    return StepAttention(plan, counts)


class PieceAttention:
    """See the module."""

    def __init__(self, plan: PiecewisePlan, counts: Sequence[int]) -> None:
        self._plan = plan
        self._spans = [slice(end - count, end) for count, end in zip(counts, accumulate(counts), strict=True)]
        self._masks: dict[tuple[int, int], Tensor | None] = {}  # the same for all layers

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Store the new keys and values of a layer; what the queries read, in the shape of q: (n, heads, head_dim)."""
        exact = torch.promote_types(q.dtype, torch.float32)
        out = q.new_zeros(q.shape, dtype=exact)
        lse = q.new_full(q.shape[:2], -torch.inf, dtype=exact)
        for index, new in enumerate(self._spans):
            for piece in self._plan.pieces(layer, index, k[new], v[new]):
                some = slice(new.start + piece.queries.start, new.start + piece.queries.stop)
                mask = self._mask(some.stop - some.start, len(piece.k), q.device) if piece.causal else None
                part = attention_with_lse(q[some], piece.k, piece.v, mask)
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
