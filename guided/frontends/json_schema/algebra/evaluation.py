"""Determines which members and items a schema evaluates, and when. In: a `Schema`. Out: its *evaluators*.

An evaluator is one location of the schema with keywords about members or items, together with the schemas that must
hold for it to count: branches of `anyOf` and `oneOf`, conditions of `if`, names of `dependentSchemas`. The schema
itself, `allOf` and references count without a condition. `not` evaluates nothing. From 2020-12 on, `contains` evaluates
the items that match it.

Cost: linear in the paths that lead to the locations, counted by the meter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from guided.frontends.json_schema.algebra.keys import Source
from guided.frontends.json_schema.algebra.shape import Shape
from guided.frontends.json_schema.documents.keywords import REFERENCES
from guided.frontends.json_schema.documents.schema import Schema
from guided.meter import STEP, spend

if TYPE_CHECKING:
    from guided.frontends.json_schema.algebra.reader import Reader

__all__ = ["Evaluator", "evaluators"]

_AppliedSchema: TypeAlias = "tuple[tuple[Schema, ...], Schema]"
"""A schema that applies to the same value, preceded by the schemas that must hold for it to apply."""


@dataclass(frozen=True, slots=True)
class Evaluator:
    """What is evaluated if all `conditions` hold: members by name or by set of names, or all members; the first `items`
    items, or all items; and items that satisfy `contains_schema`.
    """

    conditions: tuple[Schema, ...] = ()
    names: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    all_members: bool = False
    items: int = 0
    all_items: bool = False
    contains_schema: Schema | None = None

    @property
    def evaluates_anything(self) -> bool:
        """Whether at least one of the fields is set, besides `conditions`."""
        members = self.names or self.sources or self.all_members
        return bool(members or self.items or self.all_items or self.contains_schema)


def evaluators(reader: Reader, schema: Schema, *, with_unevaluated: bool = True) -> tuple[Evaluator, ...]:
    """The evaluators of a schema, if it holds. `with_unevaluated`: include its own `unevaluated*` keywords."""
    known_evaluators = reader.evaluators
    # (schema, `with_unevaluated`, the schemas that it applies, or None if they are not in `work` yet)
    work: list[tuple[Schema, bool, list[_AppliedSchema] | None]] = [(schema, with_unevaluated, None)]
    while work:
        current, includes_unevaluated, applied_schemas = work.pop()
        key = current, includes_unevaluated
        if applied_schemas is not None:
            known_evaluators[key] = _join(
                _own_evaluator(reader, current, includes_unevaluated), applied_schemas, known_evaluators
            )
        elif key not in known_evaluators:
            known_evaluators[key] = ()  # for a schema that leads back to itself, which is refused elsewhere
            if isinstance(current.value, dict):
                applied_schemas = list(_applied_schemas(reader, current))
                work.append((current, includes_unevaluated, applied_schemas))
                work += ((applied_schema, True, None) for _, applied_schema in reversed(applied_schemas))
    return known_evaluators[schema, with_unevaluated]


def _join(
    own_evaluator: Evaluator,
    applied_schemas: list[_AppliedSchema],
    known_evaluators: Mapping[tuple[Schema, bool], tuple[Evaluator, ...]],
) -> tuple[Evaluator, ...]:
    """The evaluators of a schema, given those of the schemas that it applies."""
    out = dict.fromkeys((own_evaluator,) if own_evaluator.evaluates_anything else ())
    for conditions, applied_schema in applied_schemas:
        for evaluator in known_evaluators[applied_schema, True]:
            spend(STEP)
            out[replace(evaluator, conditions=tuple(dict.fromkeys(conditions + evaluator.conditions)))] = None
    return tuple(out)


def _own_evaluator(reader: Reader, schema: Schema, with_unevaluated: bool) -> Evaluator:
    part = reader.own_members(schema)
    own_items = reader.own_items(schema)
    contains_evaluates = schema.document.draft == "2020-12" and schema.has_keyword("contains")
    return Evaluator(
        (),
        tuple(part.properties),
        tuple(source for source, _ in part.patterns),
        part.additional is not None or (with_unevaluated and schema.has_keyword("unevaluatedProperties")),
        len(own_items.prefix),
        own_items.rest is not None or (with_unevaluated and schema.has_keyword("unevaluatedItems")),
        reader.negation.representative(reader.library.child(schema, "contains")) if contains_evaluates else None,
    )


def _applied_schemas(reader: Reader, schema: Schema) -> Iterator[_AppliedSchema]:
    """The schemas that apply to the same value."""
    child, value = reader.library.child, schema.value
    assert isinstance(value, dict)
    for keyword in filter(schema.has_keyword, schema.constraints):
        if keyword in REFERENCES:
            yield (), reader.library.resolve(schema, keyword)
        elif keyword in ("allOf", "anyOf", "oneOf"):
            for branch in reader.branches(schema, keyword):
                yield () if keyword == "allOf" else (branch,), branch
        elif keyword == "if":
            condition = child(schema, "if")
            yield (condition,), condition
            for outcome, case_condition in (("then", condition), ("else", reader.negation.complement_of(condition))):
                if schema.has_keyword(outcome):
                    yield (case_condition,), child(schema, outcome)
        elif keyword in ("dependentSchemas", "dependencies"):
            schemas_by_name = value[keyword]
            for name, dependency in schemas_by_name.items() if isinstance(schemas_by_name, dict) else ():
                if isinstance(dependency, dict | bool):
                    has_name = reader.negation.derive(schema, Shape(types=("object",), required=(name,)))
                    yield (has_name,), child(schema, keyword, name)
