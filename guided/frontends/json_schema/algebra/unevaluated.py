"""`unevaluatedProperties` and `unevaluatedItems`: a schema for all members and items that no part of the schema has
evaluated.

In: a schema with one of these keywords. Out: groups of schemas; one schema of each group must hold. Problem: which
members and items are evaluated depends on which schemas in `anyOf`, `oneOf`, `if`, ... the value satisfies. Going
through all combinations of these takes 2^n cases.

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

    def _group(self, schema: Schema, shape: Shape, counting: Iterable[Evaluator]) -> _Group:
        """The group: the shape holds, or one of the evaluators counts."""
        spend(STEP)
        holds = dict.fromkeys(self._all_hold(schema, evaluator.holds) for evaluator in counting)
        return (self._negation.derive(schema, shape), *holds)

    def _all_hold(self, schema: Schema, holds: tuple[Schema, ...]) -> Schema:
        if len(holds) == 1:
            return holds[0]
        if holds not in self._conjunctions:
            self._conjunctions[holds] = self._negation.derive(schema, ANYTHING, *((condition,) for condition in holds))
        return self._conjunctions[holds]

    def members(self, schema: Schema, members: Schema) -> Iterator[_Group]:
        """The groups of `unevaluatedProperties`: members that are not evaluated satisfy the schema `members`."""
        all_evaluators = evaluators(self._reader, schema, with_unevaluated=False)
        if any(evaluator.all_members and not evaluator.holds for evaluator in all_evaluators):
            return
        names = tuple(dict.fromkeys(name for evaluator in all_evaluators for name in evaluator.names))
        sources = tuple(
            {serial(source): source for evaluator in all_evaluators for source in evaluator.sources}.values()
        )
        classes: dict[tuple[Evaluator, ...], list[str]] = {}
        for name in names:
            ids = frozenset(serial(source) for source in sources if self._keys.has(source, name))
            evaluating = [
                evaluator for evaluator in all_evaluators if name in evaluator.names or _evaluates(evaluator, ids)
            ]
            if all(evaluator.holds for evaluator in evaluating):
                classes.setdefault(tuple(evaluating), []).append(name)
        for _, ids in self._keys.classes((), sources, names, schema.location):
            evaluating = [evaluator for evaluator in all_evaluators if _evaluates(evaluator, ids)]
            if all(evaluator.holds for evaluator in evaluating):
                part = self._rest_of_members(schema, members, names, sources, ids)
                yield self._group(schema, Shape(objects=(part,)), evaluating)
        for counting, class_names in classes.items():
            part = ObjectPart(dict.fromkeys(class_names, members), None)
            yield self._group(schema, Shape(objects=(part,)), counting)

    def _rest_of_members(
        self, schema: Schema, members: Schema, names: tuple[str, ...], sources: tuple[Source, ...], ids: frozenset[int]
    ) -> ObjectPart:
        """The requirement on members that are not among the names and belong to exactly these sources."""
        if not ids:
            anything = Schema(schema.document, schema.pointer, True, schema.base)
            return ObjectPart(dict.fromkeys(names), members, tuple((source, anything) for source in sources))
        within = tuple(source for source in sources if serial(source) in ids)
        without = tuple(source for source in sources if serial(source) not in ids)
        return ObjectPart({}, None, ((KeySet(within, without, frozenset(names)), members),))

    def items(self, schema: Schema, items: Schema) -> Iterator[_Group]:
        """The groups of `unevaluatedItems`: items that are not evaluated satisfy the schema `items`."""
        all_evaluators = evaluators(self._reader, schema, with_unevaluated=False)
        if any(evaluator.all_items and not evaluator.holds for evaluator in all_evaluators):
            return
        start = max((evaluator.items for evaluator in all_evaluators if not evaluator.holds), default=0)
        always_contained = dict.fromkeys(
            evaluator.contained
            for evaluator in all_evaluators
            if evaluator.contained is not None and not evaluator.holds
        )
        counting = [evaluator for evaluator in all_evaluators if evaluator.holds]
        contained = dict.fromkeys(evaluator.contained for evaluator in counting if evaluator.contained is not None)
        cells: list[tuple[Schema, list[Evaluator]]] = []
        for inside, outside in self._cells([candidate for candidate in contained if candidate not in always_contained]):
            allowed = (items, *always_contained, *outside, *map(self._negation.of, inside))
            item = self._negation.derive(schema, ANYTHING, allowed) if len(allowed) > 1 else items
            cells.append(
                (
                    item,
                    _weakest([evaluator for evaluator in counting if evaluator.contained in inside], lambda *_: True),
                )
            )

        def from_item(start: int, holds: tuple[Schema, ...]) -> Schema:
            """The schemas hold. For each cell, no item from `start` on is in it, or one of its evaluators counts."""
            groups = [
                self._group(schema, _items_after(start, item), cell_evaluators) for item, cell_evaluators in cells
            ]
            return self._negation.derive(schema, ANYTHING, *((condition,) for condition in holds), *groups)

        longer = _weakest(
            [evaluator for evaluator in counting if evaluator.all_items or evaluator.items > start], _reaches
        )
        yield (
            from_item(start, ()),
            *(from_item(evaluator.items, evaluator.holds) for evaluator in longer if not evaluator.all_items),
            *(self._all_hold(schema, evaluator.holds) for evaluator in longer if evaluator.all_items),
        )

    def _cells(self, schemas: list[Schema]) -> list[tuple[tuple[Schema, ...], tuple[Schema, ...]]]:
        """The combinations of schemas that may hold for one item: (those that hold, others that do not)."""

        def are_disjoint(*pair: Schema) -> bool:
            return self._reader.disjoint.are_contradictory(pair)

        cells: list[tuple[tuple[Schema, ...], tuple[Schema, ...]]] = [((), ())]
        for schema in schemas:
            new_cells: list[tuple[tuple[Schema, ...], tuple[Schema, ...]]] = []
            for inside, outside in cells:
                spend(STEP)
                if not any(are_disjoint(other, self._negation.of(schema)) for other in inside):
                    new_cells.append((inside, (*outside, schema)))
                if not any(are_disjoint(schema, other) for other in (*inside, *map(self._negation.of, outside))):
                    new_cells.append(((*inside, schema), outside))
            cells = new_cells
        return cells


def _evaluates(evaluator: Evaluator, ids: frozenset[int]) -> bool:
    """Whether an evaluator that counts evaluates the undeclared members in these sources."""
    return evaluator.all_members or any(serial(source) in ids for source in evaluator.sources)


def _reaches(evaluator: Evaluator, other: Evaluator) -> bool:
    """Whether the prefix of one evaluator is at least as long as that of the other."""
    return evaluator.all_items or (evaluator.items >= other.items and not other.all_items)


def _weakest(candidates: list[Evaluator], is_enough: Callable[[Evaluator, Evaluator], bool]) -> list[Evaluator]:
    """The evaluators without redundant ones. One is redundant if another suffices in its place and counts whenever it
    does.
    """
    out: list[Evaluator] = []
    for evaluator in sorted(candidates, key=lambda evaluator: len(evaluator.holds)):
        if not any(is_enough(other, evaluator) and set(other.holds) <= set(evaluator.holds) for other in out):
            out = [
                other for other in out if not (is_enough(evaluator, other) and set(evaluator.holds) <= set(other.holds))
            ]
            out.append(evaluator)
    return out


def _items_after(start: int, item: Schema) -> Shape:
    """The arrays whose items from number `start` on satisfy a schema."""
    return Shape(arrays=(ArrayPart((None,) * start, item),))
