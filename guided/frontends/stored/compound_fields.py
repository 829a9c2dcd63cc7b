"""Fields that contain other fields, objects with rows, or JSON values. `fields.py` explains fields and rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, starmap
from typing import Any, Final

from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.frontends.stored.fields import NONE, TOKEN, Field, Leaf, Numbers, Source, Target, malformed

__all__ = [
    "DEFERRED_GRAMMAR",
    "OPTIONS",
    "TOKENS",
    "entries_of",
    "entry_of",
    "instances_of",
    "items_of",
    "json_of",
    "map_of",
]


class _Items:
    """A tuple of values of another field."""

    def __init__(self, field: Field) -> None:
        self.field = field

    def parts(self, value: Iterable[Any]) -> Iterable[Any]:
        return chain.from_iterable(map(self.field.parts, value))

    def write(self, value: Any, row: list[int], target: Target) -> None:
        row.append(len(value))
        for item in value:
            self.field.write(item, row, target)

    def read(self, source: Source, offset: int) -> tuple[tuple[Any, ...], int]:
        items, offset = [], offset + 1
        for _ in range(source.ints[offset - 1]):
            item, offset = self.field.read(source, offset)
            items.append(item)
        return tuple(items), offset


class _Map:
    """A mapping, in its order."""

    def __init__(self, key: Field, value: Field) -> None:
        self.key, self.value = key, value

    def parts(self, value: Any) -> Iterable[Any]:
        return chain.from_iterable(map(self.value.parts, value.values()))

    def write(self, value: Any, row: list[int], target: Target) -> None:
        row.append(len(value))
        for key, item in value.items():
            self.key.write(key, row, target)
            self.value.write(item, row, target)

    def read(self, source: Source, offset: int) -> tuple[dict[Any, Any], int]:
        out, count, offset = {}, source.ints[offset], offset + 1
        for _ in range(count):
            key, offset = self.key.read(source, offset)
            out[key], offset = self.value.read(source, offset)
        if len(out) != count:
            raise malformed("a key occurs twice")
        return out, offset


class _Entry:
    """An object with a row, of one of these classes, or None if `is_optional`."""

    def __init__(self, classes: frozenset[type], is_optional: bool = False) -> None:
        self.classes, self.is_optional = classes, is_optional

    def parts(self, value: Any) -> Iterable[Any]:
        return () if value is None else (value,)

    def write(self, value: Any, row: list[int], target: Target) -> None:
        row.append(NONE if value is None else target.entry_number(value))

    def read(self, source: Source, offset: int) -> tuple[Any, int]:
        number = source.ints[offset]
        if number == NONE and self.is_optional:
            return None, offset + 1
        entry = source.entries[number]
        if type(entry) not in self.classes:
            raise malformed(f"there is a {type(entry).__name__} in the wrong place")
        return entry, offset + 1


class _Entries:
    """A tuple of objects with rows, of these classes."""

    def __init__(self, classes: frozenset[type]) -> None:
        self.classes = classes

    def parts(self, value: Iterable[Any]) -> Iterable[Any]:
        return value

    def write(self, value: Any, row: list[int], target: Target) -> None:
        row.append(len(value))
        row += map(target.entry_number, value)

    def read(self, source: Source, offset: int) -> tuple[tuple[Any, ...], int]:
        end = offset + 1 + source.ints[offset]
        numbers = source.ints[offset + 1 : end]
        if len(numbers) != end - offset - 1:
            raise malformed("a list is cut off")
        items = tuple(map(source.entries.__getitem__, numbers))
        if not self.classes.issuperset(map(type, items)):
            raise malformed("a list has an object of the wrong class")
        return items, end


class _Instances:
    """A tuple of small objects without rows, whose fields are integers below 2**32."""

    def __init__(self, cls: type, fields: Sequence[str]) -> None:
        self.cls, self.fields, self.numbers = cls, fields, Numbers(len(fields))

    def parts(self, value: Any) -> Iterable[Any]:
        return ()

    def write(self, value: Any, row: list[int], target: Target) -> None:
        self.numbers.write([[getattr(item, name) for name in self.fields] for item in value], row, target)

    def read(self, source: Source, offset: int) -> tuple[tuple[Any, ...], int]:
        rows, offset = self.numbers.read(source, offset)
        return tuple(starmap(self.cls, rows)), offset


class _DeferredGrammar(Leaf):
    """A function that reads a grammar, which has its own table."""

    def write(self, value: Any, row: list[int], target: Target) -> None:
        row.append(target.deferred_table_number(value))

    def read(self, source: Source, offset: int) -> tuple[Any, int]:
        return source.deferred_table(source.ints[offset]), offset + 1


class _Value(Leaf):
    """A JSON value of one of these types."""

    def __init__(self, *types: type) -> None:
        self.types = types

    def write(self, value: Any, row: list[int], target: Target) -> None:
        row.append(target.value_number(value))

    def read(self, source: Source, offset: int) -> tuple[Any, int]:
        value = source.values[source.ints[offset]]
        if type(value) not in self.types:
            raise malformed(f"there is a {type(value).__name__} in the wrong place")
        return value, offset + 1


class _Options(Leaf):
    """The options of a JSON Schema."""

    def write(self, value: JsonSchemaOptions, row: list[int], target: Target) -> None:
        options = value.non_defaults()
        json_options = {name: list(item) if isinstance(item, tuple) else item for name, item in options.items()}
        row.append(target.value_number(json_options))

    def read(self, source: Source, offset: int) -> tuple[JsonSchemaOptions, int]:
        value, offset = _Value(dict).read(source, offset)
        return JsonSchemaOptions(**value), offset


TOKENS: Final = _Items(TOKEN)
DEFERRED_GRAMMAR: Final = _DeferredGrammar()
OPTIONS: Final = _Options()


def items_of(field: Field) -> Field:
    """A tuple of values of a field."""
    return _Items(field)


def map_of(key: Field, value: Field) -> Field:
    """A mapping."""
    return _Map(key, value)


def entry_of(*classes: type, is_optional: bool = False) -> Field:
    """An object with a row, of one of these classes."""
    return _Entry(frozenset(classes), is_optional)


def entries_of(*classes: type) -> Field:
    """A tuple of objects with rows, of these classes."""
    return _Entries(frozenset(classes))


def instances_of(cls: type, *fields: str) -> Field:
    """A tuple of objects of a class without rows, whose fields are integers."""
    return _Instances(cls, fields)


def json_of(*types: type) -> Field:
    """A JSON value of one of these types."""
    return _Value(*types)
