"""Byte-pair encoding: from a piece of text to token ids, by ranks or by merges.

In: symbols (single bytes or characters) and the rank of joining two neighbours. Out: the symbols after all joins,
lowest rank first and leftmost among equals, which is what tiktoken, Hugging Face and llama.cpp compute.
Algorithm: a linked list and a heap of candidate joins (stale ones are dropped when they surface): O(n log n).

`ByteLevelEncoder` puts the steps of a byte-level tokenizer together: normalise, take added tokens out, split by the
pre-tokenizer patterns, merge each piece, look ids up. Pieces are remembered, 65,536 at most and none longer than 256
bytes; past that the memory is emptied.
"""

from __future__ import annotations

import heapq
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Protocol, TypeVar

from guided.errors import VocabularyError
from guided.vocabulary.pretokenize import Splitter

__all__ = ["ByteLevelEncoder", "Encoder", "byte_alphabet", "from_byte_alphabet", "join", "pair_ranks", "split_added"]

Symbol = TypeVar("Symbol", str, bytes)
_REMEMBERED = 65_536
_REMEMBERED_LENGTH = 256


class Encoder(Protocol):
    """Text -> token ids, as a tokenizer would give them."""

    def encode(self, text: str, continued: bool = False) -> list[int]:
        """The ids of `text`; raises VocabularyError for text that no tokens spell.

        With `continued` the text goes on after other text: no space is put before it.
        """
        ...


