"""Slots for keys and values: one tensor of keys and one of values for all sequences, indexed by slot number.

In: slot numbers, keys and values. Out: the keys and values stored in given slots. Consecutive slots are read through a
view, without a copy. Memory is allocated once, when the pool is created.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from guided.kernels.transfer import send
from guided.kv.cache import CacheShape, KVView

__all__ = ["PoolPlan", "SlotPool", "as_slice"]


class SlotPool:
    """Keys and values of `slots` positions."""

    def __init__(self, shape: CacheShape, slots: int) -> None:
        size = (shape.layers, slots, shape.kv_heads, shape.head_dim)
        self.k = torch.empty(size, dtype=shape.dtype, device=shape.device)
        self.v = torch.empty(size, dtype=shape.dtype, device=shape.device)
        self.slots = slots

    def touch(self) -> None:
        """Commit the memory now. Otherwise the operating system commits it page by page on first write."""
        self.k.zero_()
        self.v.zero_()

    def index(self, slots: Sequence[int]) -> slice | Tensor:
        """The index of these slots, in order: a slice if they are consecutive, otherwise int64."""
        slot_range = as_slice(slots)
        return slot_range if slot_range is not None else send(slots, torch.int64, self.k.device)

    def copy(self, source: slice | Tensor, target: slice | Tensor) -> None:
        """Copy slots to other slots, in all layers."""
        self.k[:, target] = self.k[:, source]
        self.v[:, target] = self.v[:, source]


class PoolPlan:
    """A plan over a pool. `new_slots`: slots of all new positions. `slots_by_sequence`: all slots of each sequence."""

    def __init__(self, pool: SlotPool, new_slots: slice | Tensor, slots_by_sequence: Sequence[slice | Tensor]) -> None:
        self._pool, self._new_slots = pool, new_slots
        self.views = [KVView(pool.k, pool.v, slots) for slots in slots_by_sequence]

    def write(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Store the new positions."""
        self._pool.k[layer, self._new_slots] = k
        self._pool.v[layer, self._new_slots] = v


def as_slice(numbers: Sequence[int]) -> slice | None:
    """The slice with these numbers if they are consecutive, otherwise None."""
    if not numbers:
        return slice(0, 0)
    first = numbers[0]
    if numbers[-1] - first + 1 != len(numbers) or any(n != first + i for i, n in enumerate(numbers)):
        return None
    return slice(first, first + len(numbers))
