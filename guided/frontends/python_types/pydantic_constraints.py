"""Describes constraints that pydantic checks after it has read a value: constraints on unions, literals and enums.

In: the core schema of the validator that pydantic adds for `Field(ge=3)` or `Field(pattern=...)` if the type itself
does not support this constraint. Out: JSON Schema for the values that the validator accepts. Pydantic's own description
lacks it: it uses a keyword that JSON Schema does not have, or omits the constraint.

    Annotated[int | str, Field(ge=3)]              numbers from 3 on; strings cannot be compared, so they are refused
    Annotated[list[int] | str, Field(max_length=3)]  the length of the list or the string
    Annotated[Literal["none"] | str, Field(pattern="^[a-z]+$")]

Constraints of other kinds (a bound that is a date, a number of digits) become an unknown `format`, which causes a
warning.
Source: pydantic, `_internal/_known_annotated_metadata.py` and `_internal/_validators.py`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Hashable, Sized
from functools import partial
from typing import Any, Final

__all__ = ["LENGTH_TYPES", "NONSTANDARD_KEYWORDS", "chained_constraint", "constraint_of", "is_not_text", "lacks_length"]

_NUMBER_KEYWORDS: Final = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum"}
_LENGTH_KEYWORDS: Final = {
    "min_length": ("minLength", "minItems", "minProperties"),
    "max_length": ("maxLength", "maxItems", "maxProperties"),
}
_VALUE_CLASSES: Final[dict[str, type]] = {
    **dict.fromkeys(("uuid", "date", "time", "datetime", "timedelta", "decimal", "complex", "fraction"), object),
    **dict.fromkeys(("url", "multi-host-url"), Sized),
}
"""Core schemas that read objects from strings -> a base class of the objects."""
LENGTH_TYPES: Final = ["string", "array", "object"]
"""The types of values that have a length."""
NONSTANDARD_KEYWORDS: Final = (*_NUMBER_KEYWORDS, "multiple_of", "max_digits", "decimal_places")
"""Constraints that pydantic writes into its description as if they were keywords of JSON Schema."""


def constraint_of(function: object) -> dict[str, Any] | None:
    """A schema for the values that a pydantic validator accepts; None if the validator does not check a constraint."""
    if not isinstance(function, partial) or function.func.__module__ != "pydantic._internal._validators":
        return None
    out: list[dict[str, Any]] = [
        _accepted_values_schema(name, value, function) for name, value in function.keywords.items()
    ]
    return out[0] if len(out) == 1 else {"allOf": out}


def lacks_length(schema: dict[str, Any]) -> bool:
    """Whether a core schema reads values without a length from strings. Pydantic cannot check their length."""
    return _reads_values(schema, lambda cls: not issubclass(cls, Sized))


def is_not_text(schema: dict[str, Any]) -> bool:
    """Whether a core schema reads values from strings that it cannot convert back. Pydantic cannot match them."""
    return _reads_values(schema, lambda cls: not issubclass(cls, str | bytes | enum.Enum))


def _reads_values(schema: dict[str, Any], is_wanted: Callable[[type], bool]) -> bool:
    """Whether a core schema reads values of such classes from strings."""
    kind = schema["type"]
    if kind in ("union", "tagged-union"):
        choices = schema["choices"].values() if kind == "tagged-union" else schema["choices"]
        return any(_reads_values(choice[0] if isinstance(choice, tuple) else choice, is_wanted) for choice in choices)
    if kind in ("enum", "is-instance"):
        return schema["cls"] is not Hashable and is_wanted(schema["cls"])
    if kind in _VALUE_CLASSES:
        return is_wanted(_VALUE_CLASSES[kind])
    if "function" in schema and not _is_of_pydantic(schema["function"]["function"]):
        return False  # it may return any value
    inner_schema = next((schema[key] for key in ("strict_schema", "python_schema", "schema") if key in schema), None)
    return inner_schema is not None and _reads_values(inner_schema, is_wanted)


def _is_of_pydantic(function: Any) -> bool:
    return str(getattr(getattr(function, "func", function), "__module__", "")).startswith("pydantic")


def _accepted_values_schema(name: str, value: Any, validate: Callable[[Any], object]) -> dict[str, Any]:
    if name in _LENGTH_KEYWORDS and isinstance(value, int):
        return {"type": LENGTH_TYPES, **dict.fromkeys(_LENGTH_KEYWORDS[name], value)}
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) != math.inf
    if name in _NUMBER_KEYWORDS and is_number:
        keyword = _NUMBER_KEYWORDS[name]
    elif name == "multiple_of" and isinstance(value, int):
        keyword = "multipleOf"
    else:
        return {"format": f"limited-by-{name.replace('_', '-')}"}
    accepted_booleans = [truth for truth in (False, True) if _accepts(validate, truth)]
    number = {"type": "number", keyword: value}
    return {"anyOf": [number, {"enum": accepted_booleans}]} if accepted_booleans else number


def _accepts(validate: Callable[[Any], object], value: object) -> bool:
    try:
        validate(value)
    except Exception:  # pydantic's own errors, or TypeError if values cannot be compared
        return False
    return True


def chained_constraint(step: dict[str, Any]) -> dict[str, Any] | None:
    """The core schema by which a later step of a chain checks the value; None if the step is not a known constraint."""
    if step["type"] == "is-instance":
        return step
    name = getattr(step.get("function", {}).get("function"), "__qualname__", "")
    is_constraint = name.endswith("_apply_constraint_with_incompatibility_info")
    inner: dict[str, Any] = step.get("schema", {})
    return inner if step["type"] == "function-wrap" and is_constraint else None
