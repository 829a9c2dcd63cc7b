"""The bitmask rows of one output. The matcher fills them under the remaining budget.

There is one row for the next token, and one for each draft after it (drafting.py). A row is filled on first use, at
most once between two moves of the matcher. If the budget removed tokens from a row, the row without a budget is filled
as well, so that the result can separate the cost of the budget from the cost of the specification. While the budget is
ample, this second row is not needed and costs nothing.

The *budget ramp*: once less is left than twice the shortest completion, tokens that make the shortest completion longer
(one more word of a string, one more item or optional member) become less likely. The penalty grows as the budget
shrinks. It leads the model to an end before the budget cuts it off. The set of allowed tokens stays the same.
"""

from __future__ import annotations

from math import inf
from time import perf_counter
from typing import Final, NamedTuple

import numpy as np

from guided.automaton import _core
from guided.errors import BudgetError, GuidedError
from guided.matching.bitmask import is_allowed, row_of
from guided.matching.protocol import Matcher
from guided.sampling.choice import Bits, Ramp
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["MaskRow", "Masks"]

_WORTHWHILE: Final = 2e-5  # seconds: if the last row took less, the next one is not prepared


class MaskRow(NamedTuple):
    """The mask of one position, see `Choice`; valid until the matcher moves."""

    allowed: Bits | None = None
    unbudgeted: Bits | None = None
    ramp: Ramp | None = None


