"""Named tensors on their way from a file into a model. Each must be present, have the expected shape, and be used.

The matrices of a GGUF file may stay as they are stored (block_matrix.py: on a CPU).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from guided.errors import ModelFileError, UnsupportedError
from guided.files.dequantise import Blocks
from guided.models.block_matrix import BlockMatrix
from guided.models.linear import AdaptedMatrix, Embedding, Matrix

__all__ = ["Rows", "TensorFile", "Weights", "check_heads", "columns", "in_order", "rows_of"]

Rows: TypeAlias = Tensor | Blocks  # a matrix as in a file

_Weight = TypeVar("_Weight")
_MAX_TABLE = 1 << 29  # numbers in a table of rotary positions: four million positions of 128


def check_heads(where: str, *, heads: int, kv_heads: int, head_dim: int, context: int) -> None:
    """Check that the numbers of heads fit together, and that the tables of rotary positions fit into memory.

    Raises:
        ModelFileError: they do not.
    """
    if heads % kv_heads or head_dim % 2:
        raise ModelFileError(f"{where}: {heads} heads and {kv_heads} KV heads of size {head_dim} do not fit")
    if context * head_dim > _MAX_TABLE:
        raise ModelFileError(f"{where}: a context of {context} positions for heads of size {head_dim} is too long")


class TensorFile(Protocol):
    """Tensors by name, read one at a time."""

    def names(self) -> Collection[str]:
        """The names of all tensors."""

    def shape(self, name: str) -> tuple[int, ...]:
        """Rows first; nothing is read."""

    def read(self, name: str) -> Tensor:
        """The values, in any floating dtype, on the CPU."""

    def read_blocks(self, name: str) -> Blocks | None:
        """A matrix in the file's format. None: read its values instead."""

    def forget(self, name: str) -> None:
        """Release the file's memory of a tensor, which is now in the model."""


def in_order(rows: Rows, order: npt.NDArray[np.int64]) -> Rows:
    """Rows of a matrix, in this order."""
    return rows.rows(order) if isinstance(rows, Blocks) else rows[torch.from_numpy(order)]


def rows_of(rows: Rows) -> int:
    """The number of rows."""
    return len(rows)


def columns(rows: Rows, first: int, last: int) -> Rows:
    """Columns of a matrix. If they split a block of quantised numbers, the result is dequantised."""
    if isinstance(rows, Blocks):
        part = rows.part(first, last)
        return torch.from_numpy(rows.values())[:, first:last] if part is None else part
    return rows[:, first:last]


class Weights:
    """Takes tensors out of a file for a model in `dtype` on `device`. Remembers which were used.

    `as_stored`: matrices stay as they are in the file if possible, with activations in `dtype`.
    """

    def __init__(
        self, file: TensorFile, where: str, dtype: torch.dtype, device: torch.device, as_stored: bool = False
    ) -> None:
        self._file, self.where, self.dtype, self.device = file, where, dtype, device
        self._unused, self._read_names = set(file.names()), list[str]()
        self._as_stored = as_stored and device.type == "cpu"

    def __contains__(self, name: str) -> bool:
        return name in self._file.names()

    def rows(self, name: str) -> int:
        """The number of rows of a matrix."""
        self._check(name)
        shape = self._file.shape(name)
        if len(shape) != 2:
            raise ModelFileError(f"{self.where}: {name!r} has the shape {shape}, a matrix is expected")
        return shape[0]

    def take(self, name: str, *shape: int) -> Tensor:
        """The values of a tensor.

        Raises:
            ModelFileError: it is missing or has another shape.
        """
        self._use(name, shape)
        return self._file.read(name)

    def take_rows(self, name: str, rows: int, columns: int) -> Rows:
        """A matrix, as it is stored if possible. Raises the errors of `take`."""
        self._use(name, (rows, columns))
        blocks = self._file.read_blocks(name) if self._as_stored else None
        return self._file.read(name) if blocks is None else blocks

    def put(self, *parts: Tensor) -> Tensor:
        """Tensors, concatenated by rows, as one weight of the model."""
        whole = parts[0] if len(parts) == 1 else torch.cat(parts)
        return self._release_source(whole.to(device=self.device, dtype=self.dtype).contiguous())

    def matrix(self, *parts: Rows) -> Matrix:
        """Matrices, concatenated by rows, as one weight of the model."""
        if BlockMatrix.fits(parts):
            return self._release_source(BlockMatrix(parts, self.dtype))
        return self.put(*(torch.from_numpy(part.values()) if isinstance(part, Blocks) else part for part in parts))

    def ends(
        self,
        embedding: str,
        head: str,
        rows: int,
        columns: int,
        tied: bool,
        cut: Callable[[Rows], Rows] = lambda rows: rows,
    ) -> tuple[Embedding, Matrix]:
        """The embedding, and this process's part (`cut`) of the output matrix. If tied, the output matrix is the
        embedding, and a separate copy must be equal.
        """
        stored = self.take_rows(embedding, rows, columns)
        first = self.matrix(stored)
        assert not isinstance(first, AdaptedMatrix)
        if not tied:
            return first, self.matrix(cut(self.take_rows(head, rows, columns)))
        if head in self and not torch.equal(self.take(head, rows, columns), self.take(embedding, rows, columns)):
            raise ModelFileError(f"{self.where}: {head!r} is tied to the embedding, but another matrix")
        own = cut(stored)
        return first, first if own is stored else self.matrix(own)

    def skip(self, pattern: str) -> None:
        """Accept unused tensors whose content the model computes. The pattern matches the end of their names."""
        self._unused = {name for name in self._unused if re.search(f"(?:{pattern})$", name) is None}

    def finish(self, hint: str = "") -> None:
        """Check that everything was read.

        Raises:
            UnsupportedError: some tensor was not used.
        """
        if self._unused:
            raise UnsupportedError("this model has no place for the tensor", pointer=min(self._unused), hint=hint)

    def _use(self, name: str, shape: tuple[int, ...]) -> None:
        self._check(name)
        if (found := self._file.shape(name)) != shape:
            raise ModelFileError(f"{self.where}: {name!r} has the shape {found}, expected {shape}")
        self._unused.discard(name)
        self._read_names.append(name)

    def _release_source(self, weight: _Weight) -> _Weight:
        """Release the file's tensors of a weight that is now in the model."""
        for name in self._read_names:
            self._file.forget(name)
        self._read_names.clear()
        return weight

    def _check(self, name: str) -> None:
        if name not in self:
            raise ModelFileError(f"{self.where}: the tensor {name!r} is missing")
