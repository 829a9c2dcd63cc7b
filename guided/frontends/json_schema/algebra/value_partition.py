"""Divides the values of one member or item into cells: values that given goals do not distinguish. In: the requirement
on all values, and the goals that must be distinguished. Out: disjoint goals, each with the given goals that all of its
values satisfy.

Why: a condition on objects asks "is the value of `a` in S?" for several S at once. With disjoint cells, each question
becomes "is it in one of these cells?", and the automaton only has to remember which cell was written. For example, the
goals {string}, {minLength: 3} divide the values into: strings of 3 or more characters, shorter strings, other values.

How: each goal divides every cell in two, if both sides may contain a value. Goals that list values are compared value
by value instead; all values in none of the lists form one more cell.

Cost: for each cell and goal, a check whether a conjunction has a value. The number of cells doubles with each goal that
neither contains nor excludes the earlier ones. It is bounded by `MAX_CELLS`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from guided.errors import UnsupportedError
from guided.frontends.json_schema.algebra.shape import ANYTHING, listed_scalars
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.documents.values import Json, canonical_key

if TYPE_CHECKING:
    from guided.frontends.json_schema.algebra.expand import Expander, Goal

__all__ = ["MAX_CELLS", "Cell", "ValuePartition", "listed_values"]

MAX_CELLS = 48
_MIN_LISTING_GOALS = 3  # with at least this many goals that list values, these are compared value by value


class Cell(NamedTuple):
    """Values that the goals do not distinguish. `satisfied_goals`: the goals that they satisfy."""

    goal: Goal
    satisfied_goals: frozenset[Goal]


class ValuePartition:
    """Divides values into a limited number of cells. `location` is a JSON Pointer, for messages."""

    def __init__(self, expander: Expander, location: str, max_cells: int = MAX_CELLS) -> None:
        self._expander, self._location, self._max_cells = expander, location, max_cells
        self._subject = ""
        self._conjunctions: dict[Goal, Schema] = {}

    def cells(self, base: Goal, goals: Iterable[Goal], subject: str = "one member or item") -> tuple[Cell, ...]:
        """The cells into which the goals divide the values of `base`, without cells that are known to be empty.

        `subject` says in messages what has these values.
        """
        expander, self._subject = self._expander, subject
        cells, goals = self._partition_by_value(base, list(goals))
        for goal in goals:
            new_cells: list[Cell] = []
            for cell in cells:
                intersection = expander.goal((*cell.goal, *goal))
                if intersection == cell.goal:
                    new_cells.append(Cell(cell.goal, cell.satisfied_goals | {goal}))
                    continue
                if not self._are_disjoint(cell.goal, goal) and expander.may_have_values(intersection):
                    new_cells.append(Cell(intersection, cell.satisfied_goals | {goal}))
                    rest = expander.goal((*cell.goal, self._complement(goal)))
                    new_cells += [Cell(rest, cell.satisfied_goals)] if expander.may_have_values(rest) else []
                else:
                    new_cells.append(cell)
            cells = new_cells
            self._check_count(len(cells))
        return tuple(cells)

    def _check_count(self, cells: int) -> None:
        if cells > self._max_cells:
            raise UnsupportedError(
                f"the alternatives overlap: they divide the values of {self._subject} "
                f"into more than {self._max_cells} parts",
                pointer=self._location,
                hint="tell alternatives apart by a required member with const or enum, and use oneOf or anyOf",
            )

    def _partition_by_value(self, base: Goal, all_goals: list[Goal]) -> tuple[list[Cell], list[Goal]]:
        """The cells of the goals that list scalars, compared value by value, and the other goals."""
        expander, negation = self._expander, self._expander.reader.negation
        listed_goals = {goal: values for goal in all_goals if (values := listed_values(goal, expander)) is not None}
        if len(listed_goals) < _MIN_LISTING_GOALS:
            return ([Cell(base, frozenset())] if expander.may_have_values(base) else []), all_goals
        values_by_key: dict[tuple[object, ...], Json] = {}
        goals_by_key: dict[tuple[object, ...], set[Goal]] = {}
        for goal, values in listed_goals.items():
            for value in values:
                key = canonical_key(value)
                values_by_key.setdefault(key, value)
                goals_by_key.setdefault(key, set()).add(goal)
        values_by_goals: dict[frozenset[Goal], list[Json]] = {}
        for key, satisfied_goals in goals_by_key.items():
            values_by_goals.setdefault(frozenset(satisfied_goals), []).append(values_by_key[key])
        source = next(iter(listed_goals))[0]
        schemas_and_goals = [
            (negation.enumeration(source, tuple(values)), goals) for goals, values in values_by_goals.items()
        ]
        other_values = negation.complement_of(negation.enumeration(source, tuple(values_by_key.values())))
        schemas_and_goals.append((other_values, frozenset()))
        cells: list[Cell] = []
        for schema, goals in schemas_and_goals:
            goal = expander.goal((*base, schema))
            cells += [Cell(goal, goals)] if expander.may_have_values(goal) else []
        self._check_count(len(cells))
        return cells, [goal for goal in all_goals if goal not in listed_goals]

    def _complement(self, goal: Goal) -> Schema:
        if len(goal) == 1:
            return self._expander.reader.negation.complement_of(goal[0])
        if goal not in self._conjunctions:
            self._conjunctions[goal] = self._expander.reader.negation.derive(
                goal[0], ANYTHING, *((schema,) for schema in goal)
            )
        return self._expander.reader.negation.complement_of(self._conjunctions[goal])

    def _are_disjoint(self, a: Goal, b: Goal) -> bool:
        """Whether two goals certainly share no value, without expanding them."""
        return any(self._expander.reader.disjointness(first, second) for first in a for second in b)


def listed_values(goal: Goal, expander: Expander) -> tuple[Json, ...] | None:
    """The values of a goal that lists scalars and requires nothing else. None for other goals."""
    if len(goal) != 1:
        return None
    shape, groups = expander.reader.read(goal[0])
    return None if groups else listed_scalars(shape)
