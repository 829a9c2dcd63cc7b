"""Expresses `oneOf`: exactly one of the alternatives holds. In: the alternatives. Out: each of them minus the others.

Each JSON type is decided separately. An alternative loses a type if another one allows all values of that type. This
check comes first, as it often suffices: schemas often allow types that their authors did not intend. An alternative
excludes only alternatives that may hold for the same values of the type. An index (`discriminators.py`) finds pairs
that may overlap, and `disjoint.py` compares the two of each pair.

Cost: linear in the alternatives, if a discriminator separates them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from guided.frontends.json_schema.algebra.discriminators import pairs_that_may_overlap
from guided.frontends.json_schema.algebra.shape import ALL_TYPES, ANYTHING, Shape
from guided.frontends.json_schema.documents.schema import Schema

if TYPE_CHECKING:
    from guided.frontends.json_schema.algebra.reader import Reader

__all__ = ["exactly_one"]


def exactly_one(reader: Reader, branches: tuple[Schema, ...], siblings: Shape) -> tuple[Schema, ...]:
    """Schemas for the values that satisfy one branch and no other. `siblings` is the shape of the keywords next to
    `oneOf`.
    """
    disjointness = reader.disjointness
    types = [disjointness.possible_types(branch, siblings) for branch in branches]
    competitors: list[dict[str, list[int]]] = [defaultdict(list) for _ in branches]
    excluded_types: list[set[str]] = [set() for _ in branches]
    common_types: dict[tuple[int, int], set[str]] = {}
    for name in ALL_TYPES:
        candidates = {index: branch for index, branch in enumerate(branches) if name in types[index]}
        universal_indices = [index for index in candidates if name in disjointness.unconstrained_types(branches[index])]
        for index in candidates:
            if universal_indices and universal_indices != [index]:
                excluded_types[index].add(name)
        if len(universal_indices) > 1:
            continue
        if universal_indices:
            pairs = {
                (min(index, universal_indices[0]), max(index, universal_indices[0]))
                for index in candidates
                if index != universal_indices[0]
            }
        else:
            pairs = pairs_that_may_overlap(disjointness, candidates, siblings.meet(Shape(types=(name,))))
        for a, b in sorted(pairs):
            if (a, b) not in common_types:
                common_types[a, b] = disjointness.common_types(branches[a], branches[b], siblings)
            if name in common_types[a, b]:
                competitors[a][name].append(b)
                competitors[b][name].append(a)
    rows = zip(branches, types, competitors, excluded_types, strict=True)
    return tuple([_without_competitors(reader, branches, *row) for row in rows])


def _without_competitors(
    reader: Reader,
    branches: tuple[Schema, ...],
    branch: Schema,
    types: tuple[str, ...],
    competitors: dict[str, list[int]],
    excluded_types: set[str],
) -> Schema:
    """A branch minus its competitors: for each type, the other branches that may hold for the same values."""
    if not competitors and not excluded_types:
        return branch
    negation = reader.negation
    names_by_competitors: dict[tuple[int, ...], list[str]] = {}
    for name in types:
        if name not in excluded_types:
            names_by_competitors.setdefault(tuple(sorted(competitors.get(name, ()))), []).append(name)
    if not names_by_competitors:
        return negation.derive(branch, Shape(types=()))
    cases = []
    for competitor_indices, names in names_by_competitors.items():
        shape = ANYTHING if tuple(names) == types else Shape(types=tuple(names))
        complements = ((negation.complement_of(branches[other]),) for other in competitor_indices)
        if len(names_by_competitors) == 1:
            return negation.derive(branch, shape, (branch,), *complements)
        cases.append(negation.derive(branch, shape, *complements))
    return negation.derive(branch, ANYTHING, (branch,), tuple(cases))
