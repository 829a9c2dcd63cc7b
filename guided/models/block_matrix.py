"""A matrix whose weights stay as a GGUF file has them, and its products.

In: `Blocks` (dequantise.py), one below the other, maybe of several formats. Out: products with activations. With
quantised weights, activations are rounded to 8 bits in groups of 32, products of whole numbers are added up exactly,
scales in float32 (kernels/native/block_product.hpp). Weights in float16 and float32 are multiplied by the activations
as they are; for bfloat16 the processor may round activations to that, too (native/product.hpp). In each case a row has
the same bits whatever rows are beside it. As an embedding, `matrix[tokens]` is rows of it. Memory: the bytes of the
file, rearranged for the kernel (native/block_format.hpp), 1 to 4 percent more for some K formats. A product reads each
of them once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import torch
from torch import Tensor

from guided.files.dequantise import Blocks
from guided.kernels import BlockTiles

__all__ = ["ROWS", "BlockMatrix"]

ROWS = 16  # of a tile: ranks share whole ones


class BlockMatrix:
    """(out, in), see the module. `dtype`: of the activations. `is_quantised`: some weights are."""

    device = torch.device("cpu")

    def __init__(self, parts: Sequence[Blocks], dtype: torch.dtype) -> None:
        """Parts that `fits` accepts; nothing of them is needed later."""
        self.shape, self.dtype = (sum(map(len, parts)), parts[0].columns), dtype
        self.is_quantised = any(part.is_quantised for part in parts)
        self._tiles = BlockTiles([(part.ggml_type, part.raw, part.order) for part in parts], parts[0].columns)

    @staticmethod
    def fits(parts: Sequence[object]) -> TypeGuard[Sequence[Blocks]]:
        """Whether these matrices, one below the other, can be one of this kind."""
        return all(isinstance(part, Blocks) for part in parts)

    @property
    def nbytes(self) -> int:
        """The bytes that a product reads."""
        return self._tiles.nbytes

    def __len__(self) -> int:
        """Its rows."""
        return self.shape[0]

    def __call__(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """x (n, in) in float32 or bfloat16 times the transposed matrix, plus bias (out,): (n, out)."""
        return self._tiles.multiply(x, bias)

    def __getitem__(self, rows: Tensor) -> Tensor:
        """The rows with these numbers, int64 (n,), in `dtype`: (n, in)."""
        return self._tiles.rows(rows).to(self.dtype)
