"""A conjunction of schemas as a Boolean formula over shapes. In: a goal. Out: a formula, for all types or for one type.

Problem: the disjunctive normal form (`expand.py`) has a shape for each choice of branches, and independent choices
multiply. Twenty rules of the form "if one member is present, so is another" produce 2^20 shapes. A formula is linear in
the schemas. Its leaves are the keywords that do not apply other schemas. `allOf` and references are conjunctions,
`anyOf` is a disjunction, and the complement of a schema is a negation, which is never expanded. For a single JSON type,
most leaves are "any value" or "no value", and drop out.

Use: `for_type` decides null and boolean. Operations on sets decide numbers and strings (`scalars.py`). For objects, the
formula becomes a condition on their members (`conditional.py`).

Cost: linear in the schemas. Only `normal_form` takes the product of the alternatives, without duplicates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from guided.errors import LimitExceeded
from guided.frontends.json_schema.algebra.negation import Negation
from guided.frontends.json_schema.algebra.shape import Shape, allows_every, constraints_of_type
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.documents.values import json_type

__all__ = [
    "Formula",
    "Junction",
    "Leaf",
    "Negated",
    "fold",
    "for_type",
    "formula_of",
    "join",
    "leaves",
    "negate",
    "normal_form",
]

_STEP = 20  # the cost of an alternative of a normal form, in nodes


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """The requirements of one schema's keywords, except those that apply other schemas to the same value."""

    shape: Shape
    at: Schema


