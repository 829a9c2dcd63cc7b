"""Views of bitmask rows at a memory address, which some libraries pass instead of an array. In: an address and a shape.
Out: an array.

Only null and misaligned addresses can be detected. As in those libraries, the caller must pass valid memory.
"""

from __future__ import annotations

import ctypes

import numpy as np
import numpy.typing as npt

__all__ = ["check_address", "rows_at"]


def check_address(address: int) -> None:
    """Raise ValueError if the address is null or not a multiple of 4."""
    if address == 0:
        raise ValueError("Null pointer: the address of a bitmask is 0")
    if address % 4:
        raise ValueError(f"Pointer not aligned: the address of a bitmask is {address}, which is not a multiple of 4")


def rows_at(address: int, rows: int, words: int) -> npt.NDArray[np.int32]:
    """The int32 array (rows, words) at an address. The memory must stay valid while the array is in use.

    Raises:
        ValueError: the address is null or not a multiple of 4.
    """
    check_address(address)
    memory = (ctypes.c_int32 * (rows * words)).from_address(address)
    return np.ctypeslib.as_array(memory).reshape(rows, words)
