"""Free thinking before a constrained answer: a gate in front of the matcher.

In: the matcher of the answer, and the ids that end the thinking. Out: a matcher of the whole. Until the end has come,
any token with text may come, but no end of the output; so the model thinks as it was trained to, and then answers as it
must. The budget covers both: the mask leaves room for the end of the thinking and the shortest answer, and closes the
thinking in time. Its end is found as ids, not as text: use a control token, or a text that the model always writes with
the same tokens. Source: Knuth, Morris, Pratt (1977) for how much of the end has come.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from guided.errors import GuidedError
from guided.matching.bitmask import is_allowed, row_of
from guided.matching.matcher import GrammarMatcher
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["ReasoningGate", "find_reasoning_end"]


def find_reasoning_end(vocabulary: Vocabulary, end: str) -> list[int]:
    """The ids of what ends the thinking: a control token by its name, else a text.

    Raises:
        GuidedError: it is empty.
    """
    named = [id for id, name in vocabulary.special_tokens.items() if name == end]
    ids = named[:1] or vocabulary.encode(end)
    if not ids:
        raise GuidedError("what ends the reasoning is empty: name a control token, such as '</think>'")
    return ids


class ReasoningGate:
    """A matcher, see `GrammarMatcher` for what its calls mean."""

    def __init__(self, answer: GrammarMatcher, end: Sequence[int], vocabulary: Vocabulary) -> None:
        self._answer, self._end, self._vocabulary = answer, tuple(end), vocabulary
        self._thought = [0]  # how much of the end had come, after each token of the thinking
        self._answered = 0  # tokens of the answer
        self._hurried = False  # the last mask of the thinking lacked tokens for the budget's sake

    @property
    def is_open(self) -> bool:
        """The thinking is over."""
        return self._thought[-1] == len(self._end)

    @property
    def end_text(self) -> str:
        """What ends the thinking, as text; a control token has none."""
        return self._vocabulary.decode(self._end).decode("utf-8", "replace")

    def watches(self, token: int) -> bool:
        """Whether a token may end the thinking."""
        return not self.is_open and token in self._end

    @property
    def budget_bound(self) -> bool:
        """Whether the last mask may lack tokens that the budget took."""
        return self._answer.budget_bound if self.is_open else self._hurried

    def fill_next_token_bitmask(
        self, bitmask: npt.NDArray[np.int32], row: int = 0, *, max_tokens: int | None = None
    ) -> bool:
        """While thinking: all text that leaves room for the end and the shortest answer."""
        if self.is_open:
            return self._answer.fill_next_token_bitmask(bitmask, row, max_tokens=max_tokens)
        room = None if max_tokens is None else max_tokens - 1 - self._answer.min_tokens_to_finish()
        words = bitmask[row]
        self._hurried = room is not None and room < len(self._end)
        words[:] = 0 if self._hurried else _text(self._vocabulary)
        for token in set(self._end):
            bit = np.int32(np.uint32(1 << token % 32).view(np.int32))
            if room is None or len(self._end) - self._after(token) <= room:
                words[token // 32] |= bit
            else:
                words[token // 32] &= ~bit
        return True

    def accept_token(self, token: int, /) -> bool:
        """Go on by a token; False: refused."""
        if self.is_open:
            taken = self._answer.accept_token(token)
            self._answered += taken
            return taken
        if token not in self._end and not self._is_text(token):
            return False
        self._thought.append(self._after(token))
        return True

    def rollback(self, n: int, /) -> None:
        """Take back the last n tokens."""
        if not 0 <= n < len(self._thought) + self._answered:
            raise ValueError(f"cannot take back {n} of {len(self._thought) - 1 + self._answered} tokens")
        answered = min(n, self._answered)
        self._answer.rollback(answered)
        self._answered -= answered
        if n > answered:
            del self._thought[answered - n :]

    def fork(self) -> ReasoningGate:
        """Another one in the same state."""
        twin = ReasoningGate(self._answer.fork(), self._end, self._vocabulary)
        twin._thought, twin._answered = list(self._thought), self._answered
        return twin

    def forced_tokens(self) -> list[int]:
        """Nothing while thinking."""
        return self._answer.forced_tokens() if self.is_open else []

    def is_accepting(self) -> bool:
        """The answer may end here."""
        return self.is_open and self._answer.is_accepting()

    def is_terminated(self) -> bool:
        """An end token was accepted."""
        return self.is_open and self._answer.is_terminated()

    def min_tokens_to_finish(self) -> int:
        """The rest of the end, and the shortest answer."""
        return len(self._end) - self._thought[-1] + self._answer.min_tokens_to_finish()

    def _after(self, token: int) -> int:
        """How much of the end has come with this token: the longest part of it that the thinking ends with."""
        come = (*self._end[: self._thought[-1]], token)
        return next(n for n in range(len(come), -1, -1) if self._end[:n] == come[len(come) - n :])

    def _is_text(self, token: int) -> bool:
        return 0 <= token < self._vocabulary.size and is_allowed(_text(self._vocabulary), token)


@lru_cache(maxsize=8)
def _text(vocabulary: Vocabulary) -> npt.NDArray[np.int32]:
    """The mask of all tokens with text."""
    return row_of(vocabulary.size, [id for id in range(vocabulary.size) if vocabulary.token_bytes(id)])
