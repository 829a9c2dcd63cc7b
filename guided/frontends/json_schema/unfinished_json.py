r"""Finds the values that are open at the end of an unfinished JSON text, and their locations. In: bytes. Out:
`OpenValue`s.

    {"a": [1, {"b": "x     the object, its member "a", that array's item 1, the member "b" of this item

A value is open from the point where it can begin until it has ended. So after `:` and before an item, a value is open
although none of it is written yet, and a number is open as long as nothing follows it. Before, within and after a key,
the object is the innermost open value. The text may end inside a character. It may contain several values one after the
other; only the last one counts. Invalid JSON causes no error, but the result is arbitrary.

Cost: linear in the text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

__all__ = ["OpenValue", "open_values"]

_LEXEME = re.compile(rb'[ \t\n\r]*("(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}\[\],:]|[^ \t\n\r{}\[\],:"]+)', re.DOTALL)
_LITERALS = (b"true", b"false", b"null")


@dataclass(slots=True)
class OpenValue:
    """A value that is unfinished at the end of a text.

    Attributes:
        start: its offset in bytes; the end of the text if none of it is written yet.
        name_or_index: its key or index in the enclosing value; None for the whole text.
        keys: if it is an object, the keys that were written so far.
        key_start: the offset of a key in it that is unfinished or has no colon yet; None if there is no such key.
    """

    start: int
    name_or_index: str | int | None
    is_object: bool = False
    keys: list[str] = field(default_factory=list)
    key_start: int | None = None


def open_values(text: bytes) -> list[OpenValue]:
    """The open values, outermost first. Empty if the text is one complete value."""
    containers: list[OpenValue] = []
    scalar: OpenValue | None = OpenValue(len(text), None)  # has begun, or may begin here
    key, indices, expects_key, pos = "", [0], False, 0
    while (match := _LEXEME.match(text, pos)) is not None:
        lexeme, start, pos = match[1], match.start(1), match.end()
        if lexeme in (b"}", b"]"):
            scalar, expects_key = None, False
            if containers:
                containers.pop()
                indices.pop()
        elif lexeme == b",":
            container = containers[-1] if containers else OpenValue(0, None)
            expects_key, indices[-1] = container.is_object, indices[-1] + 1
            scalar = None if expects_key else OpenValue(len(text), indices[-1])
        elif lexeme == b":":
            scalar = OpenValue(len(text), key)
            if containers:
                containers[-1].key_start = None
        elif expects_key:
            scalar, expects_key = None, False
            containers[-1].key_start = start
            if (decoded := _decode_string(lexeme)) is not None:
                key = decoded
                containers[-1].keys.append(key)
        else:
            name_or_index = None if not containers else key if containers[-1].is_object else indices[-1]
            if lexeme in (b"{", b"["):
                expects_key = lexeme == b"{"
                containers.append(OpenValue(start, name_or_index, expects_key))
                indices.append(0)
                scalar = None if expects_key else OpenValue(len(text), 0)
            else:
                scalar = None if _has_ended(lexeme, pos == len(text)) else OpenValue(start, name_or_index)
    return [*containers, *([scalar] if scalar is not None else [])]


def _has_ended(lexeme: bytes, is_last: bool) -> bool:
    if lexeme.startswith(b'"'):
        return _decode_string(lexeme) is not None
    return lexeme in _LITERALS or not is_last


def _decode_string(lexeme: bytes) -> str | None:
    """The decoded string. None if it has not ended."""
    try:
        value = json.loads(lexeme)
    except ValueError:
        return None
    return value if isinstance(value, str) else None
