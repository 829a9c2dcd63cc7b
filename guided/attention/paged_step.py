"""A forward pass over the blocks of a paged cache, in the form that flash attention kernels take.

In: the plan of a `PagedCache`. Out: a `PagedStep`, tensors that all layers share: where new positions are stored, the
blocks and the length of each sequence, and where its new tokens begin. `PagedAttention` stores the keys and values of a
layer; its subclasses call the kernel (varlen.py, flash.py). The tensors are copied to the device without waiting.
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
from guided.models.model import PLAIN, AttentionKind

__all__ = ["PagedAttention", "PagedStep", "Spans", "can_read_blocks"]


def can_read_blocks(k: Tensor) -> bool:
    """Whether flash attention kernels can read such blocks: (layers, blocks, block_size, kv_heads, head_dim)."""
    size, head_dim = k.shape[2], k.shape[4]
    return (
        k.device.type == "cuda"
        and k.dtype in (torch.float16, torch.bfloat16)
        and size % 256 == 0
        and head_dim % 8 == 0
        and head_dim <= 256
        and torch.cuda.get_device_capability(k.device) >= (8, 0)
    )


@dataclass(frozen=True, slots=True)
class Spans:
    """The new tokens of a step in which some sequence has more than one.

    Attributes:
        queries: int32 (sequences + 1,): the offsets at which each sequence's new tokens begin, and the total.
        keys: int32 (sequences + 1,): the same for all positions.
        max_queries: the largest number of new tokens of a sequence.
        max_keys: the largest number of positions of a sequence.
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
        tables: int32 (sequences, blocks): the numbers of the blocks.
        lengths: int32 (sequences,): the number of positions, including new ones.
        spans: None if each sequence has one new token.
    """

    slots: Tensor
    tables: Tensor
    lengths: Tensor
    spans: Spans | None = None

    @classmethod
    def of(cls, plan: PagedPlan) -> PagedStep:
        """The step of a plan."""
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
    """An `Attend` over the blocks of a cache. `dataclasses.replace(attention, step=...)` makes one for another step.

    Attributes:
        k: keys, (layers, blocks, block_size, kv_heads, head_dim).
        v: values, the same shape.
        step: the forward pass.
    """

    k: Tensor
    v: Tensor
    step: PagedStep

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, kind: AttentionKind = PLAIN) -> Tensor:
        """See `Attend`."""
        keys, values = self.k.select(0, layer), self.v.select(0, layer)
        store_kv(k, v, keys.flatten(0, 1), values.flatten(0, 1), self.step.slots)
        return self._read(q, (k, v), (keys, values), kind)

    @abstractmethod
    def _read(
        self, q: Tensor, new: tuple[Tensor, Tensor], stored: tuple[Tensor, Tensor], kind: AttentionKind
    ) -> Tensor:
        """The attention output, in the shape of q. `new`: keys and values of this step; `stored`: all blocks of the
        layer (blocks, block_size, kv_heads, head_dim), including `new`."""
