"""The commands that rank 0 sends to the other ranks: allocate a cache, copy slots, run a forward pass.

A command is sent as integers, never as a pickled object. The other ranks need only the block tables of each step, since
rank 0 alone manages the cache: which blocks are shared, free or reusable. Cost: one integer per token of a step, and
one per block of its sequences.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from itertools import chain
from typing import TypeAlias

import torch

from guided.engine.tensor_parallel.group import TorchGroup

__all__ = ["READY", "Command", "CopySlots", "OpenCache", "Step", "WorkerConfig", "receive_command", "send_command"]

READY = "ready"  # a worker writes this line once it has started
_FIRST_LENGTH = 512  # integers in the first message; a second message contains the remaining ones


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The configuration of a worker process.

    Attributes:
        path: the model's file or directory.
        dtype: the name of the weights' torch dtype; None: the fastest dtype.
        device: the device of this rank.
        rendezvous: the file through which the ranks find each other.
        parent: the process id of rank 0.
        rank, tensor_size, pipeline_size: see `RankPosition`.
    """

    path: str
    dtype: str | None
    device: str
    rendezvous: str
    parent: int
    rank: int
    tensor_size: int
    pipeline_size: int


@dataclass(frozen=True, slots=True)
class OpenCache:
    """Allocate a paged cache."""

    blocks: int
    block_size: int


@dataclass(frozen=True, slots=True)
class CopySlots:
    """Copy `count` slots in all layers."""

    source: int
    target: int
    count: int


@dataclass(frozen=True, slots=True)
class Step:
    """Run a forward pass; see `guided.engine.forward_batch.ForwardBatch` and `PagedPlan`."""

    tokens: Sequence[int]
    counts: Sequence[int]
    lengths: Sequence[int]
    kept_positions: Sequence[int]
    tables: Sequence[Sequence[int]]


Command: TypeAlias = OpenCache | CopySlots | Step


def send_command(group: TorchGroup, command: Command) -> None:
    """Send a command from rank 0 to all other ranks."""
    if isinstance(command, Step):
        c, kind = command, 0
        lists = (c.tokens, c.counts, c.lengths, c.kept_positions, [len(table) for table in c.tables])
        numbers = [*map(len, lists), *chain(*lists, *c.tables)]
    else:
        kind, numbers = 1 if isinstance(command, CopySlots) else 2, list(astuple(command))
    message = [kind, len(numbers), *numbers]
    group.broadcast(torch.tensor([*message[:_FIRST_LENGTH], *[0] * (_FIRST_LENGTH - len(message))], dtype=torch.int64))
    if len(message) > _FIRST_LENGTH:
        group.broadcast(torch.tensor(message[_FIRST_LENGTH:], dtype=torch.int64))


def receive_command(group: TorchGroup) -> Command:
    """Wait for the next command from rank 0, and return it."""
    kind, count, *numbers = group.broadcast(torch.zeros(_FIRST_LENGTH, dtype=torch.int64)).tolist()
    if (missing_count := count + 2 - _FIRST_LENGTH) > 0:
        numbers += group.broadcast(torch.zeros(missing_count, dtype=torch.int64)).tolist()
    del numbers[count:]
    if kind:
        return CopySlots(*numbers) if kind == 1 else OpenCache(*numbers)
    tokens, counts, lengths, kept_positions, widths, table_numbers = _split(numbers[5:], numbers[:5])
    return Step(tokens, counts, lengths, kept_positions, _split(table_numbers, widths)[:-1])


def _split(numbers: Sequence[int], sizes: Iterable[int]) -> list[list[int]]:
    """Split a list into lists of these sizes. The last list contains the remainder."""
    lists, start = list[list[int]](), 0
    for size in sizes:
        lists.append(list(numbers[start : start + size]))
        start += size
    return [*lists, list(numbers[start:])]
