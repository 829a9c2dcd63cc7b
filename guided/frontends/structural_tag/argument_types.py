"""Determines which types a schema allows for each value in the arguments, for styles that do not write the types.

    types = ArgumentTypes.of_schema({"properties": {"where": {"type": ["string", "integer"]}}}, form)
    types.kinds(types.member(types.root, "where"))     # {"string", "number"}

A goal is a set of schemas that apply together. A value satisfies at least one of its `Goals`. For {"anyOf": [A, B]},
the text does not show which of the two was meant. The code that writes arguments and the code that reads them use the
same goals, so they agree on the meaning of a text: if it looks like JSON of a type that the goals allow, it is not a
string.

Cost: each goal is expanded once. Not done: computing exact types. Goals may have a type although they allow no value of
this type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from guided.errors import GuidedError, UnsupportedError
from guided.frontends.json_schema.algebra.conditional import bind
from guided.frontends.json_schema.algebra.expand import Expander, Goal
from guided.frontends.json_schema.algebra.reader import Reader
from guided.frontends.json_schema.algebra.shape import Shape, has_false, item_goal
from guided.frontends.json_schema.documents.resolve import Library
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.documents.values import Json, json_type
from guided.frontends.json_schema.options import DEFAULTS
from guided.frontends.json_schema.text.narrow import Narrowing, constrains_others
from guided.frontends.structural_tag.element_forms import ElementForm
from guided.ir.nodes import Alt, And, Node, Not, Text
from guided.ir.serial import ByIdentity, serial
from guided.limits import Limits
from guided.meter import limit_compilation

__all__ = [
    "ArgumentTypes",
    "ArgumentsNarrowing",
    "Goals",
    "allows_object",
    "arguments_goal",
    "is_json",
    "non_string_pattern",
    "refuse_counted",
    "refuse_unique",
]

Goals: TypeAlias = frozenset[Goal]
"""The goals of one value, which satisfies at least one of them."""

_NO_TIME_LIMIT: Final = Limits(seconds=math.inf)  # a model may take long to write the arguments
_EMPTY_CONTAINER: Final = r"[ \t\r\n]*"
_JSON_TEXTS: Final = {
    "object": r"[ \t\r\n]*\{(?s:.*)",
    "array": r"[ \t\r\n]*\[(?s:.*)",
    "number": r"[ \t\r\n]*-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?[ \t\r\n]*",
    "boolean": r"[ \t\r\n]*(true|false)[ \t\r\n]*",
    "null": r"[ \t\r\n]*null[ \t\r\n]*",
}
_ELEMENT_TEXTS: Final = {
    "object": _EMPTY_CONTAINER,
    "array": _EMPTY_CONTAINER,
    "number": r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?",
    "boolean": "true|false",
    "null": "null",
}


def non_string_pattern(kinds: Collection[str], *, nests: bool) -> str:
    """A pattern for the texts that are not strings, if values of these types are allowed; "" if all texts are strings.

    `nests`: whether objects and arrays are elements. Then whitespace alone is an empty object or array, if one is
    allowed.
    """
    patterns = _ELEMENT_TEXTS if nests else _JSON_TEXTS
    return "|".join(f"(?:{patterns[kind]})" for kind in patterns if kind in kinds)


def is_json(text: str, kinds: Collection[str], *, nests: bool) -> bool:
    """Whether a text that may be a string or another value is another value."""
    return bool(pattern := non_string_pattern(kinds, nests=nests)) and re.fullmatch(pattern, text) is not None


class ArgumentsNarrowing(Narrowing):
    """Also closes an object whose schema has an empty `properties` and does not mention other members. With
    `closes_plain_objects`, `{"type": "object"}` is enough, for styles that cannot write undeclared members.
    """

    def __init__(self, expander: Expander, option: object, *, closes_plain_objects: bool = False) -> None:
        super().__init__(expander, option if option is True else "minimal")
        self._closes_plain_objects = closes_plain_objects

    def closes(self, shape: Shape) -> bool:
        """See `Narrowing`."""
        if super().closes(shape):
            return True
        declares_members = bool(shape.objects) or (self._closes_plain_objects and shape.constrains_objects)
        names_no_member = declares_members and not shape.member_names() and shape.member_window.low == 0
        return names_no_member and self.is_enabled and not constrains_others(shape)


class _Members(NamedTuple):
    """The goals of members by their name, and the goals of other members by the language of their names."""

    goals_by_name: dict[str, list[Goal]]
    goals_of_others: list[tuple[Node, list[Goal]]]


class ArgumentTypes:
    """The types of the values in the arguments of one schema. `root`: the goals of the arguments."""

    def __init__(self, expander: Expander, root: Goal, narrowing: Narrowing) -> None:
        self._expander, self._narrowing, self.root = expander, narrowing, frozenset([root])
        self._kinds: dict[Goals, frozenset[str]] = {}
        self._inner_goals: dict[tuple[Goals, str | int], Goals] = {}
        self._members_of_shape = ByIdentity[Shape, list[_Members]]()
        self._meter = limit_compilation(_NO_TIME_LIMIT)

    @classmethod
    def of_schema(cls, schema: Any, form: ElementForm) -> ArgumentTypes | None:
        """The types of a schema. None if it is invalid or too large."""
        try:
            with limit_compilation(_NO_TIME_LIMIT):
                library = Library(schema, DEFAULTS, {}, _NO_TIME_LIMIT)
                expander = Expander(Reader(library, DEFAULTS, _NO_TIME_LIMIT), DEFAULTS, _NO_TIME_LIMIT)
                narrowing = ArgumentsNarrowing(expander, None, closes_plain_objects=form.repeats_names)
                return cls(expander, arguments_goal(expander, library.root), narrowing)
        except (GuidedError, RecursionError):
            return None

    def kinds(self, goals: Goals) -> frozenset[str]:
        """The types that a value with these goals may have."""
        if goals not in self._kinds:
            self._kinds[goals] = frozenset(kind for goal in goals for kind in self._kinds_of(goal))
        return self._kinds[goals]

    def member(self, goals: Goals, name: str) -> Goals:
        """The goals of the members with this name, in objects with these goals."""
        return self._find_inner_goals(goals, name)

    def other_members(self, goals: Goals, declared_names: Collection[str]) -> Iterator[tuple[Node, Goals]]:
        """The members other than `declared_names`, in objects with these goals: pairs of a language of names and the
        goals of the members with these names.
        """
        member_names: dict[str, None] = {}
        other_goals: list[tuple[Node, list[Goal]]] = []
        for shape, parent_goal in self._shapes(goals, "object"):
            for alternative in self._member_goals(shape, parent_goal):
                member_names |= dict.fromkeys(alternative.goals_by_name)
                other_goals += alternative.goals_of_others
        language_of_names = Alt(tuple(map(Text, member_names)))
        for names, ids in self._expander.keys.classes((), [language for language, _ in other_goals], member_names, ""):
            inner_goals = frozenset(
                goal for language, member_goals in other_goals if serial(language) in ids for goal in member_goals
            )
            yield And((*names, Not(language_of_names))), inner_goals
        yield from ((Text(name), self.member(goals, name)) for name in member_names if name not in declared_names)

    def item(self, goals: Goals, number: int) -> Goals:
        """The goals of item `number` of arrays with these goals. For `~number`: of this item and all later ones."""
        return self._find_inner_goals(goals, number)

    def read(self, goals: Goals, step: str | int) -> tuple[Goals, frozenset[str]]:
        """For readers: the goals of a member or an item, and its types. Both are empty if they cannot be computed."""
        try:
            with self._meter:
                inner_goals = self._find_inner_goals(goals, step)
                return inner_goals, self.kinds(inner_goals)
        except (GuidedError, RecursionError):
            return frozenset(), frozenset()

    def has_one_shape(self, goals: Goals) -> bool:
        """Whether one shape, without an enumeration or a formula, describes all objects with these goals."""
        shapes = list(self._shapes(goals, "object"))
        return len(shapes) == 1 and shapes[0][0].values is None and shapes[0][0].formula is None

    def _find_inner_goals(self, goals: Goals, step: str | int) -> Goals:
        key = (goals, step)
        if key not in self._inner_goals:
            inner_goals: set[Goal] = set()
            if isinstance(step, int):
                for shape, parent_goal in self._shapes(goals, "array"):
                    inner_goals |= self._items(shape, parent_goal, step)
            else:
                for shape, parent_goal in self._shapes(goals, "object"):
                    inner_goals |= {
                        goal
                        for alternative in self._member_goals(shape, parent_goal)
                        for goal in self._member(alternative, step)
                    }
            self._inner_goals[key] = frozenset(inner_goals)
        return self._inner_goals[key]

    def _kinds_of(self, goal: Goal) -> Iterator[str]:
        for shape in () if has_false(goal) else self._expander.expand(goal).shapes:
            value_types = {json_type(value) for value in shape.values or ()}
            yield from shape.types if shape.values is None else value_types.intersection(shape.types)

    def _shapes(self, goals: Goals, kind: str) -> Iterator[tuple[Shape, Goal]]:
        for goal in goals:
            for shape in () if has_false(goal) else self._expander.expand(goal).shapes:
                if kind in shape.types:
                    yield shape, goal

    def _items(self, shape: Shape, parent_goal: Goal, number: int) -> set[Goal]:
        start, stop = (~number, None) if number < 0 else (number, number + 1)
        if shape.values is not None:
            arrays = [value for value in shape.values if isinstance(value, list)]
            return self._constants([item for array in arrays for item in array[start:stop]], parent_goal)
        prefix_length = shape.prefix_length
        numbers = range(min(start, prefix_length), prefix_length + 1 if stop is None else min(start, prefix_length) + 1)
        item_goals = [item_goal(shape, number) for number in numbers]
        return {self._expander.goal(goal) for goal in item_goals if not has_false(goal)}

    def _member(self, alternative: _Members, name: str) -> Iterator[Goal]:
        """The possible goals of the member with this name."""
        if name in alternative.goals_by_name:
            yield from alternative.goals_by_name[name]
        else:
            yield from (
                goal
                for names, goals in alternative.goals_of_others
                if self._expander.keys.contains(names, name)
                for goal in goals
            )

    def _member_goals(self, shape: Shape, parent_goal: Goal) -> list[_Members]:
        """The goals of a shape's members, with one entry for each alternative."""
        if (goals := self._members_of_shape.get(shape)) is None:
            goals = self._members_of_shape[shape] = list(self._alternatives(shape, parent_goal))
        return goals

    def _alternatives(self, shape: Shape, parent_goal: Goal) -> Iterator[_Members]:
        expander = self._expander
        if shape.values is not None:
            objects = [value for value in shape.values if isinstance(value, dict)]
            names = dict.fromkeys(name for members in objects for name in members)
            yield _Members(
                {
                    name: [*self._constants([members[name] for members in objects if name in members], parent_goal)]
                    for name in names
                },
                [],
            )
        elif shape.formula is not None:
            yield from self._conditional_members(shape, parent_goal)
        else:
            schemas = {
                name: expander.member_schemas(shape, name)
                for name in shape.member_names()
                if expander.allows_name(shape, name)
            }
            goals_by_name = {
                name: [] if has_false(schema) else [expander.goal(schema)] for name, schema in schemas.items()
            }
            is_closed = expander.is_closed(shape) or self._narrowing.closes(shape)
            others = (
                []
                if is_closed
                else [key_class for key_class in expander.key_classes(shape) if not has_false(key_class.schemas)]
            )
            yield _Members(
                goals_by_name, [(And(key_class.names), [expander.goal(key_class.schemas)]) for key_class in others]
            )

    def _conditional_members(self, shape: Shape, parent_goal: Goal) -> Iterator[_Members]:
        """The goals of the members of a shape with a formula."""
        try:
            bound_shape = bind(shape, self._expander)
        except UnsupportedError:
            for alternative in self._expander.by_type.multiply_out(shape):
                yield from self._alternatives(alternative, parent_goal)
            return
        goals = {name: [cell.goal for cell in cells] for name, cells in bound_shape.slots.items()}
        is_closed = self._narrowing.closed_condition(shape, list(goals.values()), bound_shape.condition) is not None
        others = [] if is_closed else bound_shape.extras
        yield _Members(goals, [(And(extra.names), [cell.goal for cell in extra.cells]) for extra in others])

    def _constants(self, values: list[Json], parent_goal: Goal) -> set[Goal]:
        one_of: Schema = self._expander.negation.enumeration(parent_goal[0], tuple(values))
        return {self._expander.goal((one_of,))} if values else set()


def arguments_goal(expander: Expander, root: Schema) -> Goal:
    """The goal of the arguments: they satisfy the schema, and are an object."""
    return expander.goal((expander.negation.derive(root, Shape(types=("object",))), root))


def allows_object(expander: Expander, arguments: Goal) -> bool:
    """Whether the goal of `arguments_goal` may have values. If not, the schema allows no object."""
    return not has_false(arguments) and any(shape.types for shape in expander.expand(arguments).shapes)


def refuse_unique(schema: Schema) -> NoReturn:
    """Refuse items that must differ."""
    raise UnsupportedError(
        "uniqueItems is not supported in this style",
        pointer=schema.location_of("uniqueItems"),
        hint="leave uniqueItems out",
    )


def refuse_counted(pointer: str) -> NoReturn:
    """Refuse a keyword that counts members whose names may occur twice."""
    raise UnsupportedError(
        "undeclared properties may occur twice in this style, so they cannot be counted", pointer=pointer,
        hint='write "additionalProperties": false, and name the properties',
    )  # fmt: skip
