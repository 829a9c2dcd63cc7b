"""What rank 0 tells the others: with what they start, then as integers what memory to take, to copy, what to compute.

In a step the others need no more of the cache than block tables: whose blocks they are, what is shared and what can be
found again is known to rank 0 alone. No objects travel, so nothing is unpickled. Cost: an integer for each token, and
for each block of each sequence of the step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from itertools import chain
from typing import TypeAlias

import torch

from guided.engine.ranks.group import TorchGroup

__all__ = ["HERE", "Command", "Copy", "Open", "Order", "Step", "hear", "tell"]

HERE = "here"  # the first line that a worker writes
_SHORT = 512  # integers that go in one message


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker is started with.

    Attributes:
        path: the model.
        dtype: of its weights, as torch names it; None: what is fastest.
        device: where it computes.
        meeting: the file through which the ranks find one another.
        parent: the process id of rank 0.
        rank, tensor, pipeline: see `Standing`.
    """

    path: str
    dtype: str | None
    device: str
    meeting: str
    parent: int
    rank: int
    tensor: int
    pipeline: int


@dataclass(frozen=True, slots=True)
class Open:
    """Take memory for a paged cache."""

    blocks: int
    block_size: int


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy `count` slots in all layers."""

    source: int
    target: int
    count: int


@dataclass(frozen=True, slots=True)
class Step:
    """A forward pass; see `guided.engine.runner.Batch` and `PagedPlan`."""

    tokens: Sequence[int]
    counts: Sequence[int]
    lengths: Sequence[int]
    kept: Sequence[int]
    tables: Sequence[Sequence[int]]


Command: TypeAlias = Open | Copy | Step


def tell(group: TorchGroup, command: Command) -> None:
    """Rank 0 tells all others."""
    if isinstance(command, Step):
        c, kind = command, 0
        lists = (c.tokens, c.counts, c.lengths, c.kept, [len(table) for table in c.tables])
        numbers = [*map(len, lists), *chain(*lists, *c.tables)]
    else:
        kind, numbers = 1 if isinstance(command, Copy) else 2, list(astuple(command))
    whole = [kind, len(numbers), *numbers]
    group.broadcast(torch.tensor([*whole[:_SHORT], *[0] * (_SHORT - len(whole))], dtype=torch.int64))
    if len(whole) > _SHORT:
        group.broadcast(torch.tensor(whole[_SHORT:], dtype=torch.int64))


def hear(group: TorchGroup) -> Command:
    """What rank 0 tells; waits for it."""
    kind, count, *numbers = group.broadcast(torch.zeros(_SHORT, dtype=torch.int64)).tolist()
    if (missing := count + 2 - _SHORT) > 0:
        numbers += group.broadcast(torch.zeros(missing, dtype=torch.int64)).tolist()
    del numbers[count:]
    if kind:
        return Copy(*numbers) if kind == 1 else Open(*numbers)
    tokens, counts, lengths, kept, widths, rest = _split(numbers[5:], numbers[:5])
    return Step(tokens, counts, lengths, kept, _split(rest, widths)[:-1])


def _split(numbers: Sequence[int], sizes: Iterable[int]) -> list[list[int]]:
    """Lists of these sizes, and what is left."""
    lists, at = list[list[int]](), 0
    for size in sizes:
        lists.append(list(numbers[at : at + size]))
        at += size
    return [*lists, list(numbers[at:])]
