"""The input of a forward pass in plain numbers, as the runner passes it to graphs and to other ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from guided.kv.cache import Plan, SegmentedPlan

__all__ = ["ForwardBatch"]


@dataclass(frozen=True, slots=True)
class ForwardBatch:
    """The input of one forward pass, in plain numbers.

    Attributes:
        tokens: the ids of all sequences, concatenated.
        counts: for each sequence, the number of its tokens.
        lengths: for each sequence, its number of positions after the pass.
        kept_positions: the indices of the tokens whose logits are needed.
        plan: the cache slots of keys and values.
        tokens_ahead: int64 (m,), on the device: the last m of `tokens`, which the host does not know yet.
    """

    tokens: Sequence[int]
    counts: Sequence[int]
    lengths: Sequence[int]
    kept_positions: Sequence[int]
    plan: Plan | SegmentedPlan
    tokens_ahead: Tensor | None = None
