"""The bitmask rows of one output, which the matcher fills under the remaining budget.

There is one row for the next token, and one for each draft after it (drafting.py). A row is filled on first use, and
again only after the matcher has accepted other tokens. If the budget removed tokens from a row, the row without a
budget is filled as well, so that the result can tell the effect of the budget from the effect of the specification.
While the budget is ample, this second row is not needed and costs nothing.

The *budget ramp*: once fewer tokens remain than twice the shortest completion needs, tokens that make the shortest
completion longer (another word in a string, another item or optional member) become less likely. The penalty grows as
the budget shrinks. So the model tends to end before the budget cuts the text off. The set of allowed tokens stays the
same.
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

_QUICK_SECONDS: Final = 2e-5  # if the last row took less, the next row is not prepared on another thread


class MaskRow(NamedTuple):
    """The mask of one position; see `Choice`. Valid until the matcher accepts or takes back tokens."""

    allowed: Bits | None = None
    unbudgeted: Bits | None = None
    ramp: Ramp | None = None


class Masks:
    """The rows of one output; see the module docstring.

    Args:
        rows: the number of rows: one for the next token, and one for each draft.
        times: a list to which `fill` appends the matcher's seconds for each applied row, without the time for the ramp
            and for the row without a budget.
        ramp: the largest penalty of the budget ramp; 0 disables it.
        open_ended: whether the text may end anywhere. Then it ends when the budget does, and there is no ramp.
    """

    def __init__(
        self,
        matcher: Matcher,
        vocabulary: Vocabulary,
        rows: int,
        times: list[float],
        *,
        ramp: float = 0.0,
        open_ended: bool = False,
    ) -> None:
        self.matcher, self._times, self._open_ended = matcher, times, open_ended
        self._max_penalty = 0.0 if open_ended else ramp
        self._all_tokens = row_of(vocabulary.size, slice(vocabulary.size))
        self._end_tokens = row_of(vocabulary.size, sorted(vocabulary.eos_token_ids))
        self._bits = np.zeros((rows, len(self._all_tokens)), np.int32)
        self._unbudgeted: dict[int, Bits] = {}  # the row without a budget, for rows from which it removed tokens
        self._ramps: dict[int, Ramp] = {}
        self._filled_count = 0
        self._call_seconds = 0.0  # seconds for the matcher's last call
        self._row_seconds = inf  # seconds for the last row: all calls, and its preparation
        self._preparation_seconds = 0.0  # seconds that another thread took to prepare the next row

    def next_request(self, tokens_left: int) -> tuple[_core.Matcher, int] | None:
        """The matcher, and the budget of the first mask that `fill(tokens_left)` will need.

        None if this mask cannot be prepared, or will probably be quick.
        """
        is_quick = self._row_seconds < _QUICK_SECONDS
        if self._filled_count or is_quick or tokens_left <= 1 or not isinstance(self.matcher, _core.Matcher):
            return None
        return self.matcher, tokens_left // 2 if self._max_penalty else tokens_left

    def record_preparation(self, seconds: float) -> None:
        """Record the time that `prepare_masks` took for the next row."""
        self._preparation_seconds = seconds

    def fill(self, tokens_left: int, row: int = 0, *, measure_time: bool = True) -> None:
        """Fill a row with the mask of the matcher's state.

        Args:
            tokens_left: the remaining budget, for this token and all that follow, including the end token.
            row: how many drafts were accepted since the last `accept`.
            measure_time: whether to record the time. Must be true if a token is chosen with this row.

        Raises:
            GuidedError: the budget is used up.
        """
        if row < self._filled_count:
            return
        if tokens_left <= 0:
            raise GuidedError("the grammar did not end within its budget: a mask allowed a token that leads beyond it")
        self._row_seconds = self._preparation_seconds
        self._unbudgeted.pop(row, None)
        self._ramps.pop(row, None)
        if self._needs_whole_budget(tokens_left, row):
            self._fill_row(self._bits, row, tokens_left)
            seconds = self._call_seconds  # the time of the row that is applied
            if self.matcher.budget_bound:
                unbudgeted = self._fill_row(np.zeros_like(self._bits[:1]), 0, None)
                if not np.array_equal(unbudgeted, self._bits[row]):
                    self._unbudgeted[row] = unbudgeted
            self._call_seconds = seconds
        if measure_time:
            self._times.append(self._call_seconds + self._preparation_seconds)
            self._preparation_seconds = 0.0
        self._filled_count = row + 1

    def _needs_whole_budget(self, tokens_left: int, row: int) -> bool:
        """Whether the row must still be filled under the whole budget. If not, half of the budget removed no token, and
        the row is filled. If half of the budget does not suffice for an output, compute the ramp."""
        if not self._max_penalty:
            return True
        try:  # can the output be completed with half of the budget?
            self._fill_row(self._bits, row, tokens_left // 2)
            return self.matcher.budget_bound
        except BudgetError:
            self._preparation_seconds = 0.0  # that time was spent on the ramp, and is not counted
            min_tokens = self.matcher.min_tokens_to_finish()
            bitmask = np.zeros((2, len(self._all_tokens)), np.int32)
            longer = self._fill_row(bitmask, 0, tokens_left) & ~self._fill_row(bitmask, 1, min_tokens)
            if longer.any():
                self._ramps[row] = Ramp(self._max_penalty * (1 - (tokens_left - min_tokens) / min_tokens), longer)
            return True

    def _fill_row(self, bitmask: Bits, row: int, tokens_left: int | None) -> Bits:
        """Fill a row of `bitmask`, and return it."""
        start = perf_counter()
        is_masked = self.matcher.fill_next_token_bitmask(bitmask, row, max_tokens=tokens_left)
        self._call_seconds = perf_counter() - start
        self._row_seconds += self._call_seconds
        if not is_masked:
            bitmask[row] = self._all_tokens
        words: Bits = bitmask[row]
        return words

    def allows(self, token: int, row: int = 0) -> bool:
        """Whether a token is allowed by a row, which must have been filled."""
        return is_allowed(self._bits[row], token)

    def ends_here(self, tokens_left: int, row: int = 0) -> bool:
        """Whether the output ends here without a choice.

        It does if the specification allows only the end. If only the budget forces the end, the end token is chosen
        like any other token, so that the probability removed by the budget is counted. Free text ends at once.
        """
        if not self.matcher.is_accepting():
            return False
        self.fill(tokens_left, row)
        return self.allows_only_ends(row) and (self._open_ended or row not in self._unbudgeted)

    def is_budget_bound(self, row: int = 0) -> bool:
        """Whether the budget removed tokens from a row, which must have been filled."""
        return row in self._unbudgeted

    def allows_only_ends(self, row: int = 0) -> bool:
        """Whether a row, which must have been filled, allows only end tokens."""
        return not (self._bits[row] & ~self._end_tokens).any()

    def is_settled(self, tokens_left: int, row: int) -> bool:
        """Whether no token is chosen here, because tokens are forced or the output ends."""
        return bool(self.matcher.forced_tokens()) or self.matcher.is_terminated() or self.ends_here(tokens_left, row)

    def accept(self, token: int, row: int = 0, draft_count: int = 0) -> bool:
        """Accept a token that was chosen with a row, after rolling back the drafts after this row.

        Returns:
            False if the row does not allow the token or the matcher rejects it.
        """
        allowed = self.allows(token, row)
        if draft_count > row:
            self.matcher.rollback(draft_count - row)
        self._filled_count = 0
        return allowed and self.matcher.accept_token(token)

    def accept_draft(self, token: int, tokens_left: int, row: int) -> bool:
        """Accept a draft if it is allowed. `accept` later keeps it or rolls it back."""
        self.fill(tokens_left, row)
        return self.allows(token, row) and self.matcher.accept_token(token)

    def invalidate(self) -> None:
        """Mark all rows as outdated, because other code has changed the state of the matcher."""
        self._filled_count = 0

    def row(self, row: int = 0) -> MaskRow:
        """A row, which must have been filled."""
        return MaskRow(self._bits[row], self._unbudgeted.get(row), self._ramps.get(row))

    def penalty(self, token: int, row: int = 0) -> float:
        """The penalty that the ramp subtracted from a token's logit."""
        ramp = self._ramps.get(row)
        return ramp.penalty if ramp is not None and is_allowed(ramp.bits, token) else 0.0
