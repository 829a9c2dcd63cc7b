"""Speculative decoding without a draft model: propose the tokens that followed the last occurrence of an n-gram.

Answers often repeat parts of their prompt (names, code, tables) or of themselves, and verifying several tokens in one
forward pass costs little more than reading one. In: the ids of a prompt and of its growing output. Out: ids that may
come next. Drafts never change an output: every token is chosen as usual, and a draft that differs from the chosen token
is dropped together with all drafts after it.

Source: "Prompt lookup decoding" (A. Saxena, 2023); vLLM calls it the n-gram drafter. Cost: O(1) per token, and one
entry in a hash table for each size of n-gram.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Ngrams"]

_SIZES = (4, 3, 2)  # lengths of the n-grams to look up, longest first


class Ngrams:
    """The n-grams of a growing sequence, each with the position that followed its last occurrence."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self._tokens: list[int] = []
        self._next_positions: dict[tuple[int, ...], int] = {}
        self.extend(tokens)

    @property
    def length(self) -> int:
        """The number of tokens in the sequence."""
        return len(self._tokens)

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens to the sequence."""
        for token in tokens:
            position = len(self._tokens)
            for size in _SIZES:
                if position >= size:
                    self._next_positions[tuple(self._tokens[position - size :])] = position
            self._tokens.append(token)

    def propose(self, limit: int) -> list[int]:
        """Propose up to `limit` draft tokens; none if the last two tokens have not occurred together before."""
        for size in _SIZES:
            position = self._next_positions.get(tuple(self._tokens[-size:]))
            if position is not None and len(self._tokens) >= size:
                return self._tokens[position : position + max(0, limit)]
        return []
