"""Converts JSON Schemas to regular expressions, like `outlines_core.json_schema`. In: a schema as text. Out: a pattern.

The pattern is exactly equivalent to the schema: each keyword is enforced, or raises an error. Some schemas have no
equivalent regular expression, such as recursive schemas and objects with arbitrary members. For these, the result is
the string `(?json_schema:...)`. `Index` can read it; anywhere else, it is an invalid pattern.

As in outlines-core, an object whose schema names members has no other members, and the default pattern for
whitespace between tokens is `[ ]?`.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final

from guided.compat.outlines_core.regex_text import ESCAPES, write_pattern
from guided.errors import Finding, GuidedError
from guided.frontends.json_schema.compile import json_schema_to_grammar
from guided.frontends.json_schema.options import JsonSchemaKeywords, JsonSchemaOptions

__all__ = [
    "BOOLEAN", "DATE", "DATE_TIME", "EMAIL", "INTEGER", "NULL", "NUMBER", "STRING", "STRING_INNER", "TIME", "URI",
    "UUID", "WHITESPACE", "build_regex_from_schema",
]  # fmt: skip

WHITESPACE: Final = "[ ]?"
BOOLEAN: str  # these constants are created on first access, see `__getattr__`
DATE: str
DATE_TIME: str
EMAIL: str
INTEGER: str
NULL: str
NUMBER: str
STRING: str
STRING_INNER: str
TIME: str
URI: str
UUID: str
MARKER: Final = "(?json_schema:"
_CONSTANTS: Final[dict[str, Any]] = {
    "BOOLEAN": {"type": "boolean"},
    "INTEGER": {"type": "integer"},
    "NULL": {"type": "null"},
    "NUMBER": {"type": "number"},
    "STRING": {"type": "string"},
    **{
        name.upper().replace("-", "_"): {"type": "string", "format": name}
        for name in ("date", "date-time", "email", "time", "uri", "uuid")
    },
}


def build_regex_from_schema(
    json_schema: str, whitespace_pattern: str | None = None, max_recursion_depth: int = 3
) -> str:
    """Build a pattern that matches the JSON texts of a schema; see the module docstring.

    Args:
        json_schema: the schema as JSON text.
        whitespace_pattern: a regular expression for the whitespace between tokens; None means `WHITESPACE`.
        max_recursion_depth: ignored, since recursive schemas are not cut off.

    Raises:
        TypeError: the text is not JSON. ValueError: the schema is invalid, or a part of it is not supported.
    """
    if not isinstance(json_schema, str):
        raise TypeError(f"argument 'json_schema': '{type(json_schema).__name__}' object is not a str")
    gap = WHITESPACE if whitespace_pattern is None else whitespace_pattern
    try:
        schema = json.loads(json_schema)
    except (ValueError, RecursionError):
        raise TypeError("Expected a valid JSON string.") from None
    return _build_pattern(json.dumps(schema), gap)


def schema_options(gap: str) -> JsonSchemaKeywords:
    """guided's options that produce the same JSON as outlines-core."""
    return JsonSchemaKeywords(
        whitespace=gap, escapes=ESCAPES, numbers="plain_integers", additional_properties="minimal",
        unknown_format="refuse",
    )  # fmt: skip


def read_marker(regex: str) -> tuple[Any, JsonSchemaKeywords] | None:
    """Read the schema and the options in a `(?json_schema:...)` string; None if `regex` is not such a string."""
    if not regex.startswith(MARKER):
        return None
    marker = json.loads(regex[len(MARKER) : -1])
    return marker["schema"], schema_options(marker["whitespace"])


@lru_cache(maxsize=256)
def _build_pattern(schema: str, gap: str) -> str:
    options = schema_options(gap)
    try:
        findings: list[Finding] = []
        pattern = write_pattern(
            json_schema_to_grammar(json.loads(schema), JsonSchemaOptions(**options), findings=findings)
        )
    except GuidedError as error:
        raise ValueError(str(error)) from error
    return pattern or f"{MARKER}{json.dumps({'schema': json.loads(schema), 'whitespace': gap})})"


def __getattr__(name: str) -> str:
    """The constants, which are patterns of types and formats. They are created on first access."""
    if name == "STRING_INNER":
        return _build_pattern('{"type": "string", "minLength": 1, "maxLength": 1}', "")[1:-1]
    if name in _CONSTANTS:
        return _build_pattern(json.dumps(_CONSTANTS[name]), "")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
