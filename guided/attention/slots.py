"""Attention of the new positions of each sequence on a CPU, over keys and values where the cache has them.

In: the places of some sequences (kv/cache.py). Out: what the new queries read. What `flash_attn_with_kvcache` is on
CUDA: one call for all sequences of a layer, and nothing is gathered, whatever the slots. A few new positions are read
as they lie (native/attend_slots.hpp in kernels/), prompts by blocks (native/attend_prompt.hpp), which gives the same
bits. Numbers are float32 or bfloat16, added up in float32; what a query reads hangs on neither the queries beside it,
nor the other sequences, nor the threads. Keys and values may be packed (kv/quantised.py), and are read so.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from guided.kernels._kernels import Batch
from guided.kv.cache import Place
from guided.kv.quantised import PackedPlace

__all__ = ["SlotAttention", "reads"]


def reads(place: Place) -> bool:
    """Whether the kernel reads it: on the CPU, for queries of a type that it has."""
    return place.k.device.type == "cpu" and _head(place)[1] in (torch.float32, torch.bfloat16)


class SlotAttention:
    """For one forward pass; places are of one kind, `spans`: first and last new position of each sequence, as rows of
    the queries, all of which belong to one.

    Raises:
        ValueError, IndexError: places are not of one kind, or slots or positions are not there.
    """

    def __init__(self, heads: int, places: Sequence[Place], spans: Sequence[tuple[int, int]]) -> None:
        first = places[0]
        self._kept = [(place.k, place.v) for place in places]  # the kernel has their addresses
        (size, self._dtype), kv_heads = _head(first), first.k.shape[2]
        self._shape = (heads, size)
        for i, place in enumerate(places):
            if i == 0 or place.k is not first.k or place.v is not first.v:
                _check(place)
            if type(place) is not type(first) or _head(place) != _head(first) or place.k.shape[2] != kv_heads:
                raise ValueError("places of more than one kind")
        rows = [_row(place, span) for place, span in zip(places, spans, strict=True)]
        packed = isinstance(first, PackedPlace)
        self._batch = Batch(heads, kv_heads, size, self._dtype == torch.bfloat16, packed, rows)

    def __call__(self, layer: int, q: Tensor) -> Tensor:
        """What the queries (n, heads, head_dim) of all spans read, in their shape.

        Raises:
            ValueError, IndexError: there is no such layer, or the queries are of another shape or type.
        """
        rows, heads, size = q.shape
        if (heads, size) != self._shape or q.dtype != self._dtype or not q.is_cpu:
            raise ValueError(f"{q.dtype} of shape {tuple(q.shape)}, not {self._dtype} of (n, *{self._shape})")
        if q.stride()[1:] != (size, 1):
            q = q.contiguous()
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
        self._batch.run(layer, q.data_ptr(), q.stride(0), out.data_ptr(), rows, torch.get_num_threads())
        return out


def _head(place: Place) -> tuple[int, torch.dtype]:
    """Size and type of a head, once it is read."""
    if isinstance(place, PackedPlace):
        return place.head_dim, place.dtype
    return place.k.shape[3], place.k.dtype


def _check(place: Place) -> None:
    """Before the kernel gets addresses: nobody looks after that."""
    k, v = place.k, place.v
    stored = torch.int8 if isinstance(place, PackedPlace) else k.dtype
    if (
        k.dim() != 4
        or k.shape != v.shape
        or k.stride(0) != v.stride(0)
        or not len(k)
        or not (k.dtype == v.dtype == stored)
    ):
        raise ValueError(f"values {tuple(v.shape)} in {v.dtype} are not stored as keys {tuple(k.shape)} in {k.dtype}")
    if not (k.is_cpu and v.is_cpu and k[0].is_contiguous() and v[0].is_contiguous()):
        raise ValueError("the slots of a layer do not follow one another in the memory of the CPU")


def _row(place: Place, span: tuple[int, int]) -> tuple[int, int, int, int, int, int | None, int, int, int, int]:
    """What `Batch` is told of it."""
    first, last = span
    k, slots = place.k, place.slots
    if isinstance(slots, slice):
        where, start, total = None, slots.start, slots.stop - slots.start
    elif slots.dtype == torch.int64 and slots.dim() == 1 and slots.is_cpu and slots.is_contiguous():
        where, start, total = slots.data_ptr(), 0, len(slots)
    else:
        raise ValueError(f"slots are contiguous int64 (n,) on the CPU, not {slots.dtype} {tuple(slots.shape)}")
    addresses, (layers, count, *_) = (k.data_ptr(), place.v.data_ptr()), k.shape
    return *addresses, layers, k.stride(0), count, where, start, total, first, last - first
