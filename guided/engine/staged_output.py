"""An output that several sequences write, one after the other, on one cache. The scheduler runs it like a `Sequence`.

A stage requests forward passes over tokens that follow what the model has read for it. `continued` says what is left to
read where the model has already read something else for the stage before.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import TypeAlias

from guided.engine.masks import Masks
from guided.engine.result import StreamEvent, Timings
from guided.engine.sequence import Sequence
from guided.engine.step_requests import Draft, Forward, LogitRows, Steps
from guided.matching.protocol import Matcher
from guided.sampling.choice import Answer, Choose

__all__ = ["Output", "Reply", "Request", "StagedOutput", "continued"]

Request: TypeAlias = Forward | Choose | Draft | StreamEvent
Reply: TypeAlias = LogitRows | Answer | None


class StagedOutput:
    """An output in stages. Subclasses define `steps`, and set `current` to the sequence that runs."""

    def __init__(self, first: Output) -> None:
        self.current: Output = first

    def steps(self) -> Steps:
        """Run all stages. Raises as `Sequence.steps`."""
        raise NotImplementedError

    @property
    def matcher(self) -> Matcher | None:
        """The matcher of the current sequence. The other properties are those of this sequence, too."""
        return self.current.matcher

    @property
    def timings(self) -> Timings:
        """See `matcher`."""
        return self.current.timings

    @property
    def prompt_is_read(self) -> bool:
        """See `matcher`."""
        return self.current.prompt_is_read

    @property
    def left(self) -> int:
        """See `matcher`."""
        return self.current.left

    @property
    def can_run_ahead(self) -> bool:
        """See `matcher`."""
        return self.current.can_run_ahead

    @property
    def is_choosing(self) -> bool:
        """See `matcher`."""
        return self.current.is_choosing

    @property
    def masks(self) -> Masks | None:
        """See `matcher`."""
        return self.current.masks

    def budget(self, ahead: int) -> int:
        """See `Sequence.budget`."""
        return self.current.budget(ahead)

    def fill_mask(self) -> None:
        """See `Sequence.fill_mask`."""
        self.current.fill_mask()


Output: TypeAlias = Sequence | StagedOutput
"""What the scheduler runs."""


def continued(read: Items[int], ids: list[int], keep: int) -> Forward:
    """The pass after which the model, which has read `read`, has read `ids`. The last `keep` of them need logits."""
    most = min(len(read), len(ids) - keep)
    shared = next((at for at in range(most) if read[at] != ids[at]), most)
    return Forward(ids[shared:], keep, len(read) - shared)
