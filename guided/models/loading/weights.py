"""Moves named tensors from a file into a model. Each tensor must be present, have the expected shape, and be used.

On a CPU, the matrices of a GGUF file may stay in the format of the file (block_matrix.py).
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

__all__ = ["Rows", "TensorFile", "Weights", "check_heads", "count_rows", "reorder_rows", "take_columns"]

Rows: TypeAlias = Tensor | Blocks  # a matrix, possibly in the format of the file

_Weight = TypeVar("_Weight")
_MAX_TABLE = 1 << 29  # numbers in a table of rotary positions: 4 million positions, heads of size 128


def check_heads(location: str, *, heads: int, kv_heads: int, head_dim: int, context: int) -> None:
    """Check that the head sizes are possible, and that the tables of rotary positions fit into memory.

    Raises:
        ModelFileError: the sizes are impossible, or the tables do not fit.
    """
    if heads % kv_heads or head_dim % 2:
        raise ModelFileError(
            f"{location}: {heads} heads and {kv_heads} KV heads of size {head_dim} do not fit together"
        )
    if context * head_dim > _MAX_TABLE:
        raise ModelFileError(f"{location}: a context of {context} positions for heads of size {head_dim} is too long")


class TensorFile(Protocol):
    """Tensors by name, read one at a time."""

    def names(self) -> Collection[str]:
        """The names of all tensors."""

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape, rows first. The values are not read."""

    def read(self, name: str) -> Tensor:
        """The values, in any floating dtype, on the CPU."""

    def read_blocks(self, name: str) -> Blocks | None:
        """A matrix in the file's format, or None if `read` must be used."""

    def forget(self, name: str) -> None:
        """Release the memory that the file holds for a tensor that has been copied into the model."""


def reorder_rows(rows: Rows, order: npt.NDArray[np.int64]) -> Rows:
    """Return the rows of a matrix in this order."""
    return rows.rows(order) if isinstance(rows, Blocks) else rows[torch.from_numpy(order)]


def count_rows(rows: Rows) -> int:
    """The number of rows."""
    return len(rows)


def take_columns(rows: Rows, begin: int, end: int) -> Rows:
    """Return columns `begin` to `end` (exclusive) of a matrix. If they cut a block of quantised values, the result is
    dequantised."""
    if isinstance(rows, Blocks):
        blocks = rows.part(begin, end)
        return torch.from_numpy(rows.values())[:, begin:end] if blocks is None else blocks
    return rows[:, begin:end]


class Weights:
    """Takes tensors from a file for a model in `dtype` on `device`. Records which tensors were used.

    `keep_format`: whether matrices stay in the format of the file if possible, with activations in `dtype`.
    """

    def __init__(
        self, file: TensorFile, location: str, dtype: torch.dtype, device: torch.device, keep_format: bool = False
    ) -> None:
        self._file, self.location, self.dtype, self.device = file, location, dtype, device
        self._unused, self._read_names = set(file.names()), list[str]()
        self._keep_format = keep_format and device.type == "cpu"

    def __contains__(self, name: str) -> bool:
        return name in self._file.names()

    def rows(self, name: str) -> int:
        """The number of rows of a matrix."""
        self._check(name)
        shape = self._file.shape(name)
        if len(shape) != 2:
            raise ModelFileError(f"{self.location}: {name!r} has the shape {shape}, but a matrix is expected")
        return shape[0]

    def take(self, name: str, *shape: int) -> Tensor:
        """Read the values of a tensor.

        Raises:
            ModelFileError: the tensor is missing or has the wrong shape.
        """
        self._use(name, shape)
        return self._file.read(name)

    def take_rows(self, name: str, rows: int, columns: int) -> Rows:
        """Read a matrix, in the format of the file if `keep_format`. Raises like `take`."""
        self._use(name, (rows, columns))
        blocks = self._file.read_blocks(name) if self._keep_format else None
        return self._file.read(name) if blocks is None else blocks

    def put(self, *parts: Tensor) -> Tensor:
        """Concatenate tensors by rows into one weight of the model."""
        matrix = parts[0] if len(parts) == 1 else torch.cat(parts)
        return self._release_source(matrix.to(device=self.device, dtype=self.dtype).contiguous())

    def matrix(self, *parts: Rows) -> Matrix:
        """Concatenate matrices by rows into one weight of the model."""
        if BlockMatrix.can_multiply(parts):
            return self._release_source(BlockMatrix(parts, self.dtype))
        return self.put(*(torch.from_numpy(part.values()) if isinstance(part, Blocks) else part for part in parts))

    def embedding_and_head(
        self,
        embedding: str,
        head: str,
        rows: int,
        columns: int,
        tied: bool,
        part: Callable[[Rows], Rows] = lambda rows: rows,
    ) -> tuple[Embedding, Matrix]:
        """Read the embedding, and this process's part of the output matrix, which `part` selects. If `tied`, the output
        matrix is the embedding; if the file contains both, they must be equal.
        """
        embedding_rows = self.take_rows(embedding, rows, columns)
        embedding_matrix = self.matrix(embedding_rows)
        assert not isinstance(embedding_matrix, AdaptedMatrix)
        if not tied:
            return embedding_matrix, self.matrix(part(self.take_rows(head, rows, columns)))
        if head in self and not torch.equal(self.take(head, rows, columns), self.take(embedding, rows, columns)):
            raise ModelFileError(f"{self.location}: {head!r} is tied to the embedding, but differs from it")
        own_part = part(embedding_rows)
        return embedding_matrix, embedding_matrix if own_part is embedding_rows else self.matrix(own_part)

    def skip(self, pattern: str) -> None:
        """Ignore tensors that this process does not need. `pattern` matches the end of their names."""
        self._unused = {name for name in self._unused if re.search(f"(?:{pattern})$", name) is None}

    def finish(self, hint: str = "") -> None:
        """Check that every tensor was used.

        Raises:
            UnsupportedError: some tensor was not used.
        """
        if self._unused:
            raise UnsupportedError("this model does not use the tensor", pointer=min(self._unused), hint=hint)

    def _use(self, name: str, shape: tuple[int, ...]) -> None:
        self._check(name)
        if (actual_shape := self._file.shape(name)) != shape:
            raise ModelFileError(f"{self.location}: {name!r} has the shape {actual_shape}, expected {shape}")
        self._unused.discard(name)
        self._read_names.append(name)

    def _release_source(self, weight: _Weight) -> _Weight:
        """Release the memory that the file holds for the tensors in this weight."""
        for name in self._read_names:
            self._file.forget(name)
        self._read_names.clear()
        return weight

    def _check(self, name: str) -> None:
        if name not in self:
            raise ModelFileError(f"{self.location}: the tensor {name!r} is missing")
