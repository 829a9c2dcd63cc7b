"""Splits a model across processes: determines the part of each process, and communicates.

Tensor parallelism splits every matrix of a block ("Megatron-LM", arXiv 1909.08053): a rank has some of the heads and
hidden units, and the results of the ranks are summed twice per block. Pipeline parallelism splits the model between
blocks: a stage has some of the layers. Hidden states go from stage to stage, and from the last stage back to the first,
which has the embedding and the head. With both, each stage is split into ranks. The stages work one after the other, so
they save memory, not time.

A sum adds the results of the ranks in order, so all ranks get the same bits, and each row is bitwise independent of
other rows. (A ring all-reduce adds each part of a tensor in a different order.) Communication is an argument (`Group`).
If the model is not split, both groups consist of one process and do not communicate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd
from typing import Final, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from guided.errors import UnsupportedError
from guided.models.block_matrix import TILE_ROWS
from guided.models.loading.weights import Rows, reorder_rows, take_columns

__all__ = ["ALONE", "WHOLE", "Group", "Parallel"]


class Group(Protocol):
    """Processes that share a split model. All of them make the same calls in the same order."""

    @property
    def rank(self) -> int:
        """The rank of this process."""

    @property
    def size(self) -> int:
        """The number of processes."""

    def gather(self, x: Tensor) -> Sequence[Tensor]:
        """Return the tensors of all ranks in rank order. All must have the same shape."""

    def send(self, x: Tensor, rank: int) -> None:
        """Send a tensor to another rank."""

    def receive(self, out: Tensor, rank: int) -> Tensor:
        """Receive a tensor from another rank into `out`, and return it."""


class _SingleProcess:
    """A group of one process."""

    rank, size = 0, 1

    def gather(self, x: Tensor) -> Sequence[Tensor]:
        return [x]

    def send(self, x: Tensor, rank: int) -> None:
        raise AssertionError("there is no other rank")

    def receive(self, out: Tensor, rank: int) -> Tensor:
        raise AssertionError("there is no other rank")


ALONE: Final[Group] = _SingleProcess()


@dataclass(frozen=True, slots=True)
class Parallel:
    """The part of a model in this process.

    Attributes:
        tensor_group: the ranks of this stage.
        pipeline_group: the processes with this rank in all stages.
    """

    tensor_group: Group = ALONE
    pipeline_group: Group = ALONE

    @property
    def is_first(self) -> bool:
        """Whether this is the first stage, which has the embedding and the head."""
        return self.pipeline_group.rank == 0

    @property
    def is_split(self) -> bool:
        """Whether other processes have parts of the model."""
        return self.tensor_group.size * self.pipeline_group.size > 1

    def refuse_splitting(self, location: str) -> None:
        """For a model that cannot be split: raise UnsupportedError if there are other processes."""
        if self.is_split:
            hint = "load it without tensor_parallel and pipeline_parallel"
            reason = "models of this architecture cannot be split across processes"
            raise UnsupportedError(reason, pointer=location, hint=hint)

    # ---- the part of this process
    def check(self, sizes: Mapping[str, int], location: str) -> None:
        """Check that the ranks of the stage can share each of these numbers evenly.

        Raises:
            UnsupportedError: the number of ranks does not divide a number.
        """
        ranks, divisor = self.tensor_group.size, gcd(*sizes.values())
        for name, count in sizes.items():
            if count % ranks:
                suitable_counts = ", ".join(str(n) for n in range(1, divisor + 1) if divisor % n == 0)
                reason, hint = (
                    f"{count} {name} cannot be shared by {ranks} ranks",
                    f"tensor_parallel: one of {suitable_counts}",
                )
                raise UnsupportedError(reason, pointer=location, hint=hint)

    def layers(self, count: int, location: str) -> range:
        """The layers of this stage.

        Raises:
            UnsupportedError: there are fewer layers than stages.
        """
        stages, stage = self.pipeline_group.size, self.pipeline_group.rank
        if stages > count:
            raise UnsupportedError(f"{stages} stages, but only {count} layers", pointer=location)
        return range(count * stage // stages, count * (stage + 1) // stages)

    def rows(self, matrix: Rows) -> Rows:
        """The rows of a matrix for this rank's outputs."""
        return (
            matrix if self.tensor_group.size == 1 else reorder_rows(matrix, np.arange(*self._span(_shape(matrix)[0])))
        )

    def columns(self, matrix: Rows) -> Rows:
        """The columns of a matrix for this rank's inputs."""
        return matrix if self.tensor_group.size == 1 else take_columns(matrix, *self._span(_shape(matrix)[1]))

    def entries(self, bias: Tensor) -> Tensor:
        """The entries of a bias for this rank's outputs."""
        return bias[slice(*self._span(len(bias)))]

    def head(self, matrix: Rows) -> Rows:
        """The rows of the output matrix for the tokens that this rank scores. The last ranks may have fewer rows."""
        if self.tensor_group.size == 1:
            return matrix
        count = _shape(matrix)[0]
        first = min(self.tensor_group.rank * self._head_rows_per_rank(count), count)
        return reorder_rows(matrix, np.arange(first, min(first + self._head_rows_per_rank(count), count)))

    def _head_rows_per_rank(self, tokens: int) -> int:
        """The maximum number of tokens that a rank scores: a multiple of the tile size of a quantised matrix."""
        return -(-tokens // (self.tensor_group.size * TILE_ROWS)) * TILE_ROWS

    def _span(self, count: int) -> tuple[int, int]:
        """This rank's range of `count` rows or columns, which the ranks share evenly."""
        width = count // self.tensor_group.size
        return self.tensor_group.rank * width, (self.tensor_group.rank + 1) * width

    # ---- communication
    def sum(self, x: Tensor) -> Tensor:
        """Sum x over the ranks of the stage."""
        return x if self.tensor_group.size == 1 else reduce(torch.add, self.tensor_group.gather(x.contiguous()))

    def join(self, x: Tensor, width: int) -> Tensor:
        """Concatenate the logits of all ranks: (n, width)."""
        if self.tensor_group.size == 1:
            return x
        width_per_rank = self._head_rows_per_rank(width)
        parts = self.tensor_group.gather(F.pad(x, (0, width_per_rank - x.shape[1])).contiguous())
        return torch.cat(list(parts), dim=1)[:, :width].contiguous()

    def enter(self, x: Tensor) -> Tensor:
        """Receive hidden states from the previous stage, with the shape of x. In the first stage, return x itself."""
        return x if self.is_first else self.pipeline_group.receive(x, self.pipeline_group.rank - 1)

    def leave(self, x: Tensor) -> Tensor:
        """Send hidden states to the next stage. The first stage receives and returns those of the last stage."""
        ring = self.pipeline_group
        if ring.size == 1:
            return x
        ring.send(x.contiguous(), (ring.rank + 1) % ring.size)
        return ring.receive(torch.empty_like(x), ring.size - 1) if self.is_first else x


WHOLE: Final = Parallel()


def _shape(matrix: Rows) -> tuple[int, ...]:
    return matrix.shape if isinstance(matrix, Tensor) else (len(matrix), matrix.columns)
