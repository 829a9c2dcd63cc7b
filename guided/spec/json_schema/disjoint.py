"""Whether two schemas certainly share no value, without computing their intersection.

In: two schemas. Out: True where it is plain to see: no common type, enumerations without a common value, numbers or
counts apart, or objects of which a member that one requires is forbidden by the other, or required by both with
disjoint values (a discriminator). False says nothing. What stands in `anyOf`, `oneOf` and `not` is not looked at.
Cost: linear in what is visible of the two; members are compared to a depth of three.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from guided.spec.json_schema.resolve import Schema
from guided.spec.json_schema.shape import ANYTHING, Shape
from guided.spec.json_schema.values import canonical, json_type

if TYPE_CHECKING:
    from guided.spec.json_schema.reader import Reading

__all__ = ["Disjoint"]

_DEEP = 3


class Disjoint:
    """Compares schemas that `read` reads; outlines are kept."""

    def __init__(self, read: Callable[[Schema], Reading]) -> None:
        self._read = read
        self._outlines: dict[Schema, Shape] = {}

    def __call__(self, a: Schema, b: Schema, beside: Shape = ANYTHING, depth: int = 0) -> bool:
        """Whether no value satisfies both, for sure, nor what stands beside them."""
        if a.value is False or b.value is False:
            return True
        if depth > _DEEP:
            return False
        one, two = self._outline(a).meet(beside), self._outline(b).meet(beside)
        common = set(_types(one)) & set(_types(two))
        if one.values is not None and two.values is not None:
            keys = set(map(canonical, one.values))
            return not any(canonical(value) in keys for value in two.values)
        if "number" in common and one.numbers.meet(two.numbers).is_empty:
            common.discard("number")
        if "string" in common and one.length.meet(two.length).is_empty:
            common.discard("string")
        if "array" in common and one.items.meet(two.items).is_empty:
            common.discard("array")
        if "object" in common and self._objects(one, two, depth):
            common.discard("object")
        return not common

    def _objects(self, a: Shape, b: Shape, depth: int) -> bool:
        for one, two in ((a, b), (b, a)):
            for name in one.required:
                for theirs in _member(two, name):
                    if theirs.value is False:
                        return True
                    if name in two.required and any(self(mine, theirs, depth=depth + 1) for mine in _member(one, name)):
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
