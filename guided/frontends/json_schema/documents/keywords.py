"""The vocabularies of JSON Schema, draft4 to 2020-12: the draft of each keyword, and how the reader handles it.

In: nothing. Out: one table, and data derived from it. A name that is not in the table is unknown to every draft. It has
no effect, as the standard requires, and is reported (`unenforced.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from guided.frontends.json_schema.options import DRAFTS

__all__ = [
    "CONTENT",
    "DESCRIBING",
    "DRAFT_URIS",
    "ENFORCED",
    "HOLDS",
    "KEYWORDS",
    "KNOWN",
    "NEEDS",
    "QUIET",
    "REFERENCES",
    "RESTRICTING",
    "VOCABULARIES",
    "Holds",
    "Keyword",
    "Status",
]

DRAFT_URIS = {
    "json-schema.org/draft-04/schema": "draft4",
    "json-schema.org/draft-06/schema": "draft6",
    "json-schema.org/draft-07/schema": "draft7",
    "json-schema.org/draft/2019-09/schema": "2019-09",
    "json-schema.org/draft/2020-12/schema": "2020-12",
}


class Status(Enum):
    """What the reader does with a keyword."""

    ENFORCED = auto()
    ANNOTATION = auto()


class Holds(Enum):
    """Where a keyword's value contains schemas."""

    NOTHING = auto()
    SCHEMA = auto()
    LIST = auto()
    MAP = auto()
    SCHEMA_OR_LIST = auto()
    MAP_OF_SCHEMAS_OR_NAMES = auto()


@dataclass(frozen=True, slots=True)
class Keyword:
    """A keyword of the drafts `since` to `until`."""

    status: Status
    holds: Holds = Holds.NOTHING
    since: str = "draft4"
    until: str = "2020-12"


def _defined_in(status: Status, *names: str, since: str = "draft4", until: str = "2020-12") -> dict[str, Keyword]:
    return {name: Keyword(status, Holds.NOTHING, since, until) for name in names}


_E, _A = Status.ENFORCED, Status.ANNOTATION

