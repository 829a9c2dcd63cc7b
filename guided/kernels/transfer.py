"""Copies of numbers between Python and a device.

Copies to and from CUDA use pinned host memory, so they run beside the kernels. Only `Fetch.wait` waits for a copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = ["Fetch", "send", "send_arrays"]

_ALIGNED: Final = 16  # bytes; Triton compiles a kernel anew for pointers that are less aligned
_NUMPY = {torch.float64: np.float64, torch.int64: np.int64, torch.float32: np.float32, torch.int32: np.int32}
_TORCH = {np.dtype(there): here for here, there in _NUMPY.items()}


def send(numbers: Sequence[int] | Sequence[Sequence[int]], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A tensor of numbers on a device: of float64, int64, float32 or int32."""
    if device.type != "cuda":
        return torch.tensor(numbers, dtype=dtype, device=device)
    return send_arrays({"numbers": np.array(numbers, _NUMPY[dtype])}, device)["numbers"]


def send_arrays(arrays: Mapping[str, npt.NDArray[Any]], device: torch.device) -> dict[str, Tensor]:
    """Tensors on a device with the values of some arrays, all of them sent in one copy.

    Args:
        arrays: of float64, int64, float32 or int32.
    """
    spans, end = dict[str, slice](), 0
    for name, array in arrays.items():
        begin = -(-end // _ALIGNED) * _ALIGNED
        spans[name] = slice(begin, end := begin + array.nbytes)
    host = _staging(end, torch.uint8, device)
    data = host.numpy()
    for name, array in arrays.items():
        data[spans[name]].view(array.dtype).reshape(array.shape)[...] = array
    there = host.to(device, non_blocking=True)
    return {name: there[spans[name]].view(_TORCH[arrays[name].dtype]).view(arrays[name].shape) for name in arrays}


class Fetch:
    """A tensor on its way to the host."""

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
    """Uninitialised memory of the host, (size,), pinned if the device is CUDA's.

    torch caches pinned memory, and reuses it once its copies have ended. So a steady state allocates nothing.
    """
    return torch.empty(size, dtype=dtype, pin_memory=device.type == "cuda")
