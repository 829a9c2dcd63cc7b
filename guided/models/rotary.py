"""Rotary positions, half-split form: pair i of a head is (x[i], x[i + turned / 2]), turned by position * frequency i.

`turned` is at most the size of a head; the other numbers do not change. Sources: "RoFormer" (arXiv 2104.09864);
linear scaling ("Extending Context Window ... via Positional Interpolation", 2306.15595); the scaling of Llama 3.1 ("The
Llama 3 Herd of Models", 2407.21783). A scaling is stored as the divisor of each frequency.
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
        factors: the divisor of each frequency; None: 1.
        turned: how many numbers of a head are rotated; None: all.
        gain: the factor of rotated numbers (longrope).
    """

    base: float = 10000.0
    factors: tuple[float, ...] | None = None
    turned: int | None = None
    gain: float = 1.0


def rotary_frequencies(base: float, head_dim: int) -> Tensor:
    """base ** (-2 i / head_dim) for each pair i, float64."""
    half = head_dim // 2
    return base ** (-torch.arange(half, dtype=torch.float64) / half)


def linear_factors(factor: float, head_dim: int) -> tuple[float, ...]:
    """The divisors that compress all positions by the factor."""
    return (factor,) * (head_dim // 2)


def llama3_factors(
    base: float, head_dim: int, *, factor: float, low: float, high: float, original_context: float
) -> tuple[float, ...]:
    """Waves longer than original_context / low are stretched by the factor; those shorter than / high are not."""
    frequency = rotary_frequencies(base, head_dim)
    turns = original_context * frequency / (2 * pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)  # the part that is not stretched
    return tuple((1 / (kept + (1 - kept) / factor)).tolist())


def rotary_tables(
    rope: Rope, head_dim: int, context: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """cos and signed sin for every position, (context, 1, turned): the halves hold the same angles."""
    frequency = rotary_frequencies(rope.base, rope.turned or head_dim)
    if rope.factors is not None:
        frequency = frequency / torch.tensor(rope.factors, dtype=torch.float64)
    angle = torch.outer(torch.arange(context, dtype=torch.float64), frequency)
    cos = torch.cat((angle.cos(), angle.cos()), dim=-1) * rope.gain
    sin = torch.cat((-angle.sin(), angle.sin()), dim=-1) * rope.gain
    return cos.to(device, dtype).unsqueeze(1), sin.to(device, dtype).unsqueeze(1)
