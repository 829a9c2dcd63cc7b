"""The vocabularies of JSON Schema, draft4 to 2020-12: the draft of each keyword, and how the reader handles it.

Contains a table of the keywords, data derived from it, the drafts' URIs and vocabularies, and names that other
standards define. A name that is not in the table is unknown to every draft. It has no effect, as the standard requires,
and is reported unless it is purely descriptive (`unenforced.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from guided.frontends.json_schema.options import DRAFTS

__all__ = [
    "CONSTRAINING_KEYWORDS",
    "CONTENT_KEYWORDS",
    "DESCRIPTIVE_NAMES",
    "DRAFT_URIS",
    "ENFORCED_KEYWORDS",
    "KEYWORDS",
    "KNOWN_KEYWORDS",
    "NEEDED_KEYWORDS",
    "REFERENCES",
    "SUBSCHEMA_FORMS",
    "UNREPORTED_NAMES",
    "VOCABULARIES",
    "Keyword",
    "Status",
    "SubschemaForm",
]

DRAFT_URIS = {
    "json-schema.org/draft-04/schema": "draft4",
    "json-schema.org/draft-06/schema": "draft6",
    "json-schema.org/draft-07/schema": "draft7",
    "json-schema.org/draft/2019-09/schema": "2019-09",
    "json-schema.org/draft/2020-12/schema": "2020-12",
}


class Status(Enum):
    """Whether the reader enforces a keyword by itself, unlike annotations, identifiers, definitions, and keywords that
    only extend another one (`then`).
    """

    ENFORCED = auto()
    NOT_ENFORCED_ALONE = auto()


class SubschemaForm(Enum):
    """Where a keyword's value contains schemas."""

    NOTHING = auto()
    SCHEMA = auto()
    LIST = auto()
    MAP = auto()
    SCHEMA_OR_LIST = auto()
    MAP_OF_SCHEMAS_OR_NAMES = auto()


@dataclass(frozen=True, slots=True)
class Keyword:
    """A keyword of the drafts `first_draft` to `last_draft`."""

    status: Status
    form: SubschemaForm = SubschemaForm.NOTHING
    first_draft: str = "draft4"
    last_draft: str = "2020-12"


def _plain_keywords(
    status: Status, *names: str, first_draft: str = "draft4", last_draft: str = "2020-12"
) -> dict[str, Keyword]:
    return {name: Keyword(status, SubschemaForm.NOTHING, first_draft, last_draft) for name in names}


_E, _N = Status.ENFORCED, Status.NOT_ENFORCED_ALONE

