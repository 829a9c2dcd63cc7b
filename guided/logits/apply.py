"""Applies a token bitmask to logits: the logit of each forbidden token becomes -inf, in place.

In: logits, (vocab,) or (batch, vocab), of a floating dtype, in numpy or torch, on any device; an int32 bitmask,
(words,) or (batch, words), in numpy or torch. Bit `id % 32` of word `id // 32` (least significant first) is 1 if the
token is allowed. Logits at ids beyond the bitmask's last word (padded heads) are masked, too.

On a CPU a table expands the bits (one octet -> eight integers), which are then blended into the bit patterns of the
logits. This code has no branches and is the same for every float width: 49,152 logits take 40 us, compared with 230 us
for `masked_fill` with a mixed mask. On CUDA one Triton kernel masks all rows (apply_triton.py). On other devices, and
without Triton, the packed words are expanded on the device.

If no token of a row is allowed, as in a finished row of a batch, the whole row becomes -inf. The caller must not sample
from it (guided.sampling raises an error). This module does not import torch; it uses torch only if the caller passes a
tensor.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from guided.keywords import read_items
from guided.packages import triton_function

if TYPE_CHECKING:
    import torch

__all__ = ["apply_token_bitmask_inplace"]

_CHUNK: Final = 1 << 14  # logits at a time, so that intermediate arrays stay in the CPU cache and need no new pages

Array: TypeAlias = npt.NDArray[Any]


def apply_token_bitmask_inplace(
    logits: Array | torch.Tensor, bitmask: Array | torch.Tensor, indices: Sequence[int] | None = None
) -> None:
    """Set the logits of every token that the bitmask does not allow to -inf.

    Args:
        logits: changed in place.
        bitmask: one row for each row of the logits; an array with one dimension is one row.
        indices: the rows to mask, which have the same index in both arrays. Other rows do not change. None: all rows;
            both arrays must then have the same number of rows.

    Raises:
        TypeError: logits or bitmask are not arrays, or have the wrong dtype.
        ValueError: the shapes do not match, or the bitmask has more ids than there are logits.
        IndexError: an index is out of range.
    """
    is_logits_torch, is_bitmask_torch = _is_torch(logits), _is_torch(bitmask)
    if not (is_logits_torch or isinstance(logits, np.ndarray)) or not (
        is_bitmask_torch or isinstance(bitmask, np.ndarray)
    ):
        raise TypeError(
            f"expected numpy arrays or torch tensors, got {type(logits).__name__} and {type(bitmask).__name__}"
        )
    rows, mask_rows = _as_rows(logits), _as_rows(bitmask)
    indices = None if indices is None else read_items("indices", indices)
    _check_arguments(rows, mask_rows, indices)
    kernel = _find_kernel(logits)
    if kernel is not None and rows.stride(1) == 1:
        masks, row_indices = _copy_to_device(mask_rows, rows.device), None
        if indices is not None:
            row_indices = _copy_to_device(np.array(indices, np.int32), rows.device)
        kernel(rows, masks if masks.stride(1) == 1 else masks.contiguous(), row_indices)
    elif indices is None:
        _mask(rows, mask_rows)
    else:
        for i in indices:
            _mask(rows[i], mask_rows[i])


def _find_kernel(logits: Any) -> Callable[[Any, Any, Any], None] | None:
    """The Triton kernel, if the tensor is on CUDA and Triton is installed; otherwise None."""
    if not (_is_torch(logits) and logits.device.type == "cuda"):
        return None
    kernel: Callable[[Any, Any, Any], None] | None = triton_function("guided.logits.apply_triton", "mask_triton")
    return kernel


def _copy_to_device(array: Any, device: torch.device) -> Any:
    """Copy an array or tensor to a device. For CUDA, copy from newly allocated pinned memory, so that nothing waits."""
    import torch

    tensor = array if _is_torch(array) else torch.from_numpy(np.ascontiguousarray(array))
    if device.type == "cuda" and tensor.device.type == "cpu":  # the caller may change the array before it is copied
        tensor = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor)
    return tensor.to(device, non_blocking=True)


def _is_torch(x: object) -> bool:
    torch_module = sys.modules.get("torch")
    return torch_module is not None and isinstance(x, torch_module.Tensor)


def _as_rows(x: Any) -> Any:
    """View logits or a bitmask as an array of rows."""
    if x.ndim not in (1, 2):
        raise ValueError(f"expected one or two dimensions, got the shape {tuple(x.shape)}")
    return x[None] if x.ndim == 1 else x


def _check_arguments(logits: Any, bitmask: Any, indices: Sequence[int] | None) -> None:
    is_floating = logits.dtype.is_floating_point if _is_torch(logits) else logits.dtype.kind == "f"
    if not is_floating:
        raise TypeError(f"logits must be of a floating type, not {logits.dtype}")
    if bitmask.dtype != (sys.modules["torch"].int32 if _is_torch(bitmask) else np.int32):
        raise TypeError(f"a token bitmask is int32, not {bitmask.dtype}")
    width, words = logits.shape[1], bitmask.shape[1]
    if words > (width + 31) // 32:
        raise ValueError(f"a bitmask of {words} words has more ids than {width} logits")
    if indices is None and logits.shape[0] != bitmask.shape[0]:
        raise ValueError(f"logits have {logits.shape[0]} rows, the bitmask {bitmask.shape[0]}: pass indices")
    for i in indices or ():
        if not 0 <= i < min(logits.shape[0], bitmask.shape[0]):
            raise IndexError(f"row {i} is not in both logits and bitmask")


def _mask(logits: Any, bitmask: Any) -> None:
    covered_width = min(32 * bitmask.shape[-1], logits.shape[-1])
    if covered_width < logits.shape[-1]:
        logits[..., covered_width:] = -np.inf
        logits = logits[..., :covered_width]
    if _is_torch(logits) and logits.device.type != "cpu":
        logits.masked_fill_(_forbidden_ids(bitmask, covered_width, logits.device), -np.inf)
    else:
        words = bitmask if isinstance(bitmask, np.ndarray) else bitmask.cpu().numpy()
        bits, minus_infinity = _bit_patterns(logits)
        octets = np.ascontiguousarray(words).astype("<i4", copy=False).view(np.uint8)
        for row, row_octets in zip(bits, octets, strict=True) if bits.ndim == 2 else ((bits, octets),):
            for start in range(0, covered_width, _CHUNK):
                chunk = row[start : start + _CHUNK]
                is_banned = np.take(_octet_masks(bits.itemsize), row_octets[start // 8 : (start + _CHUNK) // 8], axis=0)
                flipped_bits = chunk ^ minus_infinity
                flipped_bits &= is_banned.reshape(-1)[: len(chunk)]
                chunk ^= flipped_bits  # -inf where banned, otherwise unchanged


def _bit_patterns(logits: Any) -> tuple[Array, Any]:
    """View the logits as integers of the same width. Also return -inf as such an integer."""
    size = logits.dtype.itemsize
    integer = np.dtype(f"i{size}")
    if isinstance(logits, np.ndarray):
        if not logits.dtype.isnative or size > 8:
            raise TypeError(f"logits of dtype {logits.dtype} are not supported")
        return logits.view(integer), np.array(-np.inf, logits.dtype).view(integer)
    same_width, minus_infinity = _torch_bit_pattern(logits.dtype)
    return logits.detach().view(same_width).numpy(), minus_infinity


@cache
def _torch_bit_pattern(dtype: torch.dtype) -> tuple[torch.dtype, Any]:
    """The integer type of the same width, and -inf as such an integer."""
    import torch

    integer_types = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    if dtype.itemsize not in integer_types:
        raise TypeError(f"logits of dtype {dtype} are not supported")
    integer = integer_types[dtype.itemsize]
    return integer, torch.full((), -np.inf, dtype=dtype).view(integer).numpy()


@cache
def _octet_masks(size: int) -> Array:
    """For each octet, eight integers of `size` bytes: all bits set if the octet's bit is 0 (banned), otherwise 0."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    return bits.astype(f"i{size}") - 1


def _forbidden_ids(bitmask: Any, covered_width: int, device: torch.device) -> torch.Tensor:
    """For each of the first `covered_width` ids, whether it is forbidden: bool (..., covered_width)."""
    import torch

    packed = _copy_to_device(bitmask, device)
    bits = (packed.unsqueeze(-1) >> torch.arange(32, dtype=torch.int32, device=device)) & 1
    return cast("torch.Tensor", bits.flatten(-2)[..., :covered_width] == 0)
