"""xgrammar's options of JSON Schema, and those of guided that mean the same.

xgrammar writes names, constants and integers in one spelling, and anything else in all of them.

`strict_mode` closes objects that name some members, and arrays with `prefixItems`, where the schema says nothing of
others, as `unevaluatedProperties: false` and `unevaluatedItems: false` do. Where nothing else could be written, they
stay open.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, Self

from guided.spec.json_schema.options import JsonSchemaKeywords, JsonSchemaOptions

__all__ = ["SchemaOptions"]

_VALUES = frozenset(("const", "enum", "default", "examples"))
"""Keywords that hold values, not schemas."""


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
        most = self.max_whitespace_cnt
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise RuntimeError(f"max_whitespace_cnt must be a positive integer, not {most!r}")

    def given(self) -> dict[str, Any]:
        """The options that are not the defaults."""
        return {one.name: value for one in fields(self) if (value := getattr(self, one.name)) != one.default}

    @classmethod
    def from_given(cls, given: dict[str, Any]) -> Self:
        """What `given` gave."""
        return cls(**given)

    def guided(self) -> JsonSchemaOptions:
        """The options of guided. SpecError for separators that are none of JSON."""
        written = JsonSchemaKeywords(
            property_order="any" if self.any_order else "declared",
            additional_properties="minimal" if self.strict_mode else None,
            numbers="plain_integers",
            constants="plain",
        )
        if not self.any_whitespace:
            comma = ", " if self.indent is None else ","
            written["separators"] = self.separators if self.separators is not None else (comma, ": ")
            written["indent"] = self.indent
        elif self.max_whitespace_cnt is not None:
            written["whitespace"] = f"[ \\t\\n\\r]{{0,{self.max_whitespace_cnt}}}"
        return JsonSchemaOptions(**written)

    def prepared(self, schema: str) -> Any:
        """The schema: as it is, or with arrays closed that have `prefixItems`."""
        if not self.strict_mode or '"prefixItems"' not in schema:
            return schema
        try:
            return _closed(json.loads(schema))
        except (ValueError, RecursionError):  # guided words what is wrong
            return schema


def _closed(value: Any) -> Any:
    if isinstance(value, list):
        return [_closed(item) for item in value]
    if not isinstance(value, dict):
        return value
    out = {key: item if key in _VALUES else _closed(item) for key, item in value.items()}
    first = value.get("prefixItems")
    says = any(name in value for name in ("items", "unevaluatedItems", "contains", "additionalItems"))
    if isinstance(first, list) and not says and value.get("minItems", 0) <= len(first):
        out["items"] = False
    return out