KEYWORDS: dict[str, Keyword] = {
    **_plain_keywords(_E, "type", "enum", "required", "pattern", "format", "multipleOf"),
    **_plain_keywords(
        _E, "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"
    ),
    **_plain_keywords(_E, "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    **_plain_keywords(_E, "const", first_draft="draft6"),
    **_plain_keywords(_E, "x-guided-quote", "x-guided-python-pattern"),
    "properties": Keyword(_E, SubschemaForm.MAP),
    "additionalProperties": Keyword(_E, SubschemaForm.SCHEMA),
    "items": Keyword(_E, SubschemaForm.SCHEMA_OR_LIST),
    "additionalItems": Keyword(_E, SubschemaForm.SCHEMA, last_draft="2019-09"),
    "prefixItems": Keyword(_E, SubschemaForm.LIST, first_draft="2020-12"),
    "anyOf": Keyword(_E, SubschemaForm.LIST),
    "allOf": Keyword(_E, SubschemaForm.LIST),
    "oneOf": Keyword(_E, SubschemaForm.LIST),
    "not": Keyword(_E, SubschemaForm.SCHEMA),
    "if": Keyword(_E, SubschemaForm.SCHEMA, first_draft="draft7"),
    "then": Keyword(_N, SubschemaForm.SCHEMA, first_draft="draft7"),
    "else": Keyword(_N, SubschemaForm.SCHEMA, first_draft="draft7"),
    "contains": Keyword(_E, SubschemaForm.SCHEMA, first_draft="draft6"),
    "minContains": Keyword(_N, first_draft="2019-09"),
    "maxContains": Keyword(_N, first_draft="2019-09"),
    "propertyNames": Keyword(_E, SubschemaForm.SCHEMA, first_draft="draft6"),
    "patternProperties": Keyword(_E, SubschemaForm.MAP),
    "dependencies": Keyword(_E, SubschemaForm.MAP_OF_SCHEMAS_OR_NAMES),  # kept after draft7 for compatibility
    "dependentRequired": Keyword(_E, first_draft="2019-09"),
    "dependentSchemas": Keyword(_E, SubschemaForm.MAP, first_draft="2019-09"),
    "unevaluatedItems": Keyword(_E, SubschemaForm.SCHEMA, first_draft="2019-09"),
    "unevaluatedProperties": Keyword(_E, SubschemaForm.SCHEMA, first_draft="2019-09"),
    **_plain_keywords(_E, "$ref"),
    **_plain_keywords(_E, "$dynamicRef", first_draft="2020-12"),
    **_plain_keywords(_E, "$recursiveRef", first_draft="2019-09", last_draft="2019-09"),
    "$defs": Keyword(_N, SubschemaForm.MAP),
    "definitions": Keyword(_N, SubschemaForm.MAP),
    **_plain_keywords(_N, "id", last_draft="draft4"),
    **_plain_keywords(_N, "$id", first_draft="draft6"),
    **_plain_keywords(_N, "$anchor", first_draft="2019-09"),
    **_plain_keywords(_N, "$dynamicAnchor", first_draft="2020-12"),
    **_plain_keywords(_N, "$recursiveAnchor", first_draft="2019-09", last_draft="2019-09"),
    **_plain_keywords(_N, "$schema", "$vocabulary", "$comment", "title", "description", "default", "examples"),
    **_plain_keywords(_N, "deprecated", "readOnly", "writeOnly", "contentEncoding", "contentMediaType"),
    "contentSchema": Keyword(_N, SubschemaForm.SCHEMA, first_draft="2019-09"),
}

CONTENT_KEYWORDS = ("contentEncoding", "contentMediaType")
"""In draft 7, these are enforced like `format`, unless the options disable it. In other drafts, they are
annotations.
"""

ENFORCED_KEYWORDS = {
    draft: frozenset(name for name, keyword in KEYWORDS.items() if keyword.status is Status.ENFORCED)
    | frozenset(CONTENT_KEYWORDS if draft == "draft7" else ())
    for draft in DRAFTS
}
"""Draft -> the keywords, of any draft, that constrain values by themselves; in draft 7 also the content keywords.
Keywords that only extend another one (`then`) are not in it.
"""

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
"""Draft -> vocabulary -> its keywords that constrain values. The core vocabulary lists none, because no dialect can
leave it out.
"""


def _is_known(keyword: Keyword, draft: str) -> bool:
    return DRAFTS.index(keyword.first_draft) <= DRAFTS.index(draft) <= DRAFTS.index(keyword.last_draft)


KNOWN_KEYWORDS = {
    draft: frozenset(name for name, keyword in KEYWORDS.items() if _is_known(keyword, draft)) for draft in DRAFTS
}
"""Draft -> its keywords. `$defs` and most annotations are known in every draft."""

SUBSCHEMA_FORMS = {
    draft: {name: KEYWORDS[name].form for name in known if KEYWORDS[name].form is not SubschemaForm.NOTHING}
    for draft, known in KNOWN_KEYWORDS.items()
}
"""Draft -> its keywords that contain schemas -> where in the value they are."""

_EXTENSIONS = {"then": "if", "else": "if", "minContains": "contains", "maxContains": "contains"}
CONSTRAINING_KEYWORDS = frozenset(_EXTENSIONS).union(
    *(names - frozenset(CONTENT_KEYWORDS) for names in ENFORCED_KEYWORDS.values())
)
"""The keywords that constrain values, by themselves or together with the keyword that they extend."""

NEEDED_KEYWORDS: dict[str, dict[str, str]] = {
    draft: {**_EXTENSIONS, "additionalItems": "items"}
    | ({"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} if draft == "draft4" else {})
    for draft in DRAFTS
}
"""Draft -> keyword -> the keyword that it needs to have an effect."""

_DESCRIPTIVE_NAMES = """discriminator xml externalDocs example links media base
    markdownDescription enumDescriptions markdownEnumDescriptions deprecationMessage defaultSnippets doNotSuggest
    suggestSortText errorMessage patternErrorMessage enumNames propertyOrder allowComments allowTrailingCommas
    tsType tsEnumNames javaType"""
DESCRIPTIVE_NAMES = frozenset(_DESCRIPTIVE_NAMES.split())
"""Names that OpenAPI, JSON Hyper-Schema and editors define, and that are annotations only."""


def _unreported_names(draft: str) -> frozenset[str]:
    reportable_names = {
        "format",
        *NEEDED_KEYWORDS[draft],
        *(("$ref",) if DRAFTS.index(draft) < DRAFTS.index("2019-09") else ()),
    }
    return (
        CONSTRAINING_KEYWORDS & KNOWN_KEYWORDS[draft] | frozenset(KEYWORDS) - CONSTRAINING_KEYWORDS | DESCRIPTIVE_NAMES
    ) - reportable_names


UNREPORTED_NAMES = {draft: _unreported_names(draft) for draft in DRAFTS}
"""Draft -> the names that never need to be reported, regardless of other keywords."""
