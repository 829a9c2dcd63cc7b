"""Bitmasks as torch tensors, as in xgrammar: int32 (batch, ceil(vocab_size / 32)), 1 means allowed.

guided uses the same layout, so tensors on the CPU are filled and read in place. torch is imported when a tensor is
requested.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final, Literal, cast

from guided.compat.xgrammar.packages import import_optional
from guided.logits import apply_token_bitmask_inplace as apply

if TYPE_CHECKING:
    import torch

__all__ = ["allocate_token_bitmask", "apply_token_bitmask_inplace", "get_bitmask_shape", "reset_token_bitmask"]

_BACKENDS: Final = ("auto", "cpu", "cuda", "triton", "torch_compile", "torch_native")


def get_bitmask_shape(batch_size: int, vocab_size: int) -> tuple[int, int]:
    """The shape of a bitmask: (batch_size, ceil(vocab_size / 32))."""
    return (batch_size, (vocab_size + 31) // 32)


def allocate_token_bitmask(batch_size: int, vocab_size: int) -> torch.Tensor:
    """An int32 tensor on the CPU, (batch_size, ceil(vocab_size / 32)), that allows all tokens."""
    torch_module = import_optional("torch")
    return cast(
        "torch.Tensor", torch_module.full(get_bitmask_shape(batch_size, vocab_size), -1, dtype=torch_module.int32)
    )


def reset_token_bitmask(bitmask: torch.Tensor) -> None:
    """Allow all tokens again."""
    bitmask.fill_(-1)


def apply_token_bitmask_inplace(
    logits: torch.Tensor,
    bitmask: torch.Tensor,
    *,
    vocab_size: int | None = None,
    indices: list[int] | None = None,
    backend: Literal["auto", "cpu", "cuda", "triton", "torch_compile", "torch_native"] = "auto",
) -> None:
    """Set the logits of all forbidden tokens to -inf, in place.

    Args:
        logits: (vocab,) or (batch, vocab), floating point.
        bitmask: int32, (words,) or (batch, words), on the same device.
        vocab_size: how many logits of each row to mask; None means as many as both tensors have.
        indices: the rows to mask, at the same index in both tensors; None means all rows.
        backend: the name of an xgrammar backend. It has no effect: the device determines the kernel.

    Raises:
        ValueError: the devices differ, the backend is unknown, or the shapes do not fit. TypeError: a dtype is wrong.
        IndexError: a row does not exist.

    Warns:
        UserWarning: the bitmask covers fewer tokens than there are logits. The other logits are not changed, as in
            xgrammar; `guided.apply_token_bitmask_inplace` masks them.
    """
    if bitmask.device != logits.device:
        raise ValueError(
            "logits and bitmask should be on the same device. "
            f"But got logits.device: {logits.device}, bitmask.device: {bitmask.device}"
        )
    if backend not in _BACKENDS:
        raise ValueError(f"Unknown backend: {backend}. The value should be one of them: {list(_BACKENDS)}")
    width, bits = logits.shape[-1], bitmask.shape[-1] * 32
    if vocab_size is None and bits < width:
        warnings.warn(
            f"The bitmask covers only {bits} tokens but logits have {width}, so logits[..., {bits}:] are left "
            "unmasked. Allocate the bitmask with the full vocab size, or pass vocab_size explicitly.",
            stacklevel=2,
        )
    size = min(width, bits) if vocab_size is None else vocab_size
    if size > min(width, bits):
        raise ValueError(f"vocab_size is {size}, but there are {width} logits and {bits} bits of the bitmask")
    rows = None if indices is None else [int(row) for row in indices]
    apply(logits[..., :size], bitmask[..., : (size + 31) // 32], rows)
