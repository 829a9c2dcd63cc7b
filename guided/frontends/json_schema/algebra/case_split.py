"""Splits a shape of objects by the values of one member, if a formula relates members to each other. In: a shape of
objects with a formula that `conditional.py` refuses. Out: shapes that `conditional.py` accepts, and whose union is the
input.

Problem: suppose that a schema says `if name = "a" then arguments: A`, and the same with B for "b", C for "c" and so on.
The schemas A, B, C overlap, so twenty of them divide the values of `arguments` into 2^20 cells. But `name` has only one
value, so only one condition holds.

How: find a member whose goals exclude each other, so that n goals divide its values into little more than n cells.
Within each cell, and if the member is absent, every part of the formula about this member is true or false. The
remaining formula is about other members. Usually nothing remains, and the case is a plain shape. If `conditional.py`
still refuses a case, another member splits it further.

    if name is "a" then A, if name is "b" then B   =   name is "a", A  |  name is "b", B  |  another name  |  no name

An index records which parts of the formula depend on a cell. All other parts are the same as for a value that satisfies
no goal, and are computed once. Cost: linear in the formula and the cases, except for parts that depend on every case.
The number of cases is at most proportional to the formula. Conditions that hold independently would multiply the cases,
and are refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from guided.errors import UnsupportedError
from guided.frontends.json_schema.algebra.conditional import Binding, bind
from guided.frontends.json_schema.algebra.formula import Formula, Junction, Leaf, Negated, fold, join, leaves, negate
from guided.frontends.json_schema.algebra.shape import ObjectPart, Shape, allows_every, has_false
from guided.frontends.json_schema.algebra.value_partition import Cell, ValuePartition, listed_values
from guided.frontends.json_schema.documents.schema import Schema
from guided.meter import STEP, spend

if TYPE_CHECKING:
    from guided.frontends.json_schema.algebra.expand import Expander, Goal

__all__ = ["has_discriminator", "split_by_member"]

_MAX_CANDIDATES = 4  # the maximum number of members that are tried as discriminators
_EXTRA_CELLS = 6  # besides one per goal: for other values, and for types that no goal mentions
_BASE_CASES, _CASES_PER_LEAF = 100, 2  # the maximum number of cases: a base, plus some for each leaf


def split_by_member(shape: Shape, expander: Expander) -> list[Shape]:
    """Shapes whose union is `shape`. `bind` accepts each of them.

    Raises:
        UnsupportedError: `bind` refuses a case that no member splits, or there are too many cases.
    """
    assert shape.formula is not None
    out: list[Shape] = []
    work, steps_left = [shape], _BASE_CASES + _CASES_PER_LEAF * len(leaves(shape.formula))
    while work:
        case, steps_left = work.pop(), steps_left - 1
        spend(STEP)
        if case.formula is not None:
            try:
                bind(case, expander)
            except UnsupportedError:
                if steps_left < 0 or (cases := _split_into_cases(case, expander)) is None:
                    raise
                work += reversed(cases)
                continue
        out.append(case)
    return out


def _split_into_cases(shape: Shape, expander: Expander) -> list[Shape] | None:
    """The cases into which some member splits the shape. None if no member separates cases."""
    assert shape.formula is not None
    binding = Binding(shape, shape.formula, expander)
    goals_by_member, listing_counts = _goals_by_member(binding, expander)
    for name in sorted(
        goals_by_member, key=lambda name: (listing_counts[name], len(goals_by_member[name])), reverse=True
    )[:_MAX_CANDIDATES]:
        goals = goals_by_member[name]
        base = binding.slot_goal(name)
        try:
            cells = (
                ValuePartition(expander, "", len(goals) + _EXTRA_CELLS).cells(base, goals)
                if not has_false(base)
                else ()
            )
        except UnsupportedError:
            continue  # the goals overlap too much
        if len(cells) + (name not in shape.required) > 1:
            return list(_Split(shape, shape.formula, binding, name).shapes(cells, expander))
    return None


def has_discriminator(shape: Shape, expander: Expander) -> bool:
    """Whether all goals of some member list its values."""
    assert shape.formula is not None
    goals_by_member, listing_counts = _goals_by_member(Binding(shape, shape.formula, expander), expander)
    return any(listing_counts[name] == len(goals) for name, goals in goals_by_member.items())


def _goals_by_member(binding: Binding, expander: Expander) -> tuple[dict[str, list[Goal]], dict[str, int]]:
    """The goals of each member that has several, and how many of these goals list their values."""
    goals_by_member = {name: list(goals) for name, goals in binding.goals_by_name().items() if len(goals) > 1}
    return goals_by_member, {
        name: sum(listed_values(goal, expander) is not None for goal in goals)
        for name, goals in goals_by_member.items()
    }


class _Split:
    """A formula, split by the cases of the member `name`."""

    def __init__(self, shape: Shape, formula: Formula, binding: Binding, name: str) -> None:
        self._base, self._formula, self._name, self._empty_schema = (
            shape._replace(formula=None),
            formula,
            name,
            binding.empty_schema,
        )
        self._goals = {leaf: members.get(name) for leaf, members in binding.members.items()}
        self._cached_requirements: dict[Leaf, Formula] = {}
        self._parts_by_goal: dict[Formula, dict[Goal, dict[Formula, None]]] = {}
        self._defaults: dict[Formula, Formula] = {}
        self._restricting_items: dict[Formula, list[Formula]] = {}
        fold(formula, self._index)

    def shapes(self, cells: tuple[Cell, ...], expander: Expander) -> Iterator[Shape]:
        """The shape of each case that may have values."""
        if self._name not in self._base.required:
            absent_shape = Shape(objects=(ObjectPart({self._name: self._empty_schema}, None),), constrains_objects=True)
            yield from expander.by_type.objects(self._base.meet(absent_shape), fold(self._formula, self._if_absent))
        for cell in cells:
            parts = tuple(ObjectPart({self._name: schema}, None) for schema in cell.goal)
            present_shape = Shape(required=(self._name,), objects=parts, constrains_objects=True)
            yield from expander.by_type.objects(self._base.meet(present_shape), self._if_present(cell.satisfied_goals))

    def _index(self, current: Formula, parts: list[Formula]) -> Formula:
        """The part `current` if the member is present and satisfies no goal. Also records which parts of `current`
        depend on which goals.
        """
        dependent_parts: dict[Goal, dict[Formula, None]] = defaultdict(dict)
        if isinstance(current, Leaf):
            if goal := self._goals[current]:
                dependent_parts[goal] = {}
            default = self._leaf(current, frozenset())
        elif isinstance(current, Junction):
            for item in current.items:
                for goal in self._parts_by_goal[item]:
                    dependent_parts[goal][item] = None
            self._restricting_items[current] = [
                item for item, part in zip(current.items, parts, strict=True) if part is not current.is_conjunction
            ]
            default = join(current.is_conjunction, parts)
        elif isinstance(current, Negated):
            dependent_parts = {goal: {current.item: None} for goal in self._parts_by_goal[current.item]}
            default = negate(parts[0])
        else:
            default = current
        self._parts_by_goal[current], self._defaults[current] = dependent_parts, default
        return default

    def _if_present(self, satisfied_goals: frozenset[Goal]) -> Formula:
        """The formula if the member is present and satisfies exactly these goals."""
        formulas: dict[Formula, Formula] = {}
        stack = [self._formula]
        while stack:
            current = stack[-1]
            dependent_parts = self._parts_by_goal[current]
            parts = {
                part: None for goal in satisfied_goals if goal in dependent_parts for part in dependent_parts[goal]
            }
            if missing := [part for part in parts if part not in formulas]:
                stack += missing
                continue
            stack.pop()
            if satisfied_goals.isdisjoint(dependent_parts):
                formulas[current] = self._defaults[current]
            elif isinstance(current, Leaf):
                formulas[current] = self._leaf(current, satisfied_goals)
            elif isinstance(current, Junction):
                rest = (self._defaults[item] for item in self._restricting_items[current] if item not in parts)
                formulas[current] = join(current.is_conjunction, (*map(formulas.__getitem__, parts), *rest))
            elif isinstance(current, Negated):
                formulas[current] = negate(formulas[current.item])
        return formulas[self._formula]

    def _if_absent(self, current: Formula, parts: list[Formula]) -> Formula:
        """The part `current` if the member is absent."""
        if isinstance(current, Leaf):
            return self._name not in current.shape.required and self._other_requirements(current)
        if isinstance(current, Junction):
            return join(current.is_conjunction, parts)
        return negate(parts[0]) if isinstance(current, Negated) else current

    def _leaf(self, leaf: Leaf, satisfied_goals: frozenset[Goal]) -> Formula:
        goal = self._goals[leaf]
        return (goal is None or goal in satisfied_goals) and self._other_requirements(leaf)

    def _other_requirements(self, leaf: Leaf) -> Formula:
        """The other requirements of a leaf, given that the member satisfies it. Parts with patterns are unchanged."""
        if leaf not in self._cached_requirements:
            shape, name = leaf.shape, self._name
            parts = tuple(part if part.patterns else _without_requirement(part, name) for part in shape.objects)
            rest = shape._replace(
                objects=tuple(
                    part for part in parts if part.patterns or part.properties or part.additional is not None
                ),
                required=tuple(other for other in shape.required if other != name),
            )
            self._cached_requirements[leaf] = allows_every(rest, "object") or Leaf(rest, leaf.schema)
        return self._cached_requirements[leaf]


def _without_requirement(part: ObjectPart, name: str) -> ObjectPart:
    """The part without its requirement on a member. If the part constrains additional members, the member stays
    declared, because it would be one of them otherwise.
    """
    constrained_members = {
        other: schema for other, schema in part.properties.items() if other != name and schema is not None
    }
    others: dict[str, Schema | None] = {**constrained_members}
    if part.additional is not None:
        others = {**dict.fromkeys(part.properties), name: None, **constrained_members}
    return ObjectPart(others, part.additional, declares=part.declares)
