"""Reads SentencePiece .model files.

In: a file with the protocol buffer `ModelProto` (https://github.com/google/sentencepiece,
src/sentencepiece_model.proto). Out: a `Source`. `model_proto` writes such a file from the pieces of a GGUF file.

This module reads the few fields that define the bytes of pieces. The package sentencepiece does not expose all of them,
and is only needed for encoding. Every length is checked against the remaining bytes, so memory is at most a small
multiple of the file's size. Control, unknown and unused pieces have no bytes; byte pieces are one byte; in other pieces
U+2581 is a space. Several pieces may have the same bytes. Cost: one pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan, nan
from os import PathLike
from pathlib import Path
from struct import Struct
from typing import Any, Final

from guided.errors import VocabularyError
from guided.vocabulary.byte_pairs import no_byte_pairs
from guided.vocabulary.encoders import make_sentencepiece_encoder
from guided.vocabulary.source import Source
from guided.vocabulary.spelling import SPACE, byte_piece

__all__ = [
    *("BYTE", "CONTROL", "NORMAL", "UNKNOWN", "USER_DEFINED"),
    *("model_proto", "decode_pieces", "read_sentencepiece", "find_special_pieces"),
]

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
_ALGORITHMS: Final = range(1, 5)  # unigram, BPE, word, character
_BPE = 2
_FLOAT = Struct("<f")
_MAX_SCORE: Final = 3.4e38
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# field numbers
_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3
_MODEL_TYPE, _BYTE_FALLBACK, _EOS = 3, 35, 42
_DUMMY_PREFIX, _COLLAPSE, _ESCAPE = 3, 4, 5


def read_sentencepiece(path: str | PathLike[str]) -> Source:
    """The vocabulary of a .model file.

    Raises:
        VocabularyError: the file is not a SentencePiece model, or is truncated or corrupt.
    """
    data = Path(path).read_bytes()
    try:
        pieces, types, escape, eos = _read_model(data)
        tokens = decode_pieces(pieces, types, escape=escape)
    except (ValueError, VocabularyError) as error:
        raise VocabularyError(f"{path}: not a SentencePiece model, or a corrupt one: {error}") from None
    special = find_special_pieces(pieces, types)
    end_ids = {eos} if special.get(eos) and types[eos] == CONTROL else ()
    return Source(
        tokens,
        end_ids,
        special,
        lambda: make_sentencepiece_encoder(data, len(tokens)),
        byte_pairs=no_byte_pairs("it is a SentencePiece model"),
    )


def decode_pieces(pieces: Sequence[str], types: Sequence[int], *, escape: bool = True) -> list[bytes | None]:
    """The bytes of each piece by id; with `escape`, U+2581 is a space.

    Raises:
        VocabularyError: a byte piece has the wrong form.
    """
    out: list[bytes | None] = []
    for piece, type_ in zip(pieces, types, strict=True):
        if type_ in (NORMAL, USER_DEFINED):
            out.append((piece.replace(SPACE, " ") if escape else piece).encode("utf-8"))
        elif type_ == BYTE:
            byte = byte_piece(piece)
            if byte is None:
                raise VocabularyError(f"piece {len(out)} is a byte piece but is spelled {piece[:40]!r}")
            out.append(bytes((byte,)))
        else:
            out.append(None)
    return out


def find_special_pieces(pieces: Sequence[str], types: Sequence[int]) -> dict[int, str]:
    """The control and unknown pieces, by id."""
    return {number: pieces[number] for number, type_ in enumerate(types) if type_ in (CONTROL, UNKNOWN)}


def model_proto(
    pieces: Sequence[str], scores: Sequence[float], types: Sequence[int], *, dummy_prefix: bool, collapse: bool
) -> bytes:
    """A BPE model in the form that the package sentencepiece reads.

    The package requires an unknown piece, and either all 256 byte pieces or none. Missing pieces are added at the end,
    so their ids are outside the vocabulary.

    Raises:
        VocabularyError: a score does not fit into 32 bits.
    """
    entries = list(zip(pieces, scores, types, strict=True))
    if UNKNOWN not in types:
        entries.append(("<unknown>", 0.0, UNKNOWN))
    if BYTE in types:
        present_bytes = {byte_piece(piece) for piece, type_ in zip(pieces, types, strict=True) if type_ == BYTE}
        entries += [(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256) if byte not in present_bytes]
    if max(map(abs, scores), default=0.0) > _MAX_SCORE:
        raise VocabularyError("a score does not fit into a 32-bit float")
    out = [
        _encode_message(
            _PIECES,
            _encode_message(1, piece.encode("utf-8")) + b"\x15" + _FLOAT.pack(score) + _encode_number(3, int(type_)),
        )
        for piece, score, type_ in entries
    ]
    out.append(
        _encode_message(_TRAINER, _encode_number(_MODEL_TYPE, _BPE) + _encode_number(_BYTE_FALLBACK, BYTE in types))
    )
    out.append(
        _encode_message(_NORMALIZER, _encode_number(_DUMMY_PREFIX, dummy_prefix) + _encode_number(_COLLAPSE, collapse))
    )
    return b"".join(out)


def _encode_number(field: int, value: int) -> bytes:
    return _encode_varint(field << 3 | _VARINT) + _encode_varint(value)


def _encode_message(field: int, content: bytes) -> bytes:
    return _encode_varint(field << 3 | _BYTES) + _encode_varint(len(content)) + content


def _encode_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def _read_model(data: bytes) -> tuple[list[str], list[int], bool, int]:
    """Pieces, their types, whether U+2581 is a space, and the declared end id."""
    pieces: list[str] = []
    types: list[int] = []
    trainer: dict[int, Any] = {}
    normalizer: dict[int, Any] = {}
    for number, value in _read_fields(data, 0, len(data)):
        if number == _PIECES:
            piece, type_ = _read_piece(data, *_check_span(value))
            pieces.append(piece)
            types.append(type_)
        elif number == _TRAINER:
            trainer.update(_read_fields(data, *_check_span(value)))
        elif number == _NORMALIZER:
            normalizer.update(_read_fields(data, *_check_span(value)))
    if not pieces or UNKNOWN not in types:
        raise ValueError("there are no pieces" if not pieces else "no piece has the type unknown")
    if trainer.get(_MODEL_TYPE, 1) not in _ALGORITHMS:
        raise ValueError(f"the model type {trainer[_MODEL_TYPE]!r} is unknown")
    eos = trainer.get(_EOS, 2)
    return pieces, types, bool(normalizer.get(_ESCAPE, True)), eos if isinstance(eos, int) else -1


def _check_span(value: Any) -> tuple[int, int]:
    if not isinstance(value, tuple):
        raise ValueError("a message is stored as a number")
    return value


def _read_piece(data: bytes, start: int, end: int) -> tuple[str, int]:
    """A piece and its type."""
    piece, score, type_ = "", 0.0, NORMAL
    for number, value in _read_fields(data, start, end):
        if number == 1:
            low, high = _check_span(value)
            piece = data[low:high].decode("utf-8")
        elif number == 2:
            score = _FLOAT.unpack(value)[0] if isinstance(value, bytes) and len(value) == 4 else nan
        elif number == 3:
            type_ = value
    if isnan(score) or not isinstance(type_, int) or not NORMAL <= type_ <= BYTE:
        raise ValueError(f"the piece {piece[:40]!r} has no valid score and type")
    return piece, type_


def _read_fields(data: bytes, position: int, end: int) -> Iterator[tuple[int, Any]]:
    """The fields of a message: (number, value). Bytes are given as (start, end), fixed-width numbers as raw bytes."""
    while position < end:
        key, position = _read_varint(data, position, end)
        kind = key & 7
        if kind == _VARINT:
            value, position = _read_varint(data, position, end)
            yield key >> 3, value
        elif kind == _BYTES:
            length, position = _read_varint(data, position, end)
            if length > end - position:
                raise ValueError(f"a field of {length} bytes at byte {position} extends beyond its message")
            yield key >> 3, (position, position + length)
            position += length
        elif kind in (_FIXED32, _FIXED64):
            width = 4 if kind == _FIXED32 else 8
            if width > end - position:
                raise ValueError(f"a number at byte {position} extends beyond its message")
            yield key >> 3, data[position : position + width]
            position += width
        else:
            raise ValueError(f"unknown wire type {kind} at byte {position}")


def _read_varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise ValueError(f"a number at byte {position} is cut off")
