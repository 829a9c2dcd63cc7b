"""The interface of all caches of keys and values.

A cache stores many sequences. `open` gives a sequence a `Lease`; a cached prefix needs no forward pass. A step reserves
positions (`reserve`), runs the model with the cache's plan (`plan`), and then increases the lengths (`advance`). Caches
differ in their memory: contiguous tensors (`DenseCache`), blocks (`PagedCache`), individual slots under a radix tree
(`RadixCache`), or CPU memory (`OffloadCache`). With all of them a model writes the same output, up to rounding on a
GPU. `QuantisedCache` wraps one of them and stores rounded numbers, which changes the output.

Layout of keys and values everywhere: (positions, kv_heads, head_dim) for each layer, in the order of the sequence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from guided.errors import OptionError, brief
from guided.keywords import check_integer

__all__ = ["CacheShape", "KVCache", "KVView", "Lease", "Plan", "Segment", "SegmentedPlan", "check_cache"]


@dataclass(frozen=True, slots=True)
class CacheShape:
    """The sizes of one position's keys and values in all layers, and the device that stores them."""

    layers: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype = torch.float32
    device: torch.device = torch.device("cpu")  # noqa: RUF009 - immutable

    def __post_init__(self) -> None:
        for name in ("layers", "kv_heads", "head_dim"):
            check_integer(name, getattr(self, name), minimum=1)

    @property
    def bytes_per_token(self) -> int:
        """The number of bytes of one position's keys and values."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.dtype.itemsize


def check_cache(shape: CacheShape, **sizes: int) -> None:
    """Raise an OptionError unless `shape` is a `CacheShape` and each size of the cache is an integer of at least 1."""
    if not isinstance(shape, CacheShape):
        raise OptionError(f"shape is {brief(shape)}, but must be a CacheShape", option="shape")
    for name, size in sizes.items():
        check_integer(name, size, minimum=1)


@dataclass(eq=False)
class Lease:
    """A sequence's part of a cache.

    Attributes:
        tokens: the ids of the stored positions, in order.
        salt: only sequences with equal salts share prefixes.
        closed: whether the memory has been released.
    """

    tokens: list[int] = field(default_factory=list)
    salt: str = ""
    closed: bool = False

    @property
    def length(self) -> int:
        """The number of stored positions."""
        return len(self.tokens)

    def forget(self, length: int) -> None:
        """Forget the tokens from index `length` on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot truncate to {length}: {self.length} positions are stored")
        del self.tokens[length:]


@dataclass(frozen=True, slots=True)
class KVView:
    """Where the keys and values of a sequence's positions are stored, including new positions.

    Attributes:
        k: keys in storage format, (layers, slots, kv_heads, head_dim); `read` converts them.
        v: values, with the same shape.
        slots: the slot of each position, in order: a slice if they are consecutive, otherwise int64.
    """

    k: Tensor
    v: Tensor
    slots: slice | Tensor

    def read(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer, (positions, kv_heads, head_dim) each: views of a slice, or copies of slots."""
        return self.k[layer, self.slots], self.v[layer, self.slots]


class Plan(Protocol):
    """The cache accesses of a forward pass, which are the same for all layers."""

    @property
    def views(self) -> Sequence[KVView]:
        """The view of each sequence."""

    def write(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Store the new positions of all sequences, concatenated: (n, kv_heads, head_dim) each."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Some of a sequence's keys and values, which some of its new positions read.

    Attributes:
        queries: the new positions that read the segment.
        view: the keys and values; the view has a single layer.
        positions: the positions of the sequence that the segment contains, in order.
        is_causal: whether the queries are the last of these positions, and each reads only up to its own position.
            Otherwise each query reads the whole segment.
    """

    queries: slice
    view: KVView
    positions: Sequence[range]
    is_causal: bool = False

    def read(self) -> tuple[Tensor, Tensor]:
        """Keys and values, (positions, kv_heads, head_dim) each."""
        return self.view.read(0)


@runtime_checkable
class SegmentedPlan(Protocol):
    """The cache accesses of a forward pass if the keys and values are never all on the device at once."""

    @property
    def device(self) -> torch.device:
        """The device that reads keys and values."""

    @property
    def lengths(self) -> Sequence[int]:
        """The number of positions of each sequence, including new ones."""

    def segments(self, layer: int, index: int, k: Tensor, v: Tensor) -> Iterator[Segment]:
        """Store the new positions of sequence `index`. Yield all keys and values that they read, in any order.

        A segment is valid until the next one is requested. The caller must request all segments of each layer and
        sequence, in order.
        """


class KVCache(Protocol):
    """Keys and values of many sequences. Not thread-safe: one engine loop owns it."""

    @property
    def capacity(self) -> int:
        """The total number of positions."""

    @property
    def available(self) -> int:
        """The number of positions that can still be stored if unused contents are dropped."""

    def touch(self) -> None:
        """Commit the allocated memory now, while the cache is empty, instead of page by page on first write.

        For servers, whose memory use should be final from the start.
        """

    def open(self, tokens: Sequence[int], *, keep: int = 1, salt: str = "") -> Lease:
        """Open a new sequence that begins with `tokens`. The lease contains the cached prefix of `tokens`, but not the
        last `keep` tokens, since their logits are needed."""

    def reserve(self, lease: Lease, new: int) -> bool:
        """Reserve `new` more positions. If the cache is full, change nothing and return False: a sequence must be
        preempted."""

    def fork(self, lease: Lease) -> Lease:
        """Open a second sequence with the same positions. Neither sequence sees later writes of the other."""

    def truncate(self, lease: Lease, length: int) -> None:
        """Forget the positions from `length` on."""

    def plan(self, leases: Sequence[Lease], counts: Sequence[int]) -> Plan | SegmentedPlan:
        """A plan to write `counts[i]` new positions of sequence i, and to read all positions. The new positions must
        have been reserved."""

    def advance(self, lease: Lease, tokens: Sequence[int]) -> None:
        """Record the tokens of the positions that every layer has written."""

    def close(self, lease: Lease) -> None:
        """Release the memory. `open` may find its contents again. A second call has no effect."""
