"""Rotary positions in half-split form: the pair (x[i], x[i + rotary_dim / 2]) is rotated by position * frequency[i].

`rotary_dim` is at most the size of a head; the other numbers are not rotated. Sources: "RoFormer" (arXiv 2104.09864);
linear scaling ("Extending Context Window ... via Positional Interpolation", 2306.15595); the scaling of Llama 3.1 ("The
Llama 3 Herd of Models", 2407.21783). A scaling is stored as a divisor for each frequency.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

import torch
from torch import Tensor

__all__ = ["Rope", "linear_factors", "llama3_factors", "rotary_frequencies", "rotary_tables"]


@dataclass(frozen=True, slots=True)
class Rope:
    """The rotary positions of heads.

    Attributes:
        base: the base of the frequencies (`rotary_frequencies`).
        factors: the divisors of the frequencies; None: all 1.
        rotary_dim: the number of rotated dimensions of a head; None: all.
        gain: the factor by which the rotated dimensions are multiplied (longrope).
    """

    base: float = 10000.0
    factors: tuple[float, ...] | None = None
    rotary_dim: int | None = None
    gain: float = 1.0


def rotary_frequencies(base: float, head_dim: int) -> Tensor:
    """base ** (-2 i / head_dim) for each pair i, float64."""
    half = head_dim // 2
    return base ** (-torch.arange(half, dtype=torch.float64) / half)


def linear_factors(factor: float, head_dim: int) -> tuple[float, ...]:
    """Divisors of the frequencies that have the same effect as dividing all positions by the factor."""
    return (factor,) * (head_dim // 2)


def llama3_factors(
    base: float, head_dim: int, *, factor: float, low: float, high: float, original_context: float
) -> tuple[float, ...]:
    """The divisors: `factor` for wavelengths above original_context / low, 1 for wavelengths below original_context /
    high, and a smooth transition between them."""
    frequency = rotary_frequencies(base, head_dim)
    rotations = original_context * frequency / (2 * pi)
    unstretched = ((rotations - low) / (high - low)).clamp(0, 1)  # between 0 (stretched) and 1 (not stretched)
    return tuple((1 / (unstretched + (1 - unstretched) / factor)).tolist())


def rotary_tables(
    rope: Rope, head_dim: int, context: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """cos and sin for every position, (context, 1, rotary_dim). Both halves have the same angles; in the first half,
    sin is negated."""
    frequency = rotary_frequencies(rope.base, rope.rotary_dim or head_dim)
    if rope.factors is not None:
        frequency = frequency / torch.tensor(rope.factors, dtype=torch.float64)
    angle = torch.outer(torch.arange(context, dtype=torch.float64), frequency)
    cos = torch.cat((angle.cos(), angle.cos()), dim=-1) * rope.gain
    sin = torch.cat((-angle.sin(), angle.sin()), dim=-1) * rope.gain
    return cos.to(device, dtype).unsqueeze(1), sin.to(device, dtype).unsqueeze(1)
