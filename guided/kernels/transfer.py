"""Copies numbers between Python and a device.

Copies to and from CUDA use pinned host memory, so they overlap with kernels. Only `Fetch.wait` waits for a copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = ["Fetch", "FixedTensors", "Rows", "send", "send_arrays", "staged_zeros"]

_ALIGNMENT: Final = 16  # bytes; Triton recompiles a kernel for pointers with less alignment
_NUMPY_DTYPES = {torch.float64: np.float64, torch.int64: np.int64, torch.float32: np.float32, torch.int32: np.int32}
_TORCH_DTYPES = {np.dtype(numpy_type): torch_type for torch_type, numpy_type in _NUMPY_DTYPES.items()}


def send(numbers: Sequence[int] | Sequence[Sequence[int]], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Copy float64, int64, float32 or int32 numbers to a tensor on a device."""
    if device.type != "cuda":
        return torch.tensor(numbers, dtype=dtype, device=device)
    return send_arrays({"numbers": np.array(numbers, _NUMPY_DTYPES[dtype])}, device)["numbers"]


Rows: TypeAlias = Sequence[npt.NDArray[Any]]
"""The rows of an array, at least one, of equal shapes and types. They are copied directly, without stacking."""


def send_arrays(arrays: Mapping[str, npt.NDArray[Any] | Rows], device: torch.device) -> dict[str, Tensor]:
    """Send arrays to a device in one copy. Return a tensor for each array.

    Args:
        arrays: arrays of float64, int64, float32 or int32.
    """
    host, locations = _pack(arrays, device)
    return _view_arrays(host.to(device, non_blocking=True), locations)


class FixedTensors:
    """Tensors on a device with fixed addresses, whose values can be replaced in one copy."""

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]], device: torch.device) -> None:
        """Send the initial values; see `send_arrays`."""
        host, locations = _pack(arrays, device)
        self._memory = host.to(device, non_blocking=True)
        self._tensors = _view_arrays(self._memory, locations)

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def send(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Replace the values. Names, shapes and types must be the same."""
        host, _ = _pack(arrays, self._memory.device)
        self._memory.copy_(host, non_blocking=True)


class _Location(NamedTuple):
    """The location of an array in the memory of a copy."""

    byte_range: slice
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def _pack(arrays: Mapping[str, npt.NDArray[Any] | Rows], device: torch.device) -> tuple[Tensor, dict[str, _Location]]:
    """Pack arrays into host memory that can be copied to the device. Return the memory and the location of each
    array."""
    locations, begin = dict[str, _Location](), 0
    for name, array in arrays.items():
        shape = array.shape if isinstance(array, np.ndarray) else (len(array), *array[0].shape)
        dtype, begin = _dtype_of(array), -(-begin // _ALIGNMENT) * _ALIGNMENT
        locations[name] = _Location(slice(begin, begin := begin + prod(shape) * dtype.itemsize), dtype, shape)
    host = _staging_memory(begin, torch.uint8, device)
    data = host.numpy()
    for name, (byte_range, dtype, shape) in locations.items():
        target, array = data[byte_range].view(dtype).reshape(shape), arrays[name]
        if isinstance(array, np.ndarray):
            target[...] = array
        else:
            for index, row in enumerate(array):
                target[index] = row
    return host, locations


def _dtype_of(array: npt.NDArray[Any] | Rows) -> np.dtype[Any]:
    return array.dtype if isinstance(array, np.ndarray) else array[0].dtype


def _view_arrays(memory: Tensor, locations: Mapping[str, _Location]) -> dict[str, Tensor]:
    return {
        name: memory[byte_range].view(_TORCH_DTYPES[dtype]).view(shape)
        for name, (byte_range, dtype, shape) in locations.items()
    }


class Fetch:
    """A copy of a tensor to the host."""

    def __init__(self, tensor: Tensor) -> None:
        """Start copying a contiguous tensor of any shape from a device."""
        self._event: torch.cuda.Event | None = None
        self._host = tensor
        if tensor.device.type != "cpu":
            self._host = _staging_memory(tensor.numel(), tensor.dtype, tensor.device).view(tensor.shape)
            self._host.copy_(tensor, non_blocking=tensor.device.type == "cuda")
        if tensor.device.type == "cuda":
            self._event = torch.cuda.current_stream(tensor.device).record_event()

    def wait(self) -> Tensor:
        """Wait for the copy, and return the copied tensor."""
        if self._event is not None:
            self._event.synchronize()
            self._event = None
        return self._host


def staged_zeros(rows: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros on the host, (rows, width), from which copies to the device are asynchronous."""
    return _staging_memory(rows * width, dtype, device).zero_().view(rows, width)


def _staging_memory(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Uninitialised host memory, (size,), pinned if the device is CUDA.

    torch caches pinned memory and reuses it once its copies have ended, so a steady state allocates nothing.
    """
    return torch.empty(size, dtype=dtype, pin_memory=device.type == "cuda")
