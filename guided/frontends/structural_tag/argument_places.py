"""What a schema says of the values at one place of the arguments, for styles that do not write the types of values.

    places = Places.of_schema({"properties": {"where": {"type": ["string", "integer"]}}, "patternProperties": {...}})
    places.kinds(places.member(places.root, "where"))     # {"string", "number"}

A *place* is the set of goals (schemas that apply together) of which a value there satisfies one: of {"anyOf": [A, B]}
nobody knows from the text whether A was meant. Those who write arguments and those who read them back walk along the
same places, so that they agree on what a text means: what looks like JSON of a type that may stand there is no string.

Cost: each goal is expanded once. What it does not do: say more than the schema does. A type may be named at a place of
which no value is left.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

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
from guided.meter import compiling

__all__ = ["ElementNarrowing", "Place", "Places", "arguments_goal", "is_json", "looks"]

Place: TypeAlias = frozenset[Goal]

_UNTIMED: Final = Limits(seconds=math.inf)  # it may take long until the last argument is read
_ELEMENTS: Final = r"[ \t\r\n]*"
_JSON: Final = {
    "object": r"[ \t\r\n]*\{(?s:.*)",
    "array": r"[ \t\r\n]*\[(?s:.*)",
    "number": r"[ \t\r\n]*-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?[ \t\r\n]*",
    "boolean": r"[ \t\r\n]*(true|false)[ \t\r\n]*",
    "null": r"[ \t\r\n]*null[ \t\r\n]*",
}
_BARE: Final = {
    "object": _ELEMENTS,
    "array": _ELEMENTS,
    "number": r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?",
    "boolean": "true|false",
    "null": "null",
}


def looks(kinds: Collection[str], *, nests: bool) -> str:
    """A pattern of what is no string, where values of these types may stand; "" if everything is.

    `nests`: whether objects and arrays are elements. What has none, where there may be some, is an empty one.
    """
    patterns = _BARE if nests else _JSON
    return "|".join(f"(?:{patterns[kind]})" for kind in patterns if kind in kinds)


def is_json(written: str, kinds: Collection[str], *, nests: bool) -> bool:
    """Whether a text that may be a string or something else is something else."""
    return bool(pattern := looks(kinds, nests=nests)) and re.fullmatch(pattern, written) is not None


class ElementNarrowing(Narrowing):
    """Objects that are written as elements have no members but those that are named, if their schema says nothing of
    others, and says which members there are; where others cannot be written, also if it only asks for an object."""

    def __init__(self, expander: Expander, option: object, form: ElementForm) -> None:
        super().__init__(expander, option if option is True else "minimal")
        self._always = form.repeats_names

    def closes(self, shape: Shape) -> bool:
        """See `Narrowing`."""
        if super().closes(shape):
            return True
        says_which = bool(shape.objects) or (self._always and shape.constrains_objects)
        none_named = says_which and not shape.named() and shape.members.low == 0
        return none_named and self.is_on and not constrains_others(shape)


class _Members(NamedTuple):
    """What may be asked of members: with each of the names, and of others, whose names are in a language."""

    named: dict[str, list[Goal]]
    others: list[tuple[Node, list[Goal]]]


class Places:
    """The places of one schema. `root`: that of the arguments."""

    def __init__(self, expander: Expander, root: Goal, narrowing: Narrowing) -> None:
        self._expander, self._narrowing, self.root = expander, narrowing, frozenset([root])
        self._kinds: dict[Place, frozenset[str]] = {}
        self._steps: dict[tuple[Place, str | int], Place] = {}
        self._known = ByIdentity[Shape, list[_Members]]()
        self._meter = compiling(_UNTIMED)

    @classmethod
    def of_schema(cls, schema: Any, form: ElementForm) -> Places | None:
        """The places of a schema; None if it is wrong, or too large."""
        try:
            with compiling(_UNTIMED):
                library = Library(schema, DEFAULTS, {}, _UNTIMED)
                expander = Expander(Reader(library, DEFAULTS, _UNTIMED), DEFAULTS, _UNTIMED)
                return cls(expander, arguments_goal(expander, library.root), ElementNarrowing(expander, None, form))
        except (GuidedError, RecursionError):
            return None

    def kinds(self, place: Place) -> frozenset[str]:
        """The types that a value may have."""
        if place not in self._kinds:
            self._kinds[place] = frozenset(kind for goal in place for kind in self._kinds_of(goal))
        return self._kinds[place]

    def member(self, place: Place, name: str) -> Place:
        """That of the members with this name in objects of a place."""
        return self._step(place, name)

    def apart(self, place: Place, known: Collection[str]) -> Iterator[tuple[Node, Place]]:
        """The names of members in objects of a place, but for the known ones: languages, and the places of each."""
        named: dict[str, None] = {}
        others: list[tuple[Node, list[Goal]]] = []
        for shape, at in self._shapes(place, "object"):
            for found in self._said(shape, at):
                named |= dict.fromkeys(found.named)
                others += found.others
        listed = Alt(tuple(map(Text, named)))
        for names, ids in self._expander.keys.classes((), [some for some, _ in others], named, ""):
            inner = frozenset(goal for some, goals in others if serial(some) in ids for goal in goals)
            yield And((*names, Not(listed))), inner
        yield from ((Text(name), self.member(place, name)) for name in named if name not in known)

    def item(self, place: Place, number: int) -> Place:
        """That of the items of this number in arrays of a place; of ~number: of that and all after it."""
        return self._step(place, number)

    def read(self, place: Place, step: str | int) -> tuple[Place, frozenset[str]]:
        """For readers: a step to a member or an item, and the types there; none where that takes too much to tell."""
        try:
            with self._meter:
                inner = self._step(place, step)
                return inner, self.kinds(inner)
        except (GuidedError, RecursionError):
            return frozenset(), frozenset()

    def is_alone(self, place: Place) -> bool:
        """Whether one shape says all of the objects of a place, and lists none."""
        shapes = list(self._shapes(place, "object"))
        return len(shapes) == 1 and shapes[0][0].values is None and shapes[0][0].formula is None

    def _step(self, place: Place, step: str | int) -> Place:
        key = (place, step)
        if key not in self._steps:
            found: set[Goal] = set()
            if isinstance(step, int):
                for shape, at in self._shapes(place, "array"):
                    found |= self._items(shape, at, step)
            else:
                for shape, at in self._shapes(place, "object"):
                    found |= {goal for said in self._said(shape, at) for goal in self._member(said, step)}
            self._steps[key] = frozenset(found)
        return self._steps[key]

    def _kinds_of(self, goal: Goal) -> Iterator[str]:
        for shape in () if has_false(goal) else self._expander.expand(goal).shapes:
            listed = {json_type(value) for value in shape.values or ()}
            yield from shape.types if shape.values is None else listed.intersection(shape.types)

    def _shapes(self, place: Place, kind: str) -> Iterator[tuple[Shape, Goal]]:
        for goal in place:
            for shape in () if has_false(goal) else self._expander.expand(goal).shapes:
                if kind in shape.types:
                    yield shape, goal

    def _items(self, shape: Shape, at: Goal, number: int) -> set[Goal]:
        first, stop = (~number, None) if number < 0 else (number, number + 1)
        if shape.values is not None:
            arrays = [value for value in shape.values if isinstance(value, list)]
            return self._constants([item for array in arrays for item in array[first:stop]], at)
        last = shape.prefix_length
        numbers = range(min(first, last), last + 1 if stop is None else min(first, last) + 1)
        asked = [item_goal(shape, one) for one in numbers]
        return {self._expander.goal(one) for one in asked if not has_false(one)}

    def _member(self, said: _Members, name: str) -> Iterator[Goal]:
        """What may be asked of the member of this name."""
        if name in said.named:
            yield from said.named[name]
        else:
            yield from (goal for some, goals in said.others if self._expander.keys.has(some, name) for goal in goals)

    def _said(self, shape: Shape, at: Goal) -> list[_Members]:
        """What a shape says of members; one for each alternative."""
        if (known := self._known.get(shape)) is None:
            known = self._known[shape] = list(self._alternatives(shape, at))
        return known

    def _alternatives(self, shape: Shape, at: Goal) -> Iterator[_Members]:
        expander = self._expander
        if shape.values is not None:
            objects = [value for value in shape.values if isinstance(value, dict)]
            names = dict.fromkeys(name for one in objects for name in one)
            yield _Members(
                {name: [*self._constants([one[name] for one in objects if name in one], at)] for name in names}, []
            )
        elif shape.formula is not None:
            yield from self._bound(shape, at)
        else:
            asked = {name: expander.member(shape, name) for name in shape.named() if expander.allows_name(shape, name)}
            named = {name: [] if has_false(one) else [expander.goal(one)] for name, one in asked.items()}
            closed = expander.is_closed(shape) or self._narrowing.closes(shape)
            others = [] if closed else [one for one in expander.others(shape) if not has_false(one.schemas)]
            yield _Members(named, [(And(one.names), [expander.goal(one.schemas)]) for one in others])

    def _bound(self, shape: Shape, at: Goal) -> Iterator[_Members]:
        """The same, where members are bound by a condition."""
        try:
            bound = bind(shape, self._expander)
        except UnsupportedError:
            for one in self._expander.by_type.multiplied(shape):
                yield from self._alternatives(one, at)
            return
        goals = {one: [cell.goal for cell in cells] for one, cells in bound.slots.items()}
        closed = self._narrowing.closed(shape, list(goals.values()), bound.condition) is not None
        others = [] if closed else bound.extras
        yield _Members(goals, [(And(extra.names), [cell.goal for cell in extra.cells]) for extra in others])

    def _constants(self, values: list[Json], at: Goal) -> set[Goal]:
        one_of: Schema = self._expander.negation.one_of(at[0], tuple(values))
        return {self._expander.goal((one_of,))} if values else set()


def arguments_goal(expander: Expander, root: Schema) -> Goal:
    """What is asked of arguments: the schema, and that they are an object."""
    return expander.goal((expander.negation.derived(root, Shape(types=("object",))), root))
