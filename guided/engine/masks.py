"""The bitmask rows of one output, which the matcher fills under the remaining budget.

There is one set of rows for the next token, and one for each draft after it (drafting.py). Rows are filled on first
use, and again only after the matcher has accepted other tokens. If the budget removed tokens from a row, the row
without a budget is filled as well, so that the result can tell the effect of the budget from the effect of the
specification. While the budget is ample, this second row is not needed and costs nothing.

The *budget ramp*: once fewer tokens remain than twice the shortest completion needs, tokens that make the shortest
completion longer (another word in a string, another item or optional member) become less likely. The penalty grows as
the budget shrinks. So the model tends to end before the budget cuts the text off. The set of allowed tokens stays the
same.

The core fills all rows of a `GrammarMatcher` in one call, for a whole batch on several threads (batch_matchers.py), or
for one sequence. `Masks._fill_in_python` does the same for matchers of other classes, and documents how.
"""

from __future__ import annotations

from enum import IntEnum
from time import perf_counter
from typing import Final, NamedTuple, TypeAlias, TypeGuard

import numpy as np

from guided.automaton import _core
from guided.errors import BudgetError, GuidedError
from guided.matching.bitmask import is_allowed, row_of
from guided.matching.matcher import GrammarMatcher
from guided.matching.protocol import Matcher
from guided.sampling.choice import Bits, Ramp
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Filled", "MaskRow", "Masks", "MatcherStep", "RowStatus", "StepResult"]

_FILLING: Final = ("fill_next_token_bitmask", "budget_bound", "min_tokens_to_finish")
_ACCEPTING: Final = ("accept_token", "forced_tokens", "is_terminated")
"""The methods whose work the core does for a `GrammarMatcher`."""

Filled: TypeAlias = tuple[bool, int, float]
"""The result of filling the rows of a position, see `_core.Matcher._fill_under_budget`."""

StepResult: TypeAlias = tuple[bool, bool, Filled | None, float]
"""The result of a step for one matcher, see `_core.advance_matchers`."""


class RowStatus(IntEnum):
    """The result of a step of `_core.advance_rows`: what it has done."""

    REJECTED = 0
    """The token is not allowed, so it was not accepted."""
    ACCEPTED = 1
    """The token was accepted. Some text is forced after it, or the output has ended."""
    UNFORCED = 2
    """Nothing is forced, but the row is not filled or not enough: the budget removes tokens, or the output must end."""
    FILLED = 3
    """The row of the next choice is filled."""


class MaskRow(NamedTuple):
    """The mask of one position; see `Choice`. Valid until the matcher accepts or takes back tokens."""

    allowed: Bits | None = None
    unbudgeted: Bits | None = None
    ramp: Ramp | None = None


class MatcherStep(NamedTuple):
    """A step for `_core.advance_matchers`: it accepts `token` unless that is None, and fills the rows for the next
    token under the budget `tokens_left`. `arguments`: the token, the rows, the budget, and whether there is a ramp."""

    matcher: _core.Matcher
    token: int | None
    tokens_left: int
    arguments: tuple[int, Bits, int, bool]


