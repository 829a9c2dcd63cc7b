"""Values that must differ from each other: the uniqueness scopes that are open while a text is read.

A grammar marks the part of the output whose values must differ with `Distinct`, and each such value with `Entry`. This
module follows these marks along one text and rejects an entry whose value the scope has already seen.

In: the bytes of the text, one at a time, and the marks between them. Out: the stack of open scopes, innermost last, or
None if an entry has just ended with a value that was seen. Each scope stores the values of its completed entries (its
*seen set*) and the text of each unfinished entry, innermost last. Outside all scopes, the stack is `NO_SCOPES`, and
entries are ignored. Whitespace outside strings is not part of an entry's text.

Example: `[1, 2, 1.0]` with `uniqueItems`. The seen set grows to {1} and then to {1, 2}. The third entry, `1.0`, has a
value that is in the set, so the result is None.

Values are compared as in JSON Schema: strings after decoding, numbers by their numeric value, arrays item by item,
objects as sets of (name, value) pairs. A text that is not JSON equals only itself. Values are parsed with Python's
`json`.

Cost: each byte copies the stack, and the end of an entry parses its text. At most `MAX_OPEN` scopes and entries may be
open at once, and an exponent may have at most `MAX_EXPONENT` characters; beyond this, `LimitExceeded` is raised.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from guided.errors import LimitExceeded

__all__ = ["NO_SCOPES", "Mark", "OpenScope", "Scopes", "apply_mark", "json_value", "read_byte"]

MAX_OPEN = 50
"""The maximum number of scopes and entries that may be open at once."""
MAX_EXPONENT = 1000
"""The maximum number of characters of an exponent, including a sign."""

_NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([-+]?[0-9]+))?")


class Scope(NamedTuple):
    """One open uniqueness scope.

    `known_strings`: strings that count as seen from the start. `values`: the values of completed entries. `entries`:
    the texts of unfinished entries.
    """

    known_strings: frozenset[str]
    values: frozenset[Hashable] = frozenset()
    entries: tuple[bytes, ...] = ()


Scopes: TypeAlias = tuple[Scope, ...]
NO_SCOPES: Scopes = ()


@dataclass(frozen=True)
class OpenScope:
    """The mark at which a scope begins. `known_strings`: strings that count as seen from the start."""

    known_strings: frozenset[str]


class Mark(Enum):
    """The other marks: the innermost scope ends (`CLOSE`), an entry begins (`BEGIN`), or an entry ends (`END`)."""

    CLOSE = "close"
    BEGIN = "begin"
    END = "end"


def apply_mark(scopes: Scopes, mark: Mark | OpenScope) -> Scopes | None:
    """The open scopes after `mark`, or None if an entry ends whose value has been seen."""
    if isinstance(mark, OpenScope):
        return _check_open((*scopes, Scope(mark.known_strings)))
    if not scopes:
        return scopes
    outer, scope = scopes[:-1], scopes[-1]
    if mark is Mark.CLOSE:
        return outer
    if mark is Mark.BEGIN:
        return _check_open((*outer, scope._replace(entries=(*scope.entries, b""))))
    value = json_value(scope.entries[-1])
    if value in scope.values or value in scope.known_strings:
        return None
    return (*outer, Scope(scope.known_strings, scope.values | {value}, scope.entries[:-1]))


def read_byte(scopes: Scopes, byte: int) -> Scopes:
    """The open scopes after one byte of the text."""
    return tuple(scope._replace(entries=tuple(_append_byte(text, byte) for text in scope.entries)) for scope in scopes)


def _check_open(scopes: Scopes) -> Scopes:
    open_count = sum(1 + len(scope.entries) for scope in scopes)
    if open_count > MAX_OPEN:
        raise LimitExceeded("depth", open_count, MAX_OPEN, fixed=True)
    return scopes


def _append_byte(text: bytes, byte: int) -> bytes:
    if byte in b" \t\n\r" and not _is_inside_string(text):
        return text
    return text + bytes([byte])


def _is_inside_string(text: bytes) -> bool:
    is_inside = is_escaped = False
    for byte in text:
        if is_escaped:
            is_escaped = False
        elif byte == 0x22:
            is_inside = not is_inside
        else:
            is_escaped = is_inside and byte == 0x5C
    return is_inside


def json_value(text: bytes) -> Hashable:
    """The value of a JSON text. Texts with equal values have equal results. Only JSON strings become `str` objects."""
    try:
        return _hashable(
            json.loads(
                text.decode(),
                parse_int=_number,
                parse_float=_number,
                parse_constant=_reject_constant,
                object_pairs_hook=_Members,
            )
        )
    except ValueError:
        return ("not JSON", text)
    except RecursionError:
        raise LimitExceeded("depth", len(text), MAX_OPEN, fixed=True) from None


class _Members(list[tuple[str, object]]):
    """The members of an object, as written."""


def _hashable(value: object) -> Hashable:
    """A hashable form of a value from `json`. Numbers are tuples here because in Python `True == 1`."""
    match value:
        case _Members():
            return ("object", frozenset((name, _hashable(inner)) for name, inner in value))
        case list():
            return ("array", tuple(_hashable(inner) for inner in value))
        case str() | bool() | None | tuple():
            return value
    raise TypeError(f"not from JSON: {type(value).__name__}")


def _number(text: str) -> tuple[str, str, str, int]:
    """The numeric value: sign, digits without leading or trailing zeros, and the power of ten of the last digit."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(text)
    sign, whole, fraction, exponent = match.group(1), match.group(2), match.group(3) or "", match.group(4) or "0"
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return ("number", "", "", 0)
    if len(exponent) > MAX_EXPONENT:
        raise LimitExceeded("depth", len(exponent), MAX_EXPONENT, fixed=True)
    power = int(exponent) - len(fraction) + len(digits) - len(digits.rstrip("0"))
    return ("number", sign, digits.rstrip("0"), power)


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
