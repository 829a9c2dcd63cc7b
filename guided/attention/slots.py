"""Attention of the new positions of each sequence on a CPU, directly over the cache's keys and values.

In: views of the keys and values of some sequences (kv/cache.py). Out: the attention output. This is the CPU version of
`flash_attn_with_kvcache`: one call for all sequences of a layer, without gathering scattered slots. A few new positions
read the slots in place (native/attend_slots.hpp in kernels/). Prompts are computed in blocks
(native/attend_prompt.hpp), with bitwise equal results. Inputs are float32 or bfloat16, or float32 queries with bfloat16
keys and values; sums are float32. The output of a query does not depend on other queries, other sequences or the number
of threads. Keys and values may be packed (kv/quantised.py); the kernel unpacks them as it reads them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from guided.kernels._kernels import Batch
from guided.kv.cache import KVView
from guided.kv.quantised import PackedKVView
from guided.models.model import DEFAULT_ATTENTION, AttentionKind

__all__ = ["SlotAttention", "can_read"]


def can_read(view: KVView) -> bool:
    """Whether the kernel can read a view: it is on the CPU, and its keys and values are, or unpack to, float32 or
    bfloat16."""
    return view.k.device.type == "cpu" and _head_format(view)[1] in (torch.float32, torch.bfloat16)


class SlotAttention:
    """The attention of one forward pass over views that have the same layout.

    Args:
        spans: the first and the last (exclusive) query row of each sequence; each row belongs to one sequence.
        dtype: the dtype of the queries, which may be float32 if the cache is bfloat16; None: the dtype of the cache.

    Raises:
        ValueError, IndexError: the views differ in layout, or slots or positions do not exist.
    """

    def __init__(
        self, heads: int, views: Sequence[KVView], spans: Sequence[tuple[int, int]], dtype: torch.dtype | None = None
    ) -> None:
        first = views[0]
        self._tensors = [(view.k, view.v) for view in views]  # keeps the memory alive: the kernel only has addresses
        (head_dim, unpacked_dtype), kv_heads = _head_format(first), first.k.shape[2]
        self._dtype = unpacked_dtype if dtype is None else dtype
        self._shape = (heads, head_dim)
        for i, view in enumerate(views):
            if i == 0 or view.k is not first.k or view.v is not first.v:
                _check_view(view)
            if (
                type(view) is not type(first)
                or _head_format(view) != _head_format(first)
                or view.k.shape[2] != kv_heads
            ):
                raise ValueError("the views differ in layout")
        rows = [_kernel_row(view, span) for view, span in zip(views, spans, strict=True)]
        self._batch = Batch(heads, kv_heads, head_dim, self._dtype == torch.bfloat16, first.k.dtype.itemsize, rows)

    def __call__(self, layer: int, q: Tensor, kind: AttentionKind = DEFAULT_ATTENTION) -> Tensor:
        """The attention output of all queries q (n, heads, head_dim), with the shape of q.

        Raises:
            ValueError, IndexError: there is no such layer, or the queries have the wrong shape or type.
        """
        rows, heads, head_dim = q.shape
        if (heads, head_dim) != self._shape or q.dtype != self._dtype or not q.is_cpu:
            expected = f"{self._dtype} of shape (n, {self._shape[0]}, {self._shape[1]})"
            raise ValueError(f"the queries must be {expected}, not {q.dtype} of shape {tuple(q.shape)}")
        if q.stride()[1:] != (head_dim, 1):
            q = q.contiguous()
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
        kind_arguments = kind.scale_for(head_dim), kind.softcap or 0.0, kind.window
        self._batch.run(
            layer, q.data_ptr(), q.stride(0), out.data_ptr(), rows, *kind_arguments, torch.get_num_threads()
        )
        return out


def _head_format(view: KVView) -> tuple[int, torch.dtype]:
    """The head_dim and the dtype of the unpacked keys and values."""
    if isinstance(view, PackedKVView):
        return view.head_dim, view.dtype
    return view.k.shape[3], view.k.dtype


def _check_view(view: KVView) -> None:
    """Check a view before its addresses go to the kernel, which checks nothing."""
    k, v = view.k, view.v
    stored_dtype = torch.int8 if isinstance(view, PackedKVView) else k.dtype
    if (
        k.dim() != 4
        or k.shape != v.shape
        or k.stride(0) != v.stride(0)
        or not len(k)
        or not (k.dtype == v.dtype == stored_dtype)
    ):
        raise ValueError(f"values {tuple(v.shape)} in {v.dtype} are not stored like keys {tuple(k.shape)} in {k.dtype}")
    if not (k.is_cpu and v.is_cpu and k[0].is_contiguous() and v[0].is_contiguous()):
        raise ValueError("the slots of a layer are not contiguous in CPU memory")


def _kernel_row(view: KVView, span: tuple[int, int]) -> tuple[int, int, int, int, int, int | None, int, int, int, int]:
    """The row that describes one sequence in a `Batch`."""
    first, last = span
    k, slots = view.k, view.slots
    if isinstance(slots, slice):
        slot_address, start, total = None, slots.start, slots.stop - slots.start
    elif slots.dtype == torch.int64 and slots.dim() == 1 and slots.is_cpu and slots.is_contiguous():
        slot_address, start, total = slots.data_ptr(), 0, len(slots)
    else:
        raise ValueError(f"slots must be contiguous int64 (n,) on the CPU, not {slots.dtype} {tuple(slots.shape)}")
    addresses, (layers, count, *_) = (k.data_ptr(), view.v.data_ptr()), k.shape
    return *addresses, layers, k.stride(0), count, slot_address, start, total, first, last - first
