"""Reads `unevaluatedProperties` and `unevaluatedItems`: a schema for all members and items that no other keyword has
evaluated.

In: a schema with one of these keywords. Out: groups of schemas; one schema of each group must hold. Problem: which
members and items are evaluated depends on which schemas in `anyOf`, `oneOf`, `if`, ... the value satisfies. There are
2^n combinations of n such schemas.

How: member by member instead. Names are divided into classes that the same evaluators (`evaluation.py`) evaluate. An
evaluator *counts* if its conditions hold. For each class: the members in it satisfy the schema of the keyword, or one
of the evaluators counts. Nothing is required of the other evaluators, because evaluating more never forbids anything.

    {"anyOf": [{"properties": {"a": true}, "required": ["a"]}, {"properties": {"b": true}}],
     "unevaluatedProperties": false}

    a:      absent, or the first branch holds
    b:      absent, or the second branch holds
    others: absent

For arrays, only the longest prefix that counts matters. So there is one group, with an alternative for each evaluator:
it counts, and the items after its prefix satisfy the schema, or match `contains`. The schemas of `contains` divide the
values of an item into cells. For each cell: no item is in it, or an evaluator counts whose `contains` includes it.

Cost: classes times evaluators, and for `contains` the combinations that overlap (`disjoint.py`). The meter counts both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from guided.frontends.json_schema.algebra.evaluation import Evaluator, evaluators
from guided.frontends.json_schema.algebra.keys import Keys, KeySet, Source
from guided.frontends.json_schema.algebra.shape import ANYTHING, ArrayPart, ObjectPart, Shape
from guided.frontends.json_schema.documents.schema import Schema
from guided.ir.nodes import EMPTY
from guided.ir.serial import serial
from guided.meter import STEP, spend

if TYPE_CHECKING:
    from guided.frontends.json_schema.algebra.reader import Reader

__all__ = ["UnevaluatedReader"]

_Group: TypeAlias = tuple[Schema, ...]


class UnevaluatedReader:
    """Creates the groups of the keywords for one reader."""

    def __init__(self, reader: Reader) -> None:
        self._reader, self._negation = reader, reader.negation
        self._keys = Keys(lambda *_: EMPTY, reader.restrict_to_output, reader.overlap)  # patterns only
        self._conjunctions: dict[tuple[Schema, ...], Schema] = {}

    def _group(self, schema: Schema, shape: Shape, candidates: Iterable[Evaluator]) -> _Group:
        """The group: the shape holds, or one of the candidates counts."""
        spend(STEP)
        alternatives = dict.fromkeys(self._conjunction(schema, evaluator.conditions) for evaluator in candidates)
        return (self._negation.derive(schema, shape), *alternatives)

    def _conjunction(self, schema: Schema, conditions: tuple[Schema, ...]) -> Schema:
        if len(conditions) == 1:
            return conditions[0]
        if conditions not in self._conjunctions:
            self._conjunctions[conditions] = self._negation.derive(
                schema, ANYTHING, *((condition,) for condition in conditions)
            )
        return self._conjunctions[conditions]

    def members(self, schema: Schema, member_schema: Schema) -> Iterator[_Group]:
        """The groups of `unevaluatedProperties`: members that are not evaluated satisfy `member_schema`."""
        all_evaluators = evaluators(self._reader, schema, with_unevaluated=False)
        if any(evaluator.all_members and not evaluator.conditions for evaluator in all_evaluators):
            return
        names = tuple(dict.fromkeys(name for evaluator in all_evaluators for name in evaluator.names))
        sources = tuple(
            {serial(source): source for evaluator in all_evaluators for source in evaluator.sources}.values()
        )
        classes: dict[tuple[Evaluator, ...], list[str]] = {}
        for name in names:
            ids = frozenset(serial(source) for source in sources if self._keys.contains(source, name))
            relevant_evaluators = [
                evaluator for evaluator in all_evaluators if name in evaluator.names or _evaluates(evaluator, ids)
            ]
            if all(evaluator.conditions for evaluator in relevant_evaluators):
                classes.setdefault(tuple(relevant_evaluators), []).append(name)
        for _, ids in self._keys.classes((), sources, names, schema.location):
            relevant_evaluators = [evaluator for evaluator in all_evaluators if _evaluates(evaluator, ids)]
            if all(evaluator.conditions for evaluator in relevant_evaluators):
                part = self._make_other_members_part(schema, member_schema, names, sources, ids)
                yield self._group(schema, Shape(objects=(part,)), relevant_evaluators)
        for class_evaluators, class_names in classes.items():
            part = ObjectPart(dict.fromkeys(class_names, member_schema), None)
            yield self._group(schema, Shape(objects=(part,)), class_evaluators)

    def _make_other_members_part(
        self,
        schema: Schema,
        member_schema: Schema,
        names: tuple[str, ...],
        sources: tuple[Source, ...],
        ids: frozenset[int],
    ) -> ObjectPart:
        """The requirement on members whose names are not in `names`, and are in exactly the sources with these ids."""
        if not ids:
            any_schema = Schema(schema.document, schema.pointer, True, schema.base)
            return ObjectPart(dict.fromkeys(names), member_schema, tuple((source, any_schema) for source in sources))
        included_sources = tuple(source for source in sources if serial(source) in ids)
        excluded_sources = tuple(source for source in sources if serial(source) not in ids)
        return ObjectPart({}, None, ((KeySet(included_sources, excluded_sources, frozenset(names)), member_schema),))

    def items(self, schema: Schema, item_schema: Schema) -> Iterator[_Group]:
        """The groups of `unevaluatedItems`: items that are not evaluated satisfy `item_schema`."""
        all_evaluators = evaluators(self._reader, schema, with_unevaluated=False)
        if any(evaluator.all_items and not evaluator.conditions for evaluator in all_evaluators):
            return
        start = max((evaluator.items for evaluator in all_evaluators if not evaluator.conditions), default=0)
        always_applying_schemas = dict.fromkeys(
            evaluator.contains_schema
            for evaluator in all_evaluators
            if evaluator.contains_schema is not None and not evaluator.conditions
        )
        conditional_evaluators = [evaluator for evaluator in all_evaluators if evaluator.conditions]
        contains_schemas = dict.fromkeys(
            evaluator.contains_schema for evaluator in conditional_evaluators if evaluator.contains_schema is not None
        )
        cells: list[tuple[Schema, list[Evaluator]]] = []
        for inside, outside in self._cells(
            [candidate for candidate in contains_schemas if candidate not in always_applying_schemas]
        ):
            alternatives = (item_schema, *always_applying_schemas, *outside, *map(self._negation.complement_of, inside))
            item = self._negation.derive(schema, ANYTHING, alternatives) if len(alternatives) > 1 else item_schema
            cells.append(
                (
                    item,
                    _weakest(
                        [evaluator for evaluator in conditional_evaluators if evaluator.contains_schema in inside],
                        lambda *_: True,
                    ),
                )
            )

        def from_item(start: int, conditions: tuple[Schema, ...]) -> Schema:
            """The conditions hold. For each cell, no item from `start` on is in it, or one of its evaluators counts."""
            groups = [
                self._group(schema, _make_items_shape(start, item), cell_evaluators) for item, cell_evaluators in cells
            ]
            return self._negation.derive(schema, ANYTHING, *((condition,) for condition in conditions), *groups)

        longer_evaluators = _weakest(
            [evaluator for evaluator in conditional_evaluators if evaluator.all_items or evaluator.items > start],
            _reaches,
        )
        yield (
            from_item(start, ()),
            *(
                from_item(evaluator.items, evaluator.conditions)
                for evaluator in longer_evaluators
                if not evaluator.all_items
            ),
            *(
                self._conjunction(schema, evaluator.conditions)
                for evaluator in longer_evaluators
                if evaluator.all_items
            ),
        )

    def _cells(self, schemas: list[Schema]) -> list[tuple[tuple[Schema, ...], tuple[Schema, ...]]]:
        """The combinations of schemas that one item may satisfy: (satisfied schemas, other schemas)."""

        def are_disjoint(*pair: Schema) -> bool:
            return self._reader.disjointness.are_contradictory(pair)

        cells: list[tuple[tuple[Schema, ...], tuple[Schema, ...]]] = [((), ())]
        for schema in schemas:
            new_cells: list[tuple[tuple[Schema, ...], tuple[Schema, ...]]] = []
            for inside, outside in cells:
                spend(STEP)
                if not any(are_disjoint(other, self._negation.complement_of(schema)) for other in inside):
                    new_cells.append((inside, (*outside, schema)))
                if not any(
                    are_disjoint(schema, other) for other in (*inside, *map(self._negation.complement_of, outside))
                ):
                    new_cells.append(((*inside, schema), outside))
            cells = new_cells
        return cells


def _evaluates(evaluator: Evaluator, ids: frozenset[int]) -> bool:
    """Whether an evaluator that counts evaluates the undeclared members in these sources."""
    return evaluator.all_members or any(serial(source) in ids for source in evaluator.sources)


def _reaches(evaluator: Evaluator, other: Evaluator) -> bool:
    """Whether one evaluator's prefix is at least as long as the other's."""
    return evaluator.all_items or (evaluator.items >= other.items and not other.all_items)


def _weakest(candidates: list[Evaluator], is_enough: Callable[[Evaluator, Evaluator], bool]) -> list[Evaluator]:
    """The evaluators that are not redundant. An evaluator is redundant if another one suffices in its place and counts
    whenever it counts.
    """
    out: list[Evaluator] = []
    for evaluator in sorted(candidates, key=lambda evaluator: len(evaluator.conditions)):
        if not any(is_enough(other, evaluator) and set(other.conditions) <= set(evaluator.conditions) for other in out):
            out = [
                other
                for other in out
                if not (is_enough(evaluator, other) and set(evaluator.conditions) <= set(other.conditions))
            ]
            out.append(evaluator)
    return out


def _make_items_shape(start: int, item: Schema) -> Shape:
    """The arrays in which all items from index `start` on satisfy a schema."""
    return Shape(arrays=(ArrayPart((None,) * start, item),))
