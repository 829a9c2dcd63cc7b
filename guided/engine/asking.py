"""The requests of a sequence: forward passes, drafts, and the choice of tokens (`Choose`, sampling/choice.py).

`Sequence.steps` yields these. The answer to a `Forward` is the logits of the kept positions; to the others, an
`Answer`.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Final, TypeAlias

from torch import Tensor

from guided.engine.result import StreamEvent
from guided.sampling.choice import Answer, Choice, Choose

__all__ = ["NO_DRAFTS", "Draft", "Forward", "Steps"]


@dataclass(frozen=True, slots=True)
class Forward:
    """A request of a sequence: run the model over these tokens, which follow everything it has read.

    Attributes:
        tokens: ids, at least one.
        keep: the number of last positions whose logits are needed.
        forget: the number of most recently read tokens that are not part of the output.
    """

    tokens: list[int]
    keep: int = 1
    forget: int = 0


@dataclass(frozen=True, slots=True)
class Draft:
    """A request of a sequence: the token that the draft model would choose.

    Attributes:
        ids: everything before it: prompt, output, earlier drafts.
        choice: how to choose it.
    """

    ids: list[int]
    choice: Choice


Steps: TypeAlias = Generator[Forward | Choose | Draft | StreamEvent, Tensor | Answer | None, None]
NO_DRAFTS: Final = Answer([], 0.0)
