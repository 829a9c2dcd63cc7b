"""Lists the formats of structural tags: their names, their fields, and the values that a field may have.

Source: xgrammar 0.2.9, `structural_tag.py`. All of its fields are supported; `reader.py` refuses any other field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from guided.errors import SpecError, UnsupportedError

__all__ = ["FORMATS", "REQUIRED", "Field", "Format", "relocate_error", "without_pointers"]

REQUIRED: Final = object()
"""The default of a required field."""


@dataclass(frozen=True, slots=True)
class Format:
    """A parsed format.

    Attributes:
        type: the name of the format, a key of `FORMATS`.
        pointer: the JSON Pointer of its location.
        fields: the value of each field, with defaults filled in; an inner format is a `Format`.
    """

    type: str
    pointer: str
    fields: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]


def without_pointers(value: Any) -> Any:
    """Remove the locations of formats from a field, so that fields with the same meaning are equal."""
    match value:
        case Format(kind, _, fields):
            return kind, {name: without_pointers(field) for name, field in fields.items()}
        case tuple():
            return tuple(map(without_pointers, value))
    return value


class Field(NamedTuple):
    """A field: the kind of its value (a method of the reader), and its default."""

    kind: str
    default: Any = REQUIRED


_TAG_FIELDS: Final = {
    "tags": Field("tags"),
    "at_least_one": Field("boolean", False),
    "stop_after_first": Field("boolean", False),
}
_COUNT: Final = Field("count", None)
_STRINGS: Final = Field("strings", ())
_TOKENS: Final = Field("tokens", ())
_CONTENT_FIELD: Final = {"content": Field("format")}
_ELEMENTS_FIELD: Final = {"elements": Field("formats")}

FORMATS: Final[Mapping[str, Mapping[str, Field]]] = {
    "const_string": {"value": Field("string")},
    "json_schema": {
        "json_schema": Field("schema"),
        "style": Field("style", None),  # None: JSON; else an `ArgumentForm`
        "any_order": Field("boolean", False),
        "max_whitespace_cnt": _COUNT,
        "excludes": _STRINGS,
    },
    "qwen_xml_parameter": {"json_schema": Field("schema")},
    "any_text": {"excludes": _STRINGS, "max_tokens": _COUNT, "max_chars": _COUNT},
    "token": {"token": Field("token")},
    "exclude_token": {"exclude_tokens": _TOKENS},
    "any_tokens": {"exclude_tokens": _TOKENS, "max_tokens": _COUNT},
    "grammar": {"grammar": Field("string"), "syntax": Field("syntax", "ebnf")},
    "regex": {"pattern": Field("string")},
    "sequence": _ELEMENTS_FIELD,
    "or": _ELEMENTS_FIELD,
    "tag": {"begin": Field("markers"), "content": Field("format"), "end": Field("markers")},
    "triggered_tags": {"triggers": Field("some_strings"), "excludes": _STRINGS, **_TAG_FIELDS},
    "token_triggered_tags": {"trigger_tokens": Field("some_tokens"), "exclude_tokens": _TOKENS, **_TAG_FIELDS},
    "tags_with_separator": {"separator": Field("string"), **_TAG_FIELDS},
    "optional": _CONTENT_FIELD,
    "plus": _CONTENT_FIELD,
    "star": _CONTENT_FIELD,
    "repeat": {"min": Field("count"), "max": Field("at_most"), **_CONTENT_FIELD},
    "dispatch": {"rules": Field("string_rules"), "loop": Field("boolean", True), "excludes": _STRINGS},
    "token_dispatch": {"rules": Field("token_rules"), "loop": Field("boolean", True), "exclude_tokens": _TOKENS},
}


def relocate_error(error: SpecError | UnsupportedError, pointer: str) -> SpecError | UnsupportedError:
    """Change the location of an error in an embedded specification to its location in the structural tag."""
    if error.pointer == "" or error.pointer.startswith("/"):
        error.pointer = pointer + error.pointer
    return error
