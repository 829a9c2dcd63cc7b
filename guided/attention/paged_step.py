"""A forward pass over the blocks of a paged cache, with the arguments that flash attention kernels take.

In: the plan of a `PagedCache`. Out: a `PagedStep`, tensors that all layers share: the slots of new positions, the block
table and length of each sequence, and the offset of its new tokens. `PagedAttention` stores the keys and values of a
layer; its subclasses call the kernel (varlen.py, flash.py). The tensors are copied to the device asynchronously.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from guided.kernels.store_kv import store_kv
from guided.kernels.transfer import send
from guided.kv.paged import PagedPlan
from guided.models.model import DEFAULT_ATTENTION, AttentionKind

__all__ = ["PagedAttention", "PagedStep", "Spans", "can_read_blocks"]


def can_read_blocks(k: Tensor) -> bool:
    """Whether flash attention kernels can read these blocks, (layers, blocks, block_size, kv_heads, head_dim)."""
    block_size, head_dim = k.shape[2], k.shape[4]
    return (
        k.device.type == "cuda"
        and k.dtype in (torch.float16, torch.bfloat16)
        and block_size % 256 == 0
        and head_dim % 8 == 0
        and head_dim <= 256
        and torch.cuda.get_device_capability(k.device) >= (8, 0)
    )


@dataclass(frozen=True, slots=True)
class Spans:
    """The new tokens of a step in which some sequence has more than one new token.

    Attributes:
        queries: int32 (sequences + 1,): the offsets at which each sequence's new tokens begin, and the total.
        keys: int32 (sequences + 1,): the same offsets counted over all positions, old and new.
        max_queries: the largest number of new tokens in a sequence.
        max_keys: the largest number of positions in a sequence, old and new.
        is_all_new: whether all positions are new.
    """

    queries: Tensor
    keys: Tensor
    max_queries: int
    max_keys: int
    is_all_new: bool


@dataclass(frozen=True, slots=True)
class PagedStep:
    """The kernel arguments of a forward pass.

    Attributes:
        slots: int64 (n,): where new positions are stored; -1: the position is not stored.
        tables: int32 (sequences, blocks): the block tables, padded with 0.
        lengths: int32 (sequences,): the number of positions, including new ones.
        spans: None if each sequence has one new token.
    """

    slots: Tensor
    tables: Tensor
    lengths: Tensor
    spans: Spans | None = None

    @classmethod
    def from_plan(cls, plan: PagedPlan) -> PagedStep:
        """Build the step for a plan."""
        device, width = plan.k.device, max(map(len, plan.tables))
        spans = None
        if any(count != 1 for count in plan.counts):
            queries, keys = (
                send([0, *accumulate(numbers)], torch.int32, device) for numbers in (plan.counts, plan.lengths)
            )
            is_all_new = list(plan.counts) == list(plan.lengths)
            spans = Spans(queries, keys, max(plan.counts), max(plan.lengths), is_all_new)
        return cls(
            send(plan.slots, torch.int64, device),
            send([[*table, *[0] * (width - len(table))] for table in plan.tables], torch.int32, device),
            send(plan.lengths, torch.int32, device),
            spans,
        )


@dataclass(eq=False)
class PagedAttention(ABC):
    """An `Attend` over the blocks of a cache. `dataclasses.replace(attention, step=...)` adapts it to another step.

    Attributes:
        k: keys, (layers, blocks, block_size, kv_heads, head_dim).
        v: values, the same shape.
        step: the forward pass.
    """

    k: Tensor
    v: Tensor
    step: PagedStep

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, kind: AttentionKind = DEFAULT_ATTENTION) -> Tensor:
        """See `Attend`."""
        keys, values = self.k.select(0, layer), self.v.select(0, layer)
        store_kv(k, v, keys.flatten(0, 1), values.flatten(0, 1), self.step.slots)
        return self._attend(q, (k, v), (keys, values), kind)

    @abstractmethod
    def _attend(
        self, q: Tensor, new_kv: tuple[Tensor, Tensor], stored_kv: tuple[Tensor, Tensor], kind: AttentionKind
    ) -> Tensor:
        """Compute the attention output, with the shape of q. `new_kv`: keys and values of this step; `stored_kv`: all
        blocks of the layer (blocks, block_size, kv_heads, head_dim), including `new_kv`."""
