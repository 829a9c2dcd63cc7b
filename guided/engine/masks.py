"""The masks of one output: filled by its matcher under what is left of the budget, asked, and laid on logits.

There is a row for the next token, and one for each that is drafted after it (drafting.py). A row is filled at most
once between two moves of the matcher, so that whoever needs it first pays for it.
"""

from __future__ import annotations

from time import perf_counter
from typing import Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor

from guided.errors import GuidedError
from guided.kernels import lay_mask
from guided.matching.bitmask import is_allowed, row_of
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Masks", "Matcher"]


class Matcher(Protocol):
    """What the loop asks of a `GrammarMatcher`."""

    def fill_next_token_bitmask(
        self, bitmask: npt.NDArray[np.int32], row: int = 0, *, max_tokens: int | None = None
    ) -> bool:
        """Write the mask of the next token; False: nothing is masked."""

    def accept_token(self, token: int, /) -> bool:
        """Go on by a token; False: refused."""

    def rollback(self, n: int, /) -> None:
        """Take back the last n tokens."""

    def forced_tokens(self) -> list[int]:
        """What must come next."""

    def is_accepting(self) -> bool:
        """The output may end here."""

    def is_terminated(self) -> bool:
        """An end token was accepted."""

    def min_tokens_to_finish(self) -> int:
        """The shortest completion, the end token included."""


class Masks:
    """See the module; `rows`: of the next token and of drafts. `times` takes the seconds of each filling."""

    def __init__(self, matcher: Matcher, vocabulary: Vocabulary, rows: int, times: list[float]) -> None:
        self.matcher, self._times = matcher, times
        self._everything = row_of(vocabulary.size, slice(vocabulary.size))
        self._only_end = row_of(vocabulary.size, sorted(vocabulary.eos_token_ids))
        self._bits = np.zeros((rows, len(self._everything)), np.int32)
        self._filled = 0

    def fill(self, left: int, row: int = 0, *, timed: bool = True) -> None:
        """The mask of the matcher's state; `row` tokens were drafted since `take`. `timed`: it is for a choice.

        Raises:
            GuidedError: nothing is left of the budget.
        """
        if row < self._filled:
            return
        if left <= 0:
            raise GuidedError("the grammar did not end within its budget: the matcher broke its promise")
        start = perf_counter()
        if not self.matcher.fill_next_token_bitmask(self._bits, row, max_tokens=left):
            self._bits[row] = self._everything
        if timed:
            self._times.append(perf_counter() - start)
        self._filled = row + 1

    def has(self, token: int, row: int = 0) -> bool:
        """Whether a token is allowed; the row was filled."""
        return is_allowed(self._bits[row], token)

    def is_end(self, left: int, row: int = 0) -> bool:
        """Whether nothing but an end can follow."""
        if not self.matcher.is_accepting():
            return False
        self.fill(left, row)
        return not (self._bits[row] & ~self._only_end).any()

    def is_settled(self, left: int, row: int) -> bool:
        """Whether nothing is chosen here: something is forced, or it is the end."""
        return bool(self.matcher.forced_tokens()) or self.matcher.is_terminated() or self.is_end(left, row)

    def take(self, token: int, row: int = 0, drafted: int = 0) -> bool:
        """Go on by a token that row `row` is the mask of, after taking back what was drafted from there on.

        False: it is not allowed, or the matcher refuses it.
        """
        allowed = self.has(token, row)
        if drafted > row:
            self.matcher.rollback(drafted - row)
        self._filled = 0
        return allowed and self.matcher.accept_token(token)

    def draft(self, token: int, left: int, row: int) -> bool:
        """Accept a token for the time being, if it is allowed: `take` decides."""
        self.fill(left, row)
        return self.has(token, row) and self.matcher.accept_token(token)

    def moved(self) -> None:
        """The matcher is elsewhere than the rows say: none holds any more."""
        self._filled = 0

    def lay(self, logits: Tensor, row: int = 0) -> float:
        """Take from the logits (vocab_size,) what is not allowed; -log of the probability of what is left."""
        before, after = lay_mask(logits, self._bits[row])
        return max(0.0, before - after)
