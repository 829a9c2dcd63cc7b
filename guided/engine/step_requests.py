"""What a sequence asks the scheduler for: forward passes, drafts, and choices of tokens (`Choose`, sampling/choice.py).

`Sequence.steps` yields them. The answer to `Forward` is `LogitRows`, the logits of the kept positions. The answer to
`Draft` and `Choose` is an `Answer`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import torch
from torch import Tensor

from guided.engine.result import StreamEvent
from guided.sampling.choice import Answer, Choice, Choose

__all__ = ["NO_DRAFTS", "Draft", "Forward", "LogitRows", "Steps"]


class Forward(NamedTuple):
    """Asks for a pass of the model over these tokens, which follow everything that it has read for this sequence.

    Attributes:
        tokens: ids, at least one.
        keep: the number of last positions that need logits.
        forget: the number of most recently read tokens that the cache must drop first.
    """

    tokens: list[int]
    keep: int = 1
    forget: int = 0


class LogitRows(NamedTuple):
    """One sequence's rows among the logits of a forward pass. Slicing the tensor for each sequence would take longer.

    Attributes:
        logits: float32 (rows, vocab_size), the rows of all sequences.
        first_row: the index of the first row.
        row_count: the number of rows.
    """

    logits: Tensor
    first_row: int
    row_count: int

    @property
    def tensor(self) -> Tensor:
        """The rows, (row_count, vocab_size)."""
        return self.logits[self.first_row : self.first_row + self.row_count]

    def copy(self) -> LogitRows:
        """A copy of these rows, which does not keep the rows of other sequences alive."""
        return self.concatenate([self])

    @classmethod
    def concatenate(cls, parts: Sequence[LogitRows]) -> LogitRows:
        """Concatenate the rows of several passes."""
        return cls(torch.cat([part.tensor for part in parts]), 0, sum(part.row_count for part in parts))


@dataclass(frozen=True, slots=True)
class Draft:
    """Asks for the token that the draft model would choose.

    Attributes:
        ids: everything before the token: prompt, output, earlier drafts.
        choice: how to choose the token.
    """

    ids: list[int]
    choice: Choice


Steps: TypeAlias = Generator[Forward | Choose | Draft | StreamEvent, LogitRows | Answer | None, None]
NO_DRAFTS: Final = Answer([], 0.0)
