"""8-bit keys and values in any cache: half the memory of bfloat16, a quarter of float32.

A head's row of numbers is packed into integers from -127 to 127 and one float, their scale: the greatest magnitude /
127. The float's 4 bytes follow the integers, so a packed row is a row of bytes. A cache handles it like any other row:
it copies blocks, shares prefixes and offloads blocks without knowing about scales. Only the plan packs and unpacks rows
(`QuantisedCache.plan`).

Error: half a step per number (a step is the scale), and float32 rounding. The scale is never below the smallest normal
    float32: rows of zeros stay zeros, and denormal numbers become 0 or multiples of this scale. All numbers of a row
    with infinity or NaN become NaN.

Every query reads packed rows, even for its own prompt. So the inner cache, prompt chunking, prefix hits and concurrent
requests affect outputs only through the order of float additions, which on a CPU is always the same. On other devices
differences can grow: if a key's last bit decides how it is rounded, the packed number differs by a whole step, and then
the keys of later layers differ, too.

On a CPU, the kernel for float32 and bfloat16 reads packed rows directly (attention/slots.py). Otherwise they are first
unpacked to the model's dtype: on CUDA, where no kernel reads them, and for other dtypes. Unpacking to bfloat16 rounds
once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from guided import kernels
from guided.kv.cache import CacheShape, KVCache, KVView, Lease, Plan, Segment, SegmentedPlan, check_cache

__all__ = ["PackedKVView", "QuantisedCache", "pack", "packed_shape", "unpack"]

_SCALE_BYTES = torch.float32.itemsize  # the scale follows the numbers
_MAX = 127


def pack(x: Tensor) -> Tensor:
    """Pack rows x (n, kv_heads, head_dim) into int8 (n, kv_heads, head_dim + 4)."""
    return kernels.pack(x) if kernels.is_supported(x) else _pack_in_torch(x)


def _pack_in_torch(x: Tensor) -> Tensor:
    """`pack` in torch, for every device and dtype."""
    x = x.float()
    scale = (x.abs().amax(-1, keepdim=True) / _MAX).clamp_min(torch.finfo(torch.float32).tiny)
    numbers = (x / scale).nan_to_num(0.0).round()  # 0 if the scale is infinite or NaN, so that unpacking yields NaN
    return torch.cat((numbers.to(torch.int8), scale.view(torch.int8)), dim=-1)


def unpack(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Unpack rows (..., head_dim + 4) into numbers (..., head_dim)."""
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
        dtype: the dtype of the unpacked numbers.
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
        check_cache(shape)
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
