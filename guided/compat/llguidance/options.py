"""`JsonCompileOptions`: llguidance's options for writing JSON, and their equivalents in guided.

By default, any whitespace may come between JSON tokens, integers have no fraction and no exponent, and strings contain
only necessary escapes.

    item_separator, key_separator    `separators`, which are regular expressions in both libraries
    whitespace_flexible, whitespace_pattern    `whitespace`; the pattern is matched at most once
    json_allowed_escapes    `escapes`
    json_allow_general_unicode_escapes    adds `U` if `u` is allowed: any character may be written as `\\uXXXX`
    lenient    formats that are not enforced cause warnings; by default, they cause an error
    coerce_one_of    no effect, since `oneOf` is enforced exactly
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypedDict

from guided.errors import SpecError
from guided.frontends.json_schema.options import JsonSchemaKeywords

__all__ = ["JsonCompileOptions", "schema_options"]

_ESCAPES: Final = 'nrbtf\\"u'
_JSON_SPACE: Final = r"[ \t\n\r]*"


class JsonCompileOptions(TypedDict, total=False):
    """llguidance's options; see the module docstring."""

    item_separator: str | None
    key_separator: str | None
    whitespace_pattern: str | None
    whitespace_flexible: bool | None
    coerce_one_of: bool | None
    lenient: bool | None
    json_allowed_escapes: str | None
    json_allow_general_unicode_escapes: bool | None


def schema_options(fields: Mapping[str, Any]) -> JsonSchemaKeywords:
    """Translate the options in a schema's "x-guidance" to guided's options.

    Raises:
        SpecError: an option is unknown to llguidance.
    """
    for name in fields:
        if name not in JsonCompileOptions.__annotations__:
            field_names = ", ".join(f"`{each}`" for each in JsonCompileOptions.__annotations__)
            raise SpecError(f"unknown field `{name}`, expected one of {field_names}")
    options = JsonSchemaKeywords(
        numbers="plain_integers",
        escapes=_escapes(fields),
        unknown_format="warn" if fields.get("lenient") else "refuse",
    )
    pattern, flexible = fields.get("whitespace_pattern"), fields.get("whitespace_flexible")
    gap = None if flexible is False else _JSON_SPACE
    gap = gap if pattern is None else f"(?:{pattern})?"
    item, key = fields.get("item_separator"), fields.get("key_separator")
    item, key = "," if item is None else item, ":" if key is None else key
    if (item, key) != (",", ":"):
        options["separators"] = (item, key)
    if gap is None and "separators" not in options:
        options["whitespace"] = "compact"
    elif gap is not None and (gap != _JSON_SPACE or "separators" in options):
        options["whitespace"] = gap
    return options


def _escapes(options: Mapping[str, Any]) -> str:
    given_letters = options.get("json_allowed_escapes")
    letters = _ESCAPES if given_letters is None else str(given_letters)
    return letters + "U" * bool(options.get("json_allow_general_unicode_escapes") and "u" in letters)
