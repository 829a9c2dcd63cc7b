"""Random weights for tests and measurements. They keep activations at a reasonable scale for any sizes."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["RandomWeights"]


class RandomWeights:
    """Draws tensors one after the other from a seed. The values depend on the device."""

    def __init__(self, seed: int, dtype: torch.dtype, device: torch.device | str = "cpu") -> None:
        self._generator, self._dtype = torch.Generator(device).manual_seed(seed), dtype

    def matrix(self, rows: int, columns: int) -> Tensor:
        """A matrix that preserves the scale of the vectors that it multiplies."""
        return self._normal(rows, columns).mul_(columns**-0.5).to(self._dtype)

    def vector(self, size: int, mean: float) -> Tensor:
        """A gain (mean 1) or a bias (mean 0)."""
        return (mean + 0.1 * self._normal(size)).to(self._dtype)

    def _normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self._generator, device=self._generator.device)
