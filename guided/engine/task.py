"""A sequence in the scheduler."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from guided.engine.result import StreamEvent
from guided.engine.runner import Chunk
from guided.engine.sequence import Sequence
from guided.engine.step_requests import LogitRows
from guided.engine.stepper import Stepper
from guided.kv.cache import Lease

__all__ = ["Outcome", "Task"]

Outcome: TypeAlias = StreamEvent | Exception  # an error is a task's last outcome


@dataclass(eq=False)
class Task:
    """A sequence in the scheduler.

    Attributes:
        sequence: the output.
        priority: tasks with a lower number run first.
        salt: only tasks with equal salts share prefixes in the cache.
        done: the task has ended, has failed, or was cancelled.
        future: the future that makes the sequences of the group; None if the sequence exists already.
        number: the index of this task's sequence among them.
        admitted: when it first got a lease of the cache, by perf_counter; 0.0: not yet.
    """

    sequence: Sequence
    priority: int = 0
    salt: str = ""
    done: bool = False
    future: Future[list[Stepper]] | None = None
    number: int = 0
    admitted: float = 0.0
    arrival: int = 0
    stepper: Stepper | None = None
    read: list[int] = field(default_factory=list)  # tokens that the model has read or must read next
    keep: int = 1  # how many of their last positions need logits
    lease: Lease | None = None  # of the cache; None while the task waits
    rows: list[LogitRows] = field(default_factory=list)  # the logits computed so far for these positions
    followers: list[Task] = field(default_factory=list)  # tasks that wait until this one has read their common prompt

    @classmethod
    def later(cls, future: Future[list[Stepper]], number: int) -> Task:
        """A task whose sequence is still being made."""
        return cls(cast("Sequence", None), future=future, number=number)  # `_take_compiled` sets it before any use

    def __lt__(self, other: Task) -> bool:
        return (self.priority, self.arrival) < (other.priority, other.arrival)

    @property
    def missing(self) -> int:
        """How many tokens the model must read before the next choice."""
        return len(self.read) - (self.lease.length if self.lease is not None else 0)

    @property
    def open_lease(self) -> Lease:
        """The lease of a task that has one."""
        assert self.lease is not None
        return self.lease

    def chunk(self, number: int) -> Chunk:
        """The next tokens of a task, and how many of their last positions need logits."""
        start = self.open_lease.length
        keep = max(0, start + number - max(start, len(self.read) - self.keep))
        return Chunk(self.open_lease, self.read[start : start + number], keep)
