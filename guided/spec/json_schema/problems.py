"""Why no value of a type is in a shape, as far as counts, bounds and names tell. In: a shape. Out: words, or nothing.

Cost: linear in what is required.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from guided.spec.json_schema.shape import Shape, Window, is_nothing

if TYPE_CHECKING:
    from guided.spec.json_schema.expand import Expander

__all__ = ["problem_of"]


def problem_of(shape: Shape, name: str, expander: Expander) -> str:
    """Why no value of this type is in the shape; empty where one may be."""
    if name == "number":
        return "no number lies between the bounds" if shape.numbers.is_empty else ""
    if name == "string":
        return _string_problem(shape)
    if name == "array":
        return _array_problem(shape)
    return _object_problem(shape, expander) if name == "object" else ""


def _string_problem(shape: Shape) -> str:
    contents = ((shape.json_text, shape.no_json_text), (shape.json_base64, shape.no_json_base64))
    if any(wanted is not None and unwanted is not None for wanted, unwanted in contents):
        return "a string would have to hold a JSON text, and none"
    return _window_problem(shape.length, "length of a string")


def _array_problem(shape: Shape) -> str:
    if shape.count_graph is not None and shape.count_graph.is_empty:
        return "there are not as many items as are asked for"
    if shape.repeated is not None and (shape.unique is not None or shape.items.high in (0, 1)):
        return "two items would be equal, which other parts exclude"
    return _window_problem(shape.items, "number of items")


def _object_problem(shape: Shape, expander: Expander) -> str:
    declared = shape.properties() if shape.required else {}
    for name in shape.required:
        if is_nothing(expander.member(shape, name)):
            return f"the required member {name!r} is not allowed"
        if not expander.allows_name(shape, name):
            return f"the required member {name!r} has a name that is not allowed"
        if name not in declared and expander.is_closed(shape):
            return f"the required member {name!r} is not declared, and additional ones are not allowed"
    if shape.members.high is not None and len(shape.required) > shape.members.high:
        return f"{len(shape.required)} members are required, at most {shape.members.high} allowed"
    if shape.members.low > 1 and (most := _most_members(shape, expander)) is not None and most < shape.members.low:
        return f"{shape.members.low} members are required, but only {most} are allowed"
    return _window_problem(shape.members, "number of members")


def _most_members(shape: Shape, expander: Expander) -> int | None:
    """How many members there can be; None: as many as one likes."""
    others = expander.few.other_names(shape)
    if others is None:
        return None
    named = (expander.goal(expander.member(shape, name)) for name in shape.named() if expander.allows(shape, name))
    return others + sum(expander.few.of(goal) != () for goal in named)


def _window_problem(window: Window, what: str) -> str:
    if window.high is None or window.low <= window.high:
        return ""
    return f"the {what} would be at least {window.low} and at most {window.high}"
