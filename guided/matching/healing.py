"""Prompt healing: the output begins with the last bytes of its prompt, in new tokens.

In: the matcher of an output, and bytes that must precede it. Out: a `ForkingMatcher` for the bytes
followed by the output.

    prompt  "The link is http:"      its last token ":" is removed
    output  "://example.org"         begins with one token "://"; after ":" the model would have to write "//"

A token may end within these bytes, end with them, or extend beyond them. In the last case, the inner matcher reads the
rest of the token. `count_unstable_tokens` computes how many tokens of a prompt are removed: the largest number (up to
`MAX_TOKENS`) of last tokens whose text is a proper prefix of a token. Unless this limit is reached, earlier text
cannot be part of a token that extends beyond the prompt.

Cost: while the bytes are written, a mask queries the inner matcher for each token that extends beyond their end. If the
rest of this token is a token itself, its bit in the inner mask suffices. Later masks are the inner matcher's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from guided.errors import BudgetError, GuidedError
from guided.matching.bitmask import is_allowed, row_of
from guided.matching.compiled import native_vocabulary
from guided.matching.protocol import ForkingMatcher, check_id
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["HealingMatcher", "TextMatcher", "count_unstable_tokens"]

MAX_TOKENS: Final = 8

Row = npt.NDArray[np.int32]


class TextMatcher(ForkingMatcher, Protocol):
    """A matcher that can accept text."""

    def accept_string(self, text: bytes) -> bool:
        """Accept text as one step. False, with the state unchanged, if it is not allowed."""

    def fork(self) -> Self:
        """A copy in the same state."""


def count_unstable_tokens(vocabulary: Vocabulary, prompt: Sequence[int]) -> int:
    """How many tokens to remove from the end of a prompt, at most `MAX_TOKENS`.

    The first token stays. Control tokens, and all tokens before them, stay.
    """
    native, data, unstable_count = native_vocabulary(vocabulary), b"", 0
    for count in range(1, min(MAX_TOKENS, len(prompt) - 1) + 1):
        token = vocabulary.token_bytes(prompt[-count])
        if not token:
            break
        data = token + data
        if native.extends(data):
            unstable_count = count
    return unstable_count


class _Step(NamedTuple):
    """The effect of a token: how many bytes of the prefix it writes, and how many steps the inner matcher makes."""

    prefix_bytes: int
    inner_steps: int


class HealingMatcher:
    """See the module docstring. For its methods, see `GrammarMatcher`.

    Attributes:
        inner: the matcher of the text after the prefix.
        prefix: the bytes of the prompt, which come first.
    """

    def __init__(self, inner: TextMatcher, prefix: bytes, vocabulary: Vocabulary) -> None:
        self.inner, self.prefix, self._vocabulary = inner, prefix, vocabulary
        self._tokens = _sorted_tokens(vocabulary)
        self._fewest_tokens = _count_fewest_tokens(self._tokens, prefix)
        if self._fewest_tokens[0] is None:
            raise GuidedError(f"no tokens spell the end of the prompt, {prefix!r}")
        self._written_bytes = 0
        self._steps: list[_Step] = []
        self._budget_bound = False

    @property
    def written_bytes(self) -> int:
        """How many bytes of the prefix are written."""
        return self._written_bytes

    @property
    def budget_bound(self) -> bool:
        """Whether the last mask may lack tokens because of its `max_tokens`."""
        return self._budget_bound if self._written_bytes < len(self.prefix) else self.inner.budget_bound

    def fill_next_token_bitmask(self, bitmask: Row, row: int = 0, *, max_tokens: int | None = None) -> bool:
        """The tokens that continue the prefix or extend beyond its end; after the prefix, the inner mask."""
        if self._written_bytes == len(self.prefix):
            return self.inner.fill_next_token_bitmask(bitmask, row, max_tokens=max_tokens)
        inner_needed = self.inner.min_tokens_to_finish()
        tokens_within = [
            token
            for token, end in self._tokens_within()
            if (fewest := self._fewest_tokens[end]) is not None
            and (max_tokens is None or 1 + fewest + inner_needed <= max_tokens)
        ]
        allowed = [*tokens_within, *self._tokens_beyond(max_tokens)]
        if not allowed and max_tokens is not None:
            raise BudgetError(self.min_tokens_to_finish(), max_tokens)
        bitmask[row] = row_of(self._vocabulary.size, allowed)
        self._budget_bound = max_tokens is not None
        return True

    def _tokens_within(self) -> list[tuple[int, int]]:
        """The tokens that end within the prefix or at its end, each with the offset of its end."""
        ends = range(self._written_bytes + 1, len(self.prefix) + 1)
        return [(id, end) for end in ends for id in self._tokens.tokens_of(self.prefix[self._written_bytes : end])]

    def _tokens_beyond(self, max_tokens: int | None) -> list[int]:
        """The allowed tokens that extend beyond the end of the prefix."""
        rest_of_prefix = self.prefix[self._written_bytes :]
        mask = np.zeros((1, (self._vocabulary.size + 31) // 32), np.int32)
        if max_tokens is not None and max_tokens < self.inner.min_tokens_to_finish():
            return []
        if not self.inner.fill_next_token_bitmask(mask, max_tokens=max_tokens):
            mask[:] = -1
        out: list[int] = []
        for data, id in self._tokens.longer_tokens(rest_of_prefix):
            text_beyond = data[len(rest_of_prefix) :]
            exact_tokens = self._tokens.tokens_of(text_beyond)
            if exact_tokens:
                allowed = is_allowed(mask[0], exact_tokens[0])
            elif allowed := self.inner.accept_string(text_beyond):
                allowed = max_tokens is None or self.inner.min_tokens_to_finish() <= max_tokens - 1
                self.inner.rollback(1)
            if allowed:
                out.append(id)
        return out

    def accept_token(self, token: int, /) -> bool:
        """Accept a token. False, with the state unchanged, if it is not allowed. ValueError: there is no such id."""
        check_id(token, self._vocabulary.size)
        if self._written_bytes == len(self.prefix):
            accepted = self.inner.accept_token(token)
            if accepted:
                self._steps.append(_Step(0, 1))
            return accepted
        rest_of_prefix = self.prefix[self._written_bytes :]
        data = self._vocabulary.token_bytes(token) or b""
        if (
            data
            and rest_of_prefix.startswith(data)
            and self._fewest_tokens[self._written_bytes + len(data)] is not None
        ):
            step = _Step(len(data), 0)
        elif (
            len(data) > len(rest_of_prefix)
            and data.startswith(rest_of_prefix)
            and self.inner.accept_string(data[len(rest_of_prefix) :])
        ):
            step = _Step(len(rest_of_prefix), 1)
        else:
            return False
        self._written_bytes += step.prefix_bytes
        self._steps.append(step)
        return True

    def rollback(self, n: int, /) -> None:
        """Take back the last n tokens."""
        if not 0 <= n <= len(self._steps):
            raise ValueError(f"cannot take back {n} of {len(self._steps)} tokens")
        removed_steps = self._steps[len(self._steps) - n :]
        self.inner.rollback(sum(step.inner_steps for step in removed_steps))
        self._written_bytes -= sum(step.prefix_bytes for step in removed_steps)
        del self._steps[len(self._steps) - n :]

    def fork(self) -> HealingMatcher:
        """An independent copy in the same state."""
        copy = HealingMatcher(self.inner.fork(), self.prefix, self._vocabulary)
        copy._written_bytes, copy._steps = self._written_bytes, list(self._steps)
        return copy

    def forced_tokens(self) -> list[int]:
        """The inner matcher's forced tokens. Within the prefix the list is empty, since the model chooses the
        tokens."""
        return self.inner.forced_tokens() if self._written_bytes == len(self.prefix) else []

    def is_accepting(self) -> bool:
        """Whether the output may end here."""
        return self._written_bytes == len(self.prefix) and self.inner.is_accepting()

    def is_terminated(self) -> bool:
        """Whether an end token was accepted."""
        return self.inner.is_terminated()

    def min_tokens_to_finish(self) -> int:
        """The fewest tokens for the rest of the prefix, plus the inner matcher's number."""
        return (self._fewest_tokens[self._written_bytes] or 0) + self.inner.min_tokens_to_finish()


