"""Splits forced bytes into tokens, as `GrammarMatcher.find_jump_forward_tokens` of xgrammar does.

In: bytes, and the tokens of a vocabulary. Out: token ids. Each token is the longest one at its place. Tokens without
text and stop tokens do not count. Of tokens with the same text, the one with the lowest id counts. The last token is
omitted if a longer token begins with it, because the model might choose that one.

Cost: for each token, at most as many look-ups as the longest token has bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence

__all__ = ["TokenTexts"]


class TokenTexts:
    """The texts of a vocabulary: `tokens[i]` is the text of id i."""

    def __init__(self, tokens: Sequence[bytes]) -> None:
        self._ids_by_text: dict[bytes, list[int]] = {}
        for token_id, text in enumerate(tokens):
            if text:
                self._ids_by_text.setdefault(text, []).append(token_id)
        self._sorted_texts = sorted(self._ids_by_text)
        self._max_length = max(map(len, self._ids_by_text), default=0)

    def split(self, forced: bytes, stops: Collection[int], accept: Callable[[int], bool]) -> list[int]:
        """Split forced bytes into tokens, up to a byte where no token begins or a token that `accept` refuses."""
        token_ids: list[int] = []
        offset, last_text = 0, b""
        while offset < len(forced):
            text, token_id = self._find_longest(forced[offset : offset + self._max_length], stops)
            if token_id < 0 or not accept(token_id):
                break
            token_ids.append(token_id)
            offset, last_text = offset + len(text), text
        return token_ids[:-1] if token_ids and self._has_longer(last_text, stops) else token_ids

    def _find_longest(self, data: bytes, stops: Collection[int]) -> tuple[bytes, int]:
        for length in range(len(data), 0, -1):
            text = data[:length]
            for token_id in self._ids_by_text.get(text, ()):
                if token_id not in stops:
                    return text, token_id
        return b"", -1

    def _has_longer(self, text: bytes, stops: Collection[int]) -> bool:
        """Whether the text of a token begins with this text and is longer."""
        for index in range(bisect_right(self._sorted_texts, text), len(self._sorted_texts)):
            longer_text = self._sorted_texts[index]
            if not longer_text.startswith(text):
                return False
            if any(token_id not in stops for token_id in self._ids_by_text[longer_text]):
                return True
        return False
