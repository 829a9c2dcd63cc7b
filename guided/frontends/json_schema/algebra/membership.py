"""Checks whether a JSON value satisfies schemas. In: a value, and schemas or a shape. Out: a bool.

The schemas are not expanded into a disjunctive normal form. Keywords are checked one by one, as in a validator, so the
recursion through a schema ends with the value. Numbers are compared by value. (Draft 4 recognises integers by their
spelling: there, a value satisfies a schema if one of its spellings does.) Cost: the schemas that apply, times the parts
of the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from guided.frontends.json_schema.algebra.content import content_fits
from guided.frontends.json_schema.algebra.keys import Keys
from guided.frontends.json_schema.algebra.shape import Shape, SomeMember, item_goal
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.documents.values import Decimal10, Json, canonical_key, json_type

__all__ = ["Membership"]

_Read = Callable[[Schema], "tuple[Shape, tuple[tuple[Schema, ...], ...]]"]


class Membership:
    """Checks values against schemas of one compilation.

    `read` returns the shape of a schema and its groups of alternatives.
    """

    def __init__(self, read: _Read, keys: Keys) -> None:
        self._read, self._keys = read, keys

    def satisfies_all(self, schemas: Iterable[Schema], value: Json) -> bool:
        """Whether the value satisfies all of the schemas."""
        return all(self._satisfies(schema, value, frozenset()) for schema in schemas)

    def _satisfies(self, schema: Schema, value: Json, open_schemas: frozenset[Schema]) -> bool:
        """Whether the value satisfies the schema. `open_schemas`: the schemas that are already being checked for it."""
        if isinstance(schema.value, bool):
            return schema.value
        if schema in open_schemas:  # the schema leads back to itself, which is refused elsewhere
            return False
        open_schemas |= {schema}
        shape, groups = self._read(schema)
        return self.fits(shape, value) and all(
            any(self._satisfies(branch, value, open_schemas) for branch in group) for group in groups
        )

    def fits(self, shape: Shape, value: Json) -> bool:
        """Whether the value is in the shape."""
        if json_type(value) not in shape.types:
            return False
        if shape.values is not None and canonical_key(value) not in map(canonical_key, shape.values):
            return False
        if isinstance(value, str):
            fits = len(value) in shape.length and content_fits(value, shape)
            return fits and all(self._keys.contains(pattern, value) for pattern in shape.patterns)
        if isinstance(value, Decimal10):
            return value in shape.numbers
        if isinstance(value, list):
            return len(value) in shape.item_window and self._items_fit(shape, value)
        return not isinstance(value, dict) or (len(value) in shape.member_window and self._members_fit(shape, value))

    def _items_fit(self, shape: Shape, items: list[Json]) -> bool:
        if shape.unique is not None or shape.repeated is not None:
            are_distinct = len({canonical_key(item) for item in items}) == len(items)
            if (shape.unique is not None and not are_distinct) or (shape.repeated is not None and are_distinct):
                return False
        if not all(self.satisfies_all(item_goal(shape, index), item) for index, item in enumerate(items)):
            return False
        later_items = items[shape.prefix_length :]
        return (
            all(
                any(self.satisfies_all((some_item.schema,), item) for item in items[some_item.start :])
                for some_item in shape.some_items
            )
            and all(
                sum(self.satisfies_all((item_count.schema,), item) for item in items) in item_count.count
                for item_count in shape.item_counts
            )
            and all(any(self.satisfies_all(block, item) for item in later_items) for block in shape.rest_blocks)
        )

    def _members_fit(self, shape: Shape, members: dict[str, Json]) -> bool:
        if not members.keys() >= set(shape.required):
            return False
        if not all(self._keys.contains(names, name) for names in shape.name_schemas for name in members):
            return False
        for part in shape.objects:
            if not all(
                self.satisfies_all(part.member_schemas(name, self._keys.contains), value)
                for name, value in members.items()
            ):
                return False
        declared = shape.member_names()
        others = {name: value for name, value in members.items() if name not in declared}
        return all(self._has_member((some_member,), members) for some_member in shape.some_members) and all(
            self._has_member(block, others) for block in shape.extra_blocks
        )

    def _has_member(self, block: tuple[SomeMember, ...], members: dict[str, Json]) -> bool:
        """Whether some member satisfies all of the block."""
        return any(
            all(
                self._keys.contains(some_member.keys, name)
                and (some_member.schema is None or self.satisfies_all((some_member.schema,), value))
                for some_member in block
            )
            for name, value in members.items()
        )
