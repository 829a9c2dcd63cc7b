"""llguidance's checks of bitmasks and logits, for arrays of any library, with llguidance's messages."""

from __future__ import annotations

from typing import Any

__all__ = ["check_bitmask", "check_pair", "require"]


def require(condition: bool, message: str) -> None:
    """Raise an AssertionError with this message if the condition does not hold, even under `python -O`."""
    if not condition:
        raise AssertionError(message)


def check_bitmask(bitmask: Any, int32: Any, *, contiguous: bool = True) -> tuple[int, int]:
    """Check the dtype, dimensions and layout of a bitmask, and return its shape. `int32`: the array library's dtype."""
    require(bitmask.dtype == int32, "Mask must be int32")
    require(bitmask.ndim == 2, "Mask must be 2D")
    require(contiguous, "Mask must be contiguous")
    return bitmask.shape[0], bitmask.shape[1]


def check_pair(logits: Any, mask: Any, int32: Any) -> None:
    """Check that the logits are 2D, and that a bitmask is int32 and has as many rows."""
    require(mask.dtype == int32, "Mask must be int32")
    require(logits.ndim == 2, "Logits must be 2D")
    require(logits.shape[0] == mask.shape[0], "Batch size mismatch")
