"""A matcher whose masks admit only tokens that the tokenizer itself would write.

In: a matcher, and the spelling rules of its vocabulary's tokenizer (spelling.py). Out: a `ForkingMatcher`: each mask is
the intersection of the inner mask and the spelling's. Guarantees:
- as long as `non_canonical` is 0, the tokens so far begin the encoding of some text, and at the end of the output they
  are the encoding of its text
- those of the inner matcher: a token that the mask allows is accepted, and with `max_tokens` the output is complete in
  time. If the intersection is empty, the inner mask applies, and the chosen token is counted.

The specification may allow a token after which every continuation has another spelling: after `"`, if only `,` may
follow and the tokenizer writes `",`. So if few tokens are left (`FEW`), a search of `MOST_STEPS` steps drops those
after which no spelling leads to an end or to a state with many tokens. If many are left, the search covers only the
tokens with a punctuation mark after which the specification allows few, such as a quote that ends a string. Results of
the search are cached by state of the inner matcher.

Tokens that bypass the mask, such as those of tool results, are accepted if the inner matcher accepts them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import inf
from typing import Final

import numpy as np
import numpy.typing as npt

from guided.matching.bitmask import is_allowed
from guided.matching.canonical.spelling import Spelling, State
from guided.matching.healing import HealingMatcher
from guided.matching.matcher import GrammarMatcher
from guided.matching.protocol import ForkingMatcher

__all__ = ["CanonicalMatcher"]

FEW: Final = 32
MOST_STEPS: Final = 128
_MOST_FORCED: Final = 4096

Row = npt.NDArray[np.int32]


class CanonicalMatcher:
    """See the module docstring. For its methods, see `GrammarMatcher`.

    Attributes:
        inner: the matcher of the specification.
    """

    def __init__(self, inner: ForkingMatcher, spelling: Spelling) -> None:
        self.inner, self._spelling = inner, spelling
        self._states: list[State] = [spelling.begin]
        self._few: dict[Hashable, bool] = {}  # inner state -> whether few tokens are allowed
        self._searches: dict[tuple[State, Hashable], tuple[bool, int]] = {}  # -> result, steps
        self._strays: list[int] = [0]  # how many tokens so far the tokenizer would not have written

    @property
    def non_canonical(self) -> int:
        """How many tokens the tokenizer would not have written, because the masks allowed no others."""
        return self._strays[-1]

    @property
    def budget_bound(self) -> bool:
        """Whether the last mask may lack tokens because of its `max_tokens`."""
        return self.inner.budget_bound

    def fill_next_token_bitmask(self, bitmask: Row, row: int = 0, *, max_tokens: int | None = None) -> bool:
        """The inner mask without the tokens that the tokenizer would not write, unless that leaves none."""
        if not self.inner.fill_next_token_bitmask(bitmask, row, max_tokens=max_tokens):
            bitmask[row] = -1
        if self.inner.is_terminated():
            return True
        words = bitmask[row]
        left = words & self._spelling.row(self._states[-1])
        if left.any():
            words[:] = left
            self._look_ahead(words, max_tokens)
        return True

    def _look_ahead(self, words: Row, max_tokens: int | None) -> None:
        """Drop the tokens after which no canonical spelling is possible, unless that drops all."""
        left = max_tokens if self.inner.budget_bound else None
        kept = words.copy()
        if _count(words) <= FEW:
            self._drop(kept, _ids(words), left)
        else:
            marks = _ids(words & self._spelling.marks)
            leading_out = [token for token in marks if self._leads_to_few(token, left)]
            if leading_out:
                self._drop(kept, _ids(words & self._spelling.with_any(leading_out)), left)
        if kept.any():
            words[:] = kept

    def _drop(self, row: Row, tokens: Sequence[int], left: int | None) -> None:
        """Remove from `row` those of `tokens` after which no canonical spelling is possible."""
        fuel = [MOST_STEPS]
        for token in tokens:
            if not self._goes_on(self._states[-1], token, left, fuel):
                row[token // 32] &= ~np.uint32(1 << token % 32).view(np.int32)

    def _leads_to_few(self, token: int, left: int | None) -> bool:
        """Whether the inner matcher allows few tokens after a token."""
        if not self.inner.accept_token(token):
            return False
        try:
            if self.inner.is_terminated():
                return False
            inner = _state_of(self.inner)
            if left is not None or inner is None:
                return self._leaves_few(None if left is None else left - 1)
            if inner not in self._few:
                self._few[inner] = self._leaves_few(None)
            return self._few[inner]
        finally:
            self.inner.rollback(1)

    def _goes_on(self, state: State, token: int, left: int | None, fuel: list[int]) -> bool:
        """Whether a spelling leads from this token to an end or to a state with many tokens; True if undecided after
        `fuel` steps. The state of the inner matcher does not change."""
        after = self._spelling.after(state, token)
        if not after.branches or not self.inner.accept_token(token):
            return False
        try:
            return self.inner.is_terminated() or self._search_cached(after, left, fuel)
        finally:
            self.inner.rollback(1)

    def _search_cached(self, state: State, left: int | None, fuel: list[int]) -> bool:
        """The same for the inner matcher's current state. A cached result costs as many steps as the search did;
        otherwise a mask would depend on earlier searches."""
        inner = _state_of(self.inner)
        if left is not None or inner is None:
            return self._searched(state, None if left is None else left - 1, fuel)
        key, before = (state, inner), fuel[0]
        if key in self._searches:
            found, steps = self._searches[key]
            fuel[0] -= steps
            return found or fuel[0] < 0
        found = self._searched(state, None, fuel)
        if fuel[0] >= 0:
            self._searches[key] = found, before - fuel[0]
        return found

    def _searched(self, state: State, left: int | None, fuel: list[int]) -> bool:
        fuel[0] -= 1
        if fuel[0] < 0:
            return True
        mask = self._inner_mask(left)
        if mask is None:
            return True
        row = self._spelling.row(state)
        allowed = [token for token in mask if is_allowed(row, token)]
        allowed.sort(key=lambda token: self._spelling.length(token) or inf, reverse=True)  # end tokens first
        return any(self._goes_on(state, token, left, fuel) for token in allowed)

    def _leaves_few(self, left: int | None) -> bool:
        return len(self._inner_mask(left) or ()) > 0

    def _inner_mask(self, left: int | None) -> list[int] | None:
        """The tokens that the inner matcher allows, or None if there are many."""
        mask = np.zeros((1, len(self._spelling.marks)), np.int32)
        if not self.inner.fill_next_token_bitmask(mask, max_tokens=left) or _count(mask[0]) > FEW:
            return None
        return _ids(mask[0])

    def accept_token(self, token: int, /) -> bool:
        """Move on by a token that the inner matcher accepts."""
        if self.inner.is_terminated():
            after, stray = self._states[-1], 0
        else:
            before = self._states[-1]
            after = self._spelling.after(before, token)
            stray = not after.branches
            if stray:
                after = self._spelling.any_way(before, token)
        if not self.inner.accept_token(token):
            return False
        self._states.append(after)
        self._strays.append(self._strays[-1] + stray)
        return True

    def rollback(self, n: int, /) -> None:
        """Take back the last n tokens."""
        if not 0 <= n < len(self._states):
            raise ValueError(f"cannot take back {n} of {len(self._states) - 1} tokens")
        self.inner.rollback(n)
        if n:
            del self._states[-n:], self._strays[-n:]

    def fork(self) -> CanonicalMatcher:
        """A copy in the same state, which moves independently."""
        twin = CanonicalMatcher(self.inner.fork(), self._spelling)
        twin._states, twin._strays = list(self._states), list(self._strays)
        twin._few, twin._searches = self._few, self._searches
        return twin

    def forced_tokens(self) -> list[int]:
        """The inner matcher's forced tokens, as far as the tokenizer would write them here."""
        state, out = self._states[-1], list[int]()
        for token in self.inner.forced_tokens()[:_MOST_FORCED]:
            state = self._spelling.after(state, token)
            if not state.branches:
                break
            out.append(token)
        return out

    def is_accepting(self) -> bool:
        """Whether the output may end here. If the tokenizer would not end it, the mask has no end token."""
        return self.inner.is_accepting()

    def is_terminated(self) -> bool:
        """Whether an end token was accepted."""
        return self.inner.is_terminated()

    def min_tokens_to_finish(self) -> int:
        """As the inner matcher: a budget counts any spelling, and canonical spelling yields to it."""
        return self.inner.min_tokens_to_finish()


def _state_of(matcher: object) -> Hashable:
    """A key for the state of a matcher, or None if its states cannot be compared."""
    if isinstance(matcher, HealingMatcher):
        inner = _state_of(matcher.inner)
        return None if inner is None else (matcher.written, inner)
    if isinstance(matcher, GrammarMatcher):  # the core numbers states anew when it has dropped them
        return matcher.state, matcher.grammar.native.rebuilds
    return None


def _ids(row: Row) -> list[int]:
    """The tokens of a row in which few words are not zero."""
    return [32 * at + bit for at in np.flatnonzero(row).tolist() for bit in range(32) if int(row[at]) >> bit & 1]


def _count(row: Row) -> int:
    return int.from_bytes(row.tobytes(), "little").bit_count()
