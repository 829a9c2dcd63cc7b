"""A matcher whose masks allow only tokens that the tokenizer itself would produce.

In: a matcher, and the spelling rules of its vocabulary's tokenizer (spelling.py). Out: a `ForkingMatcher`: each mask is
the intersection of the inner mask and the spelling's. Guarantees:
- as long as `non_canonical` is 0, the tokens so far begin the encoding of some text, and at the end of the output they
  are the encoding of its text
- the guarantees of the inner matcher still hold: a token that the mask allows is accepted, and with `max_tokens` the
  output is complete in time. If the intersection is empty, the inner mask applies, and the chosen token is counted.

The specification may allow a token after which no continuation is canonical: for example `"`, if only `,` may follow
and the tokenizer produces `",`. So if at most `FEW_TOKENS` tokens are left, a search of at most `MAX_STEPS` steps drops
those after which no canonical spelling leads to an end or to a state that allows many tokens. If more are left, the
search covers only tokens that contain a punctuation mark after which the specification allows few tokens, such as a
quote that ends a string. Search results are cached by the states of the spelling and the inner matcher.

Tokens that bypass the mask, such as those of tool results, are accepted if the inner matcher accepts them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import inf
from typing import Final

import numpy as np
import numpy.typing as npt

from guided.matching.canonical.spelling import Spelling, State
from guided.matching.healing import HealingMatcher
from guided.matching.matcher import GrammarMatcher
from guided.matching.protocol import ForkingMatcher, check_id

__all__ = ["CanonicalMatcher"]

FEW_TOKENS: Final = 32
MAX_STEPS: Final = 128
_MAX_FORCED: Final = 4096

Row = npt.NDArray[np.int32]


class CanonicalMatcher:
    """See the module docstring. For its methods, see `GrammarMatcher`.

    Attributes:
        inner: the matcher of the specification.
    """

    def __init__(self, inner: ForkingMatcher, spelling: Spelling) -> None:
        self.inner, self._spelling = inner, spelling
        self._states: list[State] = [spelling.begin]
        self._allows_few: dict[Hashable, bool] = {}  # inner state -> whether it allows few tokens
        self._searches: dict[tuple[State, Hashable], tuple[bool, int]] = {}  # -> (result, steps used)
        self._non_canonical_counts: list[int] = [0]  # for each state: the value of `non_canonical`

    @property
    def non_canonical(self) -> int:
        """How many tokens so far the tokenizer would not have produced. Either the masks allowed no others, or the
        tokens bypassed the masks."""
        return self._non_canonical_counts[-1]

    @property
    def budget_bound(self) -> bool:
        """Whether the last mask may lack tokens because of its `max_tokens`."""
        return self.inner.budget_bound

    def fill_next_token_bitmask(self, bitmask: Row, row: int = 0, *, max_tokens: int | None = None) -> bool:
        """The inner mask without the tokens that the tokenizer would not produce, unless that leaves none."""
        if not self.inner.fill_next_token_bitmask(bitmask, row, max_tokens=max_tokens):
            bitmask[row] = -1
        if self.inner.is_terminated():
            return True
        words = bitmask[row]
        remaining = words & self._spelling.row(self._states[-1])
        if remaining.any():
            words[:] = remaining
            self._look_ahead(words, max_tokens)
        return True

    def _look_ahead(self, words: Row, max_tokens: int | None) -> None:
        """Drop the tokens after which no canonical spelling is possible, unless that drops all of them."""
        budget = max_tokens if self.inner.budget_bound else None
        remaining = words.copy()
        if _count_allowed(words) <= FEW_TOKENS:
            self._drop_dead_ends(remaining, _ids(words), budget)
        else:
            punctuation = _ids(words & self._spelling.punctuation)
            punctuation_before_few_tokens = [token for token in punctuation if self._leads_to_few_tokens(token, budget)]
            if punctuation_before_few_tokens:
                self._drop_dead_ends(
                    remaining, _ids(words & self._spelling.tokens_with_any(punctuation_before_few_tokens)), budget
                )
        if remaining.any():
            words[:] = remaining

    def _drop_dead_ends(self, row: Row, tokens: Sequence[int], budget: int | None) -> None:
        """Remove from `row` those of `tokens` after which no canonical spelling is possible."""
        fuel = [MAX_STEPS]
        for token in tokens:
            if fuel[0] < 0:
                return  # the other tokens stay: the search has no steps left to decide about them
            if not self._can_continue(self._states[-1], token, budget, fuel):
                row[token // 32] &= ~np.uint32(1 << token % 32).view(np.int32)

    def _leads_to_few_tokens(self, token: int, budget: int | None) -> bool:
        """Whether the inner matcher allows few tokens after a token."""
        if not self.inner.accept_token(token):
            return False
        try:
            if self.inner.is_terminated():
                return False
            inner_state = _state_of(self.inner)
            if budget is not None or inner_state is None:
                return self._has_few_tokens(None if budget is None else budget - 1)
            if inner_state not in self._allows_few:
                self._allows_few[inner_state] = self._has_few_tokens(None)
            return self._allows_few[inner_state]
        finally:
            self.inner.rollback(1)

    def _can_continue(self, state: State, token: int, budget: int | None, fuel: list[int]) -> bool:
        """Whether a spelling leads from this token to an end or to a state with many tokens; True if undecided after
        `fuel` steps. The state of the inner matcher does not change."""
        next_state = self._spelling.advance(state, token)
        if not next_state.branches or not self.inner.accept_token(token):
            return False
        try:
            return self.inner.is_terminated() or self._search_cached(next_state, budget, fuel)
        finally:
            self.inner.rollback(1)

    def _search_cached(self, state: State, budget: int | None, fuel: list[int]) -> bool:
        """Like `_can_continue`, from the inner matcher's current state. A cached result costs as many steps as its
        search did; otherwise a mask would depend on earlier searches."""
        inner_state = _state_of(self.inner)
        if budget is not None or inner_state is None:
            return self._search(state, None if budget is None else budget - 1, fuel)
        key, fuel_before = (state, inner_state), fuel[0]
        if key in self._searches:
            is_canonical, steps = self._searches[key]
            fuel[0] -= steps
            return is_canonical or fuel[0] < 0
        is_canonical = self._search(state, None, fuel)
        if fuel[0] >= 0:
            self._searches[key] = is_canonical, fuel_before - fuel[0]
        return is_canonical

    def _search(self, state: State, budget: int | None, fuel: list[int]) -> bool:
        fuel[0] -= 1
        if fuel[0] < 0:
            return True
        inner_tokens = self._inner_tokens(budget)
        if inner_tokens is None:
            return True
        inner_tokens.sort(key=lambda token: self._spelling.length(token) or inf, reverse=True)  # end tokens first
        return any(self._can_continue(state, token, budget, fuel) for token in inner_tokens)

    def _has_few_tokens(self, budget: int | None) -> bool:
        return len(self._inner_tokens(budget) or ()) > 0

    def _inner_tokens(self, budget: int | None) -> list[int] | None:
        """The tokens that the inner matcher allows, or None if there are many."""
        mask = np.zeros((1, len(self._spelling.punctuation)), np.int32)
        if not self.inner.fill_next_token_bitmask(mask, max_tokens=budget) or _count_allowed(mask[0]) > FEW_TOKENS:
            return None
        return _ids(mask[0])

    def accept_token(self, token: int, /) -> bool:
        """Accept a token. Returns False, with the state unchanged, if the inner matcher refuses it.

        Raises:
            ValueError: there is no such id.
        """
        check_id(token, self._spelling.size)
        if self.inner.is_terminated():
            next_state, is_non_canonical = self._states[-1], 0
        else:
            state = self._states[-1]
            next_state = self._spelling.advance(state, token)
            is_non_canonical = not next_state.branches
            if is_non_canonical:
                next_state = self._spelling.advance_ignoring_boundaries(state, token)
        if not self.inner.accept_token(token):
            return False
        self._states.append(next_state)
        self._non_canonical_counts.append(self._non_canonical_counts[-1] + is_non_canonical)
        return True

    def rollback(self, n: int, /) -> None:
        """Take back the last n tokens."""
        if not 0 <= n < len(self._states):
            raise ValueError(f"cannot take back {n} of {len(self._states) - 1} tokens")
        self.inner.rollback(n)
        if n:
            del self._states[-n:], self._non_canonical_counts[-n:]

    def fork(self) -> CanonicalMatcher:
        """An independent copy in the same state."""
        copy = CanonicalMatcher(self.inner.fork(), self._spelling)
        copy._states, copy._non_canonical_counts = list(self._states), list(self._non_canonical_counts)
        copy._allows_few, copy._searches = self._allows_few, self._searches
        return copy

    def forced_tokens(self) -> list[int]:
        """The inner matcher's forced tokens, up to the first that the tokenizer would not produce here."""
        state, out = self._states[-1], list[int]()
        for token in self.inner.forced_tokens()[:_MAX_FORCED]:
            state = self._spelling.advance(state, token)
            if not state.branches:
                break
            out.append(token)
        return out

    def is_accepting(self) -> bool:
        """Whether the inner matcher allows an end here.

        The mask omits the end token if an end would not be canonical, unless that leaves no token.
        """
        return self.inner.is_accepting()

    def is_terminated(self) -> bool:
        """Whether an end token was accepted."""
        return self.inner.is_terminated()

    def min_tokens_to_finish(self) -> int:
        """The inner matcher's result. It counts any spelling, because if the budget is tight, the mask allows any."""
        return self.inner.min_tokens_to_finish()


def _state_of(matcher: object) -> Hashable:
    """A key for the state of a matcher, or None if its states cannot be compared."""
    if isinstance(matcher, HealingMatcher):
        inner_state = _state_of(matcher.inner)
        return None if inner_state is None else (matcher.written_bytes, inner_state)
    if isinstance(matcher, GrammarMatcher):  # after the core has dropped its states, it numbers them anew
        return matcher.state, matcher.grammar.native.rebuilds
    return None


def _ids(row: Row) -> list[int]:
    """The tokens that a row allows; fast if most words are zero."""
    nonzero_words = np.flatnonzero(row)
    word_indices, bits = np.nonzero(
        np.unpackbits(row[nonzero_words].view(np.uint8).reshape(-1, 4), axis=1, bitorder="little")
    )
    ids: list[int] = (32 * nonzero_words[word_indices] + bits).tolist()
    return ids


def _count_allowed(row: Row) -> int:
    return int.from_bytes(row.tobytes(), "little").bit_count()
