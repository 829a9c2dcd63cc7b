"""Named tensors on their way from a file into a model: each is there, has the shape that is asked for, and is used."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Protocol

import torch
from torch import Tensor

from guided.errors import UnsupportedError, VocabularyError

__all__ = ["TensorFile", "Weights", "check_heads"]

_MAX_TABLE = 1 << 29  # numbers in a table of rotary positions: four million positions of 128


def check_heads(where: str, *, heads: int, kv_heads: int, head_dim: int, context: int) -> None:
    """Heads that are turned fit together, and the tables of their positions fit into memory.

    Raises:
        VocabularyError: they do not.
    """
    if heads % kv_heads or head_dim % 2:
        raise VocabularyError(f"{where}: {heads} heads and {kv_heads} KV heads of size {head_dim} do not fit")
    if context * head_dim > _MAX_TABLE:
        raise VocabularyError(f"{where}: a context of {context} positions for heads of size {head_dim} is too long")


class TensorFile(Protocol):
    """Tensors by name, read one at a time."""

    def names(self) -> Collection[str]:
        """Of all tensors."""

    def shape(self, name: str) -> tuple[int, ...]:
        """Rows first; nothing is read."""

    def read(self, name: str) -> Tensor:
        """The values, in any floating dtype, on the CPU."""


class Weights:
    """Takes tensors out of a file for a model in `dtype` on `device`; remembers which were used."""

    def __init__(self, file: TensorFile, where: str, dtype: torch.dtype, device: torch.device) -> None:
        self._file, self.where, self.dtype, self.device = file, where, dtype, device
        self._unused = set(file.names())

    def __contains__(self, name: str) -> bool:
        return name in self._file.names()

    def rows(self, name: str) -> int:
        """How many rows a matrix has."""
        self._check(name)
        shape = self._file.shape(name)
        if len(shape) != 2:
            raise VocabularyError(f"{self.where}: {name!r} has the shape {shape}, a matrix is expected")
        return shape[0]

    def take(self, name: str, *shape: int) -> Tensor:
        """The tensor as the file has it.

        Raises:
            VocabularyError: it is missing or has another shape.
        """
        self._check(name)
        if (found := self._file.shape(name)) != shape:
            raise VocabularyError(f"{self.where}: {name!r} has the shape {found}, expected {shape}")
        self._unused.discard(name)
        return self._file.read(name)

    def put(self, *parts: Tensor) -> Tensor:
        """Tensors, one below the other, as one weight of the model."""
        whole = parts[0] if len(parts) == 1 else torch.cat(parts)
        return whole.to(device=self.device, dtype=self.dtype).contiguous()

    def head(self, name: str, embedding: Tensor, tied: bool) -> Tensor:
        """The output matrix. Where it is tied it is the embedding, and a copy of it in the file must be equal."""
        if tied and name not in self:
            return embedding
        head = self.put(self.take(name, *embedding.shape))
        if tied and not torch.equal(head, embedding):
            raise VocabularyError(f"{self.where}: {name!r} is tied to the embedding, but another matrix")
        return embedding if tied else head

    def skip(self, pattern: str) -> None:
        """The model computes what these tensors hold; the pattern matches the end of their names."""
        self._unused = {name for name in self._unused if re.search(f"(?:{pattern})$", name) is None}

    def finish(self) -> None:
        """Everything was read.

        Raises:
            UnsupportedError: some tensor was not used.
        """
        if self._unused:
            raise UnsupportedError("this model has no place for the tensor", pointer=min(self._unused))

    def _check(self, name: str) -> None:
        if name not in self:
            raise VocabularyError(f"{self.where}: the tensor {name!r} is missing")
