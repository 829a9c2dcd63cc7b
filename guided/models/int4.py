"""A matrix whose weights stay quantised: planes of 4 bits, and a kernel for them.

In: `Grouped` matrices (dequantise.py) of 4, 5 or 8 bits. Out: products with activations in bfloat16, by
kernels/native/product4.hpp, which adds up each row of activations in float32 by itself, in the same order whatever is
beside it. A number of more bits is split into its four low bits and the rest, two planes of the same scale:

    number = 16 * high + low,   (number - z) * s - o  =  (16 (high - 8) + (low - 8)) * s + rest

Only scales and rests are rounded, to bfloat16: a weight is as exact as in a bfloat16 matrix. Cost: 5 bits of memory are
read for a weight, or 9.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from guided.files.dequantise import Grouped
from guided.kernels import multiply4

__all__ = ["LAYOUT", "ROWS", "Int4Matrix"]

LAYOUT = 1  # the number of the kernel's layout: packed weights that are stored (packed.py) are valid for this one only
ROWS = 16  # the number of rows must be a multiple of this
_GROUP = 32  # neighbours of one scale
_NIBBLES = np.array([0, 16, 4, 20, 8, 24, 12, 28], np.uint32)  # where eight neighbours are in a word


class Int4Matrix:
    """(out, in), see the module."""

    def __init__(self, weights: Tensor, shape: tuple[int, int], planes: int) -> None:
        """`weights`: uint8 of `size` bytes in the kernel's layout; `planes`: of 4 bits, 1 or 2."""
        self.weights, self.shape, self.planes = weights, shape, planes

    @staticmethod
    def is_fast(device: torch.device) -> bool:
        """Whether the kernel is faster there than a product in float32 (measured for AVX2 and AVX-512)."""
        return device.type == "cpu" and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")

    @staticmethod
    def size(shape: tuple[int, int], planes: int) -> int:
        """The bytes of a matrix (out, in): two scales and 16 bytes of each plane for 32 neighbours.

        Raises:
            ValueError: there is no matrix of this shape.
        """
        rows, columns = shape
        if rows % ROWS or columns % _GROUP:
            raise ValueError(f"a packed matrix of shape {shape} does not exist")
        return rows * (columns // _GROUP) * (16 * planes + 4)

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
        scale = torch.from_numpy(np.concatenate([part.scale for part in parts])).bfloat16()
        rest = torch.from_numpy(np.concatenate([_rest(part) for part in parts])).bfloat16()
        planes: list[npt.NDArray[np.uint8]] = [numbers]
        if parts[0].bits > 4:
            planes = [np.bitwise_and(numbers, 15), np.right_shift(numbers, 4) + np.uint8(_top(parts[0].bits))]
        blocks, groups = len(numbers) // ROWS, scale.shape[1]
        words = [_words(plane).reshape(blocks, ROWS, groups, 4).transpose(0, 2, 3, 1) for plane in planes]
        factors = [one.view(torch.int16).numpy().reshape(blocks, ROWS, groups) for one in (scale, rest)]
        all_parts = [*words, *(one.transpose(0, 2, 1) for one in factors)]
        bytes_ = [np.ascontiguousarray(one).view(np.uint8).reshape(blocks, groups, -1) for one in all_parts]
        return cls(torch.from_numpy(np.concatenate(bytes_, axis=-1)), (len(numbers), numbers.shape[1]), len(planes))

    def __call__(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """x (n, in) in bfloat16 times the transposed matrix, plus bias (out,): (n, out)."""
        return multiply4(x, self.weights, self.shape, self.planes, bias)


def _words(numbers: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """Eight neighbours in a word, as two's complement of what they are above 8: (rows, columns / 8)."""
    nibbles = (numbers ^ np.uint8(8)).reshape(len(numbers), -1, 8).astype(np.uint32) << _NIBBLES
    words: npt.NDArray[np.uint32] = np.bitwise_or.reduce(nibbles, axis=-1)
    return words


def _top(bits: int) -> int:
    """What is added to the bits above the fourth, so that they lie around the kernel's 8 where there is room."""
    return 8 if bits < 8 else 0


def _rest(part: Grouped) -> npt.NDArray[np.float32]:
    """What the planes leave of the values, a constant for each group; of the rounded scale, if there is no offset."""
    left = 8 - part.zero if part.bits == 4 else 8 + 16 * (8 - _top(part.bits)) - part.zero
    scale = torch.from_numpy(part.scale).bfloat16().float().numpy() if part.offset is None else part.scale
    rest = np.float32(left) * scale
    return rest if part.offset is None else rest - part.offset
