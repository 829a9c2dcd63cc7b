"""Where schemas stand and what references mean. In: a schema document and a registry. Out: `Schema` places.

A `Schema` is one place of one document, interned: the same place is the same object, so recursion ends and rules
can be named by places. References follow RFC 3986 and JSON Pointer (RFC 6901): `$id` (`id` in draft4) changes the
base of its subtree, `$anchor` names a place, documents of the registry are found by their URI. An index of
identifiers is made by one walk over the keywords that hold schemas, so an `$id` inside an `enum` is data.
Cost: linear in the documents used. Nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urldefrag, urljoin

from guided.errors import SpecError, UnsupportedError
from guided.limits import Limits
from guided.spec.json_schema.keywords import DRAFT_URIS, KEYWORDS, Holds, is_known
from guided.spec.json_schema.options import DRAFTS, JsonSchemaOptions
from guided.spec.json_schema.values import Json, escape, json_type, normalise, read_json

__all__ = ["Document", "Library", "Schema", "subschemas"]


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """One schema document. `prefix` stands before its pointers in messages: empty for the main one.

    `declared`: the draft is not assumed, but was given by `$schema` or by the option.
    """

    root: Json
    draft: str
    declared: bool
    prefix: str
    bases: dict[str, str] = field(default_factory=dict)
    """Pointer of each schema that has an identifier of its own -> its URI; "" -> the document's."""


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """A place where a schema stands. `value` is an object or a boolean."""

    document: Document
    pointer: str
    value: dict[str, Json] | bool
    base: str

    @property
    def where(self) -> str:
        """The pointer, with the document's URI before it where that is not the main one."""
        return self.document.prefix + self.pointer

    def at(self, *tokens: str | int) -> str:
        """The place below, for messages."""
        return self.where + "".join("/" + escape(str(token)) for token in tokens)

    def get(self, keyword: str) -> Json:
        """The value of a keyword that is there."""
        assert isinstance(self.value, dict)
        return self.value[keyword]

    def known(self, keyword: str) -> bool:
        """Whether the schema has this keyword, its draft knows it, and nothing hides it."""
        here = isinstance(self.value, dict) and keyword in self.value
        return here and is_known(keyword, self.document.draft) and not self.hides(keyword)

    def hides(self, keyword: str) -> bool:
        """Whether a `$ref` next to the keyword takes its effect, as the drafts before 2019-09 say."""
        beside = keyword != "$ref" and isinstance(self.value, dict) and isinstance(self.value.get("$ref"), str)
        return beside and DRAFTS.index(self.document.draft) < DRAFTS.index("2019-09")


def subschemas(value: dict[str, Json], draft: str) -> Iterator[tuple[tuple[str | int, ...], Json]]:
    """The (tokens, value) of everything that stands as a schema in the keywords of this one."""
    for name, inner in value.items():
        if not is_known(name, draft) and name not in ("$defs", "definitions"):
            continue
        holds = KEYWORDS[name].holds
        if holds in (Holds.SCHEMA, Holds.SCHEMA_OR_LIST) and isinstance(inner, dict | bool):
            yield (name,), inner
        elif holds in (Holds.LIST, Holds.SCHEMA_OR_LIST) and isinstance(inner, list):
            for at, item in enumerate(inner):
                yield (name, at), item
        elif holds in (Holds.MAP, Holds.MAP_OF_SCHEMAS_OR_NAMES) and isinstance(inner, dict):
            for key, item in inner.items():
                if holds is Holds.MAP or isinstance(item, dict | bool):
                    yield (name, key), item


