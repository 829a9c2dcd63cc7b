"""Computes the complement of a schema, as a union. In: a `Schema`. Out: a `Schema` that accepts exactly the values that
the input rejects.

A schema is a conjunction of parts, so its complement is the union of the complements of the parts (De Morgan). The
complement of

- a type is the other types
- a window or an interval is the values on both sides of it
- a pattern is its negation
- "every item is in S" is "some item is not in S" (an obligation, `existential_constraints.py`)
- "one of these schemas holds" is the conjunction of their complements

For example, not {"type": "string", "minLength": 2} is: any other type, or a string of at most one character.

A complement is computed when it is first read, and the complement of a complement is the original schema. So recursive
definitions have complements, too. The obvious method, expanding a `not` in place, would never terminate for them. Cost:
linear in the parts of the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from guided.frontends.json_schema.algebra.equal_schemas import EqualSchemas
from guided.frontends.json_schema.algebra.keys import KeySet
from guided.frontends.json_schema.algebra.number_set import NumberSet
from guided.frontends.json_schema.algebra.shape import (
    ALL_TYPES,
    ANYTHING,
    ArrayPart,
    ItemCount,
    ObjectPart,
    Shape,
    SomeItem,
    SomeMember,
    Window,
)
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.documents.values import Decimal10, Json, canonical_key, json_type
from guided.frontends.json_schema.formats import superset_if_negated
from guided.ir.nodes import Alt, Not, Text

if TYPE_CHECKING:
    from guided.frontends.json_schema.algebra.reader import SchemaMeaning

__all__ = ["DerivedSchema", "Negation"]


@dataclass(slots=True, eq=False)
class DerivedSchema(Schema):
    """A schema that is derived from others and occurs in no document. `make` returns its meaning."""

    make: Callable[[], SchemaMeaning]


_DERIVED_CONSTRAINTS = ("not",)


class Negation:
    """Computes complements for one reader. `read` reads a schema, `make_meaning` creates a `SchemaMeaning`."""

    def __init__(self, read: Callable[[Schema], SchemaMeaning], make_meaning: Callable[..., SchemaMeaning]) -> None:
        self._read, self._make_meaning = read, make_meaning
        self._equal_schemas = EqualSchemas()
        self._complements: dict[Schema, Schema] = {}
        self._originals: dict[Schema, Schema] = {}
        self._complements_of_everything = set[Schema]()
        self._enumerations: dict[tuple[Schema, tuple[object, ...]], Schema] = {}

    def derive(self, source: Schema, shape: Shape = ANYTHING, *groups: tuple[Schema, ...]) -> Schema:
        """A schema that requires a shape, and one schema of each group. Messages point to `source`."""
        return DerivedSchema(
            source.document,
            source.pointer,
            {},
            source.base,
            lambda: self._make_meaning(shape, groups),
            constraints=_DERIVED_CONSTRAINTS,
        )

    def enumeration(self, source: Schema, values: tuple[Json, ...]) -> Schema:
        """A schema for these values. Equal arguments return the same object, so recursive definitions terminate."""
        key = source, tuple(map(canonical_key, values))
        if key not in self._enumerations:
            self._enumerations[key] = self.derive(source, Shape(values=values))
        return self._enumerations[key]

    def make_empty_schema(self, source: Schema) -> Schema:
        """A schema that no value satisfies."""
        return Schema(source.document, source.pointer, False, source.base)

    def without_member(self, source: Schema, name: str) -> Schema:
        """A schema for all values except objects with a member `name`."""
        return self.derive(
            source, Shape(objects=(ObjectPart({name: self.make_empty_schema(source)}, None, declares=False),))
        )

    @property
    def is_used(self) -> bool:
        """Whether any complement was computed."""
        return bool(self._complements)

    def representative(self, schema: Schema) -> Schema:
        """The first schema with the same content (`equal_schemas.py`)."""
        return self._equal_schemas.representative(schema)

    def excludes(self, schema: Schema, others: Collection[Schema]) -> bool:
        """Whether the complement of a schema is among the others."""
        return self._complements.get(schema) in others

    def complement_of(self, schema: Schema) -> Schema:
        """The complement of a schema."""
        schema = self._equal_schemas.representative(schema)
        complement = self._complements.get(schema)
        if complement is None:
            if schema.value is True:
                complement = self._complement_of_everything(schema)
            elif schema.value is False:
                complement = Schema(schema.document, schema.pointer, True, schema.base)
            else:
                make = partial(self._complement, schema)
                complement = DerivedSchema(
                    schema.document, schema.pointer, {}, schema.base, make, constraints=_DERIVED_CONSTRAINTS
                )
            self._complements[schema], self._complements[complement] = complement, schema
            self._originals[complement] = schema
        return complement

    def is_of_everything(self, schema: Schema) -> bool:
        """Whether this `false` schema is the complement of a schema that allows every value."""
        return schema in self._complements_of_everything

    def original_of(self, schema: Schema) -> Schema | None:
        """The schema whose complement this one is. None if it is not a complement."""
        return self._originals.get(schema)

    def _complement(self, schema: Schema) -> SchemaMeaning:
        meaning = self._read(schema)
        cases = [self.derive(schema, shape) for shape in self.shapes_without(meaning.shape, schema)]
        if meaning.shape.values is not None:
            cases += self._other_values(meaning.shape.values, schema)
        for group in meaning.groups:
            cases.append(self.derive(schema, ANYTHING, *((self.complement_of(branch),) for branch in group)))
        return self._make_meaning(ANYTHING, (tuple(cases) or (self._complement_of_everything(schema),),))

    def _complement_of_everything(self, schema: Schema) -> Schema:
        empty_schema = self.make_empty_schema(schema)
        self._complements_of_everything.add(empty_schema)
        return empty_schema

    def shapes_without(self, shape: Shape, source: Schema) -> Iterator[Shape]:
        """Shapes whose union is the complement of a shape. The shape's enumeration is ignored."""
        if types := tuple(name for name in ALL_TYPES if name not in shape.types):
            yield Shape(types=types)
        yield from (Shape(types=("number",), numbers=numbers) for numbers in shape.numbers.complement())
        yield from (Shape(types=("string",), length=window) for window in shape.length.complement())
        yield from (
            Shape(types=("string",), patterns=(Not(superset_if_negated(pattern)),)) for pattern in shape.patterns
        )
        if shape.json_text is not None:
            yield Shape(types=("string",), no_json_text=shape.json_text)
        if shape.no_json_text is not None:
            yield Shape(types=("string",), json_text=shape.no_json_text)
        if shape.json_base64 is not None:
            yield Shape(types=("string",), no_json_base64=shape.json_base64)
        if shape.no_json_base64 is not None:
            yield Shape(types=("string",), json_base64=shape.no_json_base64)
        yield from (Shape(types=("array",), item_window=window) for window in shape.item_window.complement())
        yield from (Shape(types=("object",), member_window=window) for window in shape.member_window.complement())
        for part in shape.arrays:
            yield from self._array_cases(part)
        if shape.unique is not None:
            yield Shape(types=("array",), repeated=shape.unique)
        if shape.repeated is not None:
            yield Shape(types=("array",), unique=shape.repeated)
        for some_item in shape.some_items:
            yield Shape(
                types=("array",), arrays=(ArrayPart((None,) * some_item.start, self.complement_of(some_item.schema)),)
            )
        for item_count in shape.item_counts:
            for window in item_count.count.complement():
                yield self.with_count(item_count.schema, window)._replace(types=("array",))
        member_schemas = self._required_members(shape)
        for name in shape.required:  # one case for both: absent, or present with another value
            other = (
                self.complement_of(member_schemas[name]) if name in member_schemas else self.make_empty_schema(source)
            )
            yield Shape(types=("object",), objects=(ObjectPart({name: other}, None, declares=False),))
        for object_part in shape.objects:
            yield from self._object_cases(object_part, member_schemas)
        for names in shape.name_schemas:
            yield Shape(
                types=("object",), some_members=(SomeMember(KeySet(sources=(self.complement_of(names),)), None),)
            )
        for some_member in shape.some_members:
            other = (
                self.make_empty_schema(source) if some_member.schema is None else self.complement_of(some_member.schema)
            )
            yield Shape(types=("object",), objects=(ObjectPart({}, None, ((some_member.keys, other),)),))

    def with_count(self, schema: Schema, count: Window) -> Shape:
        """The shape of arrays in which the number of items that satisfy the schema is in `count`."""
        if count == Window(0, None):
            return ANYTHING
        if count == Window(1, None):
            return Shape(some_items=(SomeItem(0, schema),))
        if count == Window(0, 0):
            return Shape(arrays=(ArrayPart((), self.complement_of(schema)),))
        return Shape(item_counts=(ItemCount(schema, self.complement_of(schema), count),))

    def _array_cases(self, part: ArrayPart) -> Iterator[Shape]:
        for index, item in enumerate(part.prefix):
            if item is not None and (other := self.complement_of(item)).value is not False:
                prefix = ((None,) * index) + (other,)
                yield Shape(types=("array",), item_window=Window(index + 1), arrays=(ArrayPart(prefix, None),))
        if part.rest is not None and (other := self.complement_of(part.rest)).value is not False:
            yield Shape(types=("array",), some_items=(SomeItem(len(part.prefix), other),))

    def _required_members(self, shape: Shape) -> dict[str, Schema]:
        """The schema of each required member that only one part declares."""
        schemas_by_name: dict[str, list[Schema]] = {}
        for part in shape.objects:
            for name, member in part.properties.items():
                if member is not None:
                    schemas_by_name.setdefault(name, []).append(member)
        return {name: schemas_by_name[name][0] for name in shape.required if len(schemas_by_name.get(name, ())) == 1}

    def _object_cases(self, part: ObjectPart, handled_names: Collection[str]) -> Iterator[Shape]:
        for name, member in part.properties.items():
            if (
                name not in handled_names
                and member is not None
                and (other := self.complement_of(member)).value is not False
            ):
                yield Shape(
                    types=("object",), required=(name,), objects=(ObjectPart({name: other}, None, declares=False),)
                )
        for source, member in part.patterns:
            if (other := self.complement_of(member)).value is not False:
                yield Shape(types=("object",), some_members=(SomeMember(KeySet(sources=(source,)), other),))
        if part.additional is not None and (other := self.complement_of(part.additional)).value is not False:
            declared_part = ObjectPart(dict.fromkeys(part.properties), None, declares=False)
            keys = KeySet((), tuple(source for source, _ in part.patterns), frozenset(part.properties))
            yield Shape(types=("object",), objects=(declared_part,), some_members=(SomeMember(keys, other),))

    def _other_values(self, values: tuple[Json, ...], source: Schema) -> Iterator[Schema]:
        """Schemas for all other values, type by type. An array or object differs from each listed one in some part."""
        values_by_type: dict[str, list[Json]] = {name: [] for name in ALL_TYPES}
        for value in values:
            values_by_type[json_type(value)].append(value)
        if not values_by_type["null"]:
            yield self.derive(source, Shape(types=("null",)))
        if booleans := tuple(value for value in (True, False) if value not in values_by_type["boolean"]):
            yield self.derive(source, Shape(values=booleans))
        numbers = tuple(value for value in values_by_type["number"] if isinstance(value, Decimal10))
        yield self.derive(source, Shape(types=("number",), numbers=NumberSet(excluded=numbers)))
        texts = tuple(Text(value) for value in values_by_type["string"] if isinstance(value, str))
        yield self.derive(source, Shape(types=("string",), patterns=(Not(Alt(texts)),) if texts else ()))
        for name in ("array", "object"):
            different_values = ((self.complement_of(self.constant(value, source)),) for value in values_by_type[name])
            yield self.derive(source, Shape(types=(name,)), *different_values)

    def constant(self, value: Json, source: Schema) -> Schema:
        """A schema for one value, composed of schemas for its parts. They are created when they are read, since values
        may nest deeply.
        """
        return DerivedSchema(
            source.document,
            source.pointer,
            {},
            source.base,
            lambda: self._make_meaning(self._constant_shape(value, source)),
            constraints=_DERIVED_CONSTRAINTS,
        )

    def _constant_shape(self, value: Json, source: Schema) -> Shape:
        if not isinstance(value, list | dict):
            return Shape(values=(value,))
        size = Window(len(value), len(value))
        if isinstance(value, list):
            items = ArrayPart(tuple(self.constant(item, source) for item in value), None)
            return Shape(types=("array",), item_window=size, arrays=(items,))
        members = ObjectPart({name: self.constant(member, source) for name, member in value.items()}, None)
        return Shape(types=("object",), required=tuple(value), member_window=size, objects=(members,))
