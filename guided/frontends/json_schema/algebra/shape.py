"""Defines `Shape`, what a conjunction of schemas requires of a value, type by type; and `meet`, the conjunction of two
shapes.

A `Shape` is a set of JSON values: those that satisfy all of its fields. Except for the enumeration, each field
restricts the values of one JSON type. A shape is one disjunct of the normal form, which is a union of shapes. For
example, `{"type": ["string", "object"], "minLength": 2, "required": ["a"]}` is one shape: all strings of at least two
characters, and all objects with a member `a`.

`meet` is exact for everything that a shape can hold. It intersects types and constants, narrows windows and intervals,
and collects patterns and the schemas of items and members. An item or member must then satisfy all schemas collected
for it. Their conjunction is computed when that location is reached. Cost: linear in the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

from guided.frontends.json_schema.algebra.keys import KeySet, Source
from guided.frontends.json_schema.algebra.number_set import EVERY_NUMBER, NumberSet
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.documents.values import Json, canonical_key, json_type
from guided.ir.nodes import Node
from guided.ir.serial import serial

if TYPE_CHECKING:
    from guided.frontends.json_schema.algebra.count_graph import CountGraph
    from guided.frontends.json_schema.algebra.formula import Formula

__all__ = [
    "ALL_TYPES",
    "ANYTHING",
    "ArrayPart",
    "ItemCount",
    "ObjectPart",
    "Shape",
    "SomeItem",
    "SomeMember",
    "Window",
    "allows_every",
    "constraints_of_type",
    "has_false",
    "item_goal",
    "listed_scalars",
]

ALL_TYPES = ("null", "boolean", "number", "string", "array", "object")


@dataclass(frozen=True, slots=True)
class Window:
    """The counts from `low` to `high` (None: no upper bound)."""

    low: int = 0
    high: int | None = None

    def meet(self, other: Window) -> Window:
        """The counts in both."""
        high = self.high
        if high is None or (other.high is not None and other.high < high):
            high = other.high
        return Window(max(self.low, other.low), high)

    def __contains__(self, count: int) -> bool:
        return self.low <= count and (self.high is None or count <= self.high)

    def complement(self) -> tuple[Window, ...]:
        """Windows whose union is the counts outside this one."""
        lower_counts = () if self.low == 0 else (Window(0, self.low - 1),)
        return lower_counts if self.high is None else (*lower_counts, Window(self.high + 1))

    @property
    def is_empty(self) -> bool:
        """Whether no count is in the window."""
        return self.high is not None and self.high < self.low


_ANY_COUNT = Window()


@dataclass(frozen=True, slots=True)
class ArrayPart:
    """Schemas of the first items, and of all later ones (None: anything)."""

    prefix: tuple[Schema | None, ...]
    rest: Schema | None


@dataclass(frozen=True, slots=True)
class SomeItem:
    """At least one item after the first `start` items satisfies `schema`."""

    start: int
    schema: Schema


@dataclass(frozen=True, slots=True)
class ItemCount:
    """The number of items that satisfy `schema` is in `count`. All other items satisfy `complement`."""

    schema: Schema
    complement: Schema
    count: Window


@dataclass(frozen=True, slots=True)
class SomeMember:
    """At least one member whose name is in `keys` satisfies `schema` (None: any value)."""

    keys: KeySet
    schema: Schema | None


@dataclass(frozen=True, slots=True)
class ObjectPart:
    """Schemas of named members, of members whose names are in a set of names (`Source`), and of all others.

    None means no requirement. `declares`: false for a part of a complement. It constrains members, but names none that
    an object should have: in a branch of `oneOf`, the members of the other branches.
    """

    properties: Mapping[str, Schema | None]
    additional: Schema | None
    patterns: tuple[tuple[Source, Schema], ...] = ()
    declares: bool = True

    def member_schemas(self, name: str, contains: Callable[[Source, str], bool]) -> list[Schema]:
        """The schemas for the member `name`. `contains` decides whether a name is in a set of names."""
        schemas = [self.properties[name]] if name in self.properties else []
        if self.patterns:
            schemas += [schema for source, schema in self.patterns if contains(source, name)]
        return [schema for schema in schemas or (self.additional,) if schema is not None]

    def additional_schemas(self, sources: frozenset[int]) -> list[Schema]:
        """The schemas for additional members whose names are in exactly these sources, given by serial number."""
        schemas: list[Schema | None] = []
        if self.patterns:
            schemas += [schema for source, schema in self.patterns if serial(source) in sources]
        return [schema for schema in schemas or (self.additional,) if schema is not None]


class Shape(NamedTuple):
    """A set of values, type by type.

    `values`: an enumeration that the other fields restrict (None: no enumeration). `length`, `item_window`,
    `member_window`: the allowed numbers of characters, items and members. `name_schemas`: the schemas that the name of
    each member must satisfy. `unique`, `repeated`: the schema that requires that all items differ, or that two are
    equal. `json_text`, `no_json_text`: the schema that requires that a string contains a JSON text, or none;
    `json_base64`, `no_json_base64`: the same for a JSON text in base64. `some_items`, `some_members`: obligations
    (`existential_constraints.py`). `constrains_objects`: whether a keyword about members was read.
    """

    types: tuple[str, ...] = ALL_TYPES
    values: tuple[Json, ...] | None = None
    numbers: NumberSet = EVERY_NUMBER
    length: Window = _ANY_COUNT
    patterns: tuple[Node, ...] = ()
    json_text: Schema | None = None
    no_json_text: Schema | None = None
    json_base64: Schema | None = None
    no_json_base64: Schema | None = None
    item_window: Window = _ANY_COUNT
    arrays: tuple[ArrayPart, ...] = ()
    unique: Schema | None = None
    repeated: Schema | None = None
    member_window: Window = _ANY_COUNT
    name_schemas: tuple[Schema, ...] = ()
    required: tuple[str, ...] = ()
    objects: tuple[ObjectPart, ...] = ()
    constrains_objects: bool = False
    some_items: tuple[SomeItem, ...] = ()
    some_members: tuple[SomeMember, ...] = ()
    item_counts: tuple[ItemCount, ...] = ()
    rest_blocks: tuple[tuple[Schema, ...], ...] = ()
    extra_blocks: tuple[tuple[SomeMember, ...], ...] = ()
    """The resolved obligations. For each block, there is an item after the prefixes, or an additional member, that
    satisfies the whole block."""
    count_graph: CountGraph | None = None
    """The arrays of the shape, item by item, if its items are counted (`count_graph.py`). Set last."""
    formula: Formula | None = None
    """A further requirement on the members of an object, if alternatives would multiply (`conditional.py`). Set last:
    no shape with a formula meets another shape."""

    def meet(self, other: Shape) -> Shape:
        """The values in both. Members keep the order in which they were first named."""
        if self is ANYTHING or other is ANYTHING:
            return other if self is ANYTHING else self
        parts = zip(self, other, ANYTHING, _FIELD_MEETS, strict=True)
        return Shape._make([b if a is default else a if b is default else meet(a, b)
                            for a, b, default, meet in parts])  # fmt: skip

    @property
    def prefix_length(self) -> int:
        """The number of items at the start that have their own schemas."""
        return max((len(part.prefix) for part in self.arrays), default=0)

    def properties(self) -> dict[str, None]:
        """The names declared by any part, in order."""
        names: dict[str, None] = {}
        for part in self.objects:
            names |= dict.fromkeys(part.properties)
        return names

    def undeclared_names(self) -> dict[str, None]:
        """The names that only parts of complements declare."""
        if all(part.declares for part in self.objects):
            return {}
        declared_names = {name for part in self.objects if part.declares for name in part.properties}
        return {name: None for name in self.properties() if name not in declared_names}

    def member_names(self) -> dict[str, None]:
        """The names that any part declares or requires."""
        return self.properties() | dict.fromkeys(self.required)


ANYTHING = Shape()


def _common_values(a: tuple[Json, ...], b: tuple[Json, ...]) -> tuple[Json, ...]:
    keys = {canonical_key(value) for value in b}
    return tuple(value for value in a if canonical_key(value) in keys)


def _union(a: tuple[object, ...], b: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(dict.fromkeys(a + b))


_MEETS: dict[str, Callable[[Any, Any], object]] = {
    "types": lambda a, b: tuple([name for name in a if name in b]),
    "values": _common_values,
    "numbers": NumberSet.meet,
    **dict.fromkeys(("length", "item_window", "member_window"), Window.meet),
    **dict.fromkeys(("patterns", "arrays", "objects", "rest_blocks", "extra_blocks"), add),
    **dict.fromkeys(("name_schemas", "required", "some_items", "some_members", "item_counts"), _union),
    **dict.fromkeys(
        ("json_text", "no_json_text", "json_base64", "no_json_base64", "unique", "repeated", "constrains_objects"),
        lambda a, b: a or b,
    ),
    **dict.fromkeys(("count_graph", "formula"), lambda a, b: a or b),
}
_FIELD_MEETS = tuple(_MEETS[name] for name in Shape._fields)
"""For each field the conjunction of two values. Not called if one of the shapes does not constrain the field."""


_FIELDS_OF_TYPE = {
    "null": (),
    "boolean": (),
    "number": ("numbers",),
    "string": ("length", "patterns", "json_text", "no_json_text", "json_base64", "no_json_base64"),
    "array": ("item_window", "arrays", "unique", "repeated", "some_items", "item_counts", "rest_blocks"),
    "object": (
        "member_window",
        "name_schemas",
        "required",
        "objects",
        "constrains_objects",
        "some_members",
        "extra_blocks",
    ),
}
_DEFAULTS = Shape._field_defaults


def constraints_of_type(shape: Shape, name: str) -> dict[str, Any]:
    """The fields of a shape that constrain values of one type, without its types and its enumeration."""
    return {field: value for field in _FIELDS_OF_TYPE[name] if (value := getattr(shape, field)) != _DEFAULTS[field]}


def allows_every(shape: Shape, name: str) -> bool:
    """Whether a shape contains all values of a type."""
    return (
        name in shape.types
        and shape.values is None
        and not constraints_of_type(shape, name).keys() - {"constrains_objects"}
    )


def listed_scalars(shape: Shape) -> tuple[Json, ...] | None:
    """The values of a shape that lists scalars and constrains only their types. None for other shapes."""
    values = shape.values
    if values is None or any(isinstance(value, list | dict) for value in values):
        return None
    if shape._replace(types=ALL_TYPES, values=None, constrains_objects=False) != ANYTHING:
        return None
    return tuple(value for value in values if json_type(value) in shape.types)


def item_goal(shape: Shape, index: int) -> tuple[Schema, ...]:
    """The schemas for the item at `index`."""
    out = []
    for part in shape.arrays:
        schema = part.prefix[index] if index < len(part.prefix) else part.rest
        if schema is not None:
            out.append(schema)
    return tuple(out)


def has_false(schemas: tuple[Schema, ...]) -> bool:
    """Whether one of the schemas is `false`."""
    for schema in schemas:  # noqa: SIM110 (any() creates a generator, usually for one schema)
        if schema.value is False:
            return True
    return False
