"""SentencePiece's way from text to ids: normalise, then cut into pieces by score.

In: `PieceModel`, as a .model file, a GGUF file or a tokenizer.json describe it. Out: `PieceEncoder`.
Algorithms, after https://github.com/google/sentencepiece (normalizer.cc, bpe_model.cc, unigram_model.cc):
- normalisation by the longest rule of a precompiled double array, white space collapsed and escaped, a dummy prefix
- bpe: neighbours joined while the joined piece exists, highest score first, leftmost among equals; unused pieces are
  taken apart again. O(n log n)
- unigram: Viterbi over all pieces at each character, in single precision as SentencePiece does. O(n x longest piece)
- char and word: each character or word is a piece
What no piece spells becomes byte pieces where the model has them; otherwise it is an error, never an unknown token.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import copysign, inf
from typing import Final, Literal

from guided.errors import VocabularyError
from guided.vocabulary.bpe import added_pattern, join, spelled, split_added

__all__ = [
    "BYTE",
    "CONTROL",
    "NORMAL",
    "SPACE",
    "UNKNOWN",
    "UNKNOWN_PENALTY",
    "UNUSED",
    "USER_DEFINED",
    "PieceEncoder",
    "PieceModel",
    "byte_piece",
    "viterbi",
]

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
SPACE: Final = "\u2581"
UNKNOWN_PENALTY = 10.0
_FLOAT_MIN = 1.1754943508222875e-38
_SINGLE = struct.Struct("<f")


def byte_piece(piece: str) -> int | None:
    """The byte of a piece such as `<0x0A>`, or None."""
    if len(piece) != 6 or not piece.startswith("<0x") or piece[5] != ">":
        return None
    try:
        return int(piece[3:5], 16)
    except ValueError:
        return None


def single(value: float) -> float:
    """The value in single precision."""
    try:
        return float(_SINGLE.unpack(_SINGLE.pack(value))[0])
    except OverflowError:
        return copysign(inf, value)


@dataclass(frozen=True, slots=True)
class PieceModel:
    """What a SentencePiece model says.

    Attributes:
        pieces, scores, kinds: by id; kinds are `NORMAL` ... `BYTE`.
        algorithm: how pieces are found.
        charsmap: the precompiled normalisation rules, b"" for none.
        dummy_prefix: a space is put before the text (after it, with `space_as_suffix`).
        collapse: leading, trailing and repeated spaces are removed.
        escape: spaces are written U+2581 in pieces.
    """

    pieces: Sequence[str]
    scores: Sequence[float]
    kinds: Sequence[int]
    algorithm: Literal["unigram", "bpe", "word", "char"] = "bpe"
    charsmap: bytes = field(default=b"", repr=False)
    dummy_prefix: bool = True
    collapse: bool = False
    escape: bool = True
    space_as_suffix: bool = False

    def tokens(self) -> list[bytes | None]:
        """The bytes of each id."""
        out: list[bytes | None] = []
        for piece, kind in zip(self.pieces, self.kinds, strict=True):
            if kind in (NORMAL, USER_DEFINED):
                out.append((piece.replace(SPACE, " ") if self.escape else piece).encode("utf-8"))
            elif kind == BYTE:
                byte = byte_piece(piece)
                if byte is None:
                    raise VocabularyError(f"piece {len(out)} is a byte piece but is spelled {piece[:40]!r}")
                out.append(bytes((byte,)))
            else:
                out.append(None)
        return out

    def special_tokens(self) -> dict[int, str]:
        """Control and unknown pieces by id."""
        found = zip(self.pieces, self.kinds, strict=True)
        return {number: piece for number, (piece, kind) in enumerate(found) if kind in (CONTROL, UNKNOWN)}


class CharsMap:
    """SentencePiece's precompiled normalisation rules: a Darts double array, then the replacements.

    Raises:
        VocabularyError: the blob is shorter than its own header says.
    """

    def __init__(self, blob: bytes) -> None:
        size = int.from_bytes(blob[:4], "little")
        if len(blob) < 8 or size % 4 or size < 4 or size > len(blob) - 4:
            raise VocabularyError("the model's normalisation rules are truncated or corrupt")
        self._units = struct.unpack(f"<{size // 4}I", blob[4 : 4 + size])
        self._texts = blob[4 + size :]

    def prefix(self, data: bytes, start: int) -> tuple[str, int] | None:
        """The replacement and length in bytes of the longest rule that matches at `start`."""
        units, count = self._units, len(self._units)
        node, best = _offset(units[0]), None
        for length, byte in enumerate(data[start : start + 256], 1):
            node ^= byte
            if node >= count or units[node] & 0x800000FF != byte:
                break
            unit = units[node]
            node ^= _offset(unit)
            if node >= count:
                break
            if unit >> 8 & 1:
                best = (units[node] & 0x7FFFFFFF, length)
        if best is None:
            return None
        place, length = best
        end = self._texts.find(b"\0", place)
        return self._texts[place : end if end >= 0 else None].decode("utf-8", "replace"), length


def _offset(unit: int) -> int:
    return (unit >> 10) << ((unit & 0x200) >> 6)


def viterbi(
    text: str, scores: Mapping[str, float], unknown: float, longest: int, *, single_precision: bool = True
) -> list[str]:
    """The pieces whose scores sum highest; a character that is no piece has the score `unknown`.

    Of equal sums the one found first counts, from left to right and short pieces before long ones.
    """
    count = len(text)
    best, origin = [0.0] * (count + 1), [-1] * (count + 1)
    for start in range(count):
        for end in range(start + 1, min(count, start + max(longest, 1)) + 1):
            score = scores.get(text[start:end])
            if score is None:
                if end > start + 1:
                    continue
                score = unknown
            total = single(best[start] + score) if single_precision else best[start] + score
            if origin[end] < 0 or total > best[end]:
                best[end], origin[end] = total, start
    pieces, end = [], count
    while end:
        pieces.append(text[origin[end] : end])
        end = origin[end]
    return pieces[::-1]


class PieceEncoder:
    """Encodes text as the model does."""

    def __init__(self, model: PieceModel) -> None:
        self.model = model
        self.ids: dict[str, int] = {}
        self.bytes: dict[int, int] = {}
        for number, (piece, kind) in enumerate(zip(model.pieces, model.kinds, strict=True)):
            if kind in (NORMAL, USER_DEFINED, UNUSED):
                self.ids.setdefault(piece, number)
            elif kind == BYTE:
                self.bytes.setdefault(byte_piece(piece) or 0, number)
        self._unused = {piece for piece, number in self.ids.items() if model.kinds[number] == UNUSED}
        self._user = {piece for piece, number in self.ids.items() if model.kinds[number] == USER_DEFINED}
        self._user_pattern = added_pattern(self._user)
        self._charsmap = CharsMap(model.charsmap) if model.charsmap else None
        normal = [model.scores[number] for number in self.ids.values() if model.kinds[number] == NORMAL]
        self._unknown_score = min(normal, default=0.0) - UNKNOWN_PENALTY
        bonus = max(normal, default=_FLOAT_MIN)
        self._scores = {piece: model.scores[number] for piece, number in self.ids.items() if piece not in self._unused}
        self._scores |= {piece: len(piece.encode("utf-8")) * bonus - 0.1 for piece in self._user}  # always taken
        self._longest = max(map(len, self._scores), default=0)

    def encode(self, text: str, continued: bool = False) -> list[int]:
        """The ids of `text`."""
        text.encode("utf-8")  # a lone surrogate is an error in every algorithm
        normal = self.normalized(text, continued)
        pieces = {"unigram": self._unigram, "bpe": self._bpe, "word": self._words, "char": self._chars}
        out: list[int] = []
        for piece in pieces[self.model.algorithm](normal):
            found = self.ids.get(piece)
            if found is not None:
                out.append(found)
                continue
            data = piece.encode("utf-8")
            if not all(byte in self.bytes for byte in data):
                raise VocabularyError(f"no token of this vocabulary spells {piece[:40]!r} ({spelled(data)})")
            out += [self.bytes[byte] for byte in data]
        return out

    def normalized(self, text: str, continued: bool = False) -> str:
        """The text as the pieces spell it."""
        model, space = self.model, SPACE if self.model.escape else " "
        parts: list[str] = []
        after_space = model.collapse and not continued
        for part in self._normalized_parts(text):
            if after_space:
                part = part.lstrip(" ")
            if part:
                parts.append(part)
                after_space = model.collapse and part.endswith(" ")
        if not (parts if model.collapse else text):
            return ""
        normal = "".join(parts).replace(" ", space)
        if model.dummy_prefix and not model.space_as_suffix and not continued:
            normal = space + normal
        if model.collapse:
            normal = normal.rstrip(space)
        return normal + space if model.dummy_prefix and model.space_as_suffix else normal

    def _normalized_parts(self, text: str) -> Iterator[str]:
        for part, user in split_added(text, self._user_pattern):
            if user or self._charsmap is None:
                yield from (part,) if user or not self.model.collapse else part
                continue
            data, place = part.encode("utf-8"), 0
            while place < len(data):
                rule = self._charsmap.prefix(data, place)
                if rule is not None:
                    yield rule[0]
                    place += rule[1]
                    continue
                width = 1 + sum(data[place] >= least for least in (0xC0, 0xE0, 0xF0))
                yield data[place : place + width].decode("utf-8")
                place += width

    def _bpe(self, normal: str) -> Iterator[str]:
        origin: dict[str, tuple[str, str]] = {}

        def rank(left: str, right: str) -> float | None:
            number = self.ids.get(left + right)
            if number is None:
                return None
            if left + right in self._unused:
                origin[left + right] = (left, right)
            return -self.model.scores[number]

        for part, user in split_added(normal, self._user_pattern):
            stack = [part] if user else join(part, rank)[::-1]
            while stack:
                piece = stack.pop()
                if piece in origin:
                    stack += origin[piece][::-1]
                else:
                    yield piece

    def _unigram(self, normal: str) -> list[str]:
        return viterbi(normal, self._scores, self._unknown_score, self._longest)

    def _chars(self, normal: str) -> Iterator[str]:
        for part, user in split_added(normal, self._user_pattern):
            yield from (part,) if user else part

    def _words(self, normal: str) -> Iterator[str]:
        space = SPACE if self.model.escape else " "
        parts = normal.split(space)
        if parts[0]:
            yield parts[0]
        yield from (space + part for part in parts[1:])
