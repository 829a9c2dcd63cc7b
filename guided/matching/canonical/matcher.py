"""A matcher whose masks admit only what the tokenizer itself would write.

In: a matcher, and how its vocabulary's tokenizer spells (spelling.py). Out: a `ForkingMatcher`: each mask is that of the
inner matcher and of the spelling. What is guaranteed:

- as long as `non_canonical` is 0, the tokens so far are the beginning of the encoding of some text, and where the output
  ends, they are the encoding of its text
- what the inner matcher promises: a token that the mask allows is accepted, and with `max_tokens` the output is complete
  in time. Where nothing is left of the inner mask, the inner mask holds, and the token that is then taken is counted.

The specification may allow a token after which every way on has another spelling: after `"`, where only `,` may come
and the tokenizer writes `",`. So where few tokens are left (`FEW`), those are dropped after which no spelling goes on to
where many are left again, or to an end; this is searched for `MOST_STEPS` steps. Among many it is not looked for.

Tokens that do not go through a mask, as those of tools' results, are accepted as the inner matcher accepts them.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from guided.matching.bitmask import allowed_tokens
from guided.matching.canonical.spelling import Spelling, State
from guided.matching.protocol import ForkingMatcher

__all__ = ["CanonicalMatcher"]

FEW: Final = 32
MOST_STEPS: Final = 128
_MOST_FORCED: Final = 4096

Row = npt.NDArray[np.int32]


class CanonicalMatcher:
    """See the head. Its methods mean what those of `GrammarMatcher` mean.

    Attributes:
        inner: the matcher of the specification.
    """

    def __init__(self, inner: ForkingMatcher, spelling: Spelling) -> None:
        self.inner, self._spelling = inner, spelling
        self._states: list[State] = [spelling.begin]
        self._strays: list[int] = [0]  # how many tokens so far the tokenizer would not have written

    @property
    def non_canonical(self) -> int:
        """How many tokens the tokenizer would not have written there, because nothing else was left."""
        return self._strays[-1]

    @property
    def budget_bound(self) -> bool:
        """Whether the last mask may lack tokens because of its `max_tokens`."""
        return self.inner.budget_bound

    def fill_next_token_bitmask(self, bitmask: Row, row: int = 0, *, max_tokens: int | None = None) -> bool:
        """The inner mask without the tokens that the tokenizer would not write, if any are left."""
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
        """Drop the tokens after which the spelling would have to give way, unless all are such; where there are few."""
        if _count(words) > FEW:
            return
        fuel = [MOST_STEPS]
        kept = words.copy()
        for token in allowed_tokens(words[None]):
            if not self._goes_on(self._states[-1], token, max_tokens, fuel):
                kept[token // 32] &= ~np.uint32(1 << token % 32).view(np.int32)
        if kept.any():
            words[:] = kept

    def _goes_on(self, state: State, token: int, max_tokens: int | None, fuel: list[int]) -> bool:
        """Whether after a token some spelling goes on to where many tokens are left, or to an end; True where that is
        not found out within `fuel` steps. The inner matcher is in the same state afterwards."""
        after = self._spelling.after(state, token)
        if not after.branches or not self.inner.accept_token(token):
            return False
        fuel[0] -= 1
        try:
            if self.inner.is_terminated() or fuel[0] < 0:
                return True
            left = None if max_tokens is None else max_tokens - 1
            row = self._spelling.row(after)
            if self.inner.fill_next_token_bitmask(ahead := np.zeros((1, len(row)), np.int32), max_tokens=left):
                row &= ahead[0]
            if _count(row) > FEW:
                return True
            longest_first = sorted(allowed_tokens(row[None]), key=self._spelling.length, reverse=True)
            return any(self._goes_on(after, further, left, fuel) for further in longest_first)
        finally:
            self.inner.rollback(1)

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
        return twin

    def forced_tokens(self) -> list[int]:
        """The inner ones, as far as the tokenizer would write them after what there is."""
        state, out = self._states[-1], list[int]()
        for token in self.inner.forced_tokens()[:_MOST_FORCED]:
            state = self._spelling.after(state, token)
            if not state.branches:
                break
            out.append(token)
        return out

    def is_accepting(self) -> bool:
        """Whether the output may end here; where the tokenizer would not end it, the mask has no end token."""
        return self.inner.is_accepting()

    def is_terminated(self) -> bool:
        """Whether an end token was accepted."""
        return self.inner.is_terminated()

    def min_tokens_to_finish(self) -> int:
        """That of the inner matcher: a budget counts any spelling, and the spelling yields where it must."""
        return self.inner.min_tokens_to_finish()


def _count(row: Row) -> int:
    return int.from_bytes(row.tobytes(), "little").bit_count()
