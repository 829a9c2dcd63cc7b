"""An output that several sequences write, one after the other, with one cache. The scheduler runs it like a `Sequence`.

A stage requests forward passes as if the cache contained only its own tokens. `forward_to` computes the pass that is
needed after the model has read other tokens for an earlier stage.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias

from guided.engine.masks import Masks
from guided.engine.result import StreamEvent, Timings
from guided.engine.sequence import Sequence
from guided.engine.step_requests import Draft, Forward, LogitRows, Steps
from guided.matching.constraint import ValueParser
from guided.matching.protocol import Matcher
from guided.sampling.choice import Answer, Choose

__all__ = ["Output", "Reply", "Request", "StagedOutput", "forward_to"]

Request: TypeAlias = Forward | Choose | Draft | StreamEvent
Reply: TypeAlias = LogitRows | Answer | None


class StagedOutput(ABC):
    """An output in stages. Subclasses define `steps` and set `current` to the running sequence."""

    def __init__(self, first: Output) -> None:
        self.current: Output = first

    @abstractmethod
    def steps(self) -> Steps:
        """Run all stages. Raises as `Sequence.steps`."""

    @property
    def matcher(self) -> Matcher | None:
        """The matcher of `current`."""
        return self.current.matcher

    @property
    def parse(self) -> ValueParser | None:
        """As in `current`."""
        return self.current.parse

    @property
    def prefill(self) -> str:
        """As in `current`."""
        return self.current.prefill

    @property
    def timings(self) -> Timings:
        """As in `current`."""
        return self.current.timings

    @property
    def prompt_is_read(self) -> bool:
        """As in `current`."""
        return self.current.prompt_is_read

    @property
    def tokens_left(self) -> int:
        """As in `current`."""
        return self.current.tokens_left

    @property
    def can_run_ahead(self) -> bool:
        """As in `current`."""
        return self.current.can_run_ahead

    @property
    def is_choosing(self) -> bool:
        """As in `current`."""
        return self.current.is_choosing

    @property
    def masks(self) -> Masks | None:
        """As in `current`."""
        return self.current.masks

    def budget(self, ahead: int) -> int:
        """See `Sequence.budget`."""
        return self.current.budget(ahead)

    def fill_mask(self) -> None:
        """See `Sequence.fill_mask`."""
        self.current.fill_mask()


Output: TypeAlias = Sequence | StagedOutput
"""The outputs that the scheduler runs."""


def forward_to(ids: list[int], keep: int, cached_tokens: list[int]) -> Forward:
    """Request the pass after which the cache contains exactly `ids`.

    Args:
        ids: all tokens that the stage's sequence has read or must read.
        keep: the number of last ids that need logits.
        cached_tokens: the tokens that the cache contains before the pass.
    """
    shared_length, limit = 0, min(len(cached_tokens), len(ids) - keep)  # binary search, since comparing slices is fast
    while shared_length < limit:
        middle = (shared_length + limit + 1) // 2
        if cached_tokens[shared_length:middle] == ids[shared_length:middle]:
            shared_length = middle
        else:
            limit = middle - 1
    return Forward(ids[shared_length:], keep, len(cached_tokens) - shared_length)