@cache
def byte_alphabet() -> tuple[str, ...]:
    """GPT-2's printable character for each byte: itself where it is printable Latin-1, else U+0100 and up in order."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return tuple(chr(byte if byte in printable else next(others)) for byte in range(256))


@cache
def _to_latin1() -> dict[int, int]:
    table = {ord(char): byte for byte, char in enumerate(byte_alphabet())}
    return {code: table.get(code, 0x100) for code in range(0x144)}  # what is not in the alphabet must not encode


def from_byte_alphabet(spelling: str) -> bytes | None:
    """The bytes that `spelling` stands for, or None where a character is not of the alphabet."""
    try:
        return spelling.translate(_to_latin1()).encode("latin-1")
    except UnicodeEncodeError:
        return None


def join(symbols: Sequence[Symbol], rank: Callable[[Symbol, Symbol], float | None]) -> list[Symbol]:
    """Join neighbours, the pair of lowest rank first and the leftmost among equals, until none has a rank."""
    out: list[Symbol | None] = list(symbols)
    count = len(out)
    before, after = list(range(-1, count - 1)), list(range(1, count + 1))
    heap: list[tuple[float, int, int, int]] = []

    def offer(left: int, right: int) -> None:
        first, second = out[left], out[right]
        assert first is not None and second is not None
        found = rank(first, second)
        if found is not None:
            heapq.heappush(heap, (found, left, right, len(first) + len(second)))

    for place in range(count - 1):
        offer(place, place + 1)
    while heap:
        _, left, right, length = heapq.heappop(heap)
        first, second = out[left], out[right] if right < count else None
        if first is None or second is None or after[left] != right or len(first) + len(second) != length:
            continue
        out[left], out[right] = first + second, None
        after[left] = following = after[right]
        if following < count:
            before[following] = left
            offer(left, following)
        if before[left] >= 0:
            offer(before[left], left)
    return [symbol for symbol in out if symbol is not None]


def pair_ranks(merges: Iterable[str | Sequence[str]]) -> dict[tuple[str, str], int]:
    """Merge rules, "left right" or [left, right], as (left, right) -> rank; the first of equal rules counts.

    Raises:
        VocabularyError: a rule does not have two sides.
    """
    ranks: dict[tuple[str, str], int] = {}
    for rank, merge in enumerate(merges):
        pair = tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge)
        if len(pair) != 2 or not all(isinstance(side, str) and side for side in pair):
            raise VocabularyError(f"merge rule {rank} is {str(merge)[:80]!r}: two symbols are needed")
        ranks.setdefault((pair[0], pair[1]), rank)
    return ranks


def split_added(text: str, added: re.Pattern[str] | None) -> list[tuple[str, bool]]:
    """The text cut at added tokens: (part, whether the part is such a token), empty parts left out."""
    if added is None:
        return [(text, False)] if text else []
    parts = [(part, index % 2 == 1) for index, part in enumerate(added.split(text))]
    return [(part, matched) for part, matched in parts if part]


def added_pattern(names: Iterable[str]) -> re.Pattern[str] | None:
    """Matches any of `names`, the longest first; None where there are none."""
    ordered = sorted((name for name in names if name), key=len, reverse=True)
    return re.compile("(" + "|".join(map(re.escape, ordered)) + ")") if ordered else None


class ByteLevelEncoder:
    """A byte-level BPE tokenizer.

    Attributes:
        ids: token bytes -> id.
        merges: (left, right) in GPT-2's alphabet -> rank; None: the rank of a join is the joined token's id (tiktoken).
        splitters: pre-tokenizer patterns, each applied to the pieces of the one before.
        whole_first: a piece that is a token is that token, whatever the merges say ("ignore_merges").
        added: tokens that are taken out of the text before anything else: text -> id.
        normalization: a Unicode normalization form applied to the text, "" for none.
        prefix_space: a space is put before text that does not begin with one.
    """

    def __init__(
        self,
        ids: Mapping[bytes, int],
        *,
        merges: Mapping[tuple[str, str], int] | None = None,
        splitters: Sequence[Splitter] = (),
        whole_first: bool = True,
        added: Mapping[str, int] | None = None,
        normalization: str = "",
        prefix_space: bool = False,
    ) -> None:
        self.ids, self.merges, self.splitters, self.whole_first = ids, merges, splitters, whole_first
        self.added, self.normalization, self.prefix_space = added or {}, normalization, prefix_space
        self._added_pattern = added_pattern(self.added)
        self._remembered: dict[str, list[int]] = {}

    def encode(self, text: str, continued: bool = False) -> list[int]:
        """The ids of `text`."""
        out: list[int] = []
        for part, is_added in split_added(text, self._added_pattern):
            if is_added:
                out.append(self.added[part])
                continue
            for piece in self._pieces(part, continued):
                out += self._remember(piece) if len(piece) <= _REMEMBERED_LENGTH else self._piece(piece)
        return out

    def _pieces(self, text: str, continued: bool) -> list[str]:
        if self.normalization:
            text = unicodedata.normalize(self.normalization, text)  # type: ignore[arg-type]
        if self.prefix_space and not continued and not text.startswith(" "):
            text = " " + text
        pieces = [text]
        for splitter in self.splitters:
            pieces = [part for piece in pieces for part in splitter.split(piece)]
        return pieces

    def _remember(self, piece: str) -> list[int]:
        found = self._remembered.get(piece)
        if found is None:
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            found = self._remembered[piece] = self._piece(piece)
        return found

    def _piece(self, piece: str) -> list[int]:
        data = piece.encode("utf-8")
        if self.whole_first and (whole := self.ids.get(data)) is not None:
            return [whole]
        if self.merges is None:
            singles = [data[k : k + 1] for k in range(len(data))]
            tokens = join(singles, lambda left, right: self.ids.get(left + right))
        else:
            alphabet, merges = byte_alphabet(), self.merges
            joined = join([alphabet[byte] for byte in data], lambda left, right: merges.get((left, right)))
            tokens = [from_byte_alphabet(symbol) or b"" for symbol in joined]
        return [self._id(token, piece) for token in tokens]

    def _id(self, token: bytes, piece: str) -> int:
        found = self.ids.get(token)
        if found is None:
            raise VocabularyError(f"no token of this vocabulary spells the bytes {spelled(token)} of {piece[:40]!r}")
        return found


def spelled(data: bytes) -> str:
    """Bytes for an error message: `0xF0 0x9F`, at most sixteen."""
    return " ".join(f"0x{byte:02X}" for byte in data[:16]) + (" ..." if len(data) > 16 else "")