@dataclass(frozen=True, slots=True, eq=False)
class Junction:
    """All of the items (`every`), or at least one of them. There are at least two items."""

    every: bool
    items: tuple[Formula, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Negated:
    """The complement of the item."""

    item: Formula


Formula: TypeAlias = bool | Leaf | Junction | Negated
_T = TypeVar("_T")


def join(every: bool, items: Iterable[Formula]) -> Formula:
    """The conjunction (`every`) or disjunction of the items, without constants and duplicates."""
    out: dict[Formula, None] = {}
    for item in items:
        if isinstance(item, bool):
            if item is not every:
                return item
        elif isinstance(item, Junction) and item.every is every:
            out |= dict.fromkeys(item.items)
        else:
            out[item] = None
    if len(out) < 2:
        return next(iter(out), every)
    return Junction(every, tuple(out))


def negate(item: Formula) -> Formula:
    """The complement."""
    if isinstance(item, bool):
        return not item
    return item.item if isinstance(item, Negated) else Negated(item)


def _parts(formula: Formula) -> tuple[Formula, ...]:
    if isinstance(formula, Junction):
        return formula.items
    return (formula.item,) if isinstance(formula, Negated) else ()


def fold(root: Formula, make: Callable[[Formula, list[_T]], _T]) -> _T:
    """Evaluate a formula from the inside out: call `make(part, results of its parts)` once for each object."""
    results: dict[Formula, _T] = {}
    stack = [root]
    while stack:
        at = stack[-1]
        parts = _parts(at)
        missing = [part for part in parts if part not in results]
        if missing:
            stack += missing
            continue
        stack.pop()
        if at not in results:
            results[at] = make(at, [results[part] for part in parts])
    return results[root]


def leaves(root: Formula) -> list[Leaf]:
    """The leaves of a formula, in the order of the schemas."""
    seen: set[Formula] = set()
    out: list[Leaf] = []
    stack = [root]
    while stack:
        at = stack.pop()
        if at in seen:
            continue
        seen.add(at)
        if isinstance(at, Leaf):
            out.append(at)
        stack += reversed(_parts(at))
    return out


def formula_of(goal: tuple[Schema, ...], read: Callable[[Schema], tuple[Shape, tuple[tuple[Schema, ...], ...]]],
               negation: Negation) -> Formula:  # fmt: skip
    """The formula of schemas that all apply. None of them may lead back to itself."""
    formulas: dict[Schema, Formula] = {}
    stack = list(goal)
    while stack:
        schema = stack[-1]
        original = negation.original_of(schema)
        groups: tuple[tuple[Schema, ...], ...] = ()
        if original is not None:
            groups = ((original,),)
        elif not isinstance(schema.value, bool):
            groups = read(schema)[1]
        missing = [inner for group in groups for inner in group if inner not in formulas]
        if missing:
            stack += missing
            continue
        stack.pop()
        if schema in formulas:
            continue
        if original is not None:
            formulas[schema] = negate(formulas[original])
        elif isinstance(schema.value, bool):
            formulas[schema] = schema.value
        else:
            own = Leaf(read(schema)[0], schema)
            formulas[schema] = join(True, (own, *(join(False, map(formulas.__getitem__, group)) for group in groups)))
    return join(True, map(formulas.__getitem__, goal))


def for_type(formula: Formula, name: str) -> Formula:
    """The formula restricted to values of one type. Its leaves are about this type only."""

    def make(at: Formula, parts: list[Formula]) -> Formula:
        if isinstance(at, Leaf):
            return _leaf_for(at, name)
        if isinstance(at, Junction):
            return join(at.every, parts)
        return negate(parts[0]) if isinstance(at, Negated) else at

    return fold(formula, make)


def _leaf_for(leaf: Leaf, name: str) -> Formula:
    shape = leaf.shape
    if name not in shape.types:
        return False
    values = shape.values
    if values is not None:
        values = tuple(value for value in values if json_type(value) == name)
        if not values:
            return False
    if allows_every(shape, name):
        return True
    return Leaf(Shape(types=(name,), values=values, **constraints_of_type(shape, name)), leaf.at)


def normal_form(
    formula: Formula,
    complement_of_leaf: Callable[[Leaf], Iterable[Formula]],
    narrow: Callable[[Shape], Shape | None],
    start: Shape,
    max_nodes: int,
) -> list[Shape]:
    """The shapes whose union is the formula within `start`.

    `complement_of_leaf` returns alternatives. `narrow` removes the parts of a shape that nothing satisfies; None means
    that nothing is left. Raises LimitExceeded beyond `max_nodes` nodes.
    """
    # (shape so far, parts that must or must not hold, decided parts)
    work: list[tuple[Shape, tuple[tuple[Formula, bool], ...], dict[Formula, bool]]] = [(start, ((formula, True),), {})]
    out: list[Shape] = []
    seen: set[Shape] = set()
    steps = 0
    while work:
        steps += 1
        if steps * _STEP > max_nodes:
            raise LimitExceeded("nodes", steps * _STEP, max_nodes)
        shape, todo, decided = work.pop()
        if not todo:
            if _is_new(shape, seen):
                out.append(shape)
            continue
        (at, truth), rest = todo[0], todo[1:]
        if isinstance(at, bool):
            if at is truth:
                work.append((shape, rest, decided))
            continue
        if isinstance(at, Negated):
            work.append((shape, ((at.item, not truth), *rest), decided))
            continue
        if at in decided:
            if decided[at] is truth:
                work.append((shape, rest, decided))
            continue
        decided = decided | {at: truth}
        if isinstance(at, Junction):
            if at.every is not truth and any(decided.get(item) is truth for item in at.items):
                work.append((shape, rest, decided))  # one of them holds already
            elif at.every is truth:
                work.append((shape, (*((item, truth) for item in at.items), *rest), decided))
            else:
                work.extend((shape, ((item, truth), *rest), decided) for item in reversed(at.items))
        elif truth:
            both = narrow(shape.meet(at.shape))
            if both is not None:
                work.append((both, rest, decided))
        else:
            work.extend((shape, ((other, True), *rest), decided) for other in complement_of_leaf(at))
    return out


def _is_new(shape: Shape, seen: set[Shape]) -> bool:
    """Whether a shape is new. Shapes of containers cannot be hashed, and all count as new."""
    try:
        is_known = shape in seen
        seen.add(shape)
    except TypeError:
        return True
    return not is_known
