"""Builds the error for a malformed keyword. In: the schema, the keyword, and what its value must be. Out: an error.

The message says what the value must be and what it is. The hint shows an example of the keyword.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from guided.errors import SpecError, short
from guided.frontends.json_schema.documents.values import Json
from guided.ir.ranges import has_surrogate

if TYPE_CHECKING:
    from guided.frontends.json_schema.documents.schema import Schema

__all__ = [
    "NOT_A_SCHEMA",
    "describe",
    "malformed_error",
    "refuse_name_with_surrogate",
]

_COUNT, _BOUND, _LIST, _MAP = "3", "0", '[{"type": "string"}, {"type": "null"}]', '{"name": {"type": "string"}}'
_EXAMPLES = {
    "type": '"string"',
    "enum": '["a", "b"]',
    **dict.fromkeys(("pattern", "x-guided-python-pattern"), '"^[a-z]+$"'),
    "format": '"date"',
    "contentEncoding": '"base64"',
    "contentMediaType": '"application/json"',
    "x-guided-quote": '"report", with documents={"report": text}',
    "multipleOf": "0.01",
    "uniqueItems": "true",
    "required": '["name"]',
    "dependentRequired": '{"card": ["address"]}',
    "$ref": '"#/$defs/name"',
    "$dynamicRef": '"#name"',
    "$recursiveRef": '"#"',
    "patternProperties": '{"^x-": {"type": "string"}}',
    "prefixItems": '[{"type": "string"}]',
    "items": '[{"type": "string"}]',
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _BOUND),
    **dict.fromkeys(("anyOf", "oneOf", "allOf"), _LIST),
    **dict.fromkeys(("properties", "dependencies", "dependentSchemas"), _MAP),
}
NOT_A_SCHEMA = 'write an object, such as {"type": "string"}, or true for any value'


def malformed_error(
    schema: Schema, keyword: str, must_be: str, value: Json, *keys: str | int, hint: str = ""
) -> SpecError:
    """The error for a keyword's value, or for the value at `keys` in it. The default hint shows an example."""
    hint_or_example = hint or f'as in "{keyword}": {_EXAMPLES.get(keyword, _COUNT)}'
    message = f"{keyword} must be {must_be}, not {describe(value)}"
    return SpecError(message, pointer=schema.location_of(keyword, *keys), hint=hint_or_example)


def refuse_name_with_surrogate(name: str, schema: Schema, *keys: str) -> None:
    """Refuse a member name that contains a lone surrogate. `keys` lead to the value in the schema that contains it."""
    if has_surrogate(name):
        message = f"the name {short(name)} contains a lone surrogate"
        hint = "write characters above U+FFFF as a pair of escapes"
        raise SpecError(message, pointer=schema.location_of(*keys), hint=hint)


def describe(value: Json) -> str:
    """A short description of a value."""
    if isinstance(value, list | dict):
        return ("an" if value else "an empty") + (" array" if isinstance(value, list) else " object")
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value[:40]) if isinstance(value, str) else str(value)
