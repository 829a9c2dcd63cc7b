"""A token bitmask onto logits: what is not allowed becomes -inf, in place.

In: logits, (vocab,) or (batch, vocab), of a floating type, in numpy or torch, on any device; a bitmask, int32, (words,)
or (batch, words), numpy or torch, bit `id % 32` of word `id // 32` (least significant first), 1 = allowed. Logits at
ids past the bitmask's last word (padded heads) are masked too, never left open.

Cost: the bits are expanded to one byte each (numpy's `unpackbits`; shifts on an accelerator), then one pass over the
logits. A row without any allowed token becomes all -inf: a finished row of a batch is one; whoever samples from it
must refuse (guided.sampling does). This module does not import torch: it sees it only if the caller brought a tensor.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

__all__ = ["apply_token_bitmask_inplace"]

Array: TypeAlias = npt.NDArray[Any]


def apply_token_bitmask_inplace(
    logits: Array | torch.Tensor, bitmask: Array | torch.Tensor, indices: Sequence[int] | None = None
) -> None:
    """Set the logits of every token that the bitmask does not allow to -inf.

    Args:
        logits: changed in place.
        bitmask: a row per row of the logits (one dimension stands for one row).
        indices: the rows to mask (the same index into both); the others stay untouched. None: all, and then logits and
            bitmask have the same number of rows.

    Raises:
        TypeError: logits or bitmask are no arrays, or of the wrong dtype.
        ValueError: the shapes do not fit, or the bitmask speaks of more ids than there are logits.
        IndexError: an index is outside of the rows.
    """
    logits_torch, bitmask_torch = _is_torch(logits), _is_torch(bitmask)
    if not (logits_torch or isinstance(logits, np.ndarray)) or not (bitmask_torch or isinstance(bitmask, np.ndarray)):
        raise TypeError(
            f"expected numpy arrays or torch tensors, got {type(logits).__name__} and {type(bitmask).__name__}"
        )
    rows, mask_rows = _rows(logits), _rows(bitmask)
    _check(rows, mask_rows, indices)
    if indices is None:
        _mask(rows, mask_rows)
    else:
        for i in indices:
            _mask(rows[i], mask_rows[i])


def _is_torch(x: object) -> bool:
    torch_module = sys.modules.get("torch")
    return torch_module is not None and isinstance(x, torch_module.Tensor)


def _rows(x: Any) -> Any:
    """A view with two dimensions."""
    if x.ndim not in (1, 2):
        raise ValueError(f"expected one or two dimensions, got the shape {tuple(x.shape)}")
    return x[None] if x.ndim == 1 else x


def _check(logits: Any, bitmask: Any, indices: Sequence[int] | None) -> None:
    floating = logits.dtype.is_floating_point if _is_torch(logits) else np.issubdtype(logits.dtype, np.floating)
    if not floating:
        raise TypeError(f"logits must be of a floating type, not {logits.dtype}")
    if str(bitmask.dtype).removeprefix("torch.") != "int32":
        raise TypeError(f"a token bitmask is int32, not {bitmask.dtype}")
    width, words = logits.shape[1], bitmask.shape[1]
    if words > (width + 31) // 32:
        raise ValueError(f"a bitmask of {words} words speaks of ids that {width} logits do not have")
    if indices is None and logits.shape[0] != bitmask.shape[0]:
        raise ValueError(f"{logits.shape[0]} rows of logits, {bitmask.shape[0]} of bitmask: name the rows in indices")
    for i in indices or ():
        if not 0 <= i < min(logits.shape[0], bitmask.shape[0]):
            raise IndexError(f"row {i} is not in both logits and bitmask")


def _mask(logits: Any, bitmask: Any) -> None:
    covered = min(32 * bitmask.shape[-1], logits.shape[-1])
    if _is_torch(logits):
        logits[..., :covered].masked_fill_(_banned_torch(bitmask, covered, logits.device), -np.inf)
    else:
        words = bitmask if isinstance(bitmask, np.ndarray) else bitmask.cpu().numpy()
        np.copyto(logits[..., :covered], -np.inf, where=_banned(words, covered))
    logits[..., covered:] = -np.inf


def _banned(bitmask: Array, covered: int) -> npt.NDArray[np.bool_]:
    """One bool for each of the first `covered` ids: not allowed."""
    octets = np.ascontiguousarray(~bitmask).astype("<i4", copy=False).view(np.uint8)
    return np.unpackbits(octets, axis=-1, bitorder="little")[..., :covered].view(np.bool_)


def _banned_torch(bitmask: Any, covered: int, device: torch.device) -> torch.Tensor:
    """The same, on the logits' device; there the packed words are sent, not the bits."""
    import torch

    if device.type == "cpu":
        words = bitmask if isinstance(bitmask, np.ndarray) else bitmask.cpu().numpy()
        return torch.from_numpy(_banned(words, covered))
    if isinstance(bitmask, np.ndarray):
        bitmask = torch.from_numpy(np.ascontiguousarray(bitmask))
    packed = bitmask.to(device, non_blocking=True)
    bits = (packed.unsqueeze(-1) >> torch.arange(32, dtype=torch.int32, device=device)) & 1
    return cast("torch.Tensor", bits.flatten(-2)[..., :covered] == 0)
