"""Lists the values that satisfy a schema, if they are few. In: schemas for one value. Out: their values, or None if
there may be more than MAX_VALUES.

Why: arrays of distinct items and objects with a minimum number of members must not run out of values. If values are
few, they are counted (`count_graph.py`). If they are many, nothing needs to be done.

How: from the inside out. A schema inside itself is first assumed to have no values. If it turns out to have some, the
assumption was wrong, and the schema counts as having many. So does a schema that nests deeper than `_MAX_DEPTH`.

Cost: proportional to the values. If one part has many values, the others are skipped. An object whose additional
members may have many names has many values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from guided.frontends.json_schema.algebra.shape import Shape, SomeMember, has_false, item_goal
from guided.frontends.json_schema.algebra.strings import with_length
from guided.frontends.json_schema.documents.values import Json, canonical_key
from guided.ir.nodes import And

if TYPE_CHECKING:
    from guided.frontends.json_schema.algebra.expand import Expander, Goal

__all__ = ["MAX_VALUES", "ListedValues"]

MAX_VALUES = 1000
_MAX_TRIED_VALUES = 4 * MAX_VALUES
_MAX_DEPTH = 12


class ListedValues:
    """Enumerates the values of goals of one `Expander`, each goal once."""

    def __init__(self, expander: Expander) -> None:
        self._expander = expander
        self._values: dict[Goal, tuple[Json, ...] | None] = {}
        self._open_goals: set[Goal] = set()
        self._assumed_empty: set[Goal] = set()  # open goals that were assumed to have no values

    def values_of(self, goal: Goal) -> tuple[Json, ...] | None:
        """The values of a goal, or None for many.

        A goal inside itself is assumed to have no values. If it then has none, the assumption was right: all its values
        would be infinite. Otherwise it counts as having many.
        """
        if goal not in self._values:
            expanding_goals = self._expander.open_goals
            if goal in expanding_goals or len(self._open_goals) + len(expanding_goals) > _MAX_DEPTH:
                return None
            if goal in self._open_goals:
                self._assumed_empty.add(goal)
                return ()
            known_count = len(self._values)
            self._open_goals.add(goal)
            try:
                values = self._union(map(self._values_of_shape, self._expander.expand(goal).shapes))
            finally:
                self._open_goals.discard(goal)
            if goal in self._assumed_empty and values != ():
                values = None
                for other in list(self._values)[known_count:]:  # computed under the wrong assumption
                    del self._values[other]
            self._assumed_empty.discard(goal)
            self._values[goal] = values
        return self._values[goal]

    def count_additional_names(self, shape: Shape) -> int | None:
        """The number of names of additional members that an object may have. None: many."""
        names = set[str]()
        for some_names, _ in self._additional_names(shape):
            if some_names is None:
                return None
            names.update(some_names)
        return len(names)

    def names_for(self, shape: Shape, some_member: SomeMember) -> tuple[str, ...] | None:
        """The names of additional members that may satisfy `some_member`. None: many."""
        names = dict[str, None]()
        for some_names, _ in self._additional_names(shape, some_member):
            if some_names is None:
                return None
            names |= dict.fromkeys(some_names)
        return tuple(names)

    def _additional_names(
        self, shape: Shape, some_member: SomeMember | None = None
    ) -> Iterator[tuple[tuple[str, ...] | None, Goal]]:
        """Names of additional members (None: many), and the goal of their values. With `some_member`, only names that
        may satisfy it.
        """
        if self._expander.is_closed(shape):
            return
        declared_names = shape.member_names()
        restricted_shape = shape if some_member is None else shape._replace(extra_blocks=((some_member,),))
        for key_class in self._expander.key_classes(restricted_shape):
            if some_member is not None and key_class.blocks[0] is None:
                continue
            goal = self._expander.goal(
                key_class.schemas if some_member is None else (*key_class.schemas, *(key_class.blocks[0] or ()))
            )
            if not has_false(goal) and self.values_of(goal) != ():
                names = self._expander.keys.names_if_few(key_class.names, MAX_VALUES) if key_class.names else None
                yield (None if names is None else tuple(name for name in names if name not in declared_names)), goal

    def _union(self, value_lists: Iterable[Iterable[Json] | None]) -> tuple[Json, ...] | None:
        """The union of the lists, without duplicates. None if one of them is None, or if the values are many."""
        out: dict[tuple[object, ...], Json] = {}
        for values in value_lists:
            if values is None:
                return None
            out |= {canonical_key(value): value for value in values}
            if len(out) > MAX_VALUES:
                return None
        return tuple(out.values())

    def _values_of_shape(self, shape: Shape) -> Iterable[Json] | None:
        if shape.values is not None:
            return [value for value in shape.values if self._expander.membership.fits(shape, value)]
        return self._union(self._values_of_type(shape, name) for name in shape.types)

    def _values_of_type(self, shape: Shape, name: str) -> Iterable[Json] | None:
        if name == "null":
            return (None,)
        if name == "boolean":
            return (True, False)
        if name == "number":
            return shape.numbers.list_if_few(MAX_VALUES)
        if name == "string":
            return self._strings(shape)
        return self._arrays(shape) if name == "array" else self._objects(shape)

    def _strings(self, shape: Shape) -> tuple[str, ...] | None:
        if not shape.patterns:
            return ("",) if shape.length.high == 0 else None
        patterns = tuple(map(self._expander.restrict_to_output, shape.patterns))
        content = with_length(And(patterns), shape.length.low, shape.length.high)
        return self._expander.keys.names_if_few((content,), MAX_VALUES)

    def _arrays(self, shape: Shape) -> list[Json] | None:
        prefix_length, high = shape.prefix_length, shape.item_window.high
        goals = (
            self._expander.goal(item_goal(shape, index))
            for index in range(min(shape.item_window.low, prefix_length + 1))
        )
        if any(has_false(goal) or self.values_of(goal) == () for goal in goals):
            return []
        partial_arrays: list[list[Json]] = [[]]
        out: list[Json] = []
        index = 0
        while partial_arrays and (high is None or index <= high):
            out += partial_arrays if index >= shape.item_window.low else ()
            if index == high:
                break
            goal = self._expander.goal(item_goal(shape, index))
            items = () if has_false(goal) else self.values_of(goal)
            if items is None or (items and index >= prefix_length and high is None and shape.unique is None):
                return None
            if len(partial_arrays) * len(items) > _MAX_TRIED_VALUES:
                return None
            keys = [
                {canonical_key(item) for item in array} if shape.unique is not None else () for array in partial_arrays
            ]
            partial_arrays = [
                [*array, item]
                for array, item_keys in zip(partial_arrays, keys, strict=True)
                for item in items
                if canonical_key(item) not in item_keys
            ]
            if len(out) + len(partial_arrays) > MAX_VALUES:
                return None
            index += 1
        if shape.repeated is None and not (shape.some_items or shape.item_counts or shape.rest_blocks):
            return out
        return [array for array in out if self._expander.membership.fits(shape, array)]

    def _objects(self, shape: Shape) -> list[Json] | None:
        if shape.formula is not None:
            return None
        if shape.member_window.high == 0:
            return [{}]
        candidates = [
            (name, self._expander.goal(self._expander.member_schemas(shape, name)), name in shape.required)
            for name in shape.member_names()
            if self._expander.allows(shape, name)
        ]
        if any(is_required and self.values_of(goal) == () for _, goal, is_required in candidates):
            return []
        if shape.member_window.high == len(shape.required):  # only the required members fit
            candidates = [candidate for candidate in candidates if candidate[2]]
        for names, goal in self._additional_names(shape) if shape.member_window.high != len(shape.required) else ():
            if names is None:
                return None
            candidates += ((name, goal, False) for name in names)
        partial_objects: list[dict[str, Json]] = [{}]
        for name, goal, is_required in candidates:
            values = self.values_of(goal)
            if values is None or len(partial_objects) * (len(values) + 1) > _MAX_TRIED_VALUES:
                return None
            extended_objects = [{**members, name: value} for members in partial_objects for value in values]
            partial_objects = extended_objects if is_required else partial_objects + extended_objects
        objects: list[Json] = [members for members in partial_objects if len(members) in shape.member_window]
        if not (shape.some_members or shape.extra_blocks):
            return objects
        return [members for members in objects if self._expander.membership.fits(shape, members)]
