"""Rotary positions in half-split form: the pair (x[i], x[i + rotary_dim / 2]) is rotated by position * frequency[i].

`rotary_dim` is at most the size of a head; the other numbers are not rotated. Sources: "RoFormer" (arXiv 2104.09864);
linear scaling ("Extending Context Window ... via Positional Interpolation", 2306.15595); the scaling of Llama 3.1 ("The
Llama 3 Herd of Models", 2407.21783). A scaling is stored as a divisor for each frequency.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import Final

import torch
from torch import Tensor

__all__ = ["Rope", "RotaryTables", "linear_factors", "llama3_factors", "rotary_frequencies", "rotary_tables"]

_PIECE: Final = 4096  # positions; a multiple of the width of vector instructions


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


def rotary_tables(rope: Rope, head_dim: int, positions: range, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos and sin for these positions, (positions, 1, rotary_dim), on the CPU. Both halves have the same angles; in the
    first half, sin is negated."""
    frequency = rotary_frequencies(rope.base, rope.rotary_dim or head_dim)
    if rope.factors is not None:
        frequency = frequency / torch.tensor(rope.factors, dtype=torch.float64)
    angle = torch.outer(torch.arange(positions.start, positions.stop, dtype=torch.float64), frequency)
    cos, sin = (angle.cos() * rope.gain).to(dtype), (angle.sin() * rope.gain).to(dtype)
    return torch.cat((cos, cos), dim=-1).unsqueeze(1), torch.cat((-sin, sin), dim=-1).unsqueeze(1)


class RotaryTables:
    """cos and sin of all positions below `context`, computed when they are first needed.

    On a CPU the tables grow: to twice their size, or to the largest position of a pass. On other devices they are
    complete from the start, since the host cannot see the positions of a pass without waiting for the device, and CUDA
    graphs need fixed addresses. Tables are computed in pieces of `_PIECE` positions, which always begin at the same
    positions. So the numbers do not depend on when they are computed, and float64 angles need little memory.
    """

    def __init__(self, rope: Rope, head_dim: int, context: int, dtype: torch.dtype, device: torch.device) -> None:
        self._rope, self._head_dim, self._context, self._dtype = rope, head_dim, context, dtype
        shape = (0, 1, rope.rotary_dim or head_dim)
        self._tables = torch.empty(shape, dtype=dtype, device=device), torch.empty(shape, dtype=dtype, device=device)
        if device.type != "cpu":
            self._tables = self._extend(self._tables, context)

    def rows(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin for int64 positions (n,), (n, 1, rotary_dim) each."""
        cos, sin = self._tables  # read once: another thread may replace the tables
        if cos.device.type == "cpu" and len(cos) < self._context and len(positions):
            needed = int(positions.max()) + 1
            if needed > len(cos):
                cos, sin = self._tables = self._extend((cos, sin), min(max(needed, 2 * len(cos)), self._context))
        return cos[positions], sin[positions]

    @torch.inference_mode(False)
    def _extend(self, tables: tuple[Tensor, Tensor], length: int) -> tuple[Tensor, Tensor]:
        """Copies of the tables with at least `length` positions, or with all."""
        old_length, end = len(tables[0]), min(-(-length // _PIECE) * _PIECE, self._context)
        cos, sin = (table.new_empty((end, *table.shape[1:])) for table in tables)
        for table, old in ((cos, tables[0]), (sin, tables[1])):
            table[:old_length] = old
        for start in range(old_length, end, _PIECE):
            piece = range(start, min(start + _PIECE, end))
            cos[piece.start : piece.stop], sin[piece.start : piece.stop] = rotary_tables(
                self._rope, self._head_dim, piece, self._dtype
            )
        return cos, sin
