"""Allows free reasoning before a constrained answer: a gate in front of the matcher.

In: the matcher of the answer, and the ids of the marker that ends the reasoning. Out: a matcher of the complete output.
Until the end marker is complete, all tokens with text are allowed and end tokens are not, so the model reasons as it
was trained to. After the marker the constraint applies. The budget covers both parts: the mask always leaves enough for
the marker and the shortest answer, and forces the marker in time. The marker is matched as token ids, not as text. So
it should consist of control tokens, or of text that the model always writes with the same tokens. A control token of
the marker is allowed only where it continues the marker.

Source: Knuth, Morris, Pratt (1977), for tracking how much of the marker the last tokens match.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from guided.errors import GuidedError, OptionError, brief
from guided.matching.bitmask import is_allowed, row_of
from guided.matching.protocol import ForkingMatcher, check_id
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["ReasoningGate", "find_reasoning_end", "reasoning_end_text"]


def find_reasoning_end(vocabulary: Vocabulary, end: str) -> list[int]:
    """The ids of the end marker. Names of control tokens, as in `<|close|>think<|sep|>`, become these tokens.

    Raises:
        OptionError: the marker is not a string. GuidedError: it is empty.
    """
    if not isinstance(end, str):
        raise OptionError(f"reasoning_end is {brief(end)}, but must be a string", option="reasoning_end")
    id_by_name: dict[str, int] = {}
    for id, name in vocabulary.special_tokens.items():
        if name:
            id_by_name.setdefault(name, id)
    longest_first = sorted(id_by_name, key=len, reverse=True)
    pieces = re.split(f"({'|'.join(map(re.escape, longest_first))})", end) if id_by_name else [end]
    ids = [id for piece in pieces for id in ([id_by_name[piece]] if piece in id_by_name else vocabulary.encode(piece))]
    if not ids:
        raise GuidedError("reasoning_end is empty: pass the name of a control token, such as '</think>'")
    return ids


def reasoning_end_text(vocabulary: Vocabulary, end: str) -> str:
    """The text with which the reasoning ends; "" if the marker is control tokens. GuidedError: the marker is empty."""
    return vocabulary.decode(find_reasoning_end(vocabulary, end)).decode("utf-8", "replace")


class ReasoningGate:
    """A matcher of reasoning, end marker and answer. For its methods see `GrammarMatcher`."""

    def __init__(
        self, answer: ForkingMatcher, end: Sequence[int], vocabulary: Vocabulary, *, limit: int | None = None
    ) -> None:
        """`limit`: the maximum number of tokens before the end marker."""
        self._answer, self._marker, self._vocabulary, self._limit = answer, tuple(end), vocabulary, limit
        self._matched_counts = [0]  # for each prefix of the reasoning: the number of marker tokens that its end matches
        self._answer_length = 0  # the number of tokens in the answer
        self._budget_bound = False  # whether the budget removed tokens from the last mask of the reasoning

    @property
    def has_ended(self) -> bool:
        """Whether the reasoning has ended."""
        return self._matched_counts[-1] == len(self._marker)

    @property
    def answer(self) -> ForkingMatcher:
        """The matcher of the answer."""
        return self._answer

    @property
    def end_text(self) -> str:
        """The end marker as text, without control tokens."""
        return self._vocabulary.decode(self._marker).decode("utf-8", "replace")

    def is_boundary(self, token: int) -> bool:
        """Whether a token may complete the end marker."""
        return not self.has_ended and token in self._marker

    @property
    def budget_bound(self) -> bool:
        """Whether the budget may have removed tokens from the last mask."""
        return self._answer.budget_bound if self.has_ended else self._budget_bound

    def fill_next_token_bitmask(
        self, bitmask: npt.NDArray[np.int32], row: int = 0, *, max_tokens: int | None = None
    ) -> bool:
        """Fill a row. Reasoning is any text that leaves enough budget for the end marker and the shortest answer."""
        if self.has_ended:
            return self._answer.fill_next_token_bitmask(bitmask, row, max_tokens=max_tokens)
        tokens_left = None if max_tokens is None else max_tokens - 1 - self._answer.min_tokens_to_finish()
        if self._limit is not None:
            limit = self._limit + len(self._marker) - len(self._matched_counts)
            tokens_left = limit if tokens_left is None else min(tokens_left, limit)
        words = bitmask[row]
        self._budget_bound = tokens_left is not None and tokens_left < len(self._marker)
        words[:] = 0 if self._budget_bound else _text_row(self._vocabulary)
        for token in set(self._marker):
            bit = np.int32(np.uint32(1 << token % 32).view(np.int32))
            if self._continues(token) and (
                tokens_left is None or len(self._marker) - self._count_matched_after(token) <= tokens_left
            ):
                words[token // 32] |= bit
            else:
                words[token // 32] &= ~bit
        return True

    def accept_token(self, token: int, /) -> bool:
        """Accept a token. Return False if it is not allowed. ValueError: the vocabulary has no such id."""
        check_id(token, self._vocabulary.size)
        if self.has_ended:
            is_accepted = self._answer.accept_token(token)
            self._answer_length += is_accepted
            return is_accepted
        if not self._continues(token):
            return False
        self._matched_counts.append(self._count_matched_after(token))
        return True

    def rollback(self, n: int, /) -> None:
        """Take back the last n tokens. Raises ValueError if there are fewer."""
        if not 0 <= n < len(self._matched_counts) + self._answer_length:
            raise ValueError(f"cannot take back {n} of {len(self._matched_counts) - 1 + self._answer_length} tokens")
        count = min(n, self._answer_length)
        self._answer.rollback(count)
        self._answer_length -= count
        if n > count:
            del self._matched_counts[count - n :]

    def fork(self) -> ReasoningGate:
        """An independent copy in the same state."""
        copy = ReasoningGate(self._answer.fork(), self._marker, self._vocabulary, limit=self._limit)
        copy._matched_counts, copy._answer_length = list(self._matched_counts), self._answer_length
        return copy

    def forced_tokens(self) -> list[int]:
        """The forced tokens of the answer; none during the reasoning."""
        return self._answer.forced_tokens() if self.has_ended else []

    def is_accepting(self) -> bool:
        """Whether the answer may end here."""
        return self.has_ended and self._answer.is_accepting()

    def is_terminated(self) -> bool:
        """Whether an end token was accepted."""
        return self.has_ended and self._answer.is_terminated()

    def min_tokens_to_finish(self) -> int:
        """The number of tokens that complete the marker, plus the length of the shortest answer."""
        return len(self._marker) - self._matched_counts[-1] + self._answer.min_tokens_to_finish()

    def _count_matched_after(self, token: int) -> int:
        """The number of marker tokens that are matched after this token."""
        candidate = (*self._marker[: self._matched_counts[-1]], token)
        return next(n for n in range(len(candidate), -1, -1) if self._marker[:n] == candidate[len(candidate) - n :])

    def _continues(self, token: int) -> bool:
        """Whether a token continues the reasoning or the marker."""
        return self._is_text(token) or (token in self._marker and self._count_matched_after(token) > 0)

    def _is_text(self, token: int) -> bool:
        return is_allowed(_text_row(self._vocabulary), token)


@lru_cache(maxsize=8)
def _text_row(vocabulary: Vocabulary) -> npt.NDArray[np.int32]:
    """The bitmask row of all tokens with text."""
    return row_of(vocabulary.size, [id for id in range(vocabulary.size) if vocabulary.token_bytes(id)])
