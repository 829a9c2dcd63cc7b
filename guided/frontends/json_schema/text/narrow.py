"""Decides which members to leave out that a schema does not name, with the options `additional_properties="minimal"`
and False. In: the requirements on an object or an item. Out: the decision.

This is decided when the shape of an object is written, not in the algebra. The algebra computes conjunctions,
references and complements of the language that the schema means. Closing a schema before it is negated would allow
values that the whole schema forbids. Closing it before another schema adds names would forbid the members with these
names. Here the shape is final, so leaving out members only makes the language smaller. But the language must not become
empty. Therefore an object stays open if

- no named member can occur, or the schema constrains or requires other members (`additionalProperties`,
  `unevaluatedProperties`, `patternProperties`, `propertyNames`);
- `minProperties` demands more members than `required` lists, and more than there are usable named members. A member is
  usable if it has a finite value even if all objects in it are closed:
  `{"properties": {"a": {"$ref": "#"}}, "minProperties": 1}` has no value without other members;
- it is an item of an array whose items must differ, and there might be too few different closed items.

A branch of `oneOf` also excludes the other branches, so its shapes name their members: `{"a": 1, "b": 2}` matches a
branch about `a` alone if `b` must be a Boolean in the other one. Such members are left out, too, unless the branch
would have no value (`declared_only`).

Cost: linear in the members; for `minProperties` and distinct items, also in the schemas below, to a fixed depth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from guided.frontends.json_schema.algebra.conditions import evaluate
from guided.frontends.json_schema.algebra.formula import leaves
from guided.frontends.json_schema.algebra.shape import ArrayPart, ObjectPart, Shape, has_false, item_goal
from guided.frontends.json_schema.documents.schema import Schema
from guided.ir.conditions import Condition, Written
from guided.ir.serial import serial

if TYPE_CHECKING:
    from guided.frontends.json_schema.algebra.expand import Expander, Goal

__all__ = ["Narrowing", "constrains_others"]

_MAX_DEPTH = 8  # the maximum nesting depth of objects and arrays that is examined
_MAX_GOALS = 2_000  # the maximum number of goals that are examined for one answer
_CONTAINERS = frozenset(("array", "object"))


class Narrowing:
    """Decides for one compilation. `is_enabled`: whether the option is "minimal"."""

    def __init__(self, expander: Expander, option: object) -> None:
        self._expander, self.is_enabled = expander, option == "minimal"
        self._open_schema: Schema | None = None
        self._goal_count = 0

    def closes(self, shape: Shape) -> bool:
        """Whether the objects of a shape without a formula are restricted to the named members."""
        if not self.is_enabled or constrains_others(shape):
            return False
        goals = self._named_goals(shape).values()
        return bool(goals) and _has_enough_members(shape, goals, self._may_be_finite)

    def closed_condition(self, shape: Shape, slots: Sequence[Sequence[Goal]], condition: Condition) -> Condition | None:
        """For a shape with a formula: the condition on the named members if all others are left out, else None.

        `slots`: for each named member the goals of its cells. The condition numbers the cells consecutively from 0.
        """
        all_leaves = () if shape.formula is None else leaves(shape.formula)
        if (
            not self.is_enabled
            or not slots
            or any(map(constrains_others, (shape, *(leaf.shape for leaf in all_leaves))))
        ):
            return None
        restricted_condition = _restrict_to_first(condition, sum(map(len, slots)), {})
        low = shape.member_window.low
        if evaluate(restricted_condition, {}, None) is False or (
            low and sum(any(map(self._may_be_finite, slot)) for slot in slots) < low
        ):
            return None
        return restricted_condition

    def declared_only(self, shapes: Sequence[Shape], source: Schema) -> Sequence[Shape]:
        """The shapes of a goal. If a shape's objects are closed, they have no members that only complements name.
        Messages point to `source`.
        """
        self._goal_count = 0
        return self._declared_only(shapes, source, _MAX_DEPTH)

    def _declared_only(self, shapes: Sequence[Shape], source: Schema, depth: int) -> Sequence[Shape]:
        out: list[Shape] = []
        for shape in shapes:
            names = shape.undeclared_names()
            if not names or not self._may_close(shape):
                out.append(shape)
            elif names.keys().isdisjoint(shape.required):
                out.append(self._without(shape, names, source, depth))
        if len(out) < len(shapes):  # the others require such members
            has_object = any("object" in shape.types and self._has_finite_in_shape(shape, depth - 1) for shape in out)
            return out if has_object else shapes
        return out

    def _may_close(self, shape: Shape) -> bool:
        if shape.values is not None or shape.formula is not None or "object" not in shape.types:
            return False
        return self._expander.is_closed_by_option(shape) or (self.is_enabled and not constrains_others(shape))

    def _without(self, shape: Shape, names: Iterable[str], source: Schema, depth: int) -> Shape:
        """The shape without members of these names, unless it would then have no value, or name no member."""
        empty_schema = self._expander.negation.make_empty_schema(source)
        part = ObjectPart(dict.fromkeys(names, empty_schema), None, declares=False)
        smaller_shape = shape.meet(Shape(objects=(part,)))
        goals = self._named_goals(smaller_shape).values()
        is_possible = _has_enough_members(shape, goals, lambda goal: self._has_finite(goal, depth - 1))
        return smaller_shape if goals and is_possible else shape

    def item(self, goal: Goal) -> Goal:
        """The goal of an item that must differ from the others. It stays open if closing it would leave few values."""
        if not self.is_enabled or not goal or self._decide(self._has_many, goal):
            return goal
        return self._expander.goal((*goal, self._keep_open(goal[0])))

    def _keep_open(self, source: Schema) -> Schema:
        """A schema that allows every value, and explicitly allows any additional members."""
        if self._open_schema is None:
            any_schema = Schema(source.document, source.pointer, True, source.base)
            objects = (ObjectPart({}, any_schema),)
            negation = self._expander.negation
            inner = negation.derive(source, Shape(objects=objects))
            self._open_schema = negation.derive(source, Shape(objects=objects, arrays=(ArrayPart((), inner),)))
        return self._open_schema

    def _named_goals(self, shape: Shape) -> dict[str, Goal]:
        """The goals of the named members that can occur."""
        expander = self._expander
        names = [name for name in shape.member_names() if expander.allows(shape, name)]
        return {name: expander.goal(expander.member_schemas(shape, name)) for name in names}

    # --- the values of a goal if all objects in them are closed; True is certain, and False means "perhaps not"

    def _decide(self, question: Callable[[Goal, int], bool], goal: Goal) -> bool:
        self._goal_count = 0
        return question(goal, _MAX_DEPTH)

    def _may_be_finite(self, goal: Goal) -> bool:
        return self._decide(self._has_finite, goal)

    def _shapes(self, goal: Goal, depth: int) -> Iterable[Shape]:
        self._goal_count += 1
        if depth == 0 or self._goal_count > _MAX_GOALS or has_false(goal):
            return ()
        shapes = self._expander.expand(goal).shapes
        return self._declared_only(shapes, goal[0], depth) if goal else shapes

    def _has_finite(self, goal: Goal, depth: int) -> bool:
        """Whether there is a finite value. There is none if a schema requires itself without end."""
        shapes = tuple(self._shapes(goal, depth))
        if shapes and (values := self._expander.listed_values.values_of(goal)) is not None:
            return bool(values)  # closing objects does not change listed values
        return any(self._has_finite_in_shape(shape, depth - 1) for shape in shapes)

    def _has_finite_in_shape(self, shape: Shape, depth: int) -> bool:
        if shape.values is not None or not _CONTAINERS.issuperset(shape.types):
            return True
        if "array" in shape.types and not (shape.some_items or shape.rest_blocks or shape.item_counts):
            required_indices = range(min(shape.item_window.low, shape.prefix_length + 1))
            if all(self._has_finite(self._expander.goal(item_goal(shape, index)), depth) for index in required_indices):
                return True
        if "object" not in shape.types or shape.formula is not None or shape.extra_blocks:
            return False
        goal_by_name = self._named_goals(shape)
        if not all(name in goal_by_name and self._has_finite(goal_by_name[name], depth) for name in shape.required):
            return False
        return _has_enough_members(shape, goal_by_name.values(), lambda goal: self._has_finite(goal, depth))

    def _has_many(self, goal: Goal, depth: int) -> bool:
        """Whether there are many values."""
        shapes = tuple(self._shapes(goal, depth))
        if all(shape.values is not None or _CONTAINERS.isdisjoint(shape.types) for shape in shapes):
            return bool(shapes) and self._expander.listed_values.values_of(goal) is None
        return any(self._has_many_in_shape(shape, depth - 1) for shape in shapes)

    def _has_many_in_shape(self, shape: Shape, depth: int) -> bool:
        if shape.values is not None or shape.formula is not None:
            return False
        if "string" in shape.types and not shape.patterns and shape.length.high != 0:
            return True
        inner_goals: list[Goal] = []
        if "array" in shape.types and shape.item_window.high != 0 and not shape.some_items:
            inner_goals.append(self._expander.goal(item_goal(shape, 0)))
        if "object" in shape.types and shape.member_window.high != 0:
            inner_goals += self._named_goals(shape).values()
        return any(self._has_many(goal, depth) for goal in inner_goals)


def _has_enough_members(shape: Shape, goals: Iterable[Goal], is_finite: Callable[[Goal], bool]) -> bool:
    """Whether enough members have finite values for `minProperties`. `goals`: those of the named members."""
    low = shape.member_window.low
    return low <= len(shape.required) or sum(map(is_finite, goals)) >= low


def constrains_others(shape: Shape) -> bool:
    """Whether the shape constrains members that it does not name."""
    if shape.name_schemas or shape.some_members or shape.extra_blocks:
        return True
    return any(part.patterns or part.additional is not None for part in shape.objects)


def _restrict_to_first(condition: Condition, count: int, results: dict[int, Condition]) -> Condition:
    """The condition, if only the first `count` cells can be written."""
    restricted_condition = results.get(serial(condition))
    if restricted_condition is None:
        if isinstance(condition, Written):
            restricted_condition = Written(tuple(member for member in condition.members if member < count))
        else:
            items = tuple([_restrict_to_first(item, count, results) for item in condition.items])
            restricted_condition = type(condition)(items)
        results[serial(condition)] = restricted_condition
    return restricted_condition
