"""Choices whose parameters are in arrays, so that no Python object is created for each token.

The engine prepares the choices of sequences in the middle of their outputs (engine/runs.py). A kernel reads the arrays
directly. `PreparedChoices.requests` makes ordinary requests of them, for the CPU and for tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor

from guided.errors import GuidedError
from guided.sampling.choice import Choice, Choose, ChosenToken

__all__ = ["Floats", "Ints", "PreparedChoices", "PreparedTokens"]

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
_ALLOWED: Final = -1


@dataclass(frozen=True, slots=True)
class PreparedChoices:
    """Choices without bans, bias, penalties and log probabilities. All arrays have the shape (n,).

    Attributes:
        logits: float32 (rows, width), shared by all choices.
        size: the size of the vocabulary.
        row: the row of logits of each choice.
        masks: int32 (slots, words), on the host, pinned if the logits are on CUDA.
        mask: the row of `masks` of each choice; -1: all tokens are allowed.
        uniform: the random number of each choice, in [0, 1).
        scale: 1 / temperature; 0: the greatest logit is chosen.
        top_p, top_k, min_p: as in a `ChoiceTable`: 1, 0 and 0 have no effect.
        make_choice: makes the `Choice` of an index.
    """

    logits: Tensor
    size: int
    row: Ints
    masks: Tensor
    mask: Ints
    uniform: Floats
    scale: Floats
    top_p: Floats
    top_k: Ints
    min_p: Floats
    make_choice: Callable[[int], Choice]

    def __len__(self) -> int:
        return len(self.row)

    @property
    def sorts(self) -> Ints:
        """The indices of the choices with top-k or top-p."""
        return np.flatnonzero((self.scale > 0) & ((self.top_k > 0) | (self.top_p < 1)))

    @property
    def min_p_rows(self) -> Ints:
        """The indices of the choices with min-p."""
        return np.flatnonzero((self.scale > 0) & (self.min_p > 0))

    def requests(self, indices: Sequence[int]) -> list[Choose]:
        """A request for each of these choices."""
        return [Choose(self.logits, [self.make_choice(index)], int(self.row[index])) for index in indices]

    def is_allowed(self, tokens: Ints) -> npt.NDArray[np.bool_]:
        """Whether the mask of each choice allows a token."""
        words: npt.NDArray[np.int32] = self.masks.numpy()[self.mask, tokens >> 5]
        return (self.mask < 0) | ((words >> (tokens & 31).astype(np.int32)) & 1 > 0)


class PreparedTokens(NamedTuple):
    """The tokens of `PreparedChoices`. All arrays have the shape (n,).

    Attributes:
        is_chosen: whether a token was chosen. Otherwise, the choice must be repeated as an ordinary request.
        token: int64. The others: as in a `ChosenToken`, with `preferred` -1 for None.
    """

    is_chosen: npt.NDArray[np.bool_]
    token: Ints
    removed: Floats
    logprob: Floats
    preferred: Ints

    @classmethod
    def from_rows(cls, rows: Sequence[ChosenToken | GuidedError]) -> PreparedTokens:
        """The tokens of ordinary requests. Errors count as not chosen."""
        chosen = [row if isinstance(row, ChosenToken) else ChosenToken(0) for row in rows]
        return cls(
            np.array([isinstance(row, ChosenToken) for row in rows], np.bool_),
            np.array([row.token for row in chosen], np.int64),
            np.array([row.removed for row in chosen], np.float64),
            np.array([row.logprob for row in chosen], np.float64),
            np.array([_ALLOWED if row.preferred is None else row.preferred for row in chosen], np.int64),
        )

    @classmethod
    def none(cls, count: int) -> PreparedTokens:
        """No tokens: all choices must be repeated."""
        no_ids, no_scores = np.zeros(count, np.int64), np.zeros(count)
        return cls(np.zeros(count, np.bool_), no_ids, no_scores, no_scores, no_ids)
