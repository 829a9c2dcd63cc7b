"""Schema documents, and the schemas at locations in them. `resolve.py` follows references."""

from __future__ import annotations

from dataclasses import dataclass, field

from guided.frontends.json_schema.documents.dynamic_scope import Scope
from guided.frontends.json_schema.documents.keywords import KNOWN_KEYWORDS, UNREPORTED_NAMES
from guided.frontends.json_schema.documents.source_spans import pointer_of
from guided.frontends.json_schema.documents.values import Json
from guided.frontends.json_schema.options import DRAFTS
from guided.ir.serial import Numbered

__all__ = ["BEFORE_2019", "Document", "Schema", "is_only_reference"]


@dataclass(slots=True, eq=False)
class Document:
    """One schema document. `prefix` precedes its pointers in messages. It is empty for the main document.

    `is_declared`: whether `$schema` or the option `draft` names the draft. Otherwise, the draft is assumed.
    """

    root: Json
    draft: str
    is_declared: bool
    prefix: str
    missing_keywords: frozenset[str] = frozenset()
    """Keywords of the draft that are not in the vocabularies of the metaschema."""
    bases: dict[str, str] = field(default_factory=dict)
    """Pointer of each schema with its own identifier -> its URI; "" -> the document's URI."""
    embedded_documents: dict[str, Document] = field(default_factory=dict)
    """Pointer of each schema in another dialect -> its embedded document."""
    inherits_dialect: bool = False
    """Whether the document has the dialect of the first schema that refers to it."""
    unreported_names: frozenset[str] = field(init=False)
    """Keywords that never need to be reported, regardless of other keywords."""

    def __post_init__(self) -> None:
        self.unreported_names = UNREPORTED_NAMES[self.draft] - self.missing_keywords


@dataclass(slots=True, eq=False)
class Schema(Numbered):
    """A schema at one location, with the base URI of its references. Never modified, but not frozen, for speed."""

    document: Document
    pointer: str
    value: dict[str, Json] | bool
    base: str
    scope: Scope = field(default=(), kw_only=True)
    constraints: tuple[str, ...] = field(default=(), kw_only=True)
    """Its keywords that constrain values, in its own draft or another one (`ENFORCED_KEYWORDS`)."""

    @property
    def location(self) -> str:
        """The pointer, preceded by the document's URI unless it is the main document."""
        return self.document.prefix + self.pointer

    def location_of(self, *keys: str | int) -> str:
        """The location of a keyword or of a deeper value in this schema, for messages."""
        return self.location + pointer_of(keys)

    def get(self, keyword: str) -> Json:
        """The value of a keyword that is present."""
        assert isinstance(self.value, dict)
        return self.value[keyword]

    def has_keyword(self, keyword: str) -> bool:
        """Whether the schema has this keyword, its draft knows it, and nothing disables it."""
        is_present = isinstance(self.value, dict) and keyword in self.value
        return is_present and keyword in KNOWN_KEYWORDS[self.document.draft] and not self.ignores(keyword)

    def ignores(self, keyword: str) -> bool:
        """Whether a keyword has no effect: the dialect lacks it, or (before 2019-09) it is next to a `$ref`."""
        value, document = self.value, self.document
        is_sibling_of_ref = keyword != "$ref" and isinstance(value, dict) and is_only_reference(value, document.draft)
        return is_sibling_of_ref or keyword in document.missing_keywords


BEFORE_2019 = frozenset(DRAFTS[: DRAFTS.index("2019-09")])


def is_only_reference(value: dict[str, Json], draft: str) -> bool:
    """Whether the schema counts as a `$ref` only: before 2019-09, keywords next to `$ref` have no effect."""
    return draft in BEFORE_2019 and isinstance(value.get("$ref"), str)