KEYWORDS: dict[str, Keyword] = {
    **_defined_in(_E, "type", "enum", "required", "pattern", "format", "multipleOf"),
    **_defined_in(
        _E, "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"
    ),
    **_defined_in(_E, "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    **_defined_in(_E, "const", since="draft6"),
    **_defined_in(_E, "x-guided-quote"),
    "properties": Keyword(_E, Holds.MAP),
    "additionalProperties": Keyword(_E, Holds.SCHEMA),
    "items": Keyword(_E, Holds.SCHEMA_OR_LIST),
    "additionalItems": Keyword(_E, Holds.SCHEMA, until="2019-09"),
    "prefixItems": Keyword(_E, Holds.LIST, since="2020-12"),
    "anyOf": Keyword(_E, Holds.LIST),
    "allOf": Keyword(_E, Holds.LIST),
    "oneOf": Keyword(_E, Holds.LIST),
    "not": Keyword(_E, Holds.SCHEMA),
    "if": Keyword(_E, Holds.SCHEMA, since="draft7"),
    "then": Keyword(_A, Holds.SCHEMA, since="draft7"),
    "else": Keyword(_A, Holds.SCHEMA, since="draft7"),
    "contains": Keyword(_E, Holds.SCHEMA, since="draft6"),
    "minContains": Keyword(_A, since="2019-09"),
    "maxContains": Keyword(_A, since="2019-09"),
    "propertyNames": Keyword(_E, Holds.SCHEMA, since="draft6"),
    "patternProperties": Keyword(_E, Holds.MAP),
    "dependencies": Keyword(_E, Holds.MAP_OF_SCHEMAS_OR_NAMES),  # kept after draft7 for compatibility
    "dependentRequired": Keyword(_E, since="2019-09"),
    "dependentSchemas": Keyword(_E, Holds.MAP, since="2019-09"),
    "unevaluatedItems": Keyword(_E, Holds.SCHEMA, since="2019-09"),
    "unevaluatedProperties": Keyword(_E, Holds.SCHEMA, since="2019-09"),
    **_defined_in(_E, "$ref"),
    **_defined_in(_E, "$dynamicRef", since="2020-12"),
    **_defined_in(_E, "$recursiveRef", since="2019-09", until="2019-09"),
    "$defs": Keyword(_A, Holds.MAP),
    "definitions": Keyword(_A, Holds.MAP),
    **_defined_in(_A, "id", until="draft4"),
    **_defined_in(_A, "$id", since="draft6"),
    **_defined_in(_A, "$anchor", since="2019-09"),
    **_defined_in(_A, "$dynamicAnchor", since="2020-12"),
    **_defined_in(_A, "$recursiveAnchor", since="2019-09", until="2019-09"),
    **_defined_in(_A, "$schema", "$vocabulary", "$comment", "title", "description", "default", "examples"),
    **_defined_in(_A, "deprecated", "readOnly", "writeOnly", "contentEncoding", "contentMediaType"),
    "contentSchema": Keyword(_A, Holds.SCHEMA, since="2019-09"),
}

CONTENT = ("contentEncoding", "contentMediaType")
"""Annotations that only draft 7 can enforce. There, like `format`, they are enforced unless the options disable it."""

ENFORCED = {
    draft: frozenset(name for name, keyword in KEYWORDS.items() if keyword.status is Status.ENFORCED)
    | frozenset(CONTENT if draft == "draft7" else ())
    for draft in DRAFTS
}
"""Draft -> the keywords that constrain values, of all drafts. All other names are annotations, or unknown."""

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

_VALIDATION = """type enum const required pattern multipleOf minimum maximum exclusiveMinimum exclusiveMaximum minLength
    maxLength minItems maxItems uniqueItems minContains maxContains minProperties maxProperties dependentRequired"""
_APPLICATOR = """properties patternProperties additionalProperties propertyNames items contains allOf anyOf oneOf not
    if then else dependentSchemas"""

VOCABULARIES: dict[str, dict[str, tuple[str, ...]]] = {
    "2019-09": {
        "core": (),
        "applicator": (*_APPLICATOR.split(), "additionalItems", "unevaluatedItems", "unevaluatedProperties"),
        "validation": tuple(_VALIDATION.split()),
        "meta-data": (),
        "format": ("format",),
        "content": (),
    },
    "2020-12": {
        "core": (),
        "applicator": (*_APPLICATOR.split(), "prefixItems"),
        "unevaluated": ("unevaluatedItems", "unevaluatedProperties"),
        "validation": tuple(_VALIDATION.split()),
        "meta-data": (),
        "format-annotation": ("format",),
        "format-assertion": ("format",),
        "content": (),
    },
}
"""Draft -> vocabulary -> its keywords that constrain values. The core vocabulary cannot be left out."""


def _spans(keyword: Keyword, draft: str) -> bool:
    return DRAFTS.index(keyword.since) <= DRAFTS.index(draft) <= DRAFTS.index(keyword.until)


KNOWN = {draft: frozenset(name for name, keyword in KEYWORDS.items() if _spans(keyword, draft)) for draft in DRAFTS}
"""Draft -> its keywords. `$defs` and most annotations are known in every draft."""

HOLDS = {
    draft: {name: KEYWORDS[name].holds for name in known if KEYWORDS[name].holds is not Holds.NOTHING}
    for draft, known in KNOWN.items()
}
"""Draft -> its keywords that contain schemas -> where in the value they are."""

_EXTENDS = {"then": "if", "else": "if", "minContains": "contains", "maxContains": "contains"}
RESTRICTING = frozenset(_EXTENDS).union(*(names - frozenset(CONTENT) for names in ENFORCED.values()))
"""The keywords that constrain values, by themselves or together with the keyword that they extend."""

NEEDS: dict[str, dict[str, str]] = {
    draft: {**_EXTENDS, "additionalItems": "items"}
    | ({"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} if draft == "draft4" else {})
    for draft in DRAFTS
}
"""Draft -> keyword -> the keyword that it needs to have an effect."""

_DESCRIBING = """discriminator xml externalDocs example links media base
    markdownDescription enumDescriptions markdownEnumDescriptions deprecationMessage defaultSnippets doNotSuggest
    suggestSortText errorMessage patternErrorMessage enumNames propertyOrder allowComments allowTrailingCommas
    tsType tsEnumNames javaType"""
DESCRIBING = frozenset(_DESCRIBING.split())
"""Names of OpenAPI, hyper-schemas and editors that are annotations only."""


def _unreported_names(draft: str) -> frozenset[str]:
    reportable = {"format", *NEEDS[draft], *(("$ref",) if DRAFTS.index(draft) < DRAFTS.index("2019-09") else ())}
    return (RESTRICTING & KNOWN[draft] | frozenset(KEYWORDS) - RESTRICTING | DESCRIBING) - reportable


QUIET = {draft: _unreported_names(draft) for draft in DRAFTS}
"""Draft -> the names that never need to be reported, regardless of other keywords."""
