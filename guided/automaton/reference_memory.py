"""What a reader of the text remembers: the JSON values that were written where values must differ.

In: the bytes of the text, one by one, and where scopes (`Distinct`) and entries (`Entry`) begin and end. Out: a
memory, or None where an entry ends with a value that was there.

A memory is the stack of open scopes, innermost last. A scope holds the values that its ended entries had, and the text
of each entry that is under way, innermost last. Outside of all scopes the memory is `NOTHING`, and stays so: entries
are not looked at there. JSON whitespace outside of strings is no part of an entry's text.

Values: strings after decoding, numbers by what they are worth, arrays in order, objects as sets of members. What is no
JSON is a value of its own spelling; a member that is written twice counts once. Python's `json` reads them.

Cost: a byte copies the stack, the end of an entry parses it. `MAX_OPEN` scopes and entries may be open at once, and an
exponent has `MAX_EXPONENT` digits, else `LimitExceeded`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from guided.errors import LimitExceeded

__all__ = ["NOTHING", "Mark", "Memory", "Open", "json_value", "read", "take"]

MAX_OPEN = 50
"""Scopes and entries that are open at once."""
MAX_EXPONENT = 1000
"""Digits of an exponent."""

_NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([-+]?[0-9]+))?")


class Scope(NamedTuple):
    """Where values must differ. `known` are strings that are taken from the beginning."""

    known: frozenset[str]
    values: frozenset[Hashable] = frozenset()
    entries: tuple[bytes, ...] = ()


Memory: TypeAlias = tuple[Scope, ...]
NOTHING: Memory = ()


@dataclass(frozen=True)
class Open:
    """A scope begins."""

    known: frozenset[str]


class Mark(Enum):
    """A scope ends; an entry begins or ends."""

    CLOSE = "close"
    BEGIN = "begin"
    END = "end"


def take(memory: Memory, mark: Mark | Open) -> Memory | None:
    """The memory after `mark`; None: the entry that ends has a value that was there."""
    if isinstance(mark, Open):
        return _bounded((*memory, Scope(mark.known)))
    if not memory:
        return memory
    outer, scope = memory[:-1], memory[-1]
    if mark is Mark.CLOSE:
        return outer
    if mark is Mark.BEGIN:
        return _bounded((*outer, scope._replace(entries=(*scope.entries, b""))))
    value = json_value(scope.entries[-1])
    if value in scope.values or value in scope.known:
        return None
    return (*outer, Scope(scope.known, scope.values | {value}, scope.entries[:-1]))


def read(memory: Memory, byte: int) -> Memory:
    """The memory after one byte of the text."""
    return tuple(scope._replace(entries=tuple(_longer(text, byte) for text in scope.entries)) for scope in memory)


def _bounded(memory: Memory) -> Memory:
    opened = sum(1 + len(scope.entries) for scope in memory)
    if opened > MAX_OPEN:
        raise LimitExceeded("depth", opened, MAX_OPEN, fixed=True)
    return memory


def _longer(text: bytes, byte: int) -> bytes:
    if byte in b" \t\n\r" and not _inside_string(text):
        return text
    return text + bytes([byte])


def _inside_string(text: bytes) -> bool:
    inside = escaped = False
    for byte in text:
        if escaped:
            escaped = False
        elif byte == 0x22:
            inside = not inside
        else:
            escaped = inside and byte == 0x5C
    return inside


def json_value(text: bytes) -> Hashable:
    """What `text` says: equal for texts that are equal as JSON. Strings are `str`, nothing else is."""
    try:
        return _frozen(
            json.loads(
                text.decode(),
                parse_int=_number,
                parse_float=_number,
                parse_constant=_no_json,
                object_pairs_hook=_Members,
            )
        )
    except ValueError:
        return ("no JSON", text)
    except RecursionError:
        raise LimitExceeded("depth", len(text), MAX_OPEN, fixed=True) from None


class _Members(list[tuple[str, object]]):
    """The members of an object, as they were written."""


def _frozen(value: object) -> Hashable:
    """A value that `json` made, hashable. True is 1 in Python: numbers are no Python numbers here."""
    match value:
        case _Members():
            return ("object", frozenset((name, _frozen(inner)) for name, inner in value))
        case list():
            return ("array", tuple(_frozen(inner) for inner in value))
        case str() | bool() | None | tuple():
            return value
    raise TypeError(f"not from JSON: {type(value).__name__}")


def _number(text: str) -> tuple[str, str, str, int]:
    """What a number is worth: its sign, its digits without zeros at either end, the power of ten of the last one."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise ValueError(text)
    sign, whole, fraction, exponent = found.group(1), found.group(2), found.group(3) or "", found.group(4) or "0"
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return ("number", "", "", 0)
    if len(exponent) > MAX_EXPONENT:
        raise LimitExceeded("depth", len(exponent), MAX_EXPONENT, fixed=True)
    power = int(exponent) - len(fraction) + len(digits) - len(digits.rstrip("0"))
    return ("number", sign, digits.rstrip("0"), power)


def _no_json(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
