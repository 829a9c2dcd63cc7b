"""SentencePiece .model files.

In: a file that holds the protocol buffer `ModelProto` (https://github.com/google/sentencepiece,
src/sentencepiece_model.proto). Out: a `Source`.
A reader of its own for the few fields that matter; every length is checked against the bytes that are left, and what
is built is a small multiple of the file. Control, unknown and unused pieces have no bytes; byte pieces are one byte;
elsewhere U+2581 is a space. Pieces may spell the same bytes twice. Cost: one pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan, nan
from os import PathLike
from pathlib import Path
from struct import Struct
from typing import Any, Final, Literal

from guided.errors import VocabularyError
from guided.vocabulary.pieces import BYTE, CONTROL, NORMAL, UNKNOWN, PieceEncoder, PieceModel
from guided.vocabulary.source import Source

__all__ = ["read_sentencepiece"]

_ALGORITHMS: Final[dict[int, Literal["unigram", "bpe", "word", "char"]]] = {
    1: "unigram",
    2: "bpe",
    3: "word",
    4: "char",
}
_FLOAT = Struct("<f")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# field numbers
_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3
_MODEL_TYPE, _SUFFIX, _EOS = 3, 24, 42
_CHARSMAP, _DUMMY_PREFIX, _COLLAPSE, _ESCAPE = 2, 3, 4, 5


def read_sentencepiece(path: str | PathLike[str]) -> Source:
    """The vocabulary of a .model file.

    Raises:
        VocabularyError: the file is not a SentencePiece model, or is truncated or corrupt.
    """
    data = Path(path).read_bytes()
    try:
        model, eos = _model(data)
        tokens = model.tokens()
    except (ValueError, VocabularyError) as error:
        raise VocabularyError(f"{path}: not a SentencePiece model, or a corrupt one: {error}") from None
    special = model.special_tokens()
    return Source(tokens, {eos} if eos in special else (), special, lambda: PieceEncoder(model))


def _model(data: bytes) -> tuple[PieceModel, int]:
    pieces: list[str] = []
    scores: list[float] = []
    kinds: list[int] = []
    trainer: dict[int, Any] = {}
    normalizer: dict[int, Any] = {}
    for number, value in _fields(data, 0, len(data)):
        if number == _PIECES:
            piece, score, kind = _piece(data, *_span(value))
            pieces.append(piece)
            scores.append(score)
            kinds.append(kind)
        elif number == _TRAINER:
            trainer.update(_fields(data, *_span(value)))
        elif number == _NORMALIZER:
            normalizer.update(_fields(data, *_span(value)))
    if not pieces or UNKNOWN not in kinds:
        raise ValueError("it lists no pieces" if not pieces else "no piece is the unknown one")
    algorithm = _ALGORITHMS.get(trainer.get(_MODEL_TYPE, 1))
    if algorithm is None:
        raise ValueError(f"the model type {trainer[_MODEL_TYPE]!r} is not known")
    start, end = _span(normalizer.get(_CHARSMAP, (0, 0)))
    model = PieceModel(
        pieces,
        scores,
        kinds,
        algorithm,
        data[start:end],
        dummy_prefix=bool(normalizer.get(_DUMMY_PREFIX, True)),
        collapse=bool(normalizer.get(_COLLAPSE, True)),
        escape=bool(normalizer.get(_ESCAPE, True)),
        space_as_suffix=bool(trainer.get(_SUFFIX, False)),
    )
    eos = trainer.get(_EOS, 2)
    return model, eos if isinstance(eos, int) and 0 <= eos < len(kinds) and kinds[eos] == CONTROL else -1


def _span(value: Any) -> tuple[int, int]:
    if not isinstance(value, tuple):
        raise ValueError("a message is stored as a number")
    return value


def _piece(data: bytes, start: int, end: int) -> tuple[str, float, int]:
    piece, score, kind = "", 0.0, NORMAL
    for number, value in _fields(data, start, end):
        if number == 1:
            low, high = _span(value)
            piece = data[low:high].decode("utf-8")
        elif number == 2:
            score = _FLOAT.unpack(value)[0] if isinstance(value, bytes) and len(value) == 4 else nan
        elif number == 3:
            kind = value
    if isnan(score) or not isinstance(kind, int) or not NORMAL <= kind <= BYTE:
        raise ValueError(f"the piece {piece[:40]!r} has no valid score and type")
    return piece, score, kind


def _fields(data: bytes, position: int, end: int) -> Iterator[tuple[int, Any]]:
    """The fields of a message: (number, value); bytes are given as (start, end), 32 and 64 bits as they are stored."""
    while position < end:
        key, position = _varint(data, position, end)
        kind = key & 7
        if kind == _VARINT:
            value, position = _varint(data, position, end)
            yield key >> 3, value
        elif kind == _BYTES:
            length, position = _varint(data, position, end)
            if length > end - position:
                raise ValueError(f"a field of {length} bytes at byte {position} ends past its message")
            yield key >> 3, (position, position + length)
            position += length
        elif kind in (_FIXED32, _FIXED64):
            width = 4 if kind == _FIXED32 else 8
            if width > end - position:
                raise ValueError(f"a number at byte {position} ends past its message")
            yield key >> 3, data[position : position + width]
            position += width
        else:
            raise ValueError(f"the wire type {kind} at byte {position}")


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise ValueError(f"a number at byte {position} is cut off")
