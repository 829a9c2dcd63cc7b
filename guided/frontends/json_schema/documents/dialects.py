"""Finds the dialect of a schema: a draft, or a draft reduced to the vocabularies that a metaschema lists.

In: the URI in `$schema`. Out: a `Dialect`. `find_metaschema` returns the text of a draft's metaschema, whose file is
read only when a reference needs it.

A metaschema in the registry may list vocabularies (2019-09 and later). Keywords of unlisted vocabularies are unknown in
the schemas that name this metaschema. A metaschema that requires an unknown vocabulary is refused. A metaschema without
a list has the dialect that its own `$schema` names. The hyper-schema of a draft counts as the draft itself, since links
do not restrict values. Nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

from guided.errors import SpecError, UnsupportedError
from guided.frontends.json_schema.documents.keywords import DRAFT_URIS, VOCABULARIES
from guided.frontends.json_schema.documents.values import Json
from guided.meter import spend

__all__ = ["Dialect", "find_metaschema", "read_dialect"]

_FOLDER = "metaschemas"  # the path of each file is the path of its URI
_HOST = "json-schema.org/"
_METASCHEMAS = frozenset(
    [name.removeprefix(_HOST) for name in DRAFT_URIS]
    + [f"draft/{draft}/meta/{name}" for draft, names in VOCABULARIES.items() for name in names]
)
_OTHER_URIS = {
    "json-schema.org/schema": "2020-12",  # the latest draft
    "spec.openapis.org/oas/3.1/dialect/base": "2020-12",  # it adds only annotations
    **{name.removesuffix("schema") + "hyper-schema": draft for name, draft in DRAFT_URIS.items()},
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """A draft without the keywords in `missing_keywords`."""

    draft: str
    missing_keywords: frozenset[str] = frozenset()


def find_metaschema(uri: str) -> tuple[str, str] | None:
    """The identifier and the text of a draft's metaschema; None for other URIs. http and https are equivalent."""
    name = _without_fragment(uri).removeprefix(_HOST)
    if name not in _METASCHEMAS or not _without_fragment(uri).startswith(_HOST):
        return None
    text = files(__package__).joinpath(_FOLDER, *f"{name}.json".split("/")).read_text("utf-8")
    return ("https://" if name.startswith("draft/") else "http://") + _HOST + name, text


def read_dialect(
    dialect_uri: Json, find_registered: Callable[[str], Json], pointer: str, default: str | None = None
) -> Dialect:
    """The dialect that `$schema` names.

    Args:
        dialect_uri: the value of `$schema`.
        find_registered: returns the metaschema of a URI, or None.
        pointer: the location of `$schema`.
        default: the draft for unknown URIs; None: they are refused.
    """
    if not isinstance(dialect_uri, str):
        hint = "write the URI of a draft, such as https://json-schema.org/draft/2020-12/schema"
        raise SpecError("$schema must be a string", pointer=pointer, hint=hint)
    uri, seen = dialect_uri, set[str]()
    while _without_fragment(uri) not in DRAFT_URIS:
        document = None if uri in seen else find_registered(uri)
        seen.add(uri)
        vocabularies = document.get("$vocabulary") if isinstance(document, dict) else None
        if isinstance(vocabularies, dict):
            return _read_vocabularies(vocabularies, dialect_uri, pointer)
        parent = document.get("$schema") if isinstance(document, dict) else None
        if not isinstance(parent, str):
            draft = _OTHER_URIS.get(_without_fragment(uri), default)
            if draft is None:
                uris = ", ".join("https://" + name for name in DRAFT_URIS)
                hint = f"one of {uris}, or pass draft='2020-12'"
                raise UnsupportedError(f"the dialect {dialect_uri!r} is not known", pointer=pointer, hint=hint)
            return Dialect(draft)
        uri = parent
    return Dialect(DRAFT_URIS[_without_fragment(uri)])


def _read_vocabularies(vocabularies: dict[str, Json], dialect_uri: str, pointer: str) -> Dialect:
    spend(len(vocabularies))
    draft = next((draft for draft in VOCABULARIES if _vocabulary_uri(draft, "core") in vocabularies), None)
    if draft is None:
        raise UnsupportedError(f"the dialect {dialect_uri!r} does not list the core vocabulary", pointer=pointer,
                               hint="list " + _vocabulary_uri("2020-12", "core"))  # fmt: skip
    keywords_by_uri = {_vocabulary_uri(draft, name): keywords for name, keywords in VOCABULARIES[draft].items()}
    for uri, is_required in vocabularies.items():
        if is_required is True and uri not in keywords_by_uri:
            raise UnsupportedError(f"the dialect {dialect_uri!r} requires the vocabulary {uri!r}, which is not known",
                                   pointer=pointer, hint="one of " + ", ".join(keywords_by_uri))  # fmt: skip
    listed_keywords = {
        keyword for uri, keywords in keywords_by_uri.items() if uri in vocabularies for keyword in keywords
    }
    all_keywords = {keyword for keywords in keywords_by_uri.values() for keyword in keywords}
    return Dialect(draft, frozenset(all_keywords - listed_keywords))


def _vocabulary_uri(draft: str, name: str) -> str:
    return f"https://{_HOST}draft/{draft}/vocab/{name}"


def _without_fragment(uri: str) -> str:
    return uri.removeprefix("https://").removeprefix("http://").rstrip("#")
