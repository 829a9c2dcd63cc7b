"""Whether tool calls are right, by the rules of the AST checker of the Berkeley Function Calling Leaderboard (BFCL).

An answer gives for each parameter the list of its allowed values. The value "" in the list means that the parameter may
be missing. The rules are exactly those of the checker. Some of them surprise:

- An integer is right for a number, but not inside an array: [1, 3] is wrong if the answer is [1.0, 3.0]. 5.0 is wrong
  for an integer.
- Strings are compared in small letters, without spaces and without `,./-_*^`; `'` equals `"`. This includes the strings
  of an array and the members of an object, but no deeper strings.
- A value may have the type of the first allowed value instead of the type of the parameter. Then `==` compares it.
- An empty array is right for an array that may be missing.
- Parallel calls are matched greedily: each answer takes the first remaining call that is right for it.
"""

from __future__ import annotations

import re
from typing import Any, Final

__all__ = ["Allowed", "are_right_calls", "right_arguments", "standardize"]

Allowed = dict[str, list[Any]]
"""The allowed values of each parameter of a call."""

_PYTHON_TYPES: Final[dict[str, type]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}
_IGNORED: Final = re.compile(r"[ ,./\-_*^]")


def standardize(text: str) -> str:
    """Return `text` as strings are compared: in small letters, without spaces and without `,./-_*^`."""
    return _IGNORED.sub("", text).lower().replace("'", '"')


def are_right_calls(
    calls: list[tuple[str, dict[str, Any]]],
    answers: list[tuple[str, Allowed]],
    parameters: dict[str, dict[str, Any]],
) -> bool:
    """Return whether there is a right call for each answer, in any order, and no other call.

    Args:
        calls: the name and the arguments of each call.
        answers: the name and the allowed arguments of each call that is wanted. If it is empty, no call is right.
        parameters: the JSON Schema of the parameters of each tool.
    """
    if len(calls) != len(answers):
        return False
    remaining = list(calls)
    for name, allowed in answers:
        for at, (called, arguments) in enumerate(remaining):
            if called == name and _are_right_arguments(arguments, allowed, parameters[name]):
                del remaining[at]
                break
        else:
            return False
    return True


def right_arguments(arguments: dict[str, Any], allowed: Allowed, schema: dict[str, Any]) -> dict[str, bool]:
    """Return for each argument of a call to the right tool whether it is right."""
    properties = schema["properties"]
    return {
        name: name in properties and name in allowed and _is_right_value(value, allowed[name], properties[name])
        for name, value in arguments.items()
    }


def _are_right_arguments(arguments: dict[str, Any], allowed: Allowed, schema: dict[str, Any]) -> bool:
    if not all(name in arguments for name in schema["required"]):
        return False
    if not all(name in arguments or "" in values for name, values in allowed.items()):
        return False
    return all(right_arguments(arguments, allowed, schema).values())


def _is_right_value(value: Any, allowed: list[Any], schema: dict[str, Any]) -> bool:
    kind = _python_type(schema)
    item_kind = _python_type(schema["items"]) if kind is list else None
    if kind is float and type(value) is int:
        value = float(value)
    first_kind = _type_of_first(allowed)
    if type(value) is not kind:
        return type(value) is first_kind and value in allowed
    if item_kind is not None and not any(_has_right_item_types(value, items, item_kind) for items in allowed):
        return False
    if first_kind not in (None, kind):
        return value in allowed
    if kind is dict:
        return any(_is_right_object(value, members) for members in allowed)
    if item_kind is dict:
        return any(_is_right_array_of_objects(value, items) for items in allowed)
    if kind is list:
        return _standardize_items(value) in [_standardize_items(items) for items in allowed]
    return _standardize_string(value) in map(_standardize_string, allowed)


def _python_type(schema: dict[str, Any]) -> type:
    """The type that the checker expects: a string if the schema has no type."""
    return _PYTHON_TYPES[schema.get("type", "string")]


def _type_of_first(allowed: list[Any]) -> type | None:
    return next((type(value) for value in allowed if value != ""), None)


def _has_right_item_types(argument: Any, allowed: Any, kind: type) -> bool:
    """Whether each item has the type of the schema or of the first allowed item. Any item will do for ""."""
    return not isinstance(allowed, list) or all(type(item) in (kind, _type_of_first(allowed)) for item in argument)


def _is_right_object(argument: Any, allowed: Any) -> bool:
    if not isinstance(argument, dict) or not isinstance(allowed, dict):
        return False
    return all(
        name in allowed and _standardize_string(value) in map(_standardize_string, allowed[name])
        for name, value in argument.items()
    ) and all(name in argument or "" in values for name, values in allowed.items())


def _is_right_array_of_objects(argument: Any, allowed: Any) -> bool:
    return len(argument) == len(allowed) and all(map(_is_right_object, argument, allowed))


def _standardize_string(value: Any) -> Any:
    return standardize(value) if isinstance(value, str) else value


def _standardize_items(items: Any) -> list[Any]:
    """The standardized items of an array, and no items for ""."""
    return [_standardize_string(item) for item in items]
