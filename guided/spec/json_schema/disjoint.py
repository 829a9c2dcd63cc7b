"""Whether two schemas certainly share no value, without computing their intersection.

In: two schemas. Out: True where it is plain to see: no common type, an enumeration none of whose values the other
admits, numbers, counts or patterns apart, or objects of which a member that one requires is forbidden by the other, or
required by both with disjoint values (a discriminator). False says nothing. What stands in `anyOf`, `oneOf` and `not`
is not looked at.
Cost: linear in what is visible of the two; members are compared to a depth of three.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING

from guided.spec.json_schema.problems import values_left
from guided.spec.json_schema.resolve import Schema
from guided.spec.json_schema.shape import ANYTHING, Shape
from guided.spec.json_schema.values import json_type
from guided.spec.regex.overlap import Overlap

if TYPE_CHECKING:
    from guided.spec.json_schema.reader import Reading

__all__ = ["Disjoint"]

_DEEP = 3


class Disjoint:
    """Compares schemas that `read` reads; outlines are kept."""

    def __init__(self, read: Callable[[Schema], Reading], overlap: Overlap) -> None:
        self._read, self._overlap = read, overlap
        self._outlines: dict[Schema, Shape] = {}

    def __call__(self, a: Schema, b: Schema, beside: Shape = ANYTHING) -> bool:
        """Whether no value satisfies both, for sure, nor what stands beside them."""
        return self._apart([a], [b], beside, 0)

    def _apart(self, a: list[Schema], b: list[Schema], beside: Shape, depth: int) -> bool:
        """Whether no value satisfies all schemas of both lists."""
        if any(schema.value is False for schema in (*a, *b)):
            return True
        if depth > _DEEP:
            return False
        one, two = (reduce(Shape.meet, map(self._outline, schemas), beside) for schemas in (a, b))
        common = set(_types(one)) & set(_types(two))
        if one.values is not None or two.values is not None:
            values = values_left(one.meet(two), self._overlap) or ()
            return common.isdisjoint(map(json_type, values))
        if "number" in common and one.numbers.meet(two.numbers).is_empty:
            common.discard("number")
        if "string" in common and self._strings(one, two):
            common.discard("string")
        if "array" in common and one.items.meet(two.items).is_empty:
            common.discard("array")
        if "object" in common and self._objects(one, two, depth):
            common.discard("object")
        return not common

    def _strings(self, a: Shape, b: Shape) -> bool:
        if a.length.meet(b.length).is_empty:
            return True
        return bool(a.patterns and b.patterns) and not self._overlap.may_hold((*a.patterns, *b.patterns))

    def _objects(self, a: Shape, b: Shape, depth: int) -> bool:
        for one, two in ((a, b), (b, a)):
            for name in one.required:
                theirs = _member(two, name)
                if any(schema.value is False for schema in theirs):
                    return True
                if name in two.required and theirs and self._apart(_member(one, name), theirs, ANYTHING, depth + 1):
                    return True
        return False

    def _outline(self, schema: Schema) -> Shape:
        """The shape of the schema and of all that surely applies with it."""
        found = self._outlines.get(schema)
        if found is None:
            shape, todo, met = ANYTHING, [schema], {schema}
            self._outlines[schema] = ANYTHING  # where reading it asks for itself
            while todo:
                at = todo.pop()
                if isinstance(at.value, bool):
                    continue
                reading = self._read(at)
                shape = shape.meet(reading.shape)
                for group in reading.groups:
                    if len(group) == 1 and group[0] not in met:
                        met.add(group[0])
                        todo.append(group[0])
            found = self._outlines[schema] = shape
        return found


def _types(shape: Shape) -> set[str]:
    types = set(shape.types)
    return types if shape.values is None else types & {json_type(value) for value in shape.values}


def _member(shape: Shape, name: str) -> list[Schema]:
    """Schemas that surely apply to the member; one for additional members does not where patterns may speak of it."""
    found = (part.properties.get(name, None if part.patterns else part.additional) for part in shape.objects)
    return [schema for schema in found if schema is not None]
