"""Encoders for vocabularies that come without a tokenizer, or whose model lacks some tokens.

`ShortestEncoder` works for any list of byte strings and uses the fewest tokens that spell the text. Among these
encodings, it chooses the one with the longest last token, then with the longest token before that, and so on. Among ids
with the same bytes, it chooses the lowest. How: dynamic programming over the positions of the text. Cost: O(bytes x
distinct token lengths with the same first byte). `CharacterEncoder` has one token for each character.
`BoundedEncoder` refuses texts with tokens for which the model has no logits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from guided.errors import VocabularyError, brief
from guided.vocabulary.spelling import hex_bytes

__all__ = ["BoundedEncoder", "CharacterEncoder", "ShortestEncoder", "first_base_token"]


class ShortestEncoder:
    """Spells text with as few tokens as possible."""

    def __init__(self, tokens: Sequence[bytes | None]) -> None:
        self._ids: dict[bytes, int] = {}
        lengths: dict[int, set[int]] = {}
        for number, token in enumerate(tokens):
            if token:
                self._ids.setdefault(token, number)
                lengths.setdefault(token[0], set()).add(len(token))
        self._lengths = {first: sorted(lengths_of_first) for first, lengths_of_first in lengths.items()}

    def encode(self, text: str, continued: bool = False) -> list[int]:
        """The ids of `text`."""
        data = text.encode("utf-8")
        min_counts: list[int | None] = [0] + [None] * len(data)
        last_lengths = [0] * (len(data) + 1)  # [i]: the length of the last token of the best spelling of data[:i]
        for position in range(len(data)):
            count = min_counts[position]
            if count is None:
                continue
            for length in self._lengths.get(data[position], ()):
                end = position + length
                if end > len(data):
                    break
                count_at_end = min_counts[end]
                # Positions are visited in order, so of two equal counts, the first one has the longer last token.
                if (count_at_end is None or count_at_end > count + 1) and data[position:end] in self._ids:
                    min_counts[end], last_lengths[end] = count + 1, length
        if min_counts[-1] is None:
            offset = max(position for position, count in enumerate(min_counts) if count is not None)
            raise VocabularyError(
                f"no tokens of this vocabulary spell the bytes {hex_bytes(data[offset:])} at byte {offset} of the text"
            )
        out, end = [], len(data)
        while end:
            out.append(self._ids[data[end - last_lengths[end] : end]])
            end -= last_lengths[end]
        return out[::-1]


class CharacterEncoder:
    """One token for each character."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        self._ids = ids

    def encode(self, text: str, continued: bool = False) -> list[int]:
        """The ids of `text`."""
        try:
            return [self._ids[char] for char in text]
        except KeyError as error:
            char = str(error.args[0])
            raise VocabularyError(
                f"no token of this vocabulary spells {char!r} ({hex_bytes(char.encode('utf-8'))})"
            ) from None


class BoundedEncoder:
    """Encodes text with a tokenizer, but raises an error for ids from `size` on.

    Args:
        encode: (text, continued) -> the tokenizer's ids.
        names, tokens: the names of special tokens, and the bytes of the others.
    """

    def __init__(
        self,
        encode: Callable[[str, bool], list[int]],
        *,
        size: int,
        names: Mapping[int, str],
        tokens: Sequence[bytes | None],
    ) -> None:
        self._encode, self._size, self._names, self._tokens = encode, size, names, tokens

    def encode(self, text: str, continued: bool = False) -> list[int]:
        """The ids of `text`. Raises VocabularyError if one of them has no logit."""
        ids = self._encode(text, continued)
        if (id := max(ids, default=-1)) >= self._size:
            name = self._names[id] if id in self._names else (self._tokens[id] or b"").decode(errors="replace")
            raise VocabularyError(
                f"the text contains the token {brief(name, 60)} (id {id}), but the model has only {self._size} logits "
                "and embeddings: leave this token out"
            )
        return ids


def first_base_token(tokens: Sequence[bytes | None], markers: Collection[str], start: int) -> int | None:
    """The first id from `start` on whose token has text, and is not one of the added text tokens `markers`."""
    known = {None, *(marker.encode() for marker in markers)}
    return next((id for id in range(start, len(tokens)) if tokens[id] not in known), None)
