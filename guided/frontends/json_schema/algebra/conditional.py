"""Turns a formula that relates the members of an object into a condition on *cells*, sets of values. In: a shape of
objects with a formula. Out: the cells of each member, and a condition on them, for the IR's `Permutation`.

Problem: `{"oneOf": [...]}`, `if` and `dependentRequired` relate members to each other. Multiplying out the alternatives
produces 2^20 shapes for twenty independent conditions.

How: a formula asks only two things about a member: whether it is absent, and whether its value satisfies a schema. For
each name, these schemas divide the values into *cells* (`value_partition.py`), so "is in S" means "one of these cells
was written". Patterns divide the names of additional members into classes. The values of each class are divided into
cells, too; such a cell may be written several times. Twenty independent conditions are then a single condition of
twenty parts. A register of the automaton records which cells were written.

Example: `{"if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["x"]}}` has two cells for the values of
`kind`, "a" and all others, and one cell for the values of `x`. The condition is: not "kind is a", or "x was written".

Cost: the cells of each name, bounded by `MAX_CELLS`. Bounds on the number of members inside the formula are not
supported, except for "none" and "some".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from guided.errors import UnsupportedError, brief
from guided.frontends.json_schema.algebra.conditions import holds_without_members, impossible_members
from guided.frontends.json_schema.algebra.emptiness import repeated_items_error
from guided.frontends.json_schema.algebra.formula import Formula, Junction, Leaf, Negated, fold, leaves
from guided.frontends.json_schema.algebra.keys import KeySet, Source
from guided.frontends.json_schema.algebra.shape import ObjectPart, Shape, Window, has_false
from guided.frontends.json_schema.algebra.value_partition import Cell, ValuePartition
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.documents.values import Json
from guided.ir.conditions import AllOf, AnyOf, Condition, NoneOf, Written
from guided.ir.nodes import Node
from guided.ir.serial import serial

if TYPE_CHECKING:
    from guided.frontends.json_schema.algebra.expand import Expander, Goal

__all__ = ["AdditionalNames", "Binding", "ConditionalMembers", "bind"]

_FALSE: Condition = AnyOf(())


class AdditionalNames(NamedTuple):
    """A class of names of additional members (`keys.py`): its languages, the serial numbers of its sources, and the
    cells of the values.
    """

    names: tuple[Node, ...]
    sources: frozenset[int]
    cells: tuple[Cell, ...]


@dataclass(slots=True)
class ConditionalMembers:
    """The members of an object: `slots` for named members, `extras` for additional ones. `condition` numbers the cells:
    first the cells of the slots in order, then the cells of the extras.
    """

    names: tuple[str, ...]
    slots: dict[str, tuple[Cell, ...]]
    extras: list[AdditionalNames]
    condition: Condition = field(default=_FALSE)
    may_be_empty: bool = False


def bind(shape: Shape, expander: Expander) -> ConditionalMembers:
    """The cells and the condition of a shape with a formula.

    Raises:
        UnsupportedError: a name has too many cells, or the formula counts members.
    """
    assert shape.formula is not None
    return Binding(shape, shape.formula, expander).bind()


class Binding:
    """The requirements of a formula on each member of the objects of a shape."""

    def __init__(self, shape: Shape, formula: Formula, expander: Expander) -> None:
        self._base, self._formula, self._expander = shape, formula, expander
        self._negation = expander.reader.negation
        self._leaves = leaves(formula)
        self._location = self._leaves[0].schema.location if self._leaves else ""
        self._partition = ValuePartition(expander, self._location).cells
        self._constants: dict[Leaf, list[dict[str, Goal]]] = {}
        for leaf in self._leaves:
            if leaf.shape.values is not None:
                self._constants[leaf] = [
                    {name: self._constant(leaf, item) for name, item in value.items()}
                    for value in leaf.shape.values
                    if isinstance(value, dict)
                ]
        self._names = self._all_names()
        self.members = {leaf: self._members_of(leaf) for leaf in self._leaves}
        self._cell_numbers: dict[str, list[int]] = {}
        self._extra_numbers: list[list[int]] = []
        self._all_cells: tuple[int, ...] = ()

    @property
    def empty_schema(self) -> Schema:
        """A schema that no value satisfies."""
        return self._negation.make_empty_schema(self._leaves[0].schema)

    def bind(self) -> ConditionalMembers:
        """The cells and the condition."""
        base = self._base
        self._forbids_others = self._is_closed()
        slots = {
            name: self._partition(self.slot_goal(name), goals, f"the member {brief(name)}")
            for name, goals in self.goals_by_name().items()
        }
        slots = {name: cells for name, cells in slots.items() if cells}
        extras = [] if self._forbids_others else self._find_extras()
        condition = self._number_cells(slots, extras)
        if impossible_cells := impossible_members(
            condition, self._cell_numbers.values(), (number for numbers in self._extra_numbers for number in numbers)
        ):
            numbers_by_name = {name: self._cell_numbers[name] for name in slots}
            slots = {name: _drop_cells(cells, numbers_by_name[name], impossible_cells) for name, cells in slots.items()}
            slots = {name: cells for name, cells in slots.items() if cells}
            numbered_extras = zip(extras, self._extra_numbers, strict=True)
            extras = [
                extra._replace(cells=_drop_cells(extra.cells, cell_numbers, impossible_cells))
                for extra, cell_numbers in numbered_extras
            ]
            condition = self._number_cells(slots, [extra for extra in extras if extra.cells])
        for cells in (*slots.values(), *(extra.cells for extra in self._extras)):
            for cell in cells:
                self._check(cell)
        may_be_empty = not base.required and base.member_window.low == 0 and holds_without_members(condition)
        return ConditionalMembers(tuple(self._names), slots, self._extras, condition, may_be_empty)

    def _check(self, cell: Cell) -> None:
        """Refuse a cell with arrays that cannot be written. The caller then tries the normal form, which may not need
        this cell.
        """
        for shape in self._expander.expand(cell.goal).shapes if cell.goal not in self._expander.open_goals else ():
            if shape.repeated is not None and shape.count_graph is None and shape.values is None:
                raise repeated_items_error(shape)

    def _number_cells(self, slots: dict[str, tuple[Cell, ...]], extras: list[AdditionalNames]) -> Condition:
        """Number the cells, and return the condition on them."""
        count = 0
        self._slots, self._extras = slots, extras
        self._cell_numbers, self._extra_numbers = {}, []
        for name, cells in slots.items():
            self._cell_numbers[name] = list(range(count, count + len(cells)))
            count += len(cells)
        for extra in extras:
            self._extra_numbers.append(list(range(count, count + len(extra.cells))))
            count += len(extra.cells)
        self._all_cells = tuple(range(count))
        required: list[Condition] = [Written(tuple(self._cell_numbers.get(name, ()))) for name in self._base.required]
        return AllOf((*required, fold(self._formula, self._condition)))

    # --- cells

    def _all_names(self) -> dict[str, None]:
        """The declared names in order, then names that are required or belong to a constant."""
        shapes = [self._base, *(leaf.shape for leaf in self._leaves)]
        names: dict[str, None] = {}
        for shape in shapes:
            names |= shape.properties()
        for shape in shapes:
            names |= dict.fromkeys(shape.required)
        for constants in self._constants.values():
            for members in constants:
                names |= dict.fromkeys(members)
        return names

    def slot_goal(self, name: str) -> Goal:
        """The requirements of the base shape on the member `name`."""
        if not self._expander.allows(self._base, name):
            return (self.empty_schema,)
        return self._expander.goal(self._expander.member_schemas(self._base, name))

    def _constant(self, leaf: Leaf, value: Json) -> Goal:
        return self._expander.goal((self._negation.constant(value, leaf.schema),))

    def _members_of(self, leaf: Leaf) -> dict[str, Goal]:
        """The requirements of a leaf on each named member. Members without requirements are left out."""
        shape, expander = leaf.shape, self._expander
        if shape.name_schemas or any(part.patterns or part.additional is not None for part in shape.objects):
            names: Iterable[str] = self._names
        else:
            names = dict.fromkeys(name for part in shape.objects for name in part.properties)
        out: dict[str, Goal] = {}
        for name in names:
            goal = expander.goal(expander.member_schemas(shape, name))
            if not all(expander.keys.contains(source, name) for source in shape.name_schemas):
                goal = (self._negation.make_empty_schema(leaf.schema),)
            if goal:
                out[name] = goal
        return out

    def goals_by_name(self) -> dict[str, dict[Goal, None]]:
        """For each name, the goals that the formula must tell apart."""
        out: dict[str, dict[Goal, None]] = {name: {} for name in self._names}
        for leaf in self._leaves:
            member_goals = [self.members[leaf], *self._constants.get(leaf, ())]
            for name, goal in (item for members in member_goals for item in members.items()):
                if not has_false(goal):
                    out[name][goal] = None
            for some_member in leaf.shape.some_members:
                goal = () if some_member.schema is None else self._expander.goal((some_member.schema,))
                for name in self._names if goal and not has_false(goal) else ():
                    if self._expander.keys.contains(some_member.keys, name):
                        out[name][goal] = None
        return out

    # --- additional members

    def _is_closed(self) -> bool:
        """Whether a schema or the option forbids additional members. A part of the formula may override the option."""
        return self._expander.is_closed(self._base, [part for leaf in self._leaves for part in leaf.shape.objects])

    def _parts(self) -> list[tuple[Leaf | None, ObjectPart]]:
        parts: list[tuple[Leaf | None, ObjectPart]] = [(None, part) for part in self._base.objects]
        return parts + [(leaf, part) for leaf in self._leaves for part in leaf.shape.objects]

    def _find_extras(self) -> list[AdditionalNames]:
        sources: list[Source] = [source for _, part in self._parts() for source, _ in part.patterns]
        sources += [names for leaf in self._leaves for names in leaf.shape.name_schemas]
        sources += [some_member.keys for leaf in self._leaves for some_member in leaf.shape.some_members]
        out: list[AdditionalNames] = []
        for names, ids in self._expander.keys.classes(self._base.name_schemas, sources, self._names, self._location):
            base = self._expander.goal(_undeclared_schemas(self._base.objects, ids))
            goals: dict[Goal, None] = {}
            for leaf in self._leaves:
                goals[self._expander.goal(_undeclared_schemas(leaf.shape.objects, ids))] = None
                for some_member in leaf.shape.some_members:
                    if some_member.schema is not None and serial(some_member.keys) in ids:
                        goals[self._expander.goal((some_member.schema,))] = None
            cells = self._partition(base, [goal for goal in goals if goal and not has_false(goal)])
            if cells:
                out.append(AdditionalNames(names, ids, cells))
        return out

    # --- the condition

    def _condition(self, current: Formula, parts: list[Condition]) -> Condition:
        if isinstance(current, Leaf):
            return self._leaf(current)
        if isinstance(current, Junction):
            return AllOf(tuple(parts)) if current.is_conjunction else AnyOf(tuple(parts))
        if isinstance(current, Negated):
            return NoneOf((parts[0],))
        return AllOf(()) if current else _FALSE

    def _leaf(self, leaf: Leaf) -> Condition:
        shape = leaf.shape
        conditions: list[Condition] = []
        forbidden_cells: list[int] = []
        for name, goal in self.members[leaf].items():
            if name in self._slots:
                forbidden_cells += self._cells_outside(self._cell_numbers[name], self._slots[name], goal)
        for numbers, extra in zip(self._extra_numbers, self._extras, strict=True):
            goal = self._expander.goal(_undeclared_schemas(shape.objects, extra.sources))
            if not all(serial(names) in extra.sources for names in shape.name_schemas):
                forbidden_cells += numbers
            else:
                forbidden_cells += self._cells_outside(numbers, extra.cells, goal)
        if forbidden_cells:
            conditions.append(NoneOf((Written(tuple(forbidden_cells)),)))
        conditions += [Written(tuple(self._cell_numbers.get(name, ()))) for name in shape.required]
        conditions += [self._some_member(some_member.keys, some_member.schema) for some_member in shape.some_members]
        conditions += self._count_conditions(shape.member_window)
        if shape.values is not None:
            conditions.append(AnyOf(tuple(map(self._equals_constant, self._constants[leaf]))))
        return AllOf(tuple(conditions))

    def _cells_outside(self, numbers: list[int], cells: tuple[Cell, ...], goal: Goal) -> list[int]:
        """The cells whose values do not satisfy the goal."""
        if not goal:
            return []
        if has_false(goal):
            return numbers
        return [number for number, cell in zip(numbers, cells, strict=True) if goal not in cell.satisfied_goals]

    def _some_member(self, keys: KeySet, schema: Schema | None) -> Condition:
        goal = () if schema is None else self._expander.goal((schema,))
        satisfying_cells: list[int] = []
        candidates = [
            (self._cell_numbers[name], cells)
            for name, cells in self._slots.items()
            if self._expander.keys.contains(keys, name)
        ]
        candidates += [
            (numbers, extra.cells)
            for numbers, extra in zip(self._extra_numbers, self._extras, strict=True)
            if serial(keys) in extra.sources
        ]
        for numbers, cells in candidates:
            outside_cells = set(self._cells_outside(numbers, cells, goal))
            satisfying_cells += [number for number in numbers if number not in outside_cells]
        return Written(tuple(satisfying_cells))

    def _count_conditions(self, window: Window) -> list[Condition]:
        if window == Window():
            return []
        if window == Window(1):
            return [Written(self._all_cells)]
        if window.high == 0:
            return [_FALSE if window.low else NoneOf((Written(self._all_cells),))]
        raise UnsupportedError(
            "minProperties and maxProperties are not enforced inside one of many alternatives of an object",
            pointer=self._location,
            hint="move the count out of the alternatives, or list the required members instead",
        )

    def _equals_constant(self, members: dict[str, Goal]) -> Condition:
        conditions: list[Condition] = []
        rest = set(self._all_cells)
        for name, goal in members.items():
            numbers = self._cell_numbers.get(name, [])
            outside_cells = set(self._cells_outside(numbers, self._slots.get(name, ()), goal))
            inside_cells = [number for number in numbers if number not in outside_cells]
            conditions.append(Written(tuple(inside_cells)))
            rest -= set(inside_cells)
        conditions.append(NoneOf((Written(tuple(sorted(rest))),)))
        return AllOf(tuple(conditions))


def _undeclared_schemas(parts: tuple[ObjectPart, ...], ids: frozenset[int]) -> tuple[Schema, ...]:
    """The schemas for additional members whose names are in exactly these sources, given by serial number."""
    return tuple([schema for part in parts for schema in part.additional_schemas(ids)])


def _drop_cells(cells: tuple[Cell, ...], numbers: list[int], impossible_cells: set[int]) -> tuple[Cell, ...]:
    return tuple(cell for cell, number in zip(cells, numbers, strict=True) if number not in impossible_cells)
