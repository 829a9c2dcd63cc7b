"""The commands that rank 0 sends to the other ranks: allocate a cache, copy slots, run a forward pass.

A command is sent as integers, never as a pickled object. For a step the other ranks need only the block tables of the
cache; which blocks are shared, free or reusable only rank 0 knows. Cost: one integer per token, and one per block of
each sequence of the step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from itertools import chain
from typing import TypeAlias

import torch

from guided.engine.tensor_parallel.group import TorchGroup

__all__ = ["READY", "Command", "Copy", "Open", "Step", "WorkerConfig", "receive_command", "send_command"]

READY = "here"  # the first line that a worker writes
_SHORT = 512  # integers in the first message; a second message holds the rest


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """What a worker process is started with.

    Attributes:
        path: the model's file or directory.
        dtype: torch's name of the type of the weights; None chooses the fastest.
        device: the device of this rank.
        rendezvous: the file through which the ranks find one another.
        parent: the process id of rank 0.
        rank, tensor, pipeline: see `RankPosition`.
    """

    path: str
    dtype: str | None
    device: str
    rendezvous: str
    parent: int
    rank: int
    tensor: int
    pipeline: int


@dataclass(frozen=True, slots=True)
class Open:
    """Allocate a paged cache."""

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
    """Run a forward pass; see `guided.engine.runner.Batch` and `PagedPlan`."""

    tokens: Sequence[int]
    counts: Sequence[int]
    lengths: Sequence[int]
    kept_positions: Sequence[int]
    tables: Sequence[Sequence[int]]


Command: TypeAlias = Open | Copy | Step


def send_command(group: TorchGroup, command: Command) -> None:
    """Send a command from rank 0 to all other ranks."""
    if isinstance(command, Step):
        c, kind = command, 0
        lists = (c.tokens, c.counts, c.lengths, c.kept_positions, [len(table) for table in c.tables])
        numbers = [*map(len, lists), *chain(*lists, *c.tables)]
    else:
        kind, numbers = 1 if isinstance(command, Copy) else 2, list(astuple(command))
    whole = [kind, len(numbers), *numbers]
    group.broadcast(torch.tensor([*whole[:_SHORT], *[0] * (_SHORT - len(whole))], dtype=torch.int64))
    if len(whole) > _SHORT:
        group.broadcast(torch.tensor(whole[_SHORT:], dtype=torch.int64))


def receive_command(group: TorchGroup) -> Command:
    """Wait for the next command of rank 0, and return it."""
    kind, count, *numbers = group.broadcast(torch.zeros(_SHORT, dtype=torch.int64)).tolist()
    if (missing := count + 2 - _SHORT) > 0:
        numbers += group.broadcast(torch.zeros(missing, dtype=torch.int64)).tolist()
    del numbers[count:]
    if kind:
        return Copy(*numbers) if kind == 1 else Open(*numbers)
    tokens, counts, lengths, kept_positions, widths, rest = _split(numbers[5:], numbers[:5])
    return Step(tokens, counts, lengths, kept_positions, _split(rest, widths)[:-1])


def _split(numbers: Sequence[int], sizes: Iterable[int]) -> list[list[int]]:
    """Cut a list into lists of these sizes, and a last one with the remainder."""
    lists, at = list[list[int]](), 0
    for size in sizes:
        lists.append(list(numbers[at : at + size]))
        at += size
    return [*lists, list(numbers[at:])]
