"""The dense cache: one block of memory per tensor, every sequence in lockstep.

In: the keys and values of new positions, layer by layer. Out: views of all positions so far. Layout
(layers, batch, capacity, kv_heads, head_dim), the one that flash attention takes. Storing copies the new positions
only; growing copies everything. Rows share one length: sequences of different lengths want another cache.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["DenseCache"]


class DenseCache:
    """Keys and values of up to `capacity` positions; `length` of them are filled."""

    def __init__(
        self,
        layers: int,
        kv_heads: int,
        head_dim: int,
        *,
        capacity: int,
        batch: int = 1,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        shape = (layers, batch, capacity, kv_heads, head_dim)
        self.k = torch.empty(shape, dtype=dtype, device=device)
        self.v = torch.empty(shape, dtype=dtype, device=device)
        self.length = 0

    @property
    def capacity(self) -> int:
        """Positions that fit without growing."""
        return int(self.k.shape[2])

    def reserve(self, capacity: int) -> None:
        """Make room for `capacity` positions, by copy where there is less."""
        if capacity <= self.capacity:
            return
        layers, batch, _, heads, dim = self.k.shape
        for name in ("k", "v"):
            old: Tensor = getattr(self, name)
            new = old.new_empty((layers, batch, capacity, heads, dim))
            new[:, :, : self.length] = old[:, :, : self.length]
            setattr(self, name, new)

    def store(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Put (batch, new, kv_heads, head_dim) after the filled positions; views of all, the new ones included.

        `length` moves with `advance`, once every layer has stored.
        """
        start, end = self.length, self.length + k.shape[1]
        if end > self.capacity:
            raise ValueError(f"the cache holds {self.capacity} positions, {end} are needed: reserve them first")
        keys, values = self.k[layer, :, :end], self.v[layer, :, :end]
        keys[:, start:] = k
        values[:, start:] = v
        return keys, values

    def advance(self, count: int) -> None:
        """`count` more positions are filled."""
        if not 0 <= count <= self.capacity - self.length:
            raise ValueError(f"cannot advance by {count} from {self.length}: the capacity is {self.capacity}")
        self.length += count

    def truncate(self, length: int) -> None:
        """Forget what lies at `length` and after it."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot truncate to {length}: {self.length} positions are filled")
        self.length = length
