"""The dense cache: contiguous tensors for each sequence, which grow by copy.

Keys and values are read through a view, so nothing is gathered. Growing copies a sequence to twice the capacity,
forking copies all of it, and sequences share nothing. Use it for few sequences. It is the simplest cache, and the
others are tested against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import torch
from torch import Tensor

from guided.kv.cache import CacheShape, KVView, Lease, Plan

__all__ = ["DenseCache"]

_STEP = 256  # positions; tensors grow to multiples of it


@dataclass(eq=False)
class _Region(Lease):
    k: Tensor = field(default_factory=lambda: torch.empty(0))  # (layers, room, kv_heads, head_dim)
    v: Tensor = field(default_factory=lambda: torch.empty(0))

    @property
    def room(self) -> int:
        return int(self.k.shape[1])


class DenseCache:
    """Contiguous keys and values of at most `capacity` positions in all, counted when they are reserved."""

    def __init__(self, shape: CacheShape, capacity: int) -> None:
        self.shape, self._capacity, self._used_positions = shape, capacity, 0

    @property
    def capacity(self) -> int:
        """Positions that fit in all."""
        return self._capacity

    @property
    def available(self) -> int:
        """Positions that can still be reserved."""
        return self._capacity - self._used_positions

    def touch(self) -> None:
        """No effect: memory is allocated by `reserve`."""

    def open(self, tokens: Sequence[int], *, keep: int = 1, salt: str = "") -> Lease:
        """An empty sequence."""
        return _Region(salt=salt, k=self._empty(0), v=self._empty(0))

    def reserve(self, lease: Lease, new: int) -> bool:
        """Grow by copy if necessary: to twice the capacity, or to all that is available."""
        assert isinstance(lease, _Region)
        needed = lease.length + new
        if needed <= lease.room:
            return True
        room = min(-(-max(needed, 2 * lease.room) // _STEP) * _STEP, lease.room + self.available)
        if room < needed:
            return False
        self._used_positions += room - lease.room
        for name in ("k", "v"):
            old: Tensor = getattr(lease, name)
            new_ = self._empty(room)
            new_[:, : lease.length] = old[:, : lease.length]
            setattr(lease, name, new_)
        return True

    def fork(self, lease: Lease) -> Lease:
        """A copy. MemoryError: it does not fit."""
        assert isinstance(lease, _Region)
        twin = _Region(salt=lease.salt, k=self._empty(0), v=self._empty(0))
        if not self.reserve(twin, lease.length):
            raise MemoryError(f"the cache has room for {self.available} positions, a copy takes {lease.length}")
        twin.k[:, : lease.length] = lease.k[:, : lease.length]
        twin.v[:, : lease.length] = lease.v[:, : lease.length]
        twin.tokens = list(lease.tokens)
        return twin

    def truncate(self, lease: Lease, length: int) -> None:
        """Forget the positions at `length` and after it; the room stays."""
        lease.forget(length)

    def plan(self, leases: Sequence[Lease], counts: Sequence[int]) -> Plan:
        """A plan that reads views only."""
        return _DensePlan([lease for lease in leases if isinstance(lease, _Region)], counts)

    def advance(self, lease: Lease, tokens: Sequence[int]) -> None:
        """Record the tokens of the new positions."""
        lease.tokens += tokens

    def close(self, lease: Lease) -> None:
        """Release the memory."""
        assert isinstance(lease, _Region)
        if not lease.closed:
            lease.closed = True
            self._used_positions -= lease.room
            lease.k = lease.v = self._empty(0)
            lease.tokens = []

    def _empty(self, room: int) -> Tensor:
        s = self.shape
        return torch.empty((s.layers, room, s.kv_heads, s.head_dim), dtype=s.dtype, device=s.device)


class _DensePlan:
    def __init__(self, regions: Sequence[_Region], counts: Sequence[int]) -> None:
        ends = [region.length + count for region, count in zip(regions, counts, strict=True)]
        self.views = [KVView(region.k, region.v, slice(0, end)) for region, end in zip(regions, ends, strict=True)]
        self._new = [
            (region, slice(end - count, end), slice(last - count, last))  # target, source
            for region, count, end, last in zip(regions, counts, ends, accumulate(counts), strict=True)
        ]

    def write(self, layer: int, k: Tensor, v: Tensor) -> None:
        for region, target, source in self._new:
            region.k[layer, target] = k[source]
            region.v[layer, target] = v[source]
