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
    the queries."""

    def __init__(self, heads: int, places: Sequence[Place], spans: Sequence[tuple[int, int]]) -> None:
        self._places = places  # keeps the tensors whose addresses the kernel has
        size, dtype = _head(places[0])
        packed = isinstance(places[0], PackedPlace)
        rows = list(map(_row, places, spans))
        self._batch = Batch(heads, places[0].k.shape[2], size, dtype == torch.bfloat16, packed, rows)

    def __call__(self, layer: int, q: Tensor, out: Tensor) -> None:
        """Write what the queries (n, heads, head_dim) of all spans read; `out` is contiguous."""
        if q.stride()[1:] != (q.shape[2], 1):
            q = q.contiguous()
        self._batch.run(layer, q.data_ptr(), q.stride(0), out.data_ptr(), torch.get_num_threads())


def _head(place: Place) -> tuple[int, torch.dtype]:
    """Size and type of a head, once it is read."""
    if isinstance(place, PackedPlace):
        return place.head_dim, place.dtype
    return place.k.shape[3], place.k.dtype


def _row(place: Place, span: tuple[int, int]) -> tuple[int, int, int, int | None, int, int, int, int]:
    first, last = span
    k, slots = place.k, place.slots
    if isinstance(slots, slice):
        where, start, total = None, slots.start, slots.stop - slots.start
    else:
        where, start, total = slots.data_ptr(), 0, len(slots)
    return k.data_ptr(), place.v.data_ptr(), k.stride(0), where, start, total, first, last - first