class Masks:
    """The rows of one output; see the module.

    Args:
        rows: number of rows: one for the next token, and one for each draft.
        times: the list that receives the matcher's seconds for each applied row, without the time for the ramp and for
            the row without a budget.
        ramp: the largest penalty of the budget ramp; 0 switches it off.
        free: whether the specification never ends by itself. The output then ends with the budget, without a ramp.
    """

    def __init__(
        self,
        matcher: Matcher,
        vocabulary: Vocabulary,
        rows: int,
        times: list[float],
        *,
        ramp: float = 0.0,
        free: bool = False,
    ) -> None:
        self.matcher, self._times, self._free = matcher, times, free
        self._most = 0.0 if free else ramp
        self._everything = row_of(vocabulary.size, slice(vocabulary.size))
        self._only_end = row_of(vocabulary.size, sorted(vocabulary.eos_token_ids))
        self._bits = np.zeros((rows, len(self._everything)), np.int32)
        self._plain: dict[int, Bits] = {}  # rows without a budget, if it removed tokens
        self._ramps: dict[int, Ramp] = {}
        self._filled = 0
        self._took = 0.0  # seconds of the matcher's last call
        self._seconds = inf  # of all calls for the last row that was filled, with the time in which it was prepared
        self._prepared = 0.0  # seconds that another thread has taken for the next row

    def next_question(self, left: int) -> tuple[_core.Matcher, int] | None:
        """The matcher, and the budget for which `fill(left)` will ask it first.

        None if that cannot be prepared, or is expected to be quick.
        """
        is_quick = self._seconds < _WORTHWHILE
        if self._filled or is_quick or left <= 1 or not isinstance(self.matcher, _core.Matcher):
            return None
        return self.matcher, left // 2 if self._most else left

    def prepared(self, seconds: float) -> None:
        """Add the time that `prepare_masks` has taken for the next row."""
        self._prepared = seconds

    def fill(self, left: int, row: int = 0, *, timed: bool = True) -> None:
        """Fill a row with the mask of the matcher's state.

        Args:
            left: tokens left in the budget, for this one and all that follow, including the end token.
            row: how many drafts were accepted since `take`.
            timed: whether to record the time, which is done if a token is chosen here.

        Raises:
            GuidedError: nothing is left of the budget.
        """
        if row < self._filled:
            return
        if left <= 0:
            raise GuidedError("the grammar did not end within its budget: the matcher broke its promise")
        self._seconds = self._prepared
        self._plain.pop(row, None)
        self._ramps.pop(row, None)
        if self._is_tight(left, row):
            self._mask(self._bits, row, left)
            took = self._took  # of the row that is applied
            if self.matcher.budget_bound:
                plain = self._mask(np.zeros_like(self._bits[:1]), 0, None)
                if not np.array_equal(plain, self._bits[row]):
                    self._plain[row] = plain
            self._took = took
        if timed:
            self._times.append(self._took + self._prepared)
            self._prepared = 0.0
        self._filled = row + 1

    def _is_tight(self, left: int, row: int) -> bool:
        """Whether the budget may remove tokens or has a ramp here, which is then made. If neither, fill the row."""
        if not self._most:
            return True
        try:  # can the output be completed with half of the budget?
            self._mask(self._bits, row, left // 2)
            return self.matcher.budget_bound
        except BudgetError:
            self._prepared = 0.0  # time for the ramp, which is not counted
            needed = self.matcher.min_tokens_to_finish()
            both = np.zeros((2, len(self._everything)), np.int32)
            longer = self._mask(both, 0, left) & ~self._mask(both, 1, needed)
            if longer.any():
                self._ramps[row] = Ramp(self._most * (1 - (left - needed) / needed), longer)
            return True

    def _mask(self, rows: Bits, row: int, left: int | None) -> Bits:
        """Fill a row of `rows`, and return it."""
        start = perf_counter()
        masked = self.matcher.fill_next_token_bitmask(rows, row, max_tokens=left)
        self._took = perf_counter() - start
        self._seconds += self._took
        if not masked:
            rows[row] = self._everything
        words: Bits = rows[row]
        return words

    def has(self, token: int, row: int = 0) -> bool:
        """Whether a token is allowed. The row must have been filled."""
        return is_allowed(self._bits[row], token)

    def is_end(self, left: int, row: int = 0) -> bool:
        """Whether the output ends here without a choice.

        It does if the specification allows nothing but the end. If only the budget forces the end, the end token is
        chosen like any other, so that the probability removed by the budget is counted. Free text ends at once.
        """
        if not self.matcher.is_accepting():
            return False
        self.fill(left, row)
        return self.allows_only_ends(row) and (self._free or row not in self._plain)

    def is_cut(self, row: int = 0) -> bool:
        """Whether the budget removed something from a row. The row must have been filled."""
        return row in self._plain

    def allows_only_ends(self, row: int = 0) -> bool:
        """Whether only end tokens are allowed. The row must have been filled."""
        return not (self._bits[row] & ~self._only_end).any()

    def is_settled(self, left: int, row: int) -> bool:
        """Whether there is nothing to choose here: tokens are forced, or the output ends."""
        return bool(self.matcher.forced_tokens()) or self.matcher.is_terminated() or self.is_end(left, row)

    def take(self, token: int, row: int = 0, drafted: int = 0) -> bool:
        """Accept a token that was chosen with row `row`, after rolling back the drafts from there on.

        Returns:
            False if the token is not allowed, or the matcher refuses it.
        """
        allowed = self.has(token, row)
        if drafted > row:
            self.matcher.rollback(drafted - row)
        self._filled = 0
        return allowed and self.matcher.accept_token(token)

    def draft(self, token: int, left: int, row: int) -> bool:
        """Accept a draft if it is allowed; `take` keeps it or rolls it back."""
        self.fill(left, row)
        return self.has(token, row) and self.matcher.accept_token(token)

    def moved(self) -> None:
        """Mark all rows stale after other code has moved the matcher."""
        self._filled = 0

    def row(self, row: int = 0) -> MaskRow:
        """A row, which must have been filled."""
        return MaskRow(self._bits[row], self._plain.get(row), self._ramps.get(row))

    def penalty(self, token: int, row: int = 0) -> float:
        """The penalty that the ramp subtracted from the logit of this token."""
        ramp = self._ramps.get(row)
        return ramp.penalty if ramp is not None and is_allowed(ramp.bits, token) else 0.0
