"""Checks that no schema leads back to itself without entering a member or an item. In: schemas. Out: None, or a
SpecError.

A schema whose references, `allOf`, `anyOf` or similar keywords lead back to it at the same value has no defined
meaning. The check is a depth-first search that visits each schema once. Cost: linear in the schemas that apply to one
value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from guided.errors import SpecError
from guided.frontends.json_schema.documents.keywords import REFERENCES
from guided.frontends.json_schema.documents.schema import Schema

if TYPE_CHECKING:
    from guided.frontends.json_schema.algebra.reader import SchemaMeaning

__all__ = ["CycleCheck", "endless_error", "is_alias"]


class CycleCheck:
    """Checks schemas, and remembers those that do not lead back to themselves. `read` reads a schema."""

    def __init__(self, read: Callable[[Schema], SchemaMeaning]) -> None:
        self._read = read
        self._acyclic: set[Schema] = set()

    def check(self, start: Schema) -> None:
        """Refuse a schema whose references, `allOf` or `anyOf` lead back to it."""
        on_path: set[Schema] = set()
        stack: list[tuple[Schema, bool]] = [(start, True)]
        while stack:
            schema, is_entering = stack.pop()
            if not is_entering:
                on_path.discard(schema)
                self._acyclic.add(schema)
            elif schema in on_path:
                raise endless_error(schema)
            elif schema not in self._acyclic:
                on_path.add(schema)
                stack.append((schema, False))
                for group in self._read(schema).groups:
                    stack.extend((inner, True) for inner in group)


def is_alias(schema: Schema) -> bool:
    """Whether the schema consists of a reference only."""
    return (
        len(schema.constraints) == 1
        and schema.constraints[0] in REFERENCES
        and schema.has_keyword(schema.constraints[0])
    )


def endless_error(schema: Schema) -> SpecError:
    """The error for a schema that refers to itself without end."""
    return SpecError(
        "the schema refers to itself without end", pointer=schema.location,
        hint="put the recursive reference into a member or an item: below properties, items, ...",
    )  # fmt: skip
