"""Numbers that Python knows, on a device."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["send"]


def send(numbers: Sequence[int] | Sequence[Sequence[int]], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A tensor of them. To CUDA from pinned memory, so that nothing waits for what runs there."""
    if device.type != "cuda":
        return torch.tensor(numbers, dtype=dtype, device=device)
    return torch.tensor(numbers, dtype=dtype, pin_memory=True).to(device, non_blocking=True)
