"""Writes the fields of the IR's classes as integers, and reads them. In: a value. Out: integers; or the reverse.

A row of a table is the number of a class (`layout.py`), followed by its fields. An integer is at least 0 and less than
2**32. A node is written as the number of its row, a string as its number in the list of texts, and a tuple as its
length and its items. Each value has exactly one form, so two rows are equal if and only if their contents are equal.

Reading checks everything that the code for nodes relies on: the classes of nodes, the order of the rows, and lengths.
The core checks the rest, as for every other grammar.

Cost: linear. Ranges and edges are stored flat, so they are read with few calls.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from math import isfinite
from typing import Any, Final, Protocol

from guided.errors import SpecError

__all__ = [
    "BYTES", "COUNT", "COUNTS", "FLAG", "LIMIT", "NAMES", "NONE", "RANGES", "STATES", "TEMPERATURE", "TEXT", "TEXTS",
    "TOKEN", "Field", "Leaf", "Numbers", "Source", "Target", "malformed",
]  # fmt: skip

NONE: Final = 0xFFFFFFFF
_LARGE_MARKER: Final = 0xFFFFFFFE
"""Marks an integer that is at least this large. The number of the text with its hexadecimal digits follows."""


class Target(Protocol):
    """Assigns numbers to the objects, texts and values of a row while it is written."""

    def entry_number(self, entry: Any) -> int:
        """The number of the row of an object that has been written."""

    def text_number(self, text: str) -> int:
        """The number of a text."""

    def value_number(self, value: Any) -> int:
        """The number of a JSON value."""

    def deferred_table_number(self, read: Callable[[], Any]) -> int:
        """The number of the table of a deferred rule, whose grammar `read` returns."""


class Source(Protocol):
    """The data that the fields of a table refer to while it is read.

    Attributes:
        ints: the integers of the table.
        entries: the objects of the rows so far.
        texts, values: the texts and JSON values of the file.
    """

    ints: array[int]
    entries: list[Any]
    texts: Sequence[str]
    values: list[Any]

    def deferred_table(self, number: int) -> Callable[[], Any]:
        """A function that reads another table."""


class Field(Protocol):
    """Writes and reads fields of one kind."""

    def parts(self, value: Any) -> Iterable[Any]:
        """The objects in the value that have rows."""

    def write(self, value: Any, row: list[int], target: Target) -> None:
        """Append the value to a row."""

    def read(self, source: Source, offset: int) -> tuple[Any, int]:
        """The value at an offset of the table, and the offset after it."""


def malformed(reason: str) -> SpecError:
    """The error for stored data that no writer produces."""
    return SpecError(f"the stored grammar is malformed: {reason}", hint="store the grammar again")


class Leaf:
    """The base of fields whose values contain no objects with rows."""

    def parts(self, value: Any) -> Iterable[Any]:
        """No objects."""
        return ()


class _Count(Leaf):
    """An integer of at least 0, or None if `is_optional`."""

    def __init__(self, is_optional: bool) -> None:
        self.is_optional = is_optional

    def write(self, value: int | None, row: list[int], target: Target) -> None:
        if value is None:
            row.append(NONE)
        elif 0 <= value < _LARGE_MARKER:
            row.append(value)
        elif value < 0:
            raise SpecError(f"the number {value} of a node is negative, so it cannot be stored")
        else:
            row += (_LARGE_MARKER, target.text_number(f"{value:x}"))

    def read(self, source: Source, offset: int) -> tuple[int | None, int]:
        value = source.ints[offset]
        if value < _LARGE_MARKER:
            return value, offset + 1
        if value == NONE:
            if not self.is_optional:
                raise malformed("a number is missing")
            return None, offset + 1
        text = source.texts[source.ints[offset + 1]]
        if not text.isascii() or not text.isalnum() or f"{(value := int(text, 16)):x}" != text or value < _LARGE_MARKER:
            raise malformed("a large number is not in canonical form")
        return value, offset + 2


class _Flag(Leaf):
    def write(self, value: bool, row: list[int], target: Target) -> None:
        row.append(1 if value else 0)

    def read(self, source: Source, offset: int) -> tuple[bool, int]:
        value = source.ints[offset]
        if value > 1:
            raise malformed("a flag is neither 0 nor 1")
        return value == 1, offset + 1


class _Text(Leaf):
    def write(self, value: str, row: list[int], target: Target) -> None:
        row.append(target.text_number(value))

    def read(self, source: Source, offset: int) -> tuple[str, int]:
        return source.texts[source.ints[offset]], offset + 1


class _Token(Leaf):
    """The id or the name of a token."""

    def write(self, value: int | str, row: list[int], target: Target) -> None:
        row.append(1 if isinstance(value, str) else 0)
        if isinstance(value, str):
            TEXT.write(value, row, target)
        else:
            COUNT.write(value, row, target)

    def read(self, source: Source, offset: int) -> tuple[int | str | None, int]:
        is_text, offset = FLAG.read(source, offset)
        return (TEXT if is_text else COUNT).read(source, offset)


class _Bytes(Leaf):
    """Bytes, as the text of their hexadecimal digits."""

    def write(self, value: bytes, row: list[int], target: Target) -> None:
        row.append(target.text_number(value.hex()))

    def read(self, source: Source, offset: int) -> tuple[bytes, int]:
        return bytes.fromhex(source.texts[source.ints[offset]]), offset + 1


class _Temperature(Leaf):
    """A finite number of at least 0, or None."""

    def write(self, value: float | None, row: list[int], target: Target) -> None:
        row.append(NONE if value is None else target.text_number(float(value).hex()))

    def read(self, source: Source, offset: int) -> tuple[float | None, int]:
        if source.ints[offset] == NONE:
            return None, offset + 1
        text, offset = TEXT.read(source, offset)
        value = float.fromhex(text)
        if not isfinite(value) or value < 0 or value.hex() != text:
            raise malformed("a temperature is not in canonical form")
        return value, offset


class Numbers(Leaf):
    """A tuple of integers below 2**32, `width` of them in each item."""

    def __init__(self, width: int) -> None:
        self.width = width

    def write(self, value: Sequence[Any], row: list[int], target: Target) -> None:
        """See `Field`."""
        row.append(len(value))
        row += value if self.width == 1 else chain.from_iterable(value)

    def read(self, source: Source, offset: int) -> tuple[tuple[Any, ...], int]:
        """See `Field`."""
        end = offset + 1 + self.width * source.ints[offset]
        flat = source.ints[offset + 1 : end]
        if len(flat) != end - offset - 1:
            raise malformed("a list is cut off")
        return tuple(flat if self.width == 1 else zip(*[iter(flat)] * self.width, strict=True)), end


class _Texts(Leaf):
    """A tuple of texts, or a frozenset if `is_set`. The texts of a set are sorted."""

    def __init__(self, is_set: bool) -> None:
        self.is_set = is_set

    def write(self, value: Any, row: list[int], target: Target) -> None:
        row.append(len(value))
        row += map(target.text_number, sorted(value) if self.is_set else value)

    def read(self, source: Source, offset: int) -> tuple[Any, int]:
        numbers, offset = COUNTS.read(source, offset)
        texts = tuple(map(source.texts.__getitem__, numbers))
        if not self.is_set:
            return texts, offset
        if list(texts) != sorted(out := frozenset(texts)):
            raise malformed("a set is not in order")
        return out, offset


class _States(Leaf):
    """The states of an automaton."""

    def write(self, value: Sequence[Any], row: list[int], target: Target) -> None:
        row.append(len(value))
        for accepts, edges in value:
            row.append(1 if accepts else 0)
            _EDGES.write(edges, row, target)

    def read(self, source: Source, offset: int) -> tuple[tuple[Any, ...], int]:
        states, offset = [], offset + 1
        for _ in range(source.ints[offset - 1]):
            accepts, offset = FLAG.read(source, offset)
            edges, offset = _EDGES.read(source, offset)
            states.append((accepts, edges))
        return tuple(states), offset


COUNT: Final = _Count(False)
LIMIT: Final = _Count(True)
FLAG: Final = _Flag()
TEXT: Final = _Text()
BYTES: Final = _Bytes()
TEMPERATURE: Final = _Temperature()
COUNTS: Final = Numbers(1)
RANGES: Final = Numbers(2)
_EDGES: Final = Numbers(3)
STATES: Final = _States()
TEXTS: Final = _Texts(False)
NAMES: Final = _Texts(True)
TOKEN: Final = _Token()