class Library:
    """The documents of one compilation, and the interned places in them."""

    def __init__(
        self, schema: object, options: JsonSchemaOptions, registry: Mapping[str, object], limits: Limits
    ) -> None:
        self._options, self._registry, self._limits = options, registry, limits
        self._places: dict[tuple[int, str], Schema] = {}
        self._resources: dict[str, tuple[Document, str]] = {}
        self._anchors: dict[tuple[str, str], tuple[Document, str]] = {}
        self.main = self._load(schema, "")
        self.root = self._place(self.main, "", self.main.root, self.main.bases[""])

    def child(self, schema: Schema, *tokens: str | int) -> Schema:
        """The schema at `tokens` below this one."""
        value: Json = schema.value
        pointer, base = schema.pointer, schema.base
        for token in tokens:
            value = value[token]  # type: ignore[index]
            pointer += "/" + escape(str(token))
            base = schema.document.bases.get(pointer, base)
        return self._place(schema.document, pointer, value, base)

    def resolve(self, schema: Schema, reference: object) -> Schema:
        """The schema that `$ref` in `schema` points to."""
        if not isinstance(reference, str):
            raise SpecError("$ref must be a string", pointer=schema.at("$ref"))
        uri, fragment = urldefrag(reference)
        uri = self._absolute(schema, uri) if uri else schema.base
        document, pointer = self._resource(uri, reference, schema)
        try:
            fragment = unquote(fragment, errors="strict")
        except UnicodeDecodeError:
            raise SpecError(f"$ref {reference!r} is not valid UTF-8 once decoded", pointer=schema.at("$ref")) from None
        if fragment and not fragment.startswith("/"):
            if (uri, fragment) not in self._anchors:
                raise SpecError(f"$ref {reference!r}: there is no such anchor", pointer=schema.at("$ref"),
                                hint="refer to a place by its JSON Pointer, as in #/$defs/name")  # fmt: skip
            document, pointer = self._anchors[uri, fragment]
            fragment = ""
        return self._walk(document, pointer, fragment, reference, schema)

    def _absolute(self, schema: Schema, uri: str) -> str:
        try:
            return urljoin(schema.base, uri)
        except ValueError as error:
            raise SpecError(f"$ref is not a URI: {error}", pointer=schema.at("$ref")) from None

    def _walk(self, document: Document, pointer: str, rest: str, reference: str, source: Schema) -> Schema:
        """Follow the tokens of `rest` below the place `pointer` of the document."""
        value, at, base = document.root, "", document.bases[""]
        for raw in (pointer + rest).split("/")[1:]:
            token = raw.replace("~1", "/").replace("~0", "~")
            at += "/" + escape(token)
            base = document.bases.get(at, base)
            if isinstance(value, dict) and token in value:
                value = value[token]
            elif isinstance(value, list) and token.isascii() and token.isdigit() and int(token[:9]) < len(value):
                value = value[int(token[:9])]
            else:
                raise SpecError(
                    f"$ref {reference!r} points to nothing: there is no {document.prefix + at!r}",
                    pointer=source.at("$ref"),
                    hint=_nearby(value, token),
                )
        return self._place(document, at, value, base)

    def _place(self, document: Document, pointer: str, value: Json, base: str) -> Schema:
        key = (id(document), pointer)
        found = self._places.get(key)
        if found is None:
            if not isinstance(value, dict | bool):
                kind = {"null": "null", "string": "a string", "array": "an array"}.get(json_type(value), "a number")
                raise SpecError(
                    f"a schema is an object or a boolean, this is {kind}", pointer=document.prefix + pointer
                )
            found = self._places[key] = Schema(document, pointer, value, base)
        return found

    def _resource(self, uri: str, reference: str, source: Schema) -> tuple[Document, str]:
        for known in (uri, uri + "#"):
            if known not in self._resources and known in self._registry:
                self._load(self._registry[known], uri)
        if uri in self._resources:
            return self._resources[uri]
        if uri.split("://")[-1] in DRAFT_URIS:
            raise UnsupportedError("references to the metaschemas are not enforced yet", pointer=source.at("$ref"),
                                   hint="pass the metaschema in registry={uri: schema}")  # fmt: skip
        raise SpecError(
            f"$ref {reference!r} refers to {uri!r}, which is neither in the document nor in the registry",
            pointer=source.at("$ref"),
            hint="pass it in registry={uri: schema}; nothing is fetched",
        )

    def _load(self, schema: object, uri: str) -> Document:
        try:
            root = read_json(schema, self._limits) if isinstance(schema, str) else normalise(schema, self._limits)
        except SpecError as error:
            error.pointer = f"{uri}#{error.pointer}" if uri else error.pointer
            raise
        declared = self._options.draft is not None or (isinstance(root, dict) and "$schema" in root)
        document = Document(root, self._draft(root, uri), declared, uri + "#" if uri else "")
        self._index(document, uri)
        return document

    def _draft(self, root: Json, uri: str) -> str:
        named = root.get("$schema") if isinstance(root, dict) else None
        if named is None:
            return self._options.draft or "2020-12"
        pointer = (uri + "#" if uri else "") + "/$schema"
        if not isinstance(named, str):
            raise SpecError("$schema must be a string", pointer=pointer)
        plain = named.removeprefix("https://").removeprefix("http://").rstrip("#")
        if plain not in DRAFT_URIS:
            raise UnsupportedError(f"the dialect {named!r} is not known", pointer=pointer,
                                   hint="one of " + ", ".join("https://" + name for name in DRAFT_URIS))  # fmt: skip
        return DRAFT_URIS[plain]

    def _index(self, document: Document, uri: str) -> None:
        """Collect the identifiers and anchors of a document."""
        document.bases[""] = uri
        self._resources.setdefault(uri, (document, ""))
        id_keyword = "id" if document.draft == "draft4" else "$id"
        old = DRAFTS.index(document.draft) < DRAFTS.index("2019-09")
        work: list[tuple[str, Json, str]] = [("", document.root, uri)]
        while work:
            pointer, value, base = work.pop()
            if not isinstance(value, dict):
                continue
            own = value.get(id_keyword)
            if isinstance(own, str) and not (old and isinstance(value.get("$ref"), str)):
                path, fragment = urldefrag(own)
                if path:
                    base = _join(base, path)
                    document.bases[pointer] = base
                    self._resources.setdefault(base, (document, pointer))
                if fragment and old:
                    self._anchors.setdefault((base, fragment), (document, pointer))
            for keyword in ("$anchor", "$dynamicAnchor"):
                name = value.get(keyword)
                if isinstance(name, str) and is_known(keyword, document.draft):
                    self._anchors.setdefault((base, name), (document, pointer))
            for tokens, inner in subschemas(value, document.draft):
                work.append((pointer + "".join("/" + escape(str(t)) for t in tokens), inner, base))


def _join(base: str, path: str) -> str:
    try:
        return urljoin(base, path)
    except ValueError:
        return path


def _nearby(value: Json, token: str) -> str:
    if not isinstance(value, dict) or not value:
        return ""
    import difflib

    close = difflib.get_close_matches(token, list(value)[:1000], n=1)
    names = close or list(value)[:5]
    return f"did you mean {close[0]!r}?" if close else "there is " + ", ".join(repr(name) for name in names)
