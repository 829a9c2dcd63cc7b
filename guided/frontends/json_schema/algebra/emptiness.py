"""Explains why a schema has no value, or a shape no value of a given type. In: a schema or shape. Out: the reason in
words, or "". Also filters the enumeration of a shape by its other parts.

The check considers only counts, bounds, patterns, names, and pairs of schemas that contradict each other, so "" does
not mean that there is a value. Cost: linear in the required members and items. Several patterns, or constants combined
with a pattern, take a bounded search (`regex/overlap.py`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from guided.errors import UnsupportedError
from guided.frontends.json_schema.algebra.shape import ANYTHING, Shape, Window, has_false, item_goal
from guided.frontends.json_schema.documents.schema import Schema
from guided.frontends.json_schema.documents.values import Decimal10, Json
from guided.frontends.regex.overlap import Overlap

if TYPE_CHECKING:
    from guided.frontends.json_schema.algebra.expand import Expander
    from guided.frontends.json_schema.algebra.negation import Negation

__all__ = ["explain_emptiness", "explain_nothing", "filter_enumeration", "repeated_items_error"]


def filter_enumeration(shape: Shape, overlap: Overlap) -> tuple[Json, ...] | None:
    """The enumeration of a shape, without numbers and strings that its other parts are known to exclude."""
    is_unrestricted = not shape.patterns and (shape.length, shape.numbers) == (ANYTHING.length, ANYTHING.numbers)
    if shape.values is None or is_unrestricted:
        return shape.values
    strings = [value for value in shape.values if isinstance(value, str) and len(value) in shape.length]
    for pattern in shape.patterns:
        strings = overlap.possible_words(strings, pattern) if strings else strings
    possible_strings = set(strings)
    return tuple([value for value in shape.values if _may_remain(value, shape, possible_strings)])


def _may_remain(value: Json, shape: Shape, strings: Collection[str]) -> bool:
    if isinstance(value, str):
        return value in strings
    return not isinstance(value, Decimal10) or value in shape.numbers


def explain_nothing(schema: Schema, negation: Negation) -> str:
    """Why no value satisfies the schema, if it is `false` or its enumeration is empty. Otherwise ""."""
    if schema.value is False:
        if negation.is_of_everything(schema):
            return "the schema allows every value, so its negation allows none"
        return "false allows no value"
    return "an empty enum allows no value" if schema.has_keyword("enum") and schema.get("enum") == [] else ""


def explain_emptiness(shape: Shape, name: str, expander: Expander) -> str:
    """Why the shape has no value of this type, or "" if it may have one."""
    if name == "number":
        return "no number lies between the bounds" if shape.numbers.is_empty else ""
    if name == "string":
        return _string_problem(shape, expander.reader.overlap)
    if name == "array":
        return _array_problem(shape, expander)
    return _object_problem(shape, expander) if name == "object" else ""


def repeated_items_error(shape: Shape) -> UnsupportedError:
    """The error for arrays that must contain two equal items, if items may have many values."""
    assert shape.repeated is not None
    return UnsupportedError(
        "an array that must contain two equal items is not enforced if its items may have many values",
        pointer=shape.repeated.location,
        hint="a not, oneOf or if requires it, as the complement of uniqueItems",
    )


def _string_problem(shape: Shape, overlap: Overlap) -> str:
    contents = ((shape.json_text, shape.no_json_text), (shape.json_base64, shape.no_json_base64))
    if any(required is not None and unwanted is not None for required, unwanted in contents):
        return "a string must contain a JSON text, and must not contain one"
    if len(shape.patterns) > 1 and not overlap.may_have_word(shape.patterns):
        return "no string matches all of the patterns and formats"
    return _window_problem(shape.length, "length of a string")


def _array_problem(shape: Shape, expander: Expander) -> str:
    if shape.count_graph is not None and shape.count_graph.is_empty:
        return "there are not enough different values for the items that are required"
    if shape.repeated is not None and (shape.unique is not None or shape.item_window.high in (0, 1)):
        return "two items must be equal, and other keywords exclude that"
    min_items = max([shape.item_window.low, *(some_item.start + 1 for some_item in shape.some_items)])
    for index in range(min(min_items, shape.prefix_length)):
        if len(schemas := item_goal(shape, index)) > 1 and expander.reader.disjointness.are_contradictory(schemas):
            return f"no value of item {index} satisfies all of its schemas"
    return _window_problem(shape.item_window, "number of items")


def _object_problem(shape: Shape, expander: Expander) -> str:
    declared_names = shape.properties() if shape.required else {}
    for name in shape.required:
        if has_false(expander.member_schemas(shape, name)):
            return f"the required member {name!r} is not allowed"
        if not expander.allows_name(shape, name):
            return f"the required member {name!r} has a name that is not allowed"
        if name not in declared_names and expander.is_closed(shape):
            return f"the required member {name!r} is not declared, and additional ones are not allowed"
    if shape.member_window.high is not None and len(shape.required) > shape.member_window.high:
        return f"{len(shape.required)} members are required, but at most {shape.member_window.high} are allowed"
    if (
        shape.member_window.low > 1
        and (max_members := _max_members(shape, expander)) is not None
        and max_members < shape.member_window.low
    ):
        return f"{shape.member_window.low} members are required, but only {max_members} are allowed"
    for name in shape.required:
        if len(schemas := expander.member_schemas(shape, name)) > 1 and expander.reader.disjointness.are_contradictory(
            schemas
        ):
            return f"no value of the required member {name!r} satisfies all of its schemas"
    return _window_problem(shape.member_window, "number of members")


def _max_members(shape: Shape, expander: Expander) -> int | None:
    """The largest possible number of members. None: any number."""
    additional_count = expander.listed_values.count_additional_names(shape)
    if additional_count is None:
        return None
    goals = (
        expander.goal(expander.member_schemas(shape, name))
        for name in shape.member_names()
        if expander.allows(shape, name)
    )
    return additional_count + sum(expander.listed_values.values_of(goal) != () for goal in goals)


def _window_problem(window: Window, quantity: str) -> str:
    if window.high is None or window.low <= window.high:
        return ""
    return f"the {quantity} must be at least {window.low} and at most {window.high}"
