"""Chooses which group to expand next while a conjunction of schemas is multiplied out (`expand.py`).

In: the remaining *groups*, as a linked list (each is a union of schemas, one of which must hold); the deferred
complements; and the shape of the choices so far. Out: the remaining groups, starting with the first that still
restricts the shape, and the deferred complements.

If no value of the shape satisfies a schema, the complement of that schema restricts nothing (`disjoint.py`). This is
detected more often when more of the shape is known. So complements with several cases are deferred until everything
else has been chosen.

Cost: one comparison per complement, in each conjunction of branches.
"""

from __future__ import annotations

from typing import TypeAlias

from guided.frontends.json_schema.algebra.reader import Reader
from guided.frontends.json_schema.algebra.shape import Shape
from guided.frontends.json_schema.documents.schema import Schema

__all__ = ["Choices", "Groups", "push"]

Groups: TypeAlias = "tuple[tuple[Schema, ...], Groups] | None"


def push(schemas: tuple[Schema, ...], groups: Groups) -> Groups:
    """The groups, preceded by a group for each of the schemas."""
    for schema in reversed(schemas):
        groups = ((schema,), groups)
    return groups


class Choices:
    """Chooses the next group, for the schemas of one reader."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def next_group(
        self, groups: Groups, deferred: tuple[Schema, ...], shape: Shape
    ) -> tuple[Groups, tuple[Schema, ...]]:
        """The groups, from the first one that restricts the shape on, and the deferred complements."""
        while groups is not None:
            schema = groups[0][0]
            if len(groups[0]) > 1 or self._reader.negation.original_of(schema) is None:
                return groups, deferred
            if self.has_cases(schema):
                deferred = (*deferred, schema)
            elif not self._is_implied(schema, shape):
                return groups, deferred
            groups = groups[1]
        for index, schema in enumerate(deferred, 1):
            if not self._is_implied(schema, shape):
                return ((schema,), None), deferred[index:]
        return None, ()

    def has_cases(self, schema: Schema) -> bool:
        """Whether the schema is a complement with several cases."""
        if self._reader.negation.original_of(schema) is None:
            return False
        return any(len(group) > 1 for group in self._reader.read(schema).groups)

    def _is_implied(self, complement: Schema, shape: Shape) -> bool:
        original = self._reader.negation.original_of(complement)
        return original is not None and self._reader.disjointness.is_excluded_by(original, shape)
