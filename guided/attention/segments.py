"""Chooses the attention of a forward pass, and computes it for caches that never have all keys on the device at once.

`step_attention` chooses the attention by the plan of the cache. It checks only a few properties, so the choice costs
next to nothing.

1. A plan that yields *segments* of keys and values one after the other (`SegmentedPlan`): the two classes here.
2. Blocks on CUDA that flash attention kernels can read (`can_read_blocks`): flash-attn (flash.py) if it is installed,
   otherwise torch's own kernel (varlen.py) unless the model caps scores. `invariant` excludes flash-attn.
3. All other views: the CPU kernel or torch's attention (step.py).

On a GPU, queries attend to one segment at a time, and the result is merged with their previous results (merge.py).
Memory: one segment, and the outputs in float32. Cost: about ten small calls per segment, in addition to the kernel. On
a CPU, separate segments would save nothing, and the result of a merge would depend on where segments begin. So the
segments of a sequence and layer are copied into one view, which is read like a view of any other cache (step.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import torch
from torch import Tensor

from guided.attention.flash import FlashAttention, has_flash_attn
from guided.attention.merge import attention_with_lse, merge_attention_outputs
from guided.attention.paged_step import PagedStep, can_read_blocks
from guided.attention.step import StepAttention, ViewAttention
from guided.attention.varlen import VarlenAttention, has_varlen_attn
from guided.kv.cache import KVView, Plan, Segment, SegmentedPlan
from guided.kv.paged import PagedPlan
from guided.models.model import DEFAULT_ATTENTION, Attend, AttentionKind

__all__ = ["GatheredSegments", "MergedSegments", "step_attention"]


def step_attention(
    plan: Plan | SegmentedPlan, counts: Sequence[int], *, has_softcap: bool, invariant: bool = False
) -> Attend:
    """Choose the attention of a forward pass.

    Args:
        plan: where keys and values are stored.
        counts: the number of new tokens of each sequence.
        has_softcap: whether some layer of the model has a soft cap (`caps_scores`).
        invariant: whether, on CUDA, a sequence's output must be bitwise independent of the other sequences.
    """
    if isinstance(plan, SegmentedPlan):
        return (GatheredSegments if plan.device.type == "cpu" else MergedSegments)(plan, counts)
    if isinstance(plan, PagedPlan) and can_read_blocks(plan.k):
        if not invariant and has_flash_attn(plan.k.device):
            return FlashAttention(plan.k, plan.v, PagedStep.from_plan(plan))
        if not has_softcap and has_varlen_attn():
            return VarlenAttention(plan.k, plan.v, PagedStep.from_plan(plan), invariant)
    return StepAttention(plan, counts)


def _spans(counts: Sequence[int]) -> list[slice]:
    return [slice(end - count, end) for count, end in zip(counts, accumulate(counts), strict=True)]


class GatheredSegments:
    """An `Attend` that copies the segments of a sequence into one view, and reads this view."""

    def __init__(self, plan: SegmentedPlan, counts: Sequence[int]) -> None:
        self._plan, self._counts, self._spans = plan, counts, _spans(counts)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, kind: AttentionKind = DEFAULT_ATTENTION) -> Tensor:
        """Store the new keys and values of a layer. Return the output, with the shape of q: (n, heads, head_dim)."""
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
        for index, new in enumerate(self._spans):
            if (view := self._gather_view(layer, index, k[new], v[new])) is not None:
                out[new] = ViewAttention([view], [(0, self._counts[index])])(0, q[new], kind)
        return out

    def _gather_view(self, layer: int, index: int, k: Tensor, v: Tensor) -> KVView | None:
        """Copy all keys and values of the sequence into one view. Return None if it has no segments."""
        view = None
        for segment in self._plan.segments(layer, index, k, v):
            if view is None:
                view = _empty_view(segment.view, self._plan.lengths[index])
            begin, source = 0, segment.view
            for span in segment.positions:
                end = begin + len(span)
                view.k[0, span.start : span.stop] = source.k[0, begin:end]
                view.v[0, span.start : span.stop] = source.v[0, begin:end]
                begin = end
        return view


def _empty_view(model: KVView, length: int) -> KVView:
    """A view of uninitialised memory for one layer of `length` positions, in the storage format of another view."""
    shape = (1, length, *model.k.shape[2:])
    return replace(model, k=model.k.new_empty(shape), v=model.v.new_empty(shape), slots=slice(0, length))


class MergedSegments:
    """An `Attend` that reads each segment separately, and merges the results."""

    def __init__(self, plan: SegmentedPlan, counts: Sequence[int]) -> None:
        self._plan, self._counts, self._spans = plan, counts, _spans(counts)
        self._masks: dict[tuple[int, int], Tensor | None] = {}  # the same for all layers

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, kind: AttentionKind = DEFAULT_ATTENTION) -> Tensor:
        """Store the new keys and values of a layer. Return the output, with the shape of q: (n, heads, head_dim)."""
        precise_dtype = torch.promote_types(q.dtype, torch.float32)
        out = q.new_zeros(q.shape, dtype=precise_dtype)
        lse = q.new_full(q.shape[:2], -torch.inf, dtype=precise_dtype)
        for index, new in enumerate(self._spans):
            for segment in self._plan.segments(layer, index, k[new], v[new]):
                query_span = slice(new.start + segment.queries.start, new.start + segment.queries.stop)
                past_length = self._plan.lengths[index] - self._counts[index]
                if segment.positions[-1][-1] < kind.first_position(past_length + segment.queries.start):
                    continue  # all windows begin after this segment
                keys, values = segment.read()
                mask = (
                    self._causal_mask(query_span.stop - query_span.start, len(keys), q.device)
                    if segment.is_causal
                    else None
                )
                if kind.window is not None:
                    in_window = _window_mask(segment, past_length, kind.window, q.device)
                    mask = in_window if mask is None else in_window & mask
                output_and_lse = attention_with_lse(q[query_span], keys, values, mask, kind)
                out[query_span], lse[query_span] = merge_attention_outputs(
                    out[query_span], lse[query_span], *output_and_lse
                )
        return out.to(q.dtype)

    def _causal_mask(self, new_count: int, key_count: int, device: torch.device) -> Tensor | None:
        """The causal mask of the last queries over the keys; None for a single query, which reads all keys."""
        if new_count == 1:
            return None
        if (new_count, key_count) not in self._masks:
            ones = torch.ones(new_count, key_count, dtype=torch.bool, device=device)
            self._masks[new_count, key_count] = ones.tril(key_count - new_count)
        return self._masks[new_count, key_count]


def _window_mask(segment: Segment, past_length: int, window: int, device: torch.device) -> Tensor:
    """A mask (queries, keys): the keys of the segment that are not before the query's window. They may be after the
    query."""
    keys = torch.cat([torch.arange(span.start, span.stop, device=device) for span in segment.positions])
    queries = torch.arange(segment.queries.start, segment.queries.stop, device=device) + past_length
    return keys > queries.unsqueeze(1) - window
