"""A matrix whose weights stay quantised: planes of 4 bits, and torch's kernel for them.

In: `Grouped` matrices (dequantise.py) of 4, 5 or 8 bits. Out: products with activations in bfloat16. torch's CPU kernel
(`_weight_int4pack_mm_for_cpu`) multiplies weights of 4 bits, `(number - 8) * scale + zero`, one scale and zero for 32
neighbours; each row of activations is added up in float32 by itself, so that a batch gives what its rows give. A number
of more bits is split into its four low bits and the rest, two planes side by side, which the activations meet twice:

    number = 16 * high + low,   (number - z) * s - o  =  16 s (high - 8) + s (low - 8) + (what is left)

Only scales and zeros are rounded, to bfloat16: a weight is as exact as in a bfloat16 matrix. Cost: 5 bits of memory are
read for a weight, or 10. Fast for a few rows, which is decoding: from some dozens on a bfloat16 matrix is faster.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from guided.models.dequantise import Grouped

__all__ = ["ROWS", "Int4Matrix"]

ROWS = 16  # the kernel wants a multiple of so many
_GROUP = 32  # neighbours of one scale
_PIECE = 4096  # rows that are packed at once: the kernel's packer reads them as int32


class Int4Matrix:
    """(out, in), see the module."""

    def __init__(self, packed: Tensor, scales: Tensor, planes: int) -> None:
        self._packed, self._scales, self._planes = packed, scales, planes

    @staticmethod
    def is_fast(device: torch.device) -> bool:
        """Whether the kernel is faster there than a product in float32 (measured for AVX2 and AVX-512)."""
        return device.type == "cpu" and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")

    @staticmethod
    def fits(parts: Sequence[object]) -> bool:
        """Whether these matrices, one below the other, can be one of this kind."""
        grouped = [part for part in parts if isinstance(part, Grouped)]
        alike = len(grouped) == len(parts) and len({part.bits for part in grouped}) == 1
        return alike and sum(len(part.numbers) for part in grouped) % ROWS == 0

    @classmethod
    def of(cls, parts: Sequence[Grouped]) -> Int4Matrix:
        """Matrices of equal bits, one below the other."""
        numbers = np.concatenate([part.numbers for part in parts])
        scale = np.concatenate([part.scale for part in parts])
        rest = np.concatenate([_rest(part) for part in parts])
        if parts[0].bits == 4:
            planes = [(numbers, scale, rest)]
        else:
            low, high = numbers & 15, (numbers >> 4) + np.uint8(_top(parts[0].bits))
            planes = [(high, 16 * scale, np.zeros_like(scale)), (low, scale, rest)]
        pairs = [torch.from_numpy(np.stack((scale.T, zero.T), axis=-1)).bfloat16() for _, scale, zero in planes]
        whole = torch.from_numpy(np.concatenate([numbers for numbers, _, _ in planes], axis=1))
        packed = [
            torch.ops.aten._convert_weight_to_int4pack_for_cpu(whole[at : at + _PIECE].to(torch.int32), 1)
            for at in range(0, len(whole), _PIECE)
        ]
        return cls(torch.cat(packed), torch.cat(pairs).contiguous(), len(planes))

    def __call__(self, x: Tensor) -> Tensor:
        """x (n, in) in bfloat16 times the transposed matrix: (n, out)."""
        x = x.contiguous() if self._planes == 1 else torch.cat([x] * self._planes, dim=-1)
        product: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(x, self._packed, _GROUP, self._scales)
        return product


def _top(bits: int) -> int:
    """What is added to the bits above the fourth, so that they lie around the kernel's 8 where there is room."""
    return 8 if bits < 8 else 0


def _rest(part: Grouped) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """What the planes leave of the values: a constant for each group."""
    left = 8 - part.zero if part.bits == 4 else 8 + 16 * (8 - _top(part.bits)) - part.zero
    rest = np.float32(left) * part.scale
    return rest if part.offset is None else rest - part.offset
