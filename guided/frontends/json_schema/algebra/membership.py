"""Checks whether a JSON value satisfies schemas. In: a value, and schemas or a shape. Out: a bool.

The schemas are not expanded into a disjunctive normal form. Keywords are checked one by one, as in a validator, so the
recursion through a schema is no deeper than the value. Numbers are compared by value. (Draft 4 recognises integers by
their spelling: there, a value satisfies a schema if one of its spellings does.)

Values may nest more deeply than Python's stack allows. So a check is a generator: it yields each check that it needs,
and `_run` sends it the result. Each pair of a schema and a part of the value is checked once. Cost: the schemas that
apply, times the parts of the value.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, TypeAlias

from guided.frontends.json_schema.algebra.content import content_fits
from guided.frontends.json_schema.algebra.keys import Keys
from guided.frontends.json_schema.algebra.shape import Shape, SomeMember, item_goal
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.documents.values import Decimal10, Json, canonical_key, json_type
from guided.ir.serial import ByIdentity
from guided.meter import STEP, spend

__all__ = ["Membership"]

_CHECK_COST = STEP // 10
_Read = Callable[[Schema], "tuple[Shape, tuple[tuple[Schema, ...], ...]]"]
_Check: TypeAlias = Generator[Any, bool, bool]
"""A generator that yields other checks, is sent their results, and returns its own result."""


class Membership:
    """Checks values against schemas of one compilation.

    `read` returns the shape of a schema and its groups of alternatives.
    """

    def __init__(self, read: _Read, keys: Keys) -> None:
        self._read, self._keys = read, keys

    def satisfies_all(self, schemas: Iterable[Schema], value: Json) -> bool:
        """Whether the value satisfies all of the schemas."""
        return _run(_Checks(self._read, self._keys).satisfies_all(schemas, value))

    def fits(self, shape: Shape, value: Json) -> bool:
        """Whether the value is in the shape."""
        checks = _Checks(self._read, self._keys)
        return checks.fits_as_whole(shape, value) and _run(checks.parts_fit(shape, value))


def _run(check: _Check) -> bool:
    """The result of a check."""
    stack = [check]
    result: bool | None = None  # of the check that ended last; None for a check that begins
    while stack:
        try:
            inner: _Check = stack[-1].send(result)  # type: ignore[arg-type]
        except StopIteration as end:
            stack.pop()
            result = end.value
        else:
            stack.append(inner)
            result = None
    return bool(result)


class _Checks:
    """The checks of one value."""

    def __init__(self, read: _Read, keys: Keys) -> None:
        self._read, self._keys = read, keys
        self._results: dict[Schema, ByIdentity[Json, bool]] = {}  # for each schema, by the part of the value

    def satisfies_all(self, schemas: Iterable[Schema], value: Json) -> _Check:
        """Whether the value satisfies all of the schemas."""
        for schema in schemas:
            if not (yield self._satisfies(schema, value)):
                return False
        return True

    def _satisfies(self, schema: Schema, value: Json) -> _Check:
        if isinstance(schema.value, bool):
            return schema.value
        results = self._results.setdefault(schema, ByIdentity())
        if value not in results:
            spend(_CHECK_COST)
            results[value] = False  # the answer if the schema leads back to itself; such schemas are refused elsewhere
            shape, groups = self._read(schema)
            fits = self.fits_as_whole(shape, value) and (yield self.parts_fit(shape, value))
            results[value] = fits and (yield self._satisfies_groups(groups, value))
        return results[value]

    def _satisfies_groups(self, groups: Iterable[tuple[Schema, ...]], value: Json) -> _Check:
        """Whether the value satisfies a schema of each group."""
        for group in groups:
            if not (yield _any(self._satisfies(branch, value) for branch in group)):
                return False
        return True

    def fits_as_whole(self, shape: Shape, value: Json) -> bool:
        """Whether the value is in the shape, apart from requirements on its items and members."""
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
            return len(value) in shape.item_window and _repeats_fit(shape, value)
        return not isinstance(value, dict) or (
            len(value) in shape.member_window
            and value.keys() >= set(shape.required)
            and all(self._keys.contains(names, name) for names in shape.name_schemas for name in value)
        )

    def parts_fit(self, shape: Shape, value: Json) -> _Check:
        """Whether the items or members of the value satisfy the requirements of the shape."""
        if isinstance(value, list):
            return (yield self._items_fit(shape, value))
        return not isinstance(value, dict) or (yield self._members_fit(shape, value))

    def _items_fit(self, shape: Shape, items: list[Json]) -> _Check:
        for index, item in enumerate(items):
            if not (yield self.satisfies_all(item_goal(shape, index), item)):
                return False
        for some_item in shape.some_items:
            if not (yield _any(self._satisfies(some_item.schema, item) for item in items[some_item.start :])):
                return False
        for item_count in shape.item_counts:
            count = 0
            for item in items:
                count += yield self._satisfies(item_count.schema, item)
            if count not in item_count.count:
                return False
        for block in shape.rest_blocks:
            if not (yield _any(self.satisfies_all(block, item) for item in items[shape.prefix_length :])):
                return False
        return True

    def _members_fit(self, shape: Shape, members: dict[str, Json]) -> _Check:
        for part in shape.objects:
            for name, value in members.items():
                if not (yield self.satisfies_all(part.member_schemas(name, self._keys.contains), value)):
                    return False
        for some_member in shape.some_members:
            if not (yield self._has_member((some_member,), members)):
                return False
        declared_names = shape.member_names()
        others = {name: value for name, value in members.items() if name not in declared_names}
        for block in shape.extra_blocks:
            if not (yield self._has_member(block, others)):
                return False
        return True

    def _has_member(self, block: tuple[SomeMember, ...], members: Mapping[str, Json]) -> _Check:
        """Whether some member satisfies all of the block."""
        schemas = [some_member.schema for some_member in block if some_member.schema is not None]
        return (
            yield _any(
                self.satisfies_all(schemas, value)
                for name, value in members.items()
                if all(self._keys.contains(some_member.keys, name) for some_member in block)
            )
        )


def _any(checks: Iterable[_Check]) -> _Check:
    for check in checks:
        if (yield check):
            return True
    return False


def _repeats_fit(shape: Shape, items: list[Json]) -> bool:
    """Whether the items satisfy the shape's requirement that all of them differ, or that two are equal."""
    if shape.unique is None and shape.repeated is None:
        return True
    are_distinct = len({canonical_key(item) for item in items}) == len(items)
    return not (shape.unique is not None and not are_distinct) and not (shape.repeated is not None and are_distinct)
