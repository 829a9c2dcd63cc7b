"""Finds keywords that are read but not enforced. In: a schema and the options. Out: a `Finding` for each such keyword.

Findings are names that no draft knows, keywords that the draft does not know or that have no effect at their location,
and unknown formats. Purely descriptive names are not findings: annotations of the drafts, OpenAPI and editors, and
names that cannot be misspelt keywords (`x-order`, `_comment`, `//`, or `components` if references lead through it).
The reader reports refused keywords.

Cost: linear in the keywords. `Library` collects only schemas with names that are not in `UNREPORTED_NAMES`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from guided.close_names import find_closest_name
from guided.errors import Finding
from guided.frontends.json_schema.documents.keywords import (
    CONSTRAINING_KEYWORDS,
    DESCRIPTIVE_NAMES,
    KEYWORDS,
    KNOWN_KEYWORDS,
    NEEDED_KEYWORDS,
)
from guided.frontends.json_schema.documents.source_spans import escape
from guided.frontends.json_schema.formats import format_shape, why_not_enforced
from guided.frontends.json_schema.options import DRAFTS, JsonSchemaOptions
from guided.meter import spend

if TYPE_CHECKING:
    from guided.frontends.json_schema.documents.resolve import Library
    from guided.frontends.json_schema.documents.schema import Schema

__all__ = ["UnenforcedFinder"]

_OPENAPI_REASON = "a keyword of OpenAPI 3.0, not of JSON Schema"

_INTENDED_KEYWORDS = {
    "divisibleBy": "multipleOf",
    "extends": "allOf",
    "disallow": "not",
    "min": "minimum",
    "max": "maximum",
    "regex": "pattern",
    "optional": "required, in the schema of the enclosing object",
}
_OLDER_KEYWORDS = {
    "const": "enum",
    "dependentRequired": "dependencies",
    "dependentSchemas": "dependencies",
    "prefixItems": "items with a list",
    "$dynamicRef": "$ref",
}
"""Keyword -> its equivalent in older drafts."""
_LEAVE_OUT_HINT = "leave it out, or begin its name with x-"
_MAX_SEARCHES = 200


class UnenforcedFinder:
    """Finds the unenforced keywords of one library. Suggests known names for the first `_MAX_SEARCHES` unknown ones."""

    def __init__(self, library: Library, options: JsonSchemaOptions) -> None:
        self._library, self._options = library, options
        self._hints: dict[tuple[str, str], str] = {}
        self._format_reasons: dict[str, tuple[str, str]] = {}

    def findings(self, schema: Schema) -> Iterator[Finding]:
        """The keywords of one schema that are not enforced, excluding its subschemas."""
        if not isinstance(schema.value, dict):
            return
        for keyword in schema.value:
            spend()
            reason_and_hint = self._reason_and_hint(schema, keyword)
            if reason_and_hint is not None and (keyword in KEYWORDS or not self._contains_schemas(schema, keyword)):
                yield Finding(schema.location_of(keyword), keyword, *reason_and_hint)

    def _contains_schemas(self, schema: Schema, keyword: str) -> bool:
        return (schema.document, f"{schema.pointer}/{escape(keyword)}") in self._library.traversed_locations

    def _reason_and_hint(self, schema: Schema, keyword: str) -> tuple[str, str] | None:
        """Reason and hint, or None if the keyword is not a finding."""
        draft, value = schema.document.draft, schema.value
        assert isinstance(value, dict)
        if keyword not in KEYWORDS:
            is_descriptive = keyword in DESCRIPTIVE_NAMES or not (keyword[:1].isalpha() or keyword.startswith("$"))
            if is_descriptive or keyword.lower().startswith("x-"):
                return None
            return ("unknown keyword" if keyword != "nullable" else _OPENAPI_REASON), self._suggestion(
                keyword, value, draft
            )
        if keyword not in CONSTRAINING_KEYWORDS:
            return None
        if keyword in schema.document.missing_keywords:
            return "not in the vocabularies of the metaschema", "list its vocabulary in $vocabulary"
        if keyword not in KNOWN_KEYWORDS[draft]:
            return _explain_foreign(keyword, value, draft)
        if schema.ignores(keyword):
            return f"{draft} ignores keywords next to $ref", "put both into an allOf"
        companion = NEEDED_KEYWORDS[draft].get(keyword)
        if companion is not None and (
            companion not in value or (keyword == "additionalItems" and not _has_item_list(value))
        ):
            return _missing_companion(keyword, companion)
        return self._unknown_format(value["format"]) if keyword == "format" else None

    def _unknown_format(self, name: object) -> tuple[str, str] | None:
        warns = self._options.format == "assert" and self._options.unknown_format == "warn"
        if not warns or not isinstance(name, str) or format_shape(name) is not None:
            return None
        if name not in self._format_reasons:
            if len(self._format_reasons) >= _MAX_SEARCHES:
                return why_not_enforced(name, search=False)
            self._format_reasons[name] = why_not_enforced(name)
        return self._format_reasons[name]

    def _suggestion(self, keyword: str, value: Mapping[str, object], draft: str) -> str:
        """A hint for an unknown keyword: the known name that was probably meant."""
        if keyword == "nullable":
            if value[keyword] is not True:
                return "leave it out: null is allowed only if type lists it"
            type_name = value.get("type")
            return f'write "type": ["{type_name if isinstance(type_name, str) else "string"}", "null"]'
        if keyword in _INTENDED_KEYWORDS:
            return f"did you mean {_INTENDED_KEYWORDS[keyword]}?"
        if (keyword, draft) not in self._hints:
            if len(self._hints) >= _MAX_SEARCHES:
                return _LEAVE_OUT_HINT
            self._hints[keyword, draft] = _hint_with_close_keyword(keyword[:40], draft)
        return self._hints[keyword, draft]


def _has_item_list(value: Mapping[str, object]) -> bool:
    return isinstance(value.get("items"), list)


def _missing_companion(keyword: str, companion: str) -> tuple[str, str]:
    if keyword == "additionalItems":
        return "no effect unless items is a list", "leave it out, or use items or maxItems"
    return f"no effect without {companion}", f"add {companion}, or leave it out"


def _explain_foreign(keyword: str, value: Mapping[str, object], draft: str) -> tuple[str, str]:
    """Why a keyword of another draft has no effect, and how to fix this."""
    if keyword == "additionalItems" and not _has_item_list(value):
        return _missing_companion(keyword, "items")
    first_draft = KEYWORDS[keyword].first_draft
    if DRAFTS.index(first_draft) <= DRAFTS.index(draft):
        return f"not a keyword of {draft}", f"use its replacement in {draft}"
    later = f"to use {keyword}, select {first_draft} or later with $schema or draft="
    older = f"in {draft}, write {_OLDER_KEYWORDS[keyword]}; " if keyword in _OLDER_KEYWORDS else ""
    return f"not a keyword of {draft}", older + later


@cache
def _names_by_lower_case(draft: str) -> dict[str, str]:
    return {name.lower(): name for name in sorted({*KNOWN_KEYWORDS[draft], "nullable"})}


@lru_cache(maxsize=1024)
def _hint_with_close_keyword(keyword: str, draft: str) -> str:
    """A hint with the known keyword that is spelled most like this name."""
    names = _names_by_lower_case(draft)
    close = find_closest_name(keyword.lower().replace("_", "").replace("-", ""), names, cutoff=0.75)
    return f"did you mean {names[close]!r}?" if close else _LEAVE_OUT_HINT
