"""Finds the names that pydantic reads as keys of a dict. In: the JSON Schema of the key type. Out: a schema for the
names.

The names of a JSON object are strings, from which pydantic reads keys of other types:

    int float    in decimal notation without an exponent: "12", "-0.5". Each number has one spelling, so no two names
                 become one key; a float has at most 15 digits
    Decimal      likewise, with any number of digits within its limits
    bool         "true" and "false"
    Literal Enum the strings among the values; the integers of an IntEnum
    A | B        the names of both

The schema enforces a small range of integers, and a minimum of 0 or 1. For all other bounds of integers and numbers,
it contains an unknown `format`, which causes a warning. The result is None for a type without names, such as `tuple`.
Cost: linear in the schema; a range has at most 1,000 names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

__all__ = ["BOUNDED", "NAMES", "key_names", "names_of_enum", "names_of_literal"]

NAMES: Final = "x-guided-names"
"""A temporary keyword in the schemas of enums, literals and decimals: a schema for the names that pydantic reads as
their values, or None.
"""
_DIGITS: Final = {None: "0|-?[1-9][0-9]*", 0: "0|[1-9][0-9]*", 1: "[1-9][0-9]*"}
_MAX_INT_LENGTH: Final = 4_300  # pydantic refuses integers with more digits
_NUMBER: Final = {"pattern": r"^(?:0|-?[1-9][0-9]*|-?(?:0|[1-9][0-9]*)\.[0-9]*[1-9])$", "maxLength": 16}
_BOUNDS: Final = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf")
_MAX_NAMES: Final = 1_000
BOUNDED: Final = {"format": "limited-key"}
"""An unknown format, which causes a warning: the bounds of a key are not enforced."""


def names_of_enum(schema: dict[str, Any]) -> dict[str, Any] | None:
    """A schema for the names that pydantic reads as members of an Enum. `schema`: its core schema."""
    values = [member.value for member in schema["members"]]
    types = (str, int) if schema.get("sub_type") == "int" else str
    return _one_of(
        [str(int(value)) if isinstance(value, int) else value for value in values if isinstance(value, types)]
    )


def names_of_literal(schema: dict[str, Any]) -> dict[str, Any] | None:
    """A schema for the names that pydantic reads as values of a Literal. `schema`: its core schema."""
    values = [json for value in schema["expected"] if (json := getattr(value, "value", value)) == value]
    return _one_of(
        [str(value).lower() if isinstance(value, bool) else value for value in values if isinstance(value, str | bool)]
    )


def _one_of(names: list[str]) -> dict[str, Any] | None:
    return {"enum": names} if names else None


def key_names(schema: dict[str, Any], resolve: Callable[[str], dict[str, Any] | None]) -> dict[str, Any] | None:
    """The schema of the names; None if no name becomes a key. `resolve`: the definition that a reference names."""
    return _Names(resolve).convert(schema)


class _Names:
    def __init__(self, resolve: Callable[[str], dict[str, Any] | None]) -> None:
        self._resolve = resolve
        self._open: set[str] = set()

    def convert(self, schema: dict[str, Any]) -> dict[str, Any] | None:
        if NAMES in schema:
            names: dict[str, Any] | None = schema[NAMES]
            return names
        if "$ref" in schema:
            return self._convert_reference(schema)
        kind = schema.get("type")
        if kind == "boolean":
            return {"enum": ["true", "false"]}
        if kind == "integer":
            return _integer_names(schema)
        if kind == "number":
            return {"allOf": [_NUMBER, BOUNDED]} if any(bound in schema for bound in _BOUNDS) else _NUMBER
        if kind in ("object", "array", "null"):
            return None
        for keyword in ("anyOf", "oneOf"):
            if kind is None and keyword in schema:
                return self._convert_union(schema, keyword)
        if kind is None and "allOf" in schema:
            first, *others = map(self.convert, schema["allOf"])
            return (
                None
                if first is None
                else {"allOf": [first, *(BOUNDED if schema_part is None else schema_part for schema_part in others)]}
            )
        return schema

    def _convert_union(self, schema: dict[str, Any], keyword: str) -> dict[str, Any] | None:
        alternatives = [names for part in schema[keyword] if (names := self.convert(part)) is not None]
        return {"anyOf": alternatives} if alternatives else None

    def _convert_reference(self, schema: dict[str, Any]) -> dict[str, Any] | None:
        reference = schema["$ref"]
        definition = None if reference in self._open else self._resolve(reference)
        if definition is None:
            return None
        self._open.add(reference)
        names = self.convert(definition)
        self._open.discard(reference)
        return schema if names is definition else names


def _integer_names(schema: dict[str, Any]) -> dict[str, Any] | None:
    lows, highs = [], []
    if "minimum" in schema:
        lows.append(math.ceil(schema["minimum"]))
    if "exclusiveMinimum" in schema:
        lows.append(math.floor(schema["exclusiveMinimum"]) + 1)
    if "maximum" in schema:
        highs.append(math.floor(schema["maximum"]))
    if "exclusiveMaximum" in schema:
        highs.append(math.ceil(schema["exclusiveMaximum"]) - 1)
    low, high, divisor = max(lows, default=None), min(highs, default=None), schema.get("multipleOf", 1)
    if low is not None and high is not None and high - low < _MAX_NAMES:
        names = [str(n) for n in range(low, high + 1) if n % divisor == 0]
        return _one_of(names)
    sign = next((bound for bound in (1, 0) if low is not None and low >= bound), None)
    names_schema = {"pattern": f"^(?:{_DIGITS[sign]})$", "maxLength": _MAX_INT_LENGTH}
    is_exact = high is None and divisor == 1 and low == sign
    return names_schema if is_exact else {"allOf": [names_schema, BOUNDED]}
