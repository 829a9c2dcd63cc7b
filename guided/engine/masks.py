"""The masks of one output: filled by its matcher under what is left of the budget, asked, and laid on logits.

There is a row for the next token, and one for each that is drafted after it (drafting.py). A row is filled at most
once between two moves of the matcher, so that whoever needs it first pays for it. Where the budget took tokens from a
row, what it would be without a budget is filled as well, so that what the budget costs can be told from what the
specification does. While plenty is left of the budget that costs nothing.

Where less is left than twice the shortest completion, the budget leads before it cuts: what makes the shortest
completion longer (one more word of a string, one more item or optional member) becomes less likely, the more so the
less is left. What is allowed stays the same.
"""

from __future__ import annotations

from math import exp
from time import perf_counter
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from guided.errors import BudgetError, GuidedError
from guided.kernels import lay_mask
from guided.matching.bitmask import is_allowed, row_of
from guided.sampling.sampler import log_mass
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Laid", "Masks", "Matcher"]


class Matcher(Protocol):
    """What the loop asks of a `GrammarMatcher`."""

    @property
    def budget_bound(self) -> bool:
        """Whether the last mask may lack tokens that the budget took."""

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


class Laid(NamedTuple):
    """What a mask has taken from some logits.

    Attributes:
        removed: -log of the probability of what is left.
        by_budget: of that what the specification allows and the budget took; None where that is nothing.
    """

    removed: float
    by_budget: float | None


class Ramp(NamedTuple):
    """What a row's logits are lowered by.

    Attributes:
        penalty: to subtract.
        bits: (words,), from these tokens.
    """

    penalty: float
    bits: npt.NDArray[np.int32]


class Masks:
    """See the module.

    Args:
        rows: of the next token and of drafts.
        times: takes the seconds of each filling.
        ramp: what is subtracted at most from logits of tokens that make the output longer; 0: nothing.
        free: the specification never ends by itself, so that the budget does; nothing is led to an end then.
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
        self._plain: dict[int, npt.NDArray[np.int32]] = {}  # rows without a budget, where it took something
        self._ramps: dict[int, Ramp] = {}
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
        self._plain.pop(row, None)
        self._ramps.pop(row, None)
        if self._is_tight(left, row):
            self._mask(self._bits, row, left)
            if self.matcher.budget_bound:
                plain = self._mask(np.zeros_like(self._bits[:1]), 0, None)
                if not np.array_equal(plain, self._bits[row]):
                    self._plain[row] = plain
        if timed:
            self._times.append(perf_counter() - start)
        self._filled = row + 1

    def _is_tight(self, left: int, row: int) -> bool:
        """Whether the budget may take something, or leads (the ramp is made then); if not, the row is filled."""
        if not self._most:
            return True
        try:  # half of it suffices as well
            self._mask(self._bits, row, left // 2)
            return self.matcher.budget_bound
        except BudgetError:
            needed = self.matcher.min_tokens_to_finish()
            both = np.zeros((2, len(self._everything)), np.int32)
            longer = self._mask(both, 0, left) & ~self._mask(both, 1, needed)
            if longer.any():
                self._ramps[row] = Ramp(self._most * (1 - (left - needed) / needed), longer)
            return True

    def _mask(self, rows: npt.NDArray[np.int32], row: int, left: int | None) -> npt.NDArray[np.int32]:
        """Fill a row of `rows`, and return it."""
        if not self.matcher.fill_next_token_bitmask(rows, row, max_tokens=left):
            rows[row] = self._everything
        words: npt.NDArray[np.int32] = rows[row]
        return words

    def has(self, token: int, row: int = 0) -> bool:
        """Whether a token is allowed; the row was filled."""
        return is_allowed(self._bits[row], token)

    def is_end(self, left: int, row: int = 0) -> bool:
        """Whether this is the end. Where the budget alone allows nothing else it is not, but for free text: the end is
        chosen then, and what the budget takes with it counted."""
        if not self.matcher.is_accepting():
            return False
        self.fill(left, row)
        return self.allows_only_ends(row) and (self._free or row not in self._plain)

    def allows_only_ends(self, row: int = 0) -> bool:
        """Whether no other tokens are allowed; the row was filled."""
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

    def lay(self, logits: Tensor, row: int = 0) -> Laid:
        """Take from the logits (vocab_size,) what is not allowed."""
        plain, ramp = self._plain.get(row), self._ramps.get(row)
        before, allowed = lay_mask(logits, self._bits[row] if plain is None else plain)
        if plain is None and ramp is None:
            return Laid(max(0.0, before - allowed), None)
        after = allowed if plain is None else lay_mask(logits, self._bits[row])[1]
        if ramp is not None:
            bits = np.unpackbits(
                ramp.bits.view(np.uint8), count=min(len(logits), 32 * len(ramp.bits)), bitorder="little"
            )
            logits[torch.from_numpy(bits.nonzero()[0]).to(logits.device)] -= ramp.penalty
            after = log_mass(logits)
        return Laid(max(0.0, before - after), max(0.0, exp(allowed - before) - exp(after - before)))

    def penalty(self, token: int, row: int = 0) -> float:
        """What the token's logit was lowered by."""
        ramp = self._ramps.get(row)
        return ramp.penalty if ramp is not None and is_allowed(ramp.bits, token) else 0.0
