"""How tokenizer files represent the bytes of a token.

GPT-2's byte alphabet writes each byte as one printable character ("Ġ" is a space). SentencePiece writes a space as
U+2581 and a single byte as a name such as `<0x0A>`. `hex_bytes` shows bytes in error messages.
"""

from __future__ import annotations

from functools import cache
from typing import Final

__all__ = ["SPACE", "byte_alphabet", "byte_piece", "from_byte_alphabet", "hex_bytes"]

SPACE: Final = "\u2581"


@cache
def byte_alphabet() -> tuple[str, ...]:
    """GPT-2's printable character for each byte: itself if it is printable Latin-1, otherwise U+0100, U+0101, ..."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return tuple(chr(byte if byte in printable else next(others)) for byte in range(256))


@cache
def _make_latin1_table() -> dict[int, int]:
    table = {ord(char): byte for byte, char in enumerate(byte_alphabet())}
    return {code: table.get(code, 0x100) for code in range(0x144)}  # other characters must fail to encode


def from_byte_alphabet(spelling: str) -> bytes | None:
    """The bytes that `spelling` represents, or None if a character is not in the alphabet."""
    try:
        return spelling.translate(_make_latin1_table()).encode("latin-1")
    except UnicodeEncodeError:
        return None


def byte_piece(piece: str) -> int | None:
    """The byte of a piece such as `<0x0A>`, or None."""
    if len(piece) != 6 or not piece.startswith("<0x") or piece[5] != ">":
        return None
    try:
        return int(piece[3:5], 16)
    except ValueError:
        return None


def hex_bytes(data: bytes) -> str:
    """Bytes for an error message: `0xF0 0x9F`, at most sixteen."""
    return " ".join(f"0x{byte:02X}" for byte in data[:16]) + (" ..." if len(data) > 16 else "")