class Masks:
    """The rows of one output; see the module docstring.

    Args:
        rows: the number of positions: one for the next token, and one for each draft.
        times: a list to which `fill` appends the matcher's seconds for each applied row, without the time for the ramp
            and for the row without a budget.
        ramp: the largest penalty of the budget ramp; 0 disables it.
        open_ended: whether the text may end anywhere. Then it ends when the budget does, and there is no ramp.

    Attributes:
        has_ramp: whether there is a budget ramp.
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
        self.has_ramp = bool(self._max_penalty > 0)
        self._all_tokens = row_of(vocabulary.size, slice(vocabulary.size))
        self._end_tokens = row_of(vocabulary.size, sorted(vocabulary.eos_token_ids))
        # For each position: the mask, the mask without a budget, and the tokens that the ramp makes less likely.
        self._bits = np.zeros((rows, 3, len(self._all_tokens)), np.int32)
        self._rows = [MaskRow(bits[0]) for bits in self._bits]
        self._bound_rows = set[int]()  # positions where the budget removed tokens
        self._penalties = dict[int, float]()  # the penalty of the ramp, for positions that have one
        self._filled_count = 0
        self._core_matcher = matcher if _is_unchanged(matcher, *_FILLING) else None
        self._core_accepts = self._core_matcher is not None and _is_unchanged(matcher, *_ACCEPTING)
        # What a recorded step has done: the token that it accepted, until `accept` is called, and its effects; whether
        # nothing is forced after it; the budget under which the rows of the next token are filled, and the result.
        self._accepted_token: int | None = None
        self._accepted_effects = (0.0, False)
        self._is_unforced = False
        self._ready: tuple[int, Filled] | None = None

    def is_ready(self, tokens_left: int) -> bool:
        """Whether the rows of the next token are filled under this budget, by `fill` or by a step."""
        return self._filled_count > 0 or (self._ready is not None and self._ready[0] == tokens_left)

    def next_step(self, token: int | None, tokens_left: int) -> MatcherStep | None:
        """A step in which the core accepts a token that the first row allows, and fills the rows for the next token.

        Args:
            token: None: accept nothing, and only fill the rows.
            tokens_left: the budget after the token.

        Returns:
            None if there is nothing to do, or if the matcher must be called from Python.
        """
        if self._core_matcher is None or tokens_left <= 0:
            return None
        if token is None:
            if self.is_ready(tokens_left):
                return None
        elif self._core_accepts and self.allows(token):
            self._accepted_effects = self.effects(token)  # the step overwrites the rows
        else:
            return None
        arguments = (-1 if token is None else token, self._bits[0], tokens_left, self.has_ramp)
        return MatcherStep(self._core_matcher, token, tokens_left, arguments)

    def record_step(self, step: MatcherStep, result: StepResult) -> None:
        """Record the result of a step."""
        is_accepted, is_unforced, filled, _ = result
        if step.token is not None and is_accepted:
            self._accepted_token, self._is_unforced = step.token, is_unforced
        self._ready = None if filled is None else (step.tokens_left, filled)

    @property
    def core_matcher(self) -> _core.Matcher | None:
        """The matcher, if the core does its work; None if it must be called from Python."""
        return self._core_matcher if self._core_accepts else None

    def record_run(self, bits: Bits, token: int, status: int, seconds: list[float], tokens_left: int) -> None:
        """Record a run (runs.py): several steps of `_core.advance_rows`, of which the last one had the token `token`.

        Args:
            bits: the row of the next choice if the status is `RowStatus.FILLED`, otherwise that of the last one.
            status: the status of the last step.
            seconds: for each step, the time to fill the row.
            tokens_left: the budget after the token.
        """
        self._bits[0, 0] = bits
        self._times += seconds[:-1]
        if status >= RowStatus.ACCEPTED:
            self._accepted_token, self._accepted_effects = token, (0.0, False)
            self._is_unforced = status >= RowStatus.UNFORCED
            self._ready = (tokens_left, (False, 0, seconds[-1])) if status == RowStatus.FILLED else None

    def record_times(self, seconds: list[float]) -> None:
        """Record the times of masks that a run has filled and used."""
        self._times += seconds

    def forced_tokens(self) -> list[int]:
        """The tokens that must come next."""
        return [] if self._is_unforced else self.matcher.forced_tokens()

    def fill(self, tokens_left: int, row: int = 0, *, measure_time: bool = True) -> None:
        """Fill the rows of a position with the masks of the matcher's state.

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
        ready, self._ready = self._ready, None
        if ready is not None and ready[0] == tokens_left and row == 0:
            filled = ready[1]
        elif self._core_matcher is not None:
            filled = self._core_matcher._fill_under_budget(self._bits[row], tokens_left, self.has_ramp)
        else:
            filled = self._fill_in_python(self._bits[row], tokens_left)
        is_bound, shortest_length, seconds = filled
        (self._bound_rows.add if is_bound else self._bound_rows.discard)(row)
        self._penalties.pop(row, None)
        if shortest_length:
            self._penalties[row] = self._max_penalty * (1 - (tokens_left - shortest_length) / shortest_length)
        if measure_time:
            self._times.append(seconds)
        self._filled_count = row + 1

    def _fill_in_python(self, rows: Bits, tokens_left: int) -> Filled:
        """What `_core.Matcher._fill_under_budget` does."""
        shortest_length = 0
        is_bound, seconds = True, 0.0
        if self.has_ramp:
            try:  # can the output be completed with half of the budget?
                is_bound, seconds = self._fill_row(rows, 0, tokens_left // 2)
            except BudgetError:
                shortest_length = self.matcher.min_tokens_to_finish()
        if is_bound:
            is_bound, seconds = self._fill_row(rows, 0, tokens_left)
        if shortest_length:
            self._fill_row(rows, 2, shortest_length)
            rows[2] = rows[0] & ~rows[2]
        if is_bound:
            self._fill_row(rows, 1, None)
            is_bound = not np.array_equal(rows[0], rows[1])
        return is_bound, shortest_length if shortest_length and rows[2].any() else 0, seconds

    def _fill_row(self, rows: Bits, row: int, tokens_left: int | None) -> tuple[bool, float]:
        """Fill one row. Return whether the budget may have removed tokens, and the seconds."""
        start = perf_counter()
        is_masked = self.matcher.fill_next_token_bitmask(rows, row, max_tokens=tokens_left)
        seconds = perf_counter() - start
        if not is_masked:
            rows[row] = self._all_tokens
        return self.matcher.budget_bound, seconds

    def allows(self, token: int, row: int = 0) -> bool:
        """Whether a token is allowed by a row, which must have been filled."""
        return is_allowed(self._bits[row, 0], token)

    def ends_here(self, tokens_left: int, row: int = 0) -> bool:
        """Whether the output ends here without a choice.

        It does if the specification allows only the end. If only the budget forces the end, the end token is chosen
        like any other token, so that the probability removed by the budget is counted. Free text ends at once.
        """
        if not self.matcher.is_accepting():
            return False
        self.fill(tokens_left, row)
        return self.allows_only_ends(row) and (self._open_ended or row not in self._bound_rows)

    def is_budget_bound(self, row: int = 0) -> bool:
        """Whether the budget removed tokens from a row, which must have been filled."""
        return row in self._bound_rows

    def allows_only_ends(self, row: int = 0) -> bool:
        """Whether a row, which must have been filled, allows only end tokens."""
        return not (self._bits[row, 0] & ~self._end_tokens).any()

    def is_settled(self, tokens_left: int, row: int) -> bool:
        """Whether no token is chosen here, because tokens are forced or the output ends."""
        return bool(self.matcher.forced_tokens()) or self.matcher.is_terminated() or self.ends_here(tokens_left, row)

    def accept(self, token: int, row: int = 0, draft_count: int = 0) -> bool:
        """Accept a token that was chosen with a row, after rolling back the drafts after this row.

        Returns:
            False if the row does not allow the token or the matcher rejects it.
        """
        if self._accepted_token is not None:  # a step has done it
            assert (self._accepted_token, row, draft_count) == (token, 0, 0)
            self._accepted_token, self._filled_count = None, 0
            return True
        allowed = self.allows(token, row)
        if draft_count > row:
            self.matcher.rollback(draft_count - row)
        self.invalidate()
        return allowed and self.matcher.accept_token(token)

    def accept_draft(self, token: int, tokens_left: int, row: int) -> bool:
        """Accept a draft if it is allowed. `accept` later keeps it or rolls it back."""
        self.fill(tokens_left, row)
        return self.allows(token, row) and self.matcher.accept_token(token)

    def invalidate(self) -> None:
        """Mark all rows as outdated, because the state of the matcher has changed or will change."""
        self._filled_count, self._is_unforced, self._ready = 0, False, None

    def row(self, row: int = 0) -> MaskRow:
        """A row, which must have been filled."""
        if row not in self._bound_rows and row not in self._penalties:
            return self._rows[row]
        allowed, unbudgeted, longer = self._bits[row]
        penalty = self._penalties.get(row)
        return MaskRow(
            allowed,
            unbudgeted if row in self._bound_rows else None,
            None if penalty is None else Ramp(penalty, longer),
        )

    def effects(self, token: int, row: int = 0) -> tuple[float, bool]:
        """The effects of the budget on a token that was chosen with a row and is accepted next: the penalty that the
        ramp subtracted from its logit, and whether the budget left only the end."""
        if self._accepted_token is not None:
            return self._accepted_effects
        penalty = self._penalties.get(row, 0.0)
        is_cut = row in self._bound_rows and self.allows_only_ends(row)
        return penalty if penalty and is_allowed(self._bits[row, 2], token) else 0.0, is_cut


def _is_unchanged(matcher: Matcher, *names: str) -> TypeGuard[GrammarMatcher]:
    """Whether the matcher is a GrammarMatcher with these methods. Wrappers and subclasses may have their own."""
    kind = type(matcher)
    return isinstance(matcher, GrammarMatcher) and not any(
        name in vars(matcher) or getattr(kind, name) is not getattr(GrammarMatcher, name) for name in names
    )
