"""The dense cache: contiguous tensors for each sequence, which are copied when they grow.

Keys and values are read through a view, so nothing is gathered. A sequence that grows is copied into tensors of twice
the size, a fork is a copy, and sequences share nothing. Use this cache for few sequences. It is the simplest cache, and
the other caches are tested against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import torch
from torch import Tensor

from guided.kv.cache import CacheShape, KVView, Lease, Plan, check_cache

__all__ = ["DenseCache"]

_GROWTH_STEP = 256  # positions; tensors grow to multiples of this


@dataclass(eq=False)
class _Region(Lease):
    k: Tensor = field(default_factory=lambda: torch.empty(0))  # (layers, size, kv_heads, head_dim)
    v: Tensor = field(default_factory=lambda: torch.empty(0))

    @property
    def size(self) -> int:
        return int(self.k.shape[1])


class DenseCache:
    """Contiguous keys and values of at most `capacity` positions in total, including reserved positions."""

    def __init__(self, shape: CacheShape, capacity: int) -> None:
        check_cache(shape, capacity=capacity)
        self.shape, self._capacity, self._used_positions = shape, capacity, 0

    @property
    def capacity(self) -> int:
        """The total number of positions."""
        return self._capacity

    @property
    def available(self) -> int:
        """The number of positions that can still be reserved."""
        return self._capacity - self._used_positions

    def touch(self) -> None:
        """No effect: memory is allocated by `reserve`."""

    def open(self, tokens: Sequence[int], *, keep: int = 1, salt: str = "") -> Lease:
        """Open an empty sequence."""
        return _Region(salt=salt, k=self._empty(0), v=self._empty(0))

    def reserve(self, lease: Lease, new: int) -> bool:
        """Grow if necessary: to twice the size, or as far as possible."""
        assert isinstance(lease, _Region)
        min_size = lease.length + new
        if min_size <= lease.size:
            return True
        size = min(-(-max(min_size, 2 * lease.size) // _GROWTH_STEP) * _GROWTH_STEP, lease.size + self.available)
        if size < min_size:
            return False
        self._used_positions += size - lease.size
        for name in ("k", "v"):
            old: Tensor = getattr(lease, name)
            larger = self._empty(size)
            larger[:, : lease.length] = old[:, : lease.length]
            setattr(lease, name, larger)
        return True

    def fork(self, lease: Lease) -> Lease:
        """Copy the sequence. Raises MemoryError if the copy does not fit."""
        assert isinstance(lease, _Region)
        copy = _Region(salt=lease.salt, k=self._empty(0), v=self._empty(0))
        if not self.reserve(copy, lease.length):
            raise MemoryError(f"the cache has {self.available} free positions, but a copy needs {lease.length}")
        copy.k[:, : lease.length] = lease.k[:, : lease.length]
        copy.v[:, : lease.length] = lease.v[:, : lease.length]
        copy.tokens = list(lease.tokens)
        return copy

    def truncate(self, lease: Lease, length: int) -> None:
        """Forget the positions from `length` on. Their memory stays allocated."""
        lease.forget(length)

    def plan(self, leases: Sequence[Lease], counts: Sequence[int]) -> Plan:
        """A plan that reads all sequences through views."""
        return _DensePlan([lease for lease in leases if isinstance(lease, _Region)], counts)

    def advance(self, lease: Lease, tokens: Sequence[int]) -> None:
        """Record the tokens of the new positions."""
        lease.tokens += tokens

    def close(self, lease: Lease) -> None:
        """Release the memory."""
        assert isinstance(lease, _Region)
        if not lease.closed:
            lease.closed = True
            self._used_positions -= lease.size
            lease.k = lease.v = self._empty(0)
            lease.tokens = []

    def _empty(self, size: int) -> Tensor:
        s = self.shape
        return torch.empty((s.layers, size, s.kv_heads, s.head_dim), dtype=s.dtype, device=s.device)


class _DensePlan:
    def __init__(self, regions: Sequence[_Region], counts: Sequence[int]) -> None:
        ends = [region.length + count for region, count in zip(regions, counts, strict=True)]
        self.views = [KVView(region.k, region.v, slice(0, end)) for region, end in zip(regions, ends, strict=True)]
        self._new_slices = [
            (region, slice(end - count, end), slice(last - count, last))  # target, source
            for region, count, end, last in zip(regions, counts, ends, accumulate(counts), strict=True)
        ]

    def write(self, layer: int, k: Tensor, v: Tensor) -> None:
        for region, target, source in self._new_slices:
            region.k[layer, target] = k[source]
            region.v[layer, target] = v[source]
