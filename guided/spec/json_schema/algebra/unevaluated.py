"""`unevaluatedProperties` and `unevaluatedItems`: a schema for all members and items that no part of the schema has
evaluated.

In: a schema with one of these keywords. Out: a union of *cases*. Problem: which members and items are evaluated
depends on which of the schemas in `anyOf`, `oneOf`, `if`, ... the value satisfies. A case fixes that: each of these
schemas is satisfied, or is not, wherever that matters. In every case the evaluated names and items are known, and the
keyword becomes an `additionalProperties` or `items` for the others.

Example: {"anyOf": [{"properties": {"a": true}, "required": ["a"]}, {"properties": {"b": true}}],
"unevaluatedProperties": false} has three cases. Both branches hold: a and b are allowed. Only the first holds: a.
Only the second: b.

Cases exclude one another as far as they differ. Cost: the product of the outcomes of the applicators that evaluate
something, bounded by `Limits.nodes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

from guided.errors import LimitExceeded
from guided.spec.json_schema.algebra.keys import Source
from guided.spec.json_schema.algebra.negation import Negation
from guided.spec.json_schema.algebra.shape import ArrayPart, ObjectPart, Shape
from guided.spec.json_schema.documents.resolve import Schema

__all__ = ["Case", "Evaluation", "Outcome", "Unevaluated"]

_STEP = 100


@dataclass(frozen=True, slots=True)
class Case:
    """Schemas that hold, and what they evaluate: members by name, by sets of names, or all; items likewise."""

    holds: tuple[Schema, ...] = ()
    names: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    all_members: bool = False
    items: int = 0
    all_items: bool = False
    contained: tuple[Schema, ...] = ()

    def meet(self, other: Case) -> Case:
        """Both hold."""
        return Case(
            tuple(dict.fromkeys(self.holds + other.holds)),
            tuple(dict.fromkeys(self.names + other.names)),
            self.sources + other.sources,
            self.all_members or other.all_members,
            max(self.items, other.items),
            self.all_items or other.all_items,
            self.contained + other.contained,
        )

    @property
    def evaluates(self) -> bool:
        """Whether anything is evaluated."""
        return bool(self.names or self.sources or self.contained or self.items) or self.all_members or self.all_items


Outcome: TypeAlias = tuple[tuple[Schema, ...], tuple[Schema, ...]]
"""One possible outcome of an applicator: schemas that hold, and schemas that do not."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the keywords of a schema evaluate, and for each of its applicators the possible outcomes."""

    own: Case
    applicators: tuple[tuple[Outcome, ...], ...] = ()


class Unevaluated:
    """Makes cases. `evaluation` reads the keywords of a schema, `nodes` bounds the cases."""

    def __init__(self, evaluation: Callable[[Schema], Evaluation], negation: Negation, nodes: int) -> None:
        self._evaluation, self._negation, self._nodes = evaluation, negation, nodes
        self._known: dict[Schema, tuple[Case, ...]] = {}

    def group(
        self, schema: Schema, evaluation: Evaluation, members: Schema | None, items: Schema | None
    ) -> tuple[Schema, ...]:
        """A schema for each case, in which what is not evaluated satisfies `members` and `items`."""
        cases = self._combined(evaluation)
        return tuple(self._limited(schema, case, members, items) for case in cases)

    def evaluates(self, schema: Schema) -> bool:
        """Whether a schema that holds may evaluate anything."""
        return any(case.evaluates for case in self._cases(schema))

    def _limited(self, schema: Schema, case: Case, members: Schema | None, items: Schema | None) -> Schema:
        objects: tuple[ObjectPart, ...] = ()
        arrays: tuple[ArrayPart, ...] = ()
        anything = Schema(schema.document, schema.pointer, True, schema.base)
        if members is not None and not case.all_members:
            patterns = tuple((source, anything) for source in case.sources)
            objects = (ObjectPart(dict.fromkeys(case.names), members, patterns),)
        if items is not None and not case.all_items:
            rest = items
            if case.contained:
                rest = self._negation.derived(schema, Shape(), (*case.contained, items))
            arrays = (ArrayPart((None,) * case.items, rest),)
        return self._negation.derived(schema, Shape(objects=objects, arrays=arrays), *((one,) for one in case.holds))

    def _cases(self, schema: Schema) -> tuple[Case, ...]:
        """The cases in which a schema holds. The schema itself is not in their `holds`."""
        found = self._known.get(schema)
        if found is None:
            self._known[schema] = (Case(),)  # for a schema that leads back to itself, which is refused elsewhere
            found = self._known[schema] = tuple(self._combined(self._evaluation(schema)))
        return found

    def _combined(self, evaluation: Evaluation) -> list[Case]:
        out = [evaluation.own]
        for outcomes in evaluation.applicators:
            choices = [choice for outcome in outcomes for choice in self._choices(*outcome)]
            if not any(choice.evaluates for choice in choices):
                continue  # nothing is evaluated in any outcome: the keyword itself asks what it asks
            out = [one.meet(choice) for one in out for choice in choices]
            if len(out) * _STEP > self._nodes:
                raise LimitExceeded("nodes", len(out) * _STEP, self._nodes)
        return out

    def _choices(self, holding: tuple[Schema, ...], failing: tuple[Schema, ...]) -> Iterator[Case]:
        refuted = Case(tuple(self._negation.of(one) for one in failing))
        for parts in product(*(self._cases(one) for one in holding)):
            case = refuted
            for one, part in zip(holding, parts, strict=True):
                case = case.meet(replace(part, holds=(one, *part.holds)))
            yield case
