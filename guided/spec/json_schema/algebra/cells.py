"""The parts into which schemas cut the values of a member or an item. In: what is asked of all its values, and the
goals that are told apart. Out: disjoint goals, each with those of the goals that hold for all of its values.

Goals that list values are compared value by value, and what is in none of the lists is one cell more; every other goal
cuts each cell in two where both sides may hold a value. Cost: the cells times the goals, each time whether a
conjunction has a value; the cells double with each schema that neither contains the ones before nor excludes them,
bounded by `MOST_CELLS`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from guided.errors import UnsupportedError
from guided.spec.json_schema.algebra.shape import ANYTHING, listed_scalars
from guided.spec.json_schema.documents.resolve import Schema
from guided.spec.json_schema.documents.values import Json, canonical

if TYPE_CHECKING:
    from guided.spec.json_schema.algebra.expand import Expander, Goal

__all__ = ["MOST_CELLS", "Cell", "Cells"]

MOST_CELLS = 48
_MANY = 3  # goals that list values, from which on they are compared value by value


class Cell(NamedTuple):
    """Values of a member that the formula cannot tell apart; `within`: the goals of the formula that hold for them."""

    goal: Goal
    within: frozenset[Goal]


class Cells:
    """Cuts values into cells for one text; `where` is its place, for messages."""

    def __init__(self, expander: Expander, where: str) -> None:
        self._expander, self._where = expander, where
        self._joined: dict[Goal, Schema] = {}

    def of(self, base: Goal, asked: Iterable[Goal]) -> tuple[Cell, ...]:
        """The parts into which goals cut the values of the base; those that are empty at sight are left out."""
        expander = self._expander
        cells, asked = self._by_value(base, list(asked))
        for goal in asked:
            cut: list[Cell] = []
            for cell in cells:
                both = expander.goal((*cell.goal, *goal))
                if both == cell.goal:
                    cut.append(Cell(cell.goal, cell.within | {goal}))
                    continue
                if not self._apart(cell.goal, goal) and expander.may_have_values(both):
                    cut.append(Cell(both, cell.within | {goal}))
                    rest = expander.goal((*cell.goal, self._complement(goal)))
                    cut += [Cell(rest, cell.within)] if expander.may_have_values(rest) else []
                else:
                    cut.append(cell)
            cells = cut
            self._check_count(cells)
        return tuple(cells)

    def _check_count(self, cells: list[Cell]) -> None:
        if len(cells) > MOST_CELLS:
            raise UnsupportedError(
                f"one member or item is asked for more than {MOST_CELLS} kinds of values that overlap",
                pointer=self._where,
                hint="tell alternatives apart by a required member with const or enum, and use oneOf or anyOf",
            )

    def _by_value(self, base: Goal, asked: list[Goal]) -> tuple[list[Cell], list[Goal]]:
        """The cells of those goals that list scalars, value by value, and the other goals."""
        expander, negation = self._expander, self._expander.reader.negation
        listing = {goal: values for goal in asked if (values := self._listed(goal)) is not None}
        if len(listing) < _MANY:
            return ([Cell(base, frozenset())] if expander.may_have_values(base) else []), asked
        found: dict[tuple[object, ...], Json] = {}
        within: dict[tuple[object, ...], set[Goal]] = {}
        for goal, values in listing.items():
            for value in values:
                key = canonical(value)
                found.setdefault(key, value)
                within.setdefault(key, set()).add(goal)
        alike: dict[frozenset[Goal], list[Json]] = {}
        for key, satisfied in within.items():
            alike.setdefault(frozenset(satisfied), []).append(found[key])
        at = next(iter(listing))[0]
        parts = [(negation.one_of(at, tuple(values)), goals) for goals, values in alike.items()]
        parts.append((negation.of(negation.one_of(at, tuple(found.values()))), frozenset()))
        cells: list[Cell] = []
        for schema, goals in parts:
            goal = expander.goal((*base, schema))
            cells += [Cell(goal, goals)] if expander.may_have_values(goal) else []
        self._check_count(cells)
        return cells, [goal for goal in asked if goal not in listing]

    def _listed(self, goal: Goal) -> tuple[Json, ...] | None:
        """The values of a goal that lists scalars and says nothing else."""
        if len(goal) != 1:
            return None
        shape, groups = self._expander.reader.read(goal[0])
        return None if groups else listed_scalars(shape)

    def _complement(self, goal: Goal) -> Schema:
        if len(goal) == 1:
            return self._expander.reader.negation.of(goal[0])
        if goal not in self._joined:
            self._joined[goal] = self._expander.reader.negation.derived(
                goal[0], ANYTHING, *((schema,) for schema in goal)
            )
        return self._expander.reader.negation.of(self._joined[goal])

    def _apart(self, a: Goal, b: Goal) -> bool:
        """Whether two goals share no value, to judge at sight."""
        return any(self._expander.reader.disjoint(one, two) for one in a for two in b)
