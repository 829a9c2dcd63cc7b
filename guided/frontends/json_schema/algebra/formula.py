"""Turns a conjunction of schemas into a Boolean formula over shapes. In: a goal. Out: a formula, for all types or for
one type.

Problem: the disjunctive normal form (`expand.py`) has a shape for each choice of branches, and independent choices
multiply. Twenty rules of the form "if one member is present, so is another" produce 2^20 shapes. A formula is linear in
the schemas. Its leaves are the keywords that do not apply other schemas. `allOf` and references are conjunctions,
`anyOf` is a disjunction, and the complement of a schema is the negation of its formula. For a single JSON type, most
leaves are "any value" or "no value", and drop out.

Use: for scalars, operations on sets evaluate the formula (`scalars.py`). For arrays, it is multiplied out
(`normal_form`). For objects, it becomes a condition on their members (`conditional.py`).

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
    "formula_of",
    "join",
    "leaves",
    "negate",
    "normal_form",
    "restrict_to_type",
]

_ALTERNATIVE_COST = 20  # the cost of an alternative of a normal form, in nodes


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """The requirements of one schema's keywords, except those that apply other schemas to the same value."""

    shape: Shape
    schema: Schema


@dataclass(frozen=True, slots=True, eq=False)
class Junction:
    """All of the items hold (`is_conjunction`), or at least one of them. There are at least two items."""

    is_conjunction: bool
    items: tuple[Formula, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Negated:
    """The complement of the item."""

    item: Formula


Formula: TypeAlias = bool | Leaf | Junction | Negated
_T = TypeVar("_T")


def join(is_conjunction: bool, items: Iterable[Formula]) -> Formula:
    """The conjunction (`is_conjunction`) or disjunction of the items, without constants and duplicates."""
    out: dict[Formula, None] = {}
    for item in items:
        if isinstance(item, bool):
            if item is not is_conjunction:
                return item
        elif isinstance(item, Junction) and item.is_conjunction is is_conjunction:
            out |= dict.fromkeys(item.items)
        else:
            out[item] = None
    if len(out) < 2:
        return next(iter(out), is_conjunction)
    return Junction(is_conjunction, tuple(out))


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
        current = stack[-1]
        parts = _parts(current)
        missing = [part for part in parts if part not in results]
        if missing:
            stack += missing
            continue
        stack.pop()
        if current not in results:
            results[current] = make(current, [results[part] for part in parts])
    return results[root]


def leaves(root: Formula) -> list[Leaf]:
    """The leaves of a formula, in the order of the schemas."""
    seen: set[Formula] = set()
    out: list[Leaf] = []
    stack = [root]
    while stack:
        current = stack.pop()
        if current in seen:
            continue
        seen.add(current)
        if isinstance(current, Leaf):
            out.append(current)
        stack += reversed(_parts(current))
    return out


def formula_of(goal: tuple[Schema, ...], read: Callable[[Schema], tuple[Shape, tuple[tuple[Schema, ...], ...]]],
               negation: Negation) -> Formula:  # fmt: skip
    """The formula for schemas that all apply. No schema may lead back to itself."""
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
            own_leaf = Leaf(read(schema)[0], schema)
            formulas[schema] = join(
                True, (own_leaf, *(join(False, map(formulas.__getitem__, group)) for group in groups))
            )
    return join(True, map(formulas.__getitem__, goal))


def restrict_to_type(formula: Formula, name: str) -> Formula:
    """The formula restricted to values of one type. Its leaves are about this type only."""

    def make(current: Formula, parts: list[Formula]) -> Formula:
        if isinstance(current, Leaf):
            return _restrict_leaf(current, name)
        if isinstance(current, Junction):
            return join(current.is_conjunction, parts)
        return negate(parts[0]) if isinstance(current, Negated) else current

    return fold(formula, make)


def _restrict_leaf(leaf: Leaf, name: str) -> Formula:
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
    return Leaf(Shape(types=(name,), values=values, **constraints_of_type(shape, name)), leaf.schema)


def normal_form(
    formula: Formula,
    complement_of_leaf: Callable[[Leaf], Iterable[Formula]],
    narrow: Callable[[Shape], Shape | None],
    start: Shape,
    max_nodes: int,
) -> list[Shape]:
    """The shapes whose union is the formula within `start`.

    `complement_of_leaf` returns alternatives. `narrow` removes the types and constants of a shape that cannot occur;
    None means that no type is left. Raises LimitExceeded beyond `max_nodes` nodes.
    """
    # (shape so far, parts that must or must not hold, whether each decided part holds)
    work: list[tuple[Shape, tuple[tuple[Formula, bool], ...], dict[Formula, bool]]] = [(start, ((formula, True),), {})]
    out: list[Shape] = []
    seen: set[Shape] = set()
    steps = 0
    while work:
        steps += 1
        if steps * _ALTERNATIVE_COST > max_nodes:
            raise LimitExceeded("nodes", steps * _ALTERNATIVE_COST, max_nodes)
        shape, pending, decisions = work.pop()
        if not pending:
            if _is_new(shape, seen):
                out.append(shape)
            continue
        (current, must_hold), rest = pending[0], pending[1:]
        if isinstance(current, bool):
            if current is must_hold:
                work.append((shape, rest, decisions))
            continue
        if isinstance(current, Negated):
            work.append((shape, ((current.item, not must_hold), *rest), decisions))
            continue
        if current in decisions:
            if decisions[current] is must_hold:
                work.append((shape, rest, decisions))
            continue
        decisions = decisions | {current: must_hold}
        if isinstance(current, Junction):
            if current.is_conjunction is not must_hold and any(
                decisions.get(item) is must_hold for item in current.items
            ):
                work.append((shape, rest, decisions))  # one item already decides it
            elif current.is_conjunction is must_hold:
                work.append((shape, (*((item, must_hold) for item in current.items), *rest), decisions))
            else:
                work.extend((shape, ((item, must_hold), *rest), decisions) for item in reversed(current.items))
        elif must_hold:
            intersection = narrow(shape.meet(current.shape))
            if intersection is not None:
                work.append((intersection, rest, decisions))
        else:
            work.extend((shape, ((other, True), *rest), decisions) for other in complement_of_leaf(current))
    return out


def _is_new(shape: Shape, seen: set[Shape]) -> bool:
    """Whether a shape is new. Shapes of containers cannot be hashed, and all count as new."""
    try:
        is_known = shape in seen
        seen.add(shape)
    except TypeError:
        return True
    return not is_known
