"""A cache for a fixed batch: one tensor with a row for each sequence, as in nanochat's engine.

In: keys and values of some new positions of every row. Out: views of all stored positions, and the length of each row.
The engine does not use this cache: its caches (cache.py) share memory between changing sequences. `RowCache` is for
programs that run the model themselves on a fixed batch, and is the simplest cache to read and to compare with. It
serves the requirements S0.4 to S0.8 and S1.7 to S1.12 (docs/requirements.md).

Memory is allocated when the first keys are inserted, with their dtype and on their device. To grow, the contents are
copied into memory for a multiple of 1,024 positions. (`resize_` on a middle axis, as in older versions of nanochat,
would scramble the heads.)
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["RowCache"]

_GROWTH_STEP = 1024


class RowCache:
    """Keys and values of `rows` sequences.

    Attributes:
        k_cache: (layers, rows, positions, kv_heads, head_dim); None until the first insertion.
        v_cache: values, like `k_cache`.
        cache_seqlens: int32 (rows,), the length of each row.
    """

    def __init__(self, layers: int, rows: int, kv_heads: int, head_dim: int, *, positions: int = 0) -> None:
        """`positions`: the number of positions to allocate at first."""
        self.layers, self.rows, self.kv_heads, self.head_dim = layers, rows, kv_heads, head_dim
        self._initial_positions = positions
        self.k_cache: Tensor | None = None
        self.v_cache: Tensor | None = None
        self.cache_seqlens = torch.zeros(rows, dtype=torch.int32)

    @property
    def positions(self) -> int:
        """The number of positions per row that fit without growing."""
        return self._initial_positions if self.k_cache is None else self.k_cache.shape[2]

    def reset(self) -> None:
        """Empty all rows; keep the memory."""
        self.cache_seqlens.zero_()

    def get_pos(self, row: int | None = None) -> int:
        """The length of a row; without `row`, the common length of all rows.

        Raises:
            ValueError: the rows have different lengths.
        """
        lengths = sorted(set(self.cache_seqlens.tolist() if row is None else self.cache_seqlens[[row]].tolist()))
        if len(lengths) != 1:
            raise ValueError(f"the rows have different lengths {lengths}: pass the row")
        return int(lengths[0])

    def get_layer_cache(self, layer: int) -> tuple[Tensor, Tensor]:
        """Views of the keys and values of a layer: (rows, positions, kv_heads, head_dim).

        Raises:
            ValueError: nothing has been inserted yet.
        """
        if self.k_cache is None or self.v_cache is None:
            raise ValueError("the cache has no memory yet: insert something first")
        return self.k_cache[layer], self.v_cache[layer]

    def insert_kv(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append n positions to each row: k, v (rows, n, kv_heads, head_dim). Return views up to the end of the longest
        row.

        The lengths change only with `advance`, after the last layer.
        """
        new = k.shape[1]
        if k.shape != v.shape or k.shape != (self.rows, new, self.kv_heads, self.head_dim):
            raise ValueError(f"keys {tuple(k.shape)} and values {tuple(v.shape)} do not fit the cache")
        end = int(self.cache_seqlens.max()) + new
        self._grow_to(end, k)
        keys, values = self.get_layer_cache(layer)
        positions = self.cache_seqlens.long().unsqueeze(1) + torch.arange(new)
        row_indices = torch.arange(self.rows).unsqueeze(1)
        keys[row_indices, positions], values[row_indices, positions] = k, v
        return keys[:, :end], values[:, :end]

    def advance(self, new: int | Tensor) -> None:
        """Increase the lengths of the rows by `new`: one number for all rows, or one for each, (rows,)."""
        self.cache_seqlens += torch.as_tensor(new, dtype=torch.int32)

    def prefill(self, other: RowCache) -> None:
        """Copy the contents of another cache. If the other cache has a single row, copy it to all rows.

        Raises:
            ValueError: this cache is not empty, the shapes differ, or its allocated memory is too small.
        """
        own_shape, other_shape = ((c.layers, c.kv_heads, c.head_dim) for c in (self, other))
        if own_shape != other_shape or other.rows not in (1, self.rows):
            sizes = f"{(*other_shape, other.rows)} does not fit into {(*own_shape, self.rows)}"
            raise ValueError(f"a cache of (layers, kv_heads, head_dim, rows) = {sizes}")
        if self.cache_seqlens.any():
            raise ValueError("the cache is not empty")
        length = int(other.cache_seqlens.max())
        if self.k_cache is not None and self.positions < length:
            raise ValueError(f"{length} positions do not fit into {self.positions}")
        if other.k_cache is not None and other.v_cache is not None:
            self._grow_to(length, other.k_cache)
            assert self.k_cache is not None and self.v_cache is not None
            self.k_cache[:, :, :length] = other.k_cache[:, :, :length]  # only the used part
            self.v_cache[:, :, :length] = other.v_cache[:, :, :length]
        self.cache_seqlens[:] = other.cache_seqlens

    def _grow_to(self, positions: int, like: Tensor) -> None:
        """Allocate memory for `positions` positions per row, and copy the contents."""
        if self.k_cache is not None and positions <= self.positions:
            return
        size = max(self._initial_positions, positions)
        if size > self._initial_positions:
            size = -(-size // _GROWTH_STEP) * _GROWTH_STEP
        shape = (self.layers, self.rows, size, self.kv_heads, self.head_dim)
        old = self.k_cache, self.v_cache
        self.k_cache, self.v_cache = like.new_zeros(shape), like.new_zeros(shape)  # masked values must not be NaN
        for old_tensor, new_tensor in zip(old, (self.k_cache, self.v_cache), strict=True):
            if old_tensor is not None:
                new_tensor[:, :, : old_tensor.shape[2]] = old_tensor
