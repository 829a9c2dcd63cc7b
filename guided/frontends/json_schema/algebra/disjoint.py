"""Determines which types of values two schemas may share, and which types a schema certainly allows, without computing
an intersection.

In: two schemas. Out: the types of which they may share a value. A type is left out only if the schemas clearly share no
value of it:

- one of them does not allow the type, or lists values that the other does not admit
- numbers, counts or patterns exclude each other, or the first items of arrays do
- one requires a member that the other forbids, or only allows with other values (a discriminator)
- fewer names are allowed than members are required
- one has only a few alternatives, and all of them are disjoint from the other schema

Why: `oneOf` means "each branch, without the others". Branches that are disjoint anyway need not be excluded. This keeps
most `oneOf` as simple as `anyOf`.

Cost: linear in the compared parts, counted by the meter. Comparisons enter members and alternatives to a depth of
three. If there are many alternatives, only their types are considered. `discriminators.py` compares many schemas, and
leaves out most of the pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import combinations
from typing import TYPE_CHECKING

from guided.frontends.json_schema.algebra.emptiness import filter_enumeration
from guided.frontends.json_schema.algebra.keys import KeySet, Source
from guided.frontends.json_schema.algebra.shape import ALL_TYPES, ANYTHING, Shape, allows_every, has_false, item_goal
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.documents.values import json_type
from guided.frontends.regex.overlap import Overlap
from guided.meter import spend

if TYPE_CHECKING:
    from guided.frontends.json_schema.algebra.reader import SchemaMeaning

__all__ = ["DisjointnessTest"]

_MAX_DEPTH = 3
_MAX_CHAIN = 8  # the maximum number of references or branches that are followed to reach schemas for the same value
_EVERY_TYPE = frozenset(ALL_TYPES)
_MAX_ALTERNATIVES = 300  # the maximum number of alternatives that are considered at all
_MAX_COMPARED = 32  # the maximum number of alternatives that are compared one by one
_MAX_PAIRED = 8  # the maximum number of schemas of one value that are all compared in pairs
_MAX_CONJUNCTION = 32  # the maximum number of schemas of one value that are compared with one more schema
_COMPARISON_COST = 100  # the cost of a comparison, in units of `Limits.work`


class DisjointnessTest:
    """Compares schemas. `read` reads them. The outline of each schema is cached."""

    def __init__(self, read: Callable[[Schema], SchemaMeaning], overlap: Overlap) -> None:
        self._read, self._overlap = read, overlap
        self._outlines: dict[Schema, Shape] = {}
        self._groups: dict[Schema, list[tuple[Schema, ...]]] = {}
        self._unconstrained_types: dict[Schema, frozenset[str]] = {}
        self._are_known_disjoint: dict[tuple[tuple[Schema, ...], tuple[Schema, ...], int], bool] = {}  # with the depth

    def __call__(self, a: Schema, b: Schema, siblings: Shape = ANYTHING) -> bool:
        """Whether certainly no value satisfies both schemas and the shape `siblings`."""
        return not self._shared_types((a,), (b,), siblings, 0)

    def common_types(self, a: Schema, b: Schema, siblings: Shape = ANYTHING) -> set[str]:
        """The types of which some value may satisfy both schemas and the shape `siblings`."""
        return self._shared_types((a,), (b,), siblings, 0)

    def are_contradictory(self, schemas: tuple[Schema, ...]) -> bool:
        """Whether certainly no value satisfies all of the schemas.

        Compares the first few schemas in pairs, and the last one with many others. Conjunctions grow one schema at a
        time, and this method is called for each new one.
        """
        *others, last = dict.fromkeys(schemas)
        pairs = (
            *combinations(others[:_MAX_PAIRED], 2),
            *((schema, last) for schema in others[:_MAX_CONJUNCTION]),
        )
        return any(self._are_disjoint((a,), (b,), 0) for a, b in pairs)

    def is_excluded_by(self, schema: Schema, shape: Shape) -> bool:
        """Whether certainly no value of a shape satisfies the schema."""
        return not self._shared_types((schema,), (), shape, 0)

    def may_share_object(self, a: Shape, b: Shape) -> bool:
        """Whether some object may be in both shapes. Their formulas are ignored."""
        a, b = a._replace(formula=None), b._replace(formula=None)
        spend(_COMPARISON_COST)
        return not self._objects_are_disjoint(a, b, a.meet(b), 0)

    def possible_types(self, schema: Schema, siblings: Shape = ANYTHING) -> tuple[str, ...]:
        """The types of which some value may satisfy the schema and the shape `siblings`, in the usual order."""
        common = self._shared_types((schema,), (), siblings, 0)
        return tuple(filter(common.__contains__, ALL_TYPES))

    def have_common_type(self, schema: Schema, shape: Shape) -> bool:
        """Whether a schema and a shape have a type in common."""
        return schema.value is not False and bool(_types(self.outline(schema).meet(shape)))

    def alternatives(self, schema: Schema) -> list[tuple[Schema, ...]]:
        """The groups of alternatives that certainly apply with a schema. One alternative of each group must hold."""
        self.outline(schema)
        return [group for group in self._groups.get(schema, ()) if len(group) <= _MAX_ALTERNATIVES]

    def member_schemas(self, shape: Shape, name: str) -> tuple[Schema, ...]:
        """The schemas that certainly apply to the member `name` of the objects of a shape."""
        schemas = list[Schema | None]()
        for part in shape.objects:
            answers = [self._contains(source, name) for source, _ in part.patterns]
            schemas += [schema for (_, schema), answer in zip(part.patterns, answers, strict=True) if answer]
            if name in part.properties:
                schemas.append(part.properties[name])
            elif not any(answer is not False for answer in answers):
                schemas.append(part.additional)
        return tuple([schema for schema in schemas if schema is not None])

    def _contains(self, source: Source, name: str) -> bool | None:
        """Whether a set of names contains a name. None: not known."""
        return None if isinstance(source, (Schema, KeySet)) else self._overlap.contains_word(source, name)

    def charge(self, comparisons: int) -> None:
        """Charge comparisons to the meter. Raises LimitExceeded if the meter is exhausted."""
        spend(_COMPARISON_COST * comparisons)

    def unconstrained_types(self, schema: Schema, depth: int = 0) -> frozenset[str]:
        """Types whose values certainly all satisfy the schema. Each keyword is examined by itself."""
        types = self._unconstrained_types.get(schema)
        if types is None:
            self._unconstrained_types[schema] = frozenset()  # if the schema leads back to itself
            if isinstance(schema.value, bool):
                types = _EVERY_TYPE if schema.value else frozenset()
            elif depth > _MAX_CHAIN:
                types = frozenset()
            else:
                meaning = self._read(schema)
                types = frozenset(name for name in ALL_TYPES if allows_every(meaning.shape, name))
                for group in meaning.groups if types else ():
                    types &= frozenset[str]().union(
                        *(self.unconstrained_types(branch, depth + 1) for branch in group[:_MAX_ALTERNATIVES])
                    )
            self._unconstrained_types[schema] = types
        return types

    def _are_disjoint(self, a: tuple[Schema, ...], b: tuple[Schema, ...], depth: int) -> bool:
        """Whether no value satisfies all schemas of both lists."""
        if not (a and b) or a == b:  # usually the same member, such as the author of an issue and of a comment
            return False
        key = a, b, depth
        answer = self._are_known_disjoint.get(key)
        if answer is None:
            answer = self._are_known_disjoint[key] = not self._shared_types(a, b, ANYTHING, depth)
        return answer

    def _shared_types(self, a: tuple[Schema, ...], b: tuple[Schema, ...], siblings: Shape, depth: int) -> set[str]:
        """The types of which some value may satisfy all schemas of both lists."""
        if any(schema.value is False for schema in (*a, *b)):
            return set()
        if depth > _MAX_DEPTH:
            return set(ALL_TYPES)
        spend(_COMPARISON_COST)
        first, second = (reduce(Shape.meet, map(self.outline, schemas), siblings) for schemas in (a, b))
        common = set(_types(first)) & set(_types(second))
        if not common:
            return common
        intersection = first.meet(second) if b else first  # without `b`, the second shape is `siblings`
        if intersection.values is not None:
            common.intersection_update(map(json_type, filter_enumeration(intersection, self._overlap) or ()))
        if "number" in common and first.numbers.meet(second.numbers).is_empty:
            common.discard("number")
        if "string" in common and self._strings_are_disjoint(first, second):
            common.discard("string")
        if "array" in common and self._arrays_are_disjoint(first, second, depth):
            common.discard("array")
        if "object" in common and self._objects_are_disjoint(first, second, intersection, depth):
            common.discard("object")
        self._restrict_by_branches(common, a, b, siblings, depth)
        self._restrict_by_branches(common, b, a, siblings, depth)
        return common

    def _restrict_by_branches(
        self, common: set[str], a: tuple[Schema, ...], b: tuple[Schema, ...], siblings: Shape, depth: int
    ) -> None:
        """Keep the types of which `b` may share values with some alternative of each group of `a`."""
        groups = [group for schema in a for group in self._groups.get(schema, ()) if len(group) <= _MAX_COMPARED]
        for group in groups:
            possible_types = set[str]()
            for branch in group if common else ():
                possible_types |= self._shared_types((branch,), b, siblings, depth + 1)
                if possible_types >= common:
                    break
            common &= possible_types

    def _arrays_are_disjoint(self, a: Shape, b: Shape, depth: int) -> bool:
        window = a.item_window.meet(b.item_window)
        if window.is_empty:
            return True
        return window.low > 0 and self._are_disjoint(item_goal(a, 0), item_goal(b, 0), depth + 1)

    def _strings_are_disjoint(self, a: Shape, b: Shape) -> bool:
        if a.length.meet(b.length).is_empty:
            return True
        return bool(a.patterns and b.patterns) and not self._overlap.may_have_word((*a.patterns, *b.patterns))

    def _objects_are_disjoint(self, a: Shape, b: Shape, intersection: Shape, depth: int) -> bool:
        names = self._names(intersection)
        if intersection.member_window.is_empty or (names is not None and len(names) < intersection.member_window.low):
            return True
        if names is not None and not names.issuperset(intersection.required):
            return True
        for first, second in ((a, b), (b, a)):
            for name in first.required:
                other_schemas = self.member_schemas(second, name)
                if has_false(other_schemas):
                    return True
                if self._are_disjoint(self.member_schemas(first, name), other_schemas, depth + 1):
                    return True
        return False

    def _names(self, shape: Shape) -> set[str] | None:
        """The names that members may have, without forbidden ones. None if no schema of names lists them."""
        lists = [values for schema in shape.name_schemas if (values := self.outline(schema).values) is not None]
        if not lists:
            return None
        common = set.intersection(*({value for value in values if isinstance(value, str)} for values in lists))
        return {name for name in common if not has_false(self.member_schemas(shape, name))}

    def outline(self, schema: Schema, depth: int = 0) -> Shape:
        """The shape of the schema and of everything that certainly applies with it. Alternatives contribute only their
        types.
        """
        outline = self._outlines.get(schema)
        if outline is None:
            shape, work, seen = ANYTHING, [schema], {schema}
            groups = self._groups[schema] = list[tuple[Schema, ...]]()
            self._outlines[schema] = ANYTHING  # if reading the schema leads back to it
            while work:
                current = work.pop()
                if isinstance(current.value, bool):
                    continue
                meaning = self._read(current)
                shape = shape.meet(meaning.shape)
                for group in meaning.groups:
                    if len(group) > 1:
                        groups.append(group)
                        shape = shape.meet(self._any_type(group, depth + 1))
                    elif group[0] not in seen:
                        seen.add(group[0])
                        work.append(group[0])
            outline = self._outlines[schema] = shape
        return outline

    def _any_type(self, group: tuple[Schema, ...], depth: int) -> Shape:
        """A shape with all types that some alternative allows."""
        types = set[str]()
        for schema in group if depth <= _MAX_DEPTH and len(group) <= _MAX_ALTERNATIVES else ():
            if schema.value is not False:
                types.update(_types(self.outline(schema, depth)))
            if len(types) == len(ALL_TYPES):
                break
        return Shape(types=tuple(filter(types.__contains__, ALL_TYPES))) if types else ANYTHING


def _types(shape: Shape) -> set[str]:
    types = set(shape.types)
    return types if shape.values is None else types & {json_type(value) for value in shape.values}
