"""Expands conjunctions type by type, if their alternatives would multiply. In: a goal. Out: shapes whose union is the
goal.

The goal is read as a formula (`formula.py`). For a single type, most of the formula drops out. For null,
booleans and strings, set operations evaluate what remains. For numbers and arrays, it is multiplied out. For objects,
it becomes one shape: the requirements common to all objects, and the others as its `formula`, a condition on the
members (`conditional.py`). Disjoint alternatives become one shape each.

Cost: linear in the schemas; for arrays and numbers, the product of their alternatives.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from guided.frontends.json_schema.algebra.formula import (
    Formula,
    Junction,
    Leaf,
    formula_of,
    join,
    normal_form,
    restrict_to_type,
)
from guided.frontends.json_schema.algebra.scalars import scalar_shapes
from guided.frontends.json_schema.algebra.shape import ALL_TYPES, Shape
from guided.limits import Limits

if TYPE_CHECKING:
    from guided.frontends.json_schema.algebra.expand import Expander, Goal

__all__ = ["ShapesByType"]


_MAX_SEPARATED = 32  # the maximum number of alternatives, and of their shapes, that are compared in pairs
_MAX_DEPTH = 4  # the maximum depth of disjunctions whose alternatives are separated
_MAX_FORMULA_NODES = 100_000  # the maximum number of nodes of a normal form that replaces a formula


class ShapesByType:
    """Computes the shapes of goals, for one `Expander`."""

    def __init__(self, expander: Expander, limits: Limits) -> None:
        self._expander, self._limits = expander, limits

    def shapes(self, goal: Goal) -> tuple[Shape, ...]:
        """The shapes of the goal."""
        formula, shapes = self._formula(goal), list[Shape]()
        narrow, overlap = self._expander.narrow_or_none, self._expander.reader.overlap
        for name in ALL_TYPES:
            type_formula = restrict_to_type(formula, name)
            if name not in ("array", "object"):
                shapes += scalar_shapes(type_formula, name, narrow, overlap, self._limits.nodes)
            elif isinstance(type_formula, bool):
                shapes += [Shape(types=(name,))] if type_formula else []
            elif name == "array":
                shapes += self._normal_form(type_formula, Shape(types=("array",)))
            else:
                shapes += self.objects(Shape(types=("object",)), type_formula)
        return tuple(shapes)

    def multiply_out(self, shape: Shape) -> list[Shape]:
        """The shapes of an object with a formula, multiplied out. Raises LimitExceeded if there are too many."""
        assert shape.formula is not None
        return self._normal_form(
            shape.formula, shape._replace(formula=None), min(_MAX_FORMULA_NODES, self._limits.nodes)
        )

    def _formula(self, goal: Goal) -> Formula:
        return formula_of(goal, self._expander.reader.read, self._expander.reader.negation)

    def _normal_form(self, formula: Formula, start: Shape, max_nodes: int | None = None) -> list[Shape]:
        """The shapes of a formula for one type, multiplied out. `max_nodes` bounds the nodes (None: `Limits.nodes`)."""
        shapes = normal_form(
            formula, self._complement_within_type, self._expander.narrow_or_none, start, max_nodes or self._limits.nodes
        )
        return [shape for base in shapes for shape in self._expander.resolve_obligations(base)[0]]

    def _complement_within_type(self, leaf: Leaf) -> Iterator[Formula]:
        """The complement of a leaf within its type, as alternatives."""
        negation, (name,) = self._expander.reader.negation, leaf.shape.types
        if leaf.shape.values is not None:
            constants = (negation.constant(value, leaf.schema) for value in leaf.shape.values)
            yield restrict_to_type(
                join(True, (self._formula((negation.complement_of(constant),)) for constant in constants)), name
            )
        for shape in negation.shapes_without(leaf.shape, leaf.schema):
            if (alternative := restrict_to_type(Leaf(shape, leaf.schema), name)) is not False:
                yield alternative

    def objects(self, base: Shape, formula: Formula, depth: int = 0) -> tuple[Shape, ...]:
        """The objects of `base` that satisfy the formula. Each shape has the requirements that all of its objects
        share, and all others as a formula on the members. Empty if there are none.

        `depth`: how many disjunctions contain the formula.
        """
        if formula is False:
            return ()
        items = formula.items if isinstance(formula, Junction) and formula.is_conjunction else (formula,)
        other_requirements = list[Formula]()
        for item in items:
            if item is True:
                continue
            if isinstance(item, Leaf) and not item.shape.some_members and item.shape.values is None:
                base = base.meet(item.shape)
            else:
                other_requirements.append(item)
        narrowed_base = self._expander.narrow_or_none(base)
        if narrowed_base is None:
            return ()
        if len(other_requirements) == 1 and isinstance(other_requirements[0], Junction):  # a disjunction
            return self._alternatives(narrowed_base, other_requirements[0], depth)
        return (narrowed_base._replace(formula=None if not other_requirements else join(True, other_requirements)),)

    def _alternatives(self, base: Shape, alternatives: Junction, depth: int) -> tuple[Shape, ...]:
        """The objects of `base` that satisfy one of the alternatives. Disjoint ones become separate shapes, so that
        the members of one alternative are not divided by the schemas of another.
        """
        if depth >= _MAX_DEPTH or len(alternatives.items) > _MAX_SEPARATED:
            return (base._replace(formula=alternatives),)
        shapes = {item: self.objects(base, item, depth + 1) for item in alternatives.items}
        if sum(map(len, shapes.values())) > _MAX_SEPARATED:
            return (base._replace(formula=alternatives),)
        groups = list[list[Formula]]()  # alternatives that may overlap, directly or through others
        for item in alternatives.items:
            separate, overlapping = list[list[Formula]](), list[Formula]()
            for group in groups:
                if any(self._may_overlap(shapes[item], shapes[other]) for other in group):
                    overlapping += group
                else:
                    separate.append(group)
            groups = [*separate, [*overlapping, item]]
        out = list[Shape]()
        for group in groups:
            out += shapes[group[0]] if len(group) == 1 else [base._replace(formula=join(False, group))]
        return tuple(out)

    def _may_overlap(self, some: tuple[Shape, ...], others: tuple[Shape, ...]) -> bool:
        """Whether objects of the first shapes may be objects of the others."""
        may_share_object = self._expander.reader.disjointness.may_share_object
        return any(may_share_object(a, b) for a in some for b in others)
