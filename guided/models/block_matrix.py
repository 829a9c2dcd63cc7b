"""A matrix whose weights stay in the format of a GGUF file.

In: `Blocks` (dequantise.py), concatenated by rows, possibly in several formats. Out: products with activations. With
quantised weights, activations are rounded to 8 bits in groups of 32; integer products are summed exactly, and scales
are applied in float32 (kernels/native/block_product.hpp). Float16 and float32 weights are multiplied by unrounded
activations; for bfloat16 weights the kernel may round activations to bfloat16 (native/product.hpp). In each case an
output row is bitwise independent of the other rows. As an embedding, `matrix[tokens]` returns rows. Memory: the bytes
of the file, rearranged for the kernel (native/block_format.hpp), plus 1 to 4 percent for some K formats. A
multiplication reads each byte once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import torch
from torch import Tensor

from guided.files.dequantise import Blocks
from guided.kernels import BlockTiles

__all__ = ["TILE_ROWS", "BlockMatrix"]

TILE_ROWS = 16  # rows per tile; a split between ranks never cuts a tile


class BlockMatrix:
    """A matrix (out, in). `dtype`: the dtype of activations. `is_quantised`: whether some weights are quantised."""

    device = torch.device("cpu")

    def __init__(self, parts: Sequence[Blocks], dtype: torch.dtype) -> None:
        """`parts`: blocks that `can_multiply` accepts. They are copied."""
        self.shape, self.dtype = (sum(map(len, parts)), parts[0].columns), dtype
        self.is_quantised = any(part.is_quantised for part in parts)
        self._tiles = BlockTiles([(part.ggml_type, part.raw, part.order) for part in parts], parts[0].columns)

    @staticmethod
    def can_multiply(parts: Sequence[object]) -> TypeGuard[Sequence[Blocks]]:
        """Whether these matrices, concatenated by rows, can be a `BlockMatrix`."""
        return all(isinstance(part, Blocks) for part in parts)

    @property
    def nbytes(self) -> int:
        """The number of bytes that a multiplication reads."""
        return self._tiles.nbytes

    def __len__(self) -> int:
        """The number of rows."""
        return self.shape[0]

    def __call__(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Multiply x (n, in), float32 or bfloat16, by the transposed matrix, and add bias (out,). Returns (n, out)."""
        return self._tiles.multiply(x, bias)

    def __getitem__(self, rows: Tensor) -> Tensor:
        """Return rows (n, in) in `dtype`. `rows`: their indices, int64 (n,)."""
        return self._tiles.rows(rows).to(self.dtype)
