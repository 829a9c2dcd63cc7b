"""What every cache of keys and values offers.

A cache stores many sequences. `open` gives a sequence a `Lease`; first tokens that the cache has stored before need no
forward pass. A step reserves room (`reserve`), runs the model with the cache's plan (`plan`), and then increases the
lengths (`advance`). How memory is organised is up to the cache: contiguous tensors (`DenseCache`), blocks
(`PagedCache`), single slots under a radix tree (`RadixCache`), or the memory of the CPU (`OffloadCache`). Outputs are
the same with each of them.

Layout of keys and values everywhere: (positions, kv_heads, head_dim) for each layer, in the order of the sequence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

__all__ = ["CacheShape", "KVCache", "KVView", "Lease", "Plan", "Segment", "SegmentedPlan"]


@dataclass(frozen=True, slots=True)
class CacheShape:
    """The sizes of one position's keys and values in all layers, and the device that stores them."""

    layers: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype = torch.float32
    device: torch.device = torch.device("cpu")  # noqa: RUF009 - immutable

    @property
    def bytes_per_token(self) -> int:
        """Keys and values together."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.dtype.itemsize


@dataclass(eq=False)
class Lease:
    """A sequence's part of a cache.

    Attributes:
        tokens: ids of the positions that are stored, in order.
        salt: only sequences of equal salt share what they have in common.
        closed: whether the memory was given back.
    """

    tokens: list[int] = field(default_factory=list)
    salt: str = ""
    closed: bool = False

    @property
    def length(self) -> int:
        """Positions that are stored."""
        return len(self.tokens)

    def forget(self, length: int) -> None:
        """Drop the tokens at `length` and after it."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot truncate to {length}: {self.length} positions are stored")
        del self.tokens[length:]


@dataclass(frozen=True, slots=True)
class KVView:
    """Where the keys and values of all positions of a sequence are stored, new positions included.

    Attributes:
        k: keys as they are stored, (layers, slots, kv_heads, head_dim); `read` gives the numbers.
        v: values, the same shape.
        slots: of the positions in order: a slice where they follow one another, else int64.
    """

    k: Tensor
    v: Tensor
    slots: slice | Tensor

    def read(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer, (positions, kv_heads, head_dim) each: views of a slice, else copies."""
        return self.k[layer, self.slots], self.v[layer, self.slots]


class Plan(Protocol):
    """What a forward pass does with a cache; the same for all layers."""

    @property
    def views(self) -> Sequence[KVView]:
        """Of each sequence."""

    def write(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Store the new positions of all sequences, one after the other: (n, kv_heads, head_dim) each."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Some of the keys and values of a sequence, which some of its new positions read.

    Attributes:
        queries: which of the sequence's new positions.
        stored: where they are; it has one layer, that of the segment.
        where: which positions of the sequence they are, in their order.
        causal: the queries are the last of these positions, and read up to themselves; else all of them.
    """

    queries: slice
    stored: KVView
    where: Sequence[range]
    causal: bool = False

    def read(self) -> tuple[Tensor, Tensor]:
        """Keys and values, (positions, kv_heads, head_dim) each."""
        return self.stored.read(0)


@runtime_checkable
class SegmentedPlan(Protocol):
    """What a forward pass does with a cache whose keys and values are never all on the device at once."""

    @property
    def device(self) -> torch.device:
        """Where keys and values are read."""

    @property
    def lengths(self) -> Sequence[int]:
        """Positions of each sequence, new ones included."""

    def segments(self, layer: int, index: int, k: Tensor, v: Tensor) -> Iterator[Segment]:
        """Store the new positions of sequence `index`, and yield all that each of them reads, in any order.

        A segment is valid until the next one is requested. The caller must request all segments of each layer and
        sequence, in order.
        """


class KVCache(Protocol):
    """Keys and values of many sequences. Not thread-safe: one engine loop owns it."""

    @property
    def capacity(self) -> int:
        """Positions that fit in all."""

    @property
    def available(self) -> int:
        """Positions that could still be stored, once what nobody uses is dropped."""

    def touch(self) -> None:
        """Take the memory that is allocated now, while the cache is empty, and not page by page as it is first written.

        For servers, whose size should say at the start what it will be.
        """

    def open(self, tokens: Sequence[int], *, keep: int = 1, salt: str = "") -> Lease:
        """A new sequence that begins with `tokens`. What is known of them is in the lease already, but for the last
        `keep`, whose logits are wanted."""

    def reserve(self, lease: Lease, new: int) -> bool:
        """Make room for `new` more positions. False: there is no room, nothing is changed, and a sequence must be
        preempted."""

    def fork(self, lease: Lease) -> Lease:
        """A second sequence with the same past. What either writes from now on the other does not see."""

    def truncate(self, lease: Lease, length: int) -> None:
        """Forget the positions at `length` and after it."""

    def plan(self, leases: Sequence[Lease], counts: Sequence[int]) -> Plan | SegmentedPlan:
        """Where the new positions of each sequence (`counts`) are written, and where all positions are read. Room must
        have been reserved."""

    def advance(self, lease: Lease, tokens: Sequence[int]) -> None:
        """Record the tokens of the positions that every layer has written."""

    def close(self, lease: Lease) -> None:
        """Give the memory back. `open` may find its contents again. Closing twice has no effect."""
