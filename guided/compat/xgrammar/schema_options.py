"""xgrammar's options for JSON Schemas, and guided's equivalents.

xgrammar allows only one spelling of names, constants and integers, but all spellings of other values.

`strict_mode` closes objects with `properties` or `patternProperties`, and arrays with `prefixItems`, if the schema says
nothing about additional members or items. It works like `unevaluatedProperties: false` and `unevaluatedItems: false`.
Objects and arrays that need additional members or items to be valid stay open.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, Final, Self

from guided.frontends.json_schema.options import JsonSchemaKeywords, JsonSchemaOptions

__all__ = ["SchemaOptions"]

_VALUE_KEYWORDS: Final = frozenset(("const", "enum", "default", "examples"))
"""Keywords whose arguments are values, not schemas."""
_OPEN_APPLICATORS: Final = frozenset(
    ("allOf", "not", "if", "then", "else", "dependentSchemas", "contains", "propertyNames")
)
"""Keywords whose subschemas apply together with another schema, or need not match. Their subschemas are not closed."""
_COMBINING_KEYWORDS: Final = _OPEN_APPLICATORS | {"anyOf", "oneOf", "$ref", "$dynamicRef", "$recursiveRef"}
"""Keywords that combine a schema with others. A schema with one of them is not closed."""
_ITEM_KEYWORDS: Final = frozenset(("items", "additionalItems", "unevaluatedItems"))
_MEMBER_KEYWORDS: Final = frozenset(("additionalProperties", "unevaluatedProperties"))


@dataclass(frozen=True, slots=True)
class SchemaOptions:
    """See `Grammar.from_json_schema`."""

    any_whitespace: bool = True
    indent: int | None = None
    separators: tuple[str, str] | None = None
    strict_mode: bool = True
    max_whitespace_cnt: int | None = None
    any_order: bool = False

    def __post_init__(self) -> None:
        max_whitespace = self.max_whitespace_cnt
        if max_whitespace is not None and (
            isinstance(max_whitespace, bool) or not isinstance(max_whitespace, int) or max_whitespace < 1
        ):
            raise RuntimeError(f"max_whitespace_cnt must be a positive integer, not {max_whitespace!r}")

    def non_defaults(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) != field.default}

    @classmethod
    def from_json(cls, options: dict[str, Any]) -> Self:
        """Create options from the result of `non_defaults`."""
        return cls(**options)

    def to_guided(self) -> JsonSchemaOptions:
        """Convert to guided's options. OptionError: the separators are not valid in JSON."""
        keywords = JsonSchemaKeywords(
            property_order="any" if self.any_order else "declared",
            additional_properties="minimal" if self.strict_mode else None,
            numbers="plain_integers",
            constants="plain",
        )
        if not self.any_whitespace:
            comma = ", " if self.indent is None else ","
            keywords["separators"] = self.separators if self.separators is not None else (comma, ": ")
            keywords["indent"] = self.indent
            return JsonSchemaOptions(**keywords)
        max_count = "" if self.max_whitespace_cnt is None else self.max_whitespace_cnt
        if self.separators is not None and self.separators != (",", ":"):
            keywords["separators"] = self.separators
        elif self.max_whitespace_cnt is None:
            return JsonSchemaOptions(**keywords)
        keywords["whitespace"] = f"[ \\t\\n\\r]{{0,{max_count}}}"
        return JsonSchemaOptions(**keywords)

    def prepare(self, schema: str) -> Any:
        """Close the objects and arrays that `additional_properties="minimal"` leaves open; return the schema."""
        if not self.strict_mode or not any(f'"{name}"' in schema for name in ("prefixItems", "patternProperties")):
            return schema
        try:
            return _close_schemas(json.loads(schema))
        except (ValueError, RecursionError):  # guided reports the error
            return schema


def _close_schemas(value: Any) -> Any:
    """Close arrays with `prefixItems` and objects with `patternProperties`: they then allow no other items or members.

    A schema that applies together with others is left unchanged, since another one may allow more members.
    """
    if isinstance(value, list):
        return [_close_schemas(item) for item in value]
    if not isinstance(value, dict):
        return value
    out = {
        key: item if key in _VALUE_KEYWORDS or key in _OPEN_APPLICATORS else _close_schemas(item)
        for key, item in value.items()
    }
    if not _COMBINING_KEYWORDS.isdisjoint(value):
        return out
    prefix_items, properties = value.get("prefixItems"), value.get("properties", {})
    if isinstance(prefix_items, list) and _ITEM_KEYWORDS.isdisjoint(value) and _min_items(value) <= len(prefix_items):
        out["items"] = False
    if "patternProperties" in value and _MEMBER_KEYWORDS.isdisjoint(value):
        required = value.get("required", [])
        names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        if isinstance(properties, dict) and names == required and properties.keys() >= set(names):
            out["additionalProperties"] = False
    return out


def _min_items(schema: dict[str, Any]) -> float:
    min_items = schema.get("minItems", 0)
    return min_items if isinstance(min_items, int | float) else 0
