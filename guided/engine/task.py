"""A sequence that the scheduler runs."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from guided.engine.result import StreamEvent
from guided.engine.runner import Chunk
from guided.engine.staged_output import Output
from guided.engine.step_requests import LogitRows
from guided.engine.stepper import Stepper
from guided.kv.cache import Lease

__all__ = ["Outcome", "Task"]

Outcome: TypeAlias = StreamEvent | Exception  # an error is always the last outcome of its task


@dataclass(eq=False)
class Task:
    """A sequence in the scheduler.

    Attributes:
        sequence: the output.
        priority: tasks with a lower number run first.
        salt: tasks share prefixes in the cache only if their salts are equal.
        is_done: whether the task has ended, has failed, or was cancelled.
        future: returns a stepper for each sequence of the group once they exist; None if the sequence exists already.
        number: the index of this task's stepper in the list that `future` returns.
        admission_time: when the task first got a lease of the cache, by perf_counter; 0.0 before that.
    """

    sequence: Output
    priority: int = 0
    salt: str = ""
    is_done: bool = False
    future: Future[list[Stepper]] | None = None
    number: int = 0
    admission_time: float = 0.0
    arrival: int = 0
    stepper: Stepper | None = None
    tokens: list[int] = field(default_factory=list)  # tokens that the model has read or must read next
    keep: int = 1  # how many of the last positions of `tokens` need logits
    lease: Lease | None = None  # None while the task waits
    rows: list[LogitRows] = field(default_factory=list)  # the logits computed so far for these positions
    followers: list[Task] = field(default_factory=list)  # tasks that wait until this one has read their common prompt

    @classmethod
    def from_future(cls, future: Future[list[Stepper]], number: int) -> Task:
        """A task whose sequence a future will return."""
        # `Scheduler._start_compiled_tasks` sets the sequence before it is used.
        return cls(cast("Output", None), future=future, number=number)

    def __lt__(self, other: Task) -> bool:
        return (self.priority, self.arrival) < (other.priority, other.arrival)

    @property
    def unread(self) -> int:
        """The number of tokens that the model must still read before the next choice."""
        return len(self.tokens) - (self.lease.length if self.lease is not None else 0)

    @property
    def open_lease(self) -> Lease:
        """The lease, which must exist."""
        assert self.lease is not None
        return self.lease

    def chunk(self, number: int) -> Chunk:
        """The next `number` tokens that the model reads, and how many of their last positions need logits."""
        start = self.open_lease.length
        keep = max(0, start + number - max(start, len(self.tokens) - self.keep))
        return Chunk(self.open_lease, self.tokens[start : start + number], keep)
