"""Named tensors on their way from a file into a model: each is there, has the shape that is asked for, and is used.

Where a file holds a matrix quantised, and there is a kernel for it (int4.py: a CPU, bfloat16), it stays so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from guided.errors import ModelFileError, UnsupportedError
from guided.files.dequantise import Grouped
from guided.models.int4 import Int4Matrix
from guided.models.linear import Matrix

__all__ = ["Rows", "TensorFile", "Weights", "check_heads", "columns", "in_order", "rows_of"]

Rows: TypeAlias = Tensor | Grouped  # a matrix as a file holds it

_MAX_TABLE = 1 << 29  # numbers in a table of rotary positions: four million positions of 128


def check_heads(where: str, *, heads: int, kv_heads: int, head_dim: int, context: int) -> None:
    """Heads that are turned fit together, and the tables of their positions fit into memory.

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
        """Of all tensors."""

    def shape(self, name: str) -> tuple[int, ...]:
        """Rows first; nothing is read."""

    def read(self, name: str) -> Tensor:
        """The values, in any floating dtype, on the CPU."""

    def read_grouped(self, name: str) -> Grouped | None:
        """A matrix as it is quantised; None: it is not, or in a form that nothing multiplies."""


def in_order(rows: Rows, order: npt.NDArray[np.int64]) -> Rows:
    """Some rows of a matrix, in this order."""
    return rows.rows(order) if isinstance(rows, Grouped) else rows[torch.from_numpy(order)]


def rows_of(rows: Rows) -> int:
    """How many there are."""
    return len(rows.numbers) if isinstance(rows, Grouped) else len(rows)


def columns(rows: Rows, first: int, last: int) -> Rows:
    """Those columns of a matrix; where they cut a group of quantised numbers apart, it is one no longer."""
    if isinstance(rows, Grouped) and first % 32 == last % 32 == 0:
        return rows.columns(first, last)
    return (torch.from_numpy(rows.values()) if isinstance(rows, Grouped) else rows)[:, first:last]


class Weights:
    """Takes tensors out of a file for a model in `dtype` on `device`; remembers which were used."""

    def __init__(self, file: TensorFile, where: str, dtype: torch.dtype, device: torch.device) -> None:
        self._file, self.where, self.dtype, self.device = file, where, dtype, device
        self._unused = set(file.names())
        self.stay_quantised = device.type == "cpu" and dtype == torch.bfloat16

    def __contains__(self, name: str) -> bool:
        return name in self._file.names()

    def rows(self, name: str) -> int:
        """How many rows a matrix has."""
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
        """A matrix, quantised where it may stay so. Raises as `take`."""
        self._use(name, (rows, columns))
        grouped = self._file.read_grouped(name) if self.stay_quantised else None
        return self._file.read(name) if grouped is None else grouped

    def put(self, *parts: Tensor) -> Tensor:
        """Tensors, one below the other, as one weight of the model."""
        whole = parts[0] if len(parts) == 1 else torch.cat(parts)
        return whole.to(device=self.device, dtype=self.dtype).contiguous()

    def matrix(self, *parts: Rows) -> Matrix:
        """Matrices, one below the other, as one weight of the model."""
        if Int4Matrix.fits(parts):
            return Int4Matrix.of([part for part in parts if isinstance(part, Grouped)])
        return self.put(*(torch.from_numpy(part.values()) if isinstance(part, Grouped) else part for part in parts))

    def ends(
        self,
        embedding: str,
        head: str,
        rows: int,
        columns: int,
        tied: bool,
        cut: Callable[[Rows], Rows] = lambda rows: rows,
    ) -> tuple[Tensor, Matrix]:
        """The embedding and what `cut` leaves of the output matrix. Where it is tied it is the embedding, and a copy of
        it must be equal."""
        first = self.put(self.take(embedding, rows, columns))
        if not tied:
            return first, self.matrix(cut(self.take_rows(head, rows, columns)))
        if head in self and not torch.equal(self.put(self.take(head, rows, columns)), first):
            raise ModelFileError(f"{self.where}: {head!r} is tied to the embedding, but another matrix")
        stored = self.take_rows(embedding, rows, columns)
        return first, self.matrix(cut(stored if isinstance(stored, Grouped) else first))

    def skip(self, pattern: str) -> None:
        """The model computes what these tensors hold; the pattern matches the end of their names."""
        self._unused = {name for name in self._unused if re.search(f"(?:{pattern})$", name) is None}

    def finish(self, hint: str = "") -> None:
        """Everything was read.

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

    def _check(self, name: str) -> None:
        if name not in self:
            raise ModelFileError(f"{self.where}: the tensor {name!r} is missing")