class _SortedTokens:
    """The tokens with text, sorted by their bytes."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._pairs = sorted((data, id) for id, data in enumerate(vocabulary.tokens) if data)

    def tokens_of(self, data: bytes) -> list[int]:
        """The tokens with exactly these bytes."""
        index, out = bisect_left(self._pairs, (data, -1)), list[int]()
        while index < len(self._pairs) and self._pairs[index][0] == data:
            out.append(self._pairs[index][1])
            index += 1
        return out

    def longer_tokens(self, prefix: bytes) -> list[tuple[bytes, int]]:
        """The tokens that begin with these bytes and are longer."""
        low = bisect_left(self._pairs, (prefix + b"\x00", -1))
        high = bisect_left(self._pairs, (prefix + b"\xff" * 4096, -1), lo=low)
        return self._pairs[low:high]


@lru_cache(maxsize=8)
def _sorted_tokens(vocabulary: Vocabulary) -> _SortedTokens:
    return _SortedTokens(vocabulary)


def _count_fewest_tokens(tokens: _SortedTokens, prefix: bytes) -> list[int | None]:
    """For each offset in the prefix, the fewest tokens that spell the rest, or None if no tokens do."""
    out: list[int | None] = [None] * len(prefix) + [0]
    for start in reversed(range(len(prefix))):
        counts = [
            rest_count + 1
            for end in range(start + 1, len(prefix) + 1)
            if (rest_count := out[end]) is not None and tokens.tokens_of(prefix[start:end])
        ]
        out[start] = min(counts, default=None)
    return out
