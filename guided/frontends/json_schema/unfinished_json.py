r"""An unfinished JSON text: which values are open at its end, and where they are. In: bytes. Out: `OpenValue`s.

    {"a": [1, {"b": "x     the object, its member "a", the item 1 of that, its member "b"

A value is open from where it can begin to where it has ended: behind `:` and in front of an item a value is open of
which nothing was written yet, and a number is open as long as nothing follows it. In front of a key, within one and
behind it the object is the innermost value. The text may end inside of a character, and hold several values one after
the other, the last of which counts. What is no JSON is read in some way.

Cost: linear in the text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

__all__ = ["OpenValue", "open_values"]

_TOKEN = re.compile(rb'[ \t\n\r]*("(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}\[\],:]|[^ \t\n\r{}\[\],:"]+)', re.DOTALL)
_LITERALS = (b"true", b"false", b"null")


@dataclass(slots=True)
class OpenValue:
    """A value that is under way at the end of a text.

    Attributes:
        start: where it begins, in bytes; the end of the text if nothing of it was written.
        token: its key or its number in the value around it; None for the whole.
        keys: of an object, the keys that were written so far.
        key_start: of an object, where the key begins that is under way or has no colon yet; None where there is none.
    """

    start: int
    token: str | int | None
    is_object: bool = False
    keys: list[str] = field(default_factory=list)
    key_start: int | None = None


def open_values(text: bytes) -> list[OpenValue]:
    """The open values, the outermost first; none if the text is one whole value."""
    containers: list[OpenValue] = []
    scalar: OpenValue | None = OpenValue(len(text), None)  # begun, or about to begin
    key, item, expects_key, at = "", [0], False, 0
    while (match := _TOKEN.match(text, at)) is not None:
        lexeme, start, at = match[1], match.start(1), match.end()
        if lexeme in (b"}", b"]"):
            containers, item, scalar, expects_key = containers[:-1], item[:-1] or [0], None, False
        elif lexeme == b",":
            inside = containers[-1] if containers else OpenValue(0, None)
            expects_key, item[-1] = inside.is_object, item[-1] + 1
            scalar = None if expects_key else OpenValue(len(text), item[-1])
        elif lexeme == b":":
            scalar = OpenValue(len(text), key)
            if containers:
                containers[-1].key_start = None
        elif expects_key:
            scalar, expects_key = None, False
            containers[-1].key_start = start
            if (found := _string(lexeme)) is not None:
                key = found
                containers[-1].keys.append(key)
        else:
            token = None if not containers else key if containers[-1].is_object else item[-1]
            if lexeme in (b"{", b"["):
                expects_key = lexeme == b"{"
                containers.append(OpenValue(start, token, expects_key))
                item.append(0)
                scalar = None if expects_key else OpenValue(len(text), 0)
            else:
                scalar = None if _has_ended(lexeme, at == len(text)) else OpenValue(start, token)
    return [*containers, *([scalar] if scalar is not None else [])]


def _has_ended(lexeme: bytes, is_last: bool) -> bool:
    if lexeme.startswith(b'"'):
        return _string(lexeme) is not None
    return lexeme in _LITERALS or not is_last


def _string(lexeme: bytes) -> str | None:
    """The string that is written; None if it has not ended."""
    try:
        found = json.loads(lexeme)
    except ValueError:
        return None
    return found if isinstance(found, str) else None
