"""8-bit keys and values in any cache: half the memory of bfloat16, a quarter of float32.

A head's row of numbers is packed into integers from -127 to 127 and one float, their scale: the greatest magnitude /
127. The float's 4 bytes follow the integers, so a packed row is a row of bytes, and a cache handles it like any other:
it copies blocks, shares prefixes and offloads blocks without knowing about scales. Only the plan packs and unpacks rows
(`QuantisedCache.plan`).

Error: half a step (the scale) per number, and the rounding of float32. The scale is never below the smallest normal
float32: rows of zeros stay zeros, and denormal numbers become 0 or multiples of this scale. A row with an infinity or
NaN becomes all NaN.

Every query reads packed rows, even of its own prompt. So the inner cache, prompt chunking, prefix hits and concurrent
requests affect outputs only through the order of float additions, which on a CPU is always the same. On other devices a
difference can grow: if the last bit of a key decides how a number is rounded, the packed number differs by a whole
step, and so the keys of later layers differ.

On a CPU packed rows are read directly (attention/slots.py), in float32 and bfloat16. On CUDA, where no kernel reads
them, and in other types, they are first unpacked to the model's type; bfloat16 rounds them once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from guided import kernels
from guided.kv.cache import CacheShape, KVCache, KVView, Lease, Plan, Segment, SegmentedPlan

__all__ = ["PackedKVView", "QuantisedCache", "pack", "packed_shape", "unpack"]

_SCALE_BYTES = torch.float32.itemsize  # bytes of the scale, after the numbers
_MAX = 127


def pack(x: Tensor) -> Tensor:
    """Rows x (n, kv_heads, head_dim) as int8 (n, kv_heads, head_dim + 4)."""
    return kernels.pack(x) if kernels.is_supported(x) else _pack(x)


def _pack(x: Tensor) -> Tensor:
    """`pack` in torch, for every device and type."""
    x = x.float()
    scale = (x.abs().amax(-1, keepdim=True) / _MAX).clamp_min(torch.finfo(torch.float32).tiny)
    numbers = (x / scale).nan_to_num(0.0).round()  # 0 if the scale is infinite or NaN: unpacking gives NaN
    return torch.cat((numbers.to(torch.int8), scale.view(torch.int8)), dim=-1)


def unpack(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """The numbers of packed rows (..., head_dim + 4): (..., head_dim)."""
    size = rows.shape[-1] - _SCALE_BYTES
    scale = rows[..., size:].clone(memory_format=torch.contiguous_format).view(torch.float32)
    return rows[..., :size].float().mul_(scale).to(dtype)  # converting first is ten times as fast as int8 times float


def packed_shape(shape: CacheShape) -> CacheShape:
    """The shape of the inner cache, which stores packed rows."""
    return replace(shape, head_dim=shape.head_dim + _SCALE_BYTES, dtype=torch.int8)


@dataclass(frozen=True, slots=True)
class PackedKVView(KVView):
    """A view of packed rows.

    Attributes:
        dtype: the type of the unpacked numbers.
    """

    dtype: torch.dtype

    @property
    def head_dim(self) -> int:
        """The number of unpacked values per head."""
        return self.k.shape[3] - _SCALE_BYTES

    def read(self, layer: int) -> tuple[Tensor, Tensor]:
        """See `KVView`. Always returns copies."""
        return unpack(self.k[layer, self.slots], self.dtype), unpack(self.v[layer, self.slots], self.dtype)


def _pack_view(view: KVView, dtype: torch.dtype) -> PackedKVView:
    return PackedKVView(view.k, view.v, view.slots, dtype)


class QuantisedCache:
    """Wraps a cache of shape `packed_shape(shape)` as a cache of shape `shape`."""

    def __init__(self, inner: KVCache, shape: CacheShape) -> None:
        self.inner, self._dtype = inner, shape.dtype

    @property
    def capacity(self) -> int:
        """See `KVCache`."""
        return self.inner.capacity

    def touch(self) -> None:
        """See `KVCache`."""
        self.inner.touch()

    @property
    def available(self) -> int:
        """See `KVCache`."""
        return self.inner.available

    def open(self, tokens: Sequence[int], *, keep: int = 1, salt: str = "") -> Lease:
        """See `KVCache`."""
        return self.inner.open(tokens, keep=keep, salt=salt)

    def reserve(self, lease: Lease, new: int) -> bool:
        """See `KVCache`."""
        return self.inner.reserve(lease, new)

    def fork(self, lease: Lease) -> Lease:
        """See `KVCache`."""
        return self.inner.fork(lease)

    def truncate(self, lease: Lease, length: int) -> None:
        """See `KVCache`."""
        self.inner.truncate(lease, length)

    def plan(self, leases: Sequence[Lease], counts: Sequence[int]) -> Plan | SegmentedPlan:
        """The inner cache's plan, which packs on write and unpacks on read."""
        plan = self.inner.plan(leases, counts)
        return (
            _PackedSegmentedPlan(plan, self._dtype)
            if isinstance(plan, SegmentedPlan)
            else _PackedPlan(plan, self._dtype)
        )

    def advance(self, lease: Lease, tokens: Sequence[int]) -> None:
        """See `KVCache`."""
        self.inner.advance(lease, tokens)

    def close(self, lease: Lease) -> None:
        """See `KVCache`."""
        self.inner.close(lease)


class _PackedPlan:
    def __init__(self, inner: Plan, dtype: torch.dtype) -> None:
        self._inner = inner
        self.views = [_pack_view(view, dtype) for view in inner.views]

    def write(self, layer: int, k: Tensor, v: Tensor) -> None:
        self._inner.write(layer, pack(k), pack(v))


class _PackedSegmentedPlan:
    def __init__(self, inner: SegmentedPlan, dtype: torch.dtype) -> None:
        self._inner, self._dtype = inner, dtype

    @property
    def device(self) -> torch.device:
        return self._inner.device

    @property
    def lengths(self) -> Sequence[int]:
        return self._inner.lengths

    def segments(self, layer: int, index: int, k: Tensor, v: Tensor) -> Iterator[Segment]:
        for segment in self._inner.segments(layer, index, pack(k), pack(v)):
            yield replace(segment, view=_pack_view(segment.view, self._dtype))
