"""The attention of one forward pass over some sequences of a cache, each with some new tokens.

In: the plan of a cache, and the number of new tokens of each sequence. Out: an `Attend` for the model
(models/model.py). It stores the keys and values of each layer. Each query reads its own sequence up to its own
position.

On a CPU the output of a query has the same bits in one pass or in chunks, in any batch composition, and with any cache.
For float32 and bfloat16 one kernel reads all sequences (slots.py); float16 is converted to float32 for this kernel.
torch's own kernels add in an order that depends on the number of queries and threads. So float64 queries are passed to
them one at a time. On other devices they get all queries of a sequence at once (sdpa.py), and results are equal only up
to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from guided.attention.sdpa import causal_mask, sdpa
from guided.attention.slots import SlotAttention, can_read
from guided.kv.cache import KVView, Plan
from guided.models.model import DEFAULT_ATTENTION, AttentionKind

__all__ = ["StepAttention", "ViewAttention"]


class StepAttention:
    """An `Attend` over the views of a plan, which also stores new keys and values."""

    def __init__(self, plan: Plan, counts: Sequence[int]) -> None:
        self._plan = plan
        spans = [(end - count, end) for count, end in zip(counts, accumulate(counts), strict=True)]
        self._attention = ViewAttention(plan.views, spans)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, kind: AttentionKind = DEFAULT_ATTENTION) -> Tensor:
        """Store the new keys and values of a layer; return the output, with the shape of q: (n, heads, head_dim)."""
        self._plan.write(layer, k, v)
        return self._attention(layer, q, kind)


class ViewAttention:
    """The attention of queries over stored keys and values. `spans`: the first and the last (exclusive) query row of
    each sequence; each row belongs to one sequence."""

    def __init__(self, views: Sequence[KVView], spans: Sequence[tuple[int, int]]) -> None:
        self._views, self._spans = views, spans
        self._kernel: SlotAttention | None = None
        self._masks: dict[tuple[int, int, int | None], Tensor | None] = {}  # the same for all layers of a kind

    def __call__(self, layer: int, q: Tensor, kind: AttentionKind = DEFAULT_ATTENTION) -> Tensor:
        """The attention output of a layer, with the shape of q: (n, heads, head_dim)."""
        if self._views and can_read(self._views[0]):
            if self._kernel is None:
                self._kernel = SlotAttention(q.shape[1], self._views, self._spans, q.dtype)
            return self._kernel(layer, q, kind)
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
        for view, (first, last) in zip(self._views, self._spans, strict=True):
            k, v = view.read(layer)
            if q.device.type != "cpu":
                attend = self._attend_all_queries
            else:
                attend = self._attend_in_float32 if q.dtype == torch.float16 else self._attend_one_by_one
            attend(q[first:last], k, v, out[first:last], kind)
        return out

    def _attend_all_queries(self, q: Tensor, k: Tensor, v: Tensor, out: Tensor, kind: AttentionKind) -> None:
        first = kind.first_position(len(k) - len(q))
        k, v = k[first:], v[first:]
        mask_key = len(q), len(k), kind.window
        if mask_key not in self._masks:
            self._masks[mask_key] = causal_mask(*mask_key[:2], q.device, window=kind.window)
        out.copy_(sdpa(q, k, v, self._masks[mask_key], kind))

    def _attend_in_float32(self, q: Tensor, k: Tensor, v: Tensor, out: Tensor, kind: AttentionKind) -> None:
        view = KVView(k.float().unsqueeze(0), v.float().unsqueeze(0), slice(0, len(k)))
        out.copy_(SlotAttention(q.shape[1], [view], [(0, len(q))])(0, q.float(), kind))

    def _attend_one_by_one(self, q: Tensor, k: Tensor, v: Tensor, out: Tensor, kind: AttentionKind) -> None:
        past_length = len(k) - len(q)
        for i in range(len(q)):
            visible_span = slice(
                kind.first_position(past_length + i), past_length + i + 1
            )  # copied below, so the kernel always sees the same alignment
            out[i : i + 1] = sdpa(q[i : i + 1].clone(), k[visible_span].clone(), v[visible_span].clone(), None, kind)
