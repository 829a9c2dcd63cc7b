"""Keywords that are read and not enforced. In: a schema and the options. Out: a `Finding` for each such keyword.

These are names that no draft knows, keywords that the draft does not know or that have no effect where they stand,
and unknown formats. What only describes is no finding: annotations of the drafts, of OpenAPI and of editors, and
names that can be no misspelt keyword (`x-order`, `_comment`, `//`, or `components` where references lead through it).
What is refused is reported by the reader.

Cost: linear in the keywords. `Library` looks only at schemas with names that are not in `QUIET`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from guided.errors import Finding
from guided.spec.json_schema.documents.keywords import DESCRIBING, KEYWORDS, KNOWN, NEEDS, RESTRICTING
from guided.spec.json_schema.documents.places import escape
from guided.spec.json_schema.formats import format_shape, why_not
from guided.spec.json_schema.options import DRAFTS, JsonSchemaOptions

if TYPE_CHECKING:
    from guided.spec.json_schema.documents.resolve import Library, Schema

__all__ = ["findings"]

_OPENAPI = "a keyword of OpenAPI 3.0, not of JSON Schema"

_INSTEAD = {
    "divisibleBy": "multipleOf",
    "extends": "allOf",
    "disallow": "not",
    "min": "minimum",
    "max": "maximum",
    "regex": "pattern",
    "optional": "required, in the object that holds the property",
}
_OLDER = {
    "const": "enum",
    "dependentRequired": "dependencies",
    "dependentSchemas": "dependencies",
    "prefixItems": "items, with a list",
    "$dynamicRef": "$ref",
}
"""What older drafts call a keyword."""


def findings(schema: Schema, library: Library, options: JsonSchemaOptions) -> Iterator[Finding]:
    """The keywords of one schema that are not enforced, without those of its subschemas."""
    if not isinstance(schema.value, dict):
        return
    for keyword in schema.value:
        why = _why(schema, keyword, options)
        if why is not None and (keyword in KEYWORDS or not _holds_schemas(schema, keyword, library)):
            yield Finding(schema.at(keyword), keyword, *why)


def _holds_schemas(schema: Schema, keyword: str, library: Library) -> bool:
    return (schema.document, f"{schema.pointer}/{escape(keyword)}") in library.traversed


def _why(schema: Schema, keyword: str, options: JsonSchemaOptions) -> tuple[str, str] | None:
    """Reason and hint, or None for a keyword that is no finding."""
    draft, value = schema.document.draft, schema.value
    assert isinstance(value, dict)
    if keyword not in KEYWORDS:
        describes = keyword in DESCRIBING or not (keyword[:1].isalpha() or keyword.startswith("$"))
        if describes or keyword.lower().startswith("x-"):
            return None
        return ("unknown keyword" if keyword != "nullable" else _OPENAPI), _meant(keyword, value, draft)
    if keyword not in RESTRICTING:
        return None
    if keyword in schema.document.lacks:
        return "not in the vocabularies of the metaschema", "list its vocabulary in $vocabulary"
    if keyword not in KNOWN[draft]:
        return _foreign(keyword, value, draft)
    if schema.hides(keyword):
        return f"{draft} ignores what stands next to $ref", "put the two into an allOf"
    needed = NEEDS[draft].get(keyword)
    if needed is not None and (needed not in value or (keyword == "additionalItems" and not _is_list(value))):
        return _without(keyword, needed)
    return _unknown_format(value["format"], options) if keyword == "format" else None


def _is_list(value: Mapping[str, object]) -> bool:
    return isinstance(value.get("items"), list)


def _without(keyword: str, needed: str) -> tuple[str, str]:
    if keyword == "additionalItems":
        return "no effect unless items is a list", "leave it out, or say it with items or maxItems"
    return f"no effect without {needed}", f"give {needed}, or leave it out"


def _foreign(keyword: str, value: Mapping[str, object], draft: str) -> tuple[str, str]:
    """Why a keyword of another draft has no effect, and what to do about it."""
    if keyword == "additionalItems" and not _is_list(value):
        return _without(keyword, "items")
    since = KEYWORDS[keyword].since
    if DRAFTS.index(since) <= DRAFTS.index(draft):
        return f"not a keyword of {draft}", f"write it as {draft} does"
    later = f"it belongs to {since} and later: say so by $schema or draft="
    older = f"{draft} writes {_OLDER[keyword]}; " if keyword in _OLDER else ""
    return f"not a keyword of {draft}", older + later


def _unknown_format(name: object, options: JsonSchemaOptions) -> tuple[str, str] | None:
    asked = options.format == "assert" and options.unknown_format == "warn"
    return why_not(name) if asked and isinstance(name, str) and format_shape(name) is None else None


def _meant(keyword: str, value: Mapping[str, object], draft: str) -> str:
    """What an unknown keyword may have been meant to be."""
    if keyword == "nullable":
        if value[keyword] is not True:
            return "leave it out: null is allowed where type names it"
        named = value.get("type")
        return f'write "type": ["{named if isinstance(named, str) else "string"}", "null"]'
    if keyword in _INSTEAD:
        return f"did you mean {_INSTEAD[keyword]}?"
    return _near(keyword[:40], draft)


@lru_cache(maxsize=1024)
def _near(keyword: str, draft: str) -> str:
    """A hint at the keyword that is spelled most like this name."""
    plain = {name.lower(): name for name in sorted({*KNOWN[draft], "nullable"})}
    close = difflib.get_close_matches(keyword.lower().replace("_", "").replace("-", ""), plain, n=1, cutoff=0.75)
    return f"did you mean {plain[close[0]]!r}?" if close else "leave it out, or begin its name with x-"
