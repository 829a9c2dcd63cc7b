"""Runs one sequence through a model, for tests that need logits."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from guided.engine.runner import Chunk, ModelRunner, cache_shape
from guided.kv.cache import KVCache
from guided.kv.dense import DenseCache
from guided.models.model import Model

__all__ = ["Reader", "drive"]


class Reader:
    """A model that reads one sequence; by default with the dense cache."""

    def __init__(self, model: Model, capacity: int = 1024, cache: KVCache | None = None) -> None:
        self.runner = ModelRunner(model, cache or DenseCache(cache_shape(model), max(256, capacity)))
        self.lease = self.runner.cache.open([0])

    @property
    def length(self) -> int:
        return self.lease.length

    def forward(self, tokens: Sequence[int], keep: int = 1) -> Tensor:
        """Logits after each of the last `keep` tokens."""
        assert self.runner.cache.reserve(self.lease, len(tokens))
        return self.runner.step([Chunk(self.lease, list(tokens), keep)])

    def truncate(self, length: int) -> None:
        self.runner.cache.truncate(self.lease, length)


def drive(scheduler, group):
    """All events of a group of tasks, by task. Raises the errors of tasks."""
    scheduler.add(group)
    events = {task: [] for task in group}
    while scheduler:
        for task, outcome in scheduler.step():
            if isinstance(outcome, Exception):
                raise outcome
            events[task].append(outcome)
    return [events[task] for task in group]
