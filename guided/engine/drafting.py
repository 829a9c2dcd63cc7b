"""Drafts without a model: what followed the last time that the same tokens came.

In: the ids of a prompt and of its output as it grows. Out: some ids that may come next. Answers repeat their prompt
(names, code, tables) and themselves, and a model reads several tokens in one pass for little more than one. A draft
changes nothing in the output: each token is chosen as ever, and the draft is dropped where another one is.

Source: "Prompt lookup decoding" (A. Saxena, 2023; in vLLM the n-gram drafter). Cost: O(1) for a token, one entry of a
table for each size of n-gram.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Ngrams"]

_SIZES = (4, 3, 2)  # tokens that must be the same, the longest first


class Ngrams:
    """The n-grams of a growing sequence, and where what followed each of them last begins."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self._tokens: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}
        self.extend(tokens)

    @property
    def length(self) -> int:
        """Tokens that have come."""
        return len(self._tokens)

    def extend(self, tokens: Sequence[int]) -> None:
        """More tokens."""
        for token in tokens:
            at = len(self._tokens)
            for size in _SIZES:
                if at >= size:
                    self._after[tuple(self._tokens[at - size :])] = at
            self._tokens.append(token)

    def propose(self, most: int) -> list[int]:
        """At most so many tokens; none where the last ones are new."""
        for size in _SIZES:
            at = self._after.get(tuple(self._tokens[-size:]))
            if at is not None and len(self._tokens) >= size:
                return self._tokens[at : at + max(0, most)]
        return []
