"""What a sequence asks for on its way: forward passes, drafts, and the choice of tokens (`Choose`, sampling/choice.py).

`Sequence.steps` yields these. A `Forward` is answered by the logits of the positions that are kept, the others by an
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
    """A request of a sequence: run the model over these tokens, which follow all that it has read.

    Attributes:
        tokens: ids, at least one.
        keep: how many of the last positions' logits are wanted.
        forget: so many of those that it has read last were none of the output.
    """

    tokens: list[int]
    keep: int = 1
    forget: int = 0


@dataclass(frozen=True, slots=True)
class Draft:
    """A request of a sequence: the token that the draft model would choose.

    Attributes:
        ids: all that is before it: prompt, output, earlier drafts.
        choice: how it is chosen.
    """

    ids: list[int]
    choice: Choice


Steps: TypeAlias = Generator[Forward | Choose | Draft | StreamEvent, Tensor | Answer | None, None]
NO_DRAFTS: Final = Answer([], 0.0)
