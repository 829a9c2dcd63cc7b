"""Finds the pairs of alternatives that may share a value. In: alternatives, and the shape of all values. Out: pairs of
alternatives.

Comparing all pairs takes n^2 comparisons. But alternatives of real schemas have a *discriminator*: a required member,
or a member of a required member, that lists its values. So this module determines, for each alternative, which values
it allows at which *paths*. Two alternatives that allow different values at the same path share no value. Usually, most
alternatives have some path in common. Each alternative with this path goes into the buckets of the values that it
allows there. Only alternatives in the same bucket are paired. Alternatives without the path are paired with all others.
A large bucket, or a large group without the path, is divided again by another path.

    {"kind": "a", ...}   {"kind": "b", ...}   {"kind": "b", "size": 1, ...}   {"size": 2, ...}
    path ("kind",):    bucket a: 0     bucket b: 1, 2     without the path: 3
    pairs: (1, 2), and 3 with each of the others

The path of the value itself is (). A step into an item is its index. Paths lead through references and `allOf`, and
through alternatives if all of them have the path. Source: the `discriminator` of OpenAPI, which is inferred here.

Cost: linear in the alternatives and their pairs; the meter counts both. Patterns, bounds and absent members are not
considered here; `disjoint.py` uses these to compare two schemas.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

from guided.frontends.json_schema.algebra.shape import ANYTHING, Shape, item_goal
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.documents.values import canonical_key, json_type

if TYPE_CHECKING:
    from guided.frontends.json_schema.algebra.disjoint import DisjointnessTest

__all__ = ["pairs_that_may_overlap"]

_Path: TypeAlias = tuple[str | int, ...]
_Values: TypeAlias = frozenset[tuple[object, ...]]
"""The keys of listed values. A type whose values lack the path counts as one value."""
_Paths: TypeAlias = Mapping[_Path, _Values]

_MAX_STEPS = 3  # the maximum number of steps of a path
_MAX_PATHS, _MAX_ITEMS = 32, 4  # maximum numbers, per alternative and per array
_MAX_UNINDEXED = 12  # with at most this many alternatives, all pairs are returned


def pairs_that_may_overlap(
    disjointness: DisjointnessTest, schemas: Mapping[int, Schema], siblings: Shape
) -> set[tuple[int, int]]:
    """Pairs (a < b) of keys of `schemas`. No value of `siblings` satisfies both schemas of any other pair."""
    if len(schemas) <= _MAX_UNINDEXED:
        return set(_all_pairs(list(schemas)))
    paths = {index: _paths(disjointness, (schema,), siblings, _MAX_STEPS) for index, schema in schemas.items()}
    out: set[tuple[int, int]] = set()
    work: list[tuple[list[int], frozenset[_Path]]] = [(list(schemas), frozenset())]
    while work:
        group, used_paths = work.pop()
        disjointness.charge(len(group))
        counts = Counter(path for index in group for path in paths[index] if path not in used_paths)
        best = max(counts, key=lambda path: (counts[path], -len(path)), default=None)
        if len(group) <= _MAX_UNINDEXED or best is None or counts[best] == 1:
            out.update(_all_pairs(group))
            continue
        buckets: dict[tuple[object, ...], list[int]] = defaultdict(list)
        alternatives_without_path: list[int] = []
        for index in group:
            for value in paths[index].get(best, ()):
                buckets[value].append(index)
            alternatives_without_path += () if best in paths[index] else (index,)
        used_paths |= {best}
        work += ((bucket, used_paths) for bucket in {tuple(bucket): bucket for bucket in buckets.values()}.values())
        work.append((alternatives_without_path, used_paths))
        for index in alternatives_without_path:
            disjointness.charge(len(group))
            out.update((min(index, other), max(index, other)) for other in group if best in paths[other])
    return out


def _all_pairs(group: Sequence[int]) -> Iterator[tuple[int, int]]:
    return ((min(a, b), max(a, b)) for index, a in enumerate(group) for b in group[:index])


def _paths(
    disjointness: DisjointnessTest, schemas: Sequence[Schema], siblings: Shape, steps_left: int
) -> dict[_Path, _Values]:
    """The possible values at each path of a value that satisfies all of the schemas and `siblings`."""
    disjointness.charge(1)
    shape = reduce(Shape.meet, map(disjointness.outline, schemas), siblings)
    if shape.values is not None:
        return {(): frozenset(canonical_key(value) for value in shape.values if json_type(value) in shape.types)}
    out: dict[_Path, _Values] = {}
    for name, step, inner in _required_parts(disjointness, shape) if steps_left else ():
        others = frozenset(("type", other) for other in shape.types if other != name)
        for path, values in _paths(disjointness, inner, ANYTHING, steps_left - 1).items():
            if len(out) < _MAX_PATHS:
                out[step, *path] = values | others
    for group in (group for schema in schemas for group in disjointness.alternatives(schema)) if steps_left else ():
        branch_paths = [
            _paths(disjointness, (branch,), shape, steps_left - 1)
            for branch in group
            if disjointness.have_common_type(branch, shape)
        ]
        for path in branch_paths[0] if branch_paths else ():
            if path not in out and len(out) < _MAX_PATHS and all(path in paths for paths in branch_paths):
                out[path] = frozenset[tuple[object, ...]]().union(*(paths[path] for paths in branch_paths))
    return out


def _required_parts(disjointness: DisjointnessTest, shape: Shape) -> Iterator[tuple[str, str | int, Sequence[Schema]]]:
    """The parts that every value of a type contains: (type, the step into the part, the part's schemas)."""
    if "object" in shape.types:
        for name in shape.required:
            if inner := disjointness.member_schemas(shape, name):
                yield "object", name, inner
    if "array" in shape.types:
        for index in range(min(shape.item_window.low, _MAX_ITEMS)):
            if inner_items := item_goal(shape, index):
                yield "array", index, inner_items
