"""The attention of one forward pass: some sequences of a cache, each with some new tokens.

In: the plan of a cache, how many new tokens each of its sequences has. Out: an `Attend` for the model
(models/model.py), which stores the keys and values of each layer and lets each query read its own sequence up to
itself. A few new tokens on a CPU go together through one kernel (slots.py), prompts one by one through torch's
(sdpa.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from guided.attention.sdpa import causal_mask, sdpa
from guided.attention.slots import SlotAttention, reads
from guided.kv.cache import Plan

__all__ = ["StepAttention"]

_FEW = 16  # new tokens of a sequence


class StepAttention:
    """See the module."""

    def __init__(self, plan: Plan, counts: Sequence[int]) -> None:
        self._plan = plan
        self._spans = [(end - count, end) for count, end in zip(counts, accumulate(counts), strict=True)]
        places = plan.places
        few = [i for i, count in enumerate(counts) if count <= _FEW and reads(places[i])]
        self._few = [places[i] for i in few], [self._spans[i] for i in few]
        self._many = sorted(set(range(len(counts))).difference(few))
        self._kernel: SlotAttention | None = None
        self._masks: dict[tuple[int, int], Tensor | None] = {}  # the same for all layers

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Store the new keys and values of a layer; what the queries read, in the shape of q: (n, heads, head_dim)."""
        self._plan.write(layer, k, v)
        if len(self._spans) == 1 and self._many:
            return self._read(layer, 0, q)
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
        if len(self._many) < len(self._spans):
            if self._kernel is None:
                self._kernel = SlotAttention(q.shape[1], *self._few)
            self._kernel(layer, q, out)
        for index in self._many:
            first, last = self._spans[index]
            out[first:last] = self._read(layer, index, q[first:last])
        return out

    def _read(self, layer: int, index: int, q: Tensor) -> Tensor:
        """Attention of one sequence by torch."""
        k, v = self._plan.places[index].read(layer)
        lengths = q.shape[0], k.shape[0]
        if lengths not in self._masks:
            self._masks[lengths] = causal_mask(*lengths, q.device)
        return sdpa(q, k, v, self._masks[lengths])
