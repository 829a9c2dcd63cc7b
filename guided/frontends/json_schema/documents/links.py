"""Resolves URIs, and builds the errors for invalid references."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from guided.close_names import find_closest_name
from guided.errors import SpecError
from guided.frontends.json_schema.documents.values import Json

if TYPE_CHECKING:
    from guided.frontends.json_schema.documents.schema import Schema

__all__ = ["Link", "join_or_keep", "resolve_uri", "suggest_name"]


@dataclass(frozen=True, slots=True)
class Link:
    """A reference, and the schema and keyword that contain it."""

    source: Schema
    keyword: str
    reference: str

    def make_error(self, text: str, hint: str = "") -> SpecError:
        """The error whose message is the keyword, the reference and `text`."""
        pointer = self.source.location_of(self.keyword)
        return SpecError(f"{self.keyword} {self.reference!r}{text}", pointer=pointer, hint=hint)


def resolve_uri(uri: str, link: Link) -> str:
    """The URI of a reference, resolved against the base of the schema that contains it."""
    try:
        return urljoin(link.source.base, uri)
    except ValueError as error:
        raise SpecError(
            f"{link.keyword} is not a URI: {error}", pointer=link.source.location_of(link.keyword)
        ) from None


def join_or_keep(base: str, path: str) -> str:
    """A path resolved against a base URI, or the unchanged path if that fails."""
    try:
        return urljoin(base, path)
    except ValueError:
        return path


def suggest_name(value: Json, key: str) -> str:
    """A hint for a key of a pointer that matches no member: the closest name, or the existing names."""
    names = [name for name in value if name != "$ref"] if isinstance(value, dict) else []
    if not names:
        return ""
    close = find_closest_name(key, names[:1000])
    return f"did you mean {close!r}?" if close else "existing names: " + ", ".join(repr(name) for name in names[:5])
