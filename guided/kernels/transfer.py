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

__all__ = ["Fetch", "FixedTensors", "Rows", "send", "send_arrays"]

_ALIGNED: Final = 16  # bytes; Triton recompiles a kernel for pointers that are less aligned
_NUMPY = {torch.float64: np.float64, torch.int64: np.int64, torch.float32: np.float32, torch.int32: np.int32}
_TORCH = {np.dtype(numpy_type): torch_type for torch_type, numpy_type in _NUMPY.items()}


def send(numbers: Sequence[int] | Sequence[Sequence[int]], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A tensor on a device, of float64, int64, float32 or int32 numbers."""
    if device.type != "cuda":
        return torch.tensor(numbers, dtype=dtype, device=device)
    return send_arrays({"numbers": np.array(numbers, _NUMPY[dtype])}, device)["numbers"]


Rows: TypeAlias = Sequence[npt.NDArray[Any]]
"""The rows of an array, at least one, of equal shapes and types. They are copied directly, without stacking."""


def send_arrays(arrays: Mapping[str, npt.NDArray[Any] | Rows], device: torch.device) -> dict[str, Tensor]:
    """Tensors on a device with the values of some arrays, which are sent in one copy.

    Args:
        arrays: arrays of float64, int64, float32 or int32.
    """
    host, spans = _pack(arrays, device)
    return _views(host.to(device, non_blocking=True), spans)


class FixedTensors:
    """Tensors on a device with fixed addresses, whose values can be replaced in one copy."""

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]], device: torch.device) -> None:
        """The first values; see `send_arrays`."""
        host, spans = _pack(arrays, device)
        self._memory = host.to(device, non_blocking=True)
        self._tensors = _views(self._memory, spans)

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def send(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Replace the values. Names, shapes and types must be the same."""
        host, _ = _pack(arrays, self._memory.device)
        self._memory.copy_(host, non_blocking=True)


class _Span(NamedTuple):
    """The location of an array in the memory of a copy."""

    span: slice
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def _pack(arrays: Mapping[str, npt.NDArray[Any] | Rows], device: torch.device) -> tuple[Tensor, dict[str, _Span]]:
    """The bytes of some arrays in memory that can be copied to the device, and the location of each array."""
    spans, begin = dict[str, _Span](), 0
    for name, array in arrays.items():
        shape = array.shape if isinstance(array, np.ndarray) else (len(array), *array[0].shape)
        dtype, begin = _dtype(array), -(-begin // _ALIGNED) * _ALIGNED
        spans[name] = _Span(slice(begin, begin := begin + prod(shape) * dtype.itemsize), dtype, shape)
    host = _staging(begin, torch.uint8, device)
    data = host.numpy()
    for name, (span, dtype, shape) in spans.items():
        target, array = data[span].view(dtype).reshape(shape), arrays[name]
        if isinstance(array, np.ndarray):
            target[...] = array
        else:
            for at, row in enumerate(array):
                target[at] = row
    return host, spans


def _dtype(array: npt.NDArray[Any] | Rows) -> np.dtype[Any]:
    return array.dtype if isinstance(array, np.ndarray) else array[0].dtype


def _views(memory: Tensor, spans: Mapping[str, _Span]) -> dict[str, Tensor]:
    return {name: memory[span].view(_TORCH[dtype]).view(shape) for name, (span, dtype, shape) in spans.items()}


class Fetch:
    """The copy of a tensor to the host."""

    def __init__(self, tensor: Tensor) -> None:
        """Start copying a contiguous tensor of any shape from a device."""
        self._event: torch.cuda.Event | None = None
        self._host = tensor
        if tensor.device.type != "cpu":
            self._host = _staging(tensor.numel(), tensor.dtype, tensor.device).view(tensor.shape)
            self._host.copy_(tensor, non_blocking=tensor.device.type == "cuda")
        if tensor.device.type == "cuda":
            self._event = torch.cuda.current_stream(tensor.device).record_event()

    def wait(self) -> Tensor:
        """Wait for the copy, and return it."""
        if self._event is not None:
            self._event.synchronize()
            self._event = None
        return self._host


def _staging(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Uninitialised host memory, (size,), pinned if the device is CUDA.

    torch caches pinned memory, and reuses it once its copies have ended. So a steady state allocates nothing.
    """
    return torch.empty(size, dtype=dtype, pin_memory=device.type == "cuda")
