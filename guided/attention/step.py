"""The attention of one forward pass: some sequences of a cache, each with some new tokens.

In: the plan of a cache, the sequences' leases, how many new tokens each has. Out: an `Attend` for the model
(models/model.py), which stores the keys and values of each layer and lets each query read its own sequence up to
itself.
Cost: a call of `sdpa` for each sequence and layer. On a CPU that is some 10 us, little beside the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from guided.attention.sdpa import causal_mask, sdpa
from guided.kv.cache import Lease, Plan

__all__ = ["StepAttention"]


class StepAttention:
    """See the module."""

    def __init__(self, plan: Plan, leases: Sequence[Lease], counts: Sequence[int]) -> None:
        self._plan = plan
        self._spans = [  # first and last new token, and how many positions there are then
            (end - count, end, lease.length + count)
            for lease, count, end in zip(leases, counts, accumulate(counts), strict=True)
        ]
        self._masks: dict[tuple[int, int], Tensor | None] = {}  # the same for all layers

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Store the new keys and values of a layer; what the queries read, in the shape of q: (n, heads, head_dim)."""
        self._plan.write(layer, k, v)
        out = []
        for index, (first, last, total) in enumerate(self._spans):
            lengths = last - first, total
            if lengths not in self._masks:
                self._masks[lengths] = causal_mask(*lengths, q.device)
            out.append(sdpa(q[first:last], *self._plan.read(layer, index), self._masks[lengths]))
        return out[0] if len(out) == 1 else torch.cat(out)
