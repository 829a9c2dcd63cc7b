"""Determines which members and items a schema evaluates, and when. In: a `Schema`. Out: its *evaluators*.

An evaluator is one location of the schema with keywords about members or items, together with the schemas that must
hold for it to count: branches of `anyOf` and `oneOf`, conditions of `if`, names of `dependentSchemas`. The schema
itself, `allOf` and references count without a condition. `not` evaluates nothing. From 2020-12 on, `contains` evaluates
the items that match it.

Cost: linear in the paths that lead to the locations, counted by the meter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from guided.frontends.json_schema.algebra.keys import Source
from guided.frontends.json_schema.algebra.shape import Shape
from guided.frontends.json_schema.documents.keywords import REFERENCES
from guided.frontends.json_schema.documents.schema import Schema
from guided.meter import STEP, spend

if TYPE_CHECKING:
    from guided.frontends.json_schema.algebra.reader import Reader

__all__ = ["Evaluator", "evaluators"]


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
        """Whether it evaluates anything."""
        members = self.names or self.sources or self.all_members
        return bool(members or self.items or self.all_items or self.contains_schema)


def evaluators(reader: Reader, schema: Schema, *, with_unevaluated: bool = True) -> tuple[Evaluator, ...]:
    """The evaluators of a schema that holds. `with_unevaluated`: include its own `unevaluated*` keywords."""
    if not isinstance(schema.value, dict):
        return ()
    key = schema, with_unevaluated
    cached_evaluators = reader.evaluators.get(key)
    if cached_evaluators is None:
        reader.evaluators[key] = ()  # for a schema that leads back to itself, which is refused elsewhere
        own_evaluator = _own_evaluator(reader, schema, with_unevaluated)
        out = dict.fromkeys((own_evaluator,) if own_evaluator.evaluates_anything else ())
        for conditions, inner in _applied_schemas(reader, schema):
            for evaluator in evaluators(reader, inner):
                spend(STEP)
                out[replace(evaluator, conditions=tuple(dict.fromkeys(conditions + evaluator.conditions)))] = None
        cached_evaluators = reader.evaluators[key] = tuple(out)
    return cached_evaluators


def _own_evaluator(reader: Reader, schema: Schema, with_unevaluated: bool) -> Evaluator:
    part = reader.own_members(schema)
    own_items = reader.own_items(schema)
    contains = schema.document.draft == "2020-12" and schema.has_keyword("contains")
    return Evaluator(
        (),
        tuple(part.properties),
        tuple(source for source, _ in part.patterns),
        part.additional is not None or (with_unevaluated and schema.has_keyword("unevaluatedProperties")),
        len(own_items.prefix),
        own_items.rest is not None or (with_unevaluated and schema.has_keyword("unevaluatedItems")),
        reader.negation.representative(reader.library.child(schema, "contains")) if contains else None,
    )


def _applied_schemas(reader: Reader, schema: Schema) -> Iterator[tuple[tuple[Schema, ...], Schema]]:
    """The schemas that apply to the same value, each preceded by the schemas that must hold for it to apply."""
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
