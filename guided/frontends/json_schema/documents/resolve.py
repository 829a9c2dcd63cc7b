"""Locates schemas and resolves references. In: a schema document and a registry. Out: `Schema`s, which are locations.

A `Schema` is one location of one document. There is one object for each location, so that recursion ends and locations
can name rules. References follow RFC 3986 and JSON Pointer (RFC 6901). `$id` (`id` in draft4) changes the base of its
subtree, and `$anchor` names a location. Documents of the registry are found by their URI; the metaschemas are built in.
A location is reached in a dynamic scope (`dynamic_scope.py`), which is a part of its identity.

One walk over the keywords that contain schemas builds an index of identifiers. So an `$id` inside an `enum` is data. A
subschema whose `$schema` names another dialect is a separate document. Suppose that only this dialect recognises the
subschema's identifier, such as a draft4 `id` in a 2020-12 document. Then a pointer that does not resolve in the
subschema is resolved in the enclosing document, as by other validators.

Cost: linear in the documents that are used, times the number of dynamic scopes. Nothing is fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias
from urllib.parse import unquote, urldefrag

from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.frontends.json_schema.documents.dialects import Dialect, find_metaschema, read_dialect
from guided.frontends.json_schema.documents.dynamic_scope import RECURSIVE, Scope, enter, outermost_resource
from guided.frontends.json_schema.documents.keywords import (
    ENFORCED_KEYWORDS,
    KNOWN_KEYWORDS,
    SUBSCHEMA_FORMS,
    SubschemaForm,
)
from guided.frontends.json_schema.documents.links import Link, join_or_keep, resolve_uri, suggest_name
from guided.frontends.json_schema.documents.malformed import NOT_A_SCHEMA, malformed_error
from guided.frontends.json_schema.documents.schema import BEFORE_2019, Document, Schema, is_only_reference
from guided.frontends.json_schema.documents.source_spans import escape, pointer_of
from guided.frontends.json_schema.documents.values import Json, json_type, normalise, read_json
from guided.frontends.json_schema.options import JsonSchemaOptions
from guided.limits import Limits

__all__ = ["Library", "subschemas"]

_SCHEMA_TYPES = (dict, bool)
_INDEX = re.compile("0|[1-9][0-9]{0,8}")  # an array index in a JSON Pointer has no leading zeros
_LOCATION_COST = 20  # the cost of a location in a dynamic scope, in nodes


_SCHEMA_FORMS, _LIST_FORMS = (
    (SubschemaForm.SCHEMA, SubschemaForm.SCHEMA_OR_LIST),
    (SubschemaForm.LIST, SubschemaForm.SCHEMA_OR_LIST),
)
_MAP_FORMS = (SubschemaForm.MAP, SubschemaForm.MAP_OF_SCHEMAS_OR_NAMES)


def subschemas(value: dict[str, Json], draft: str) -> Iterator[tuple[tuple[str, *tuple[str | int, ...]], Json]]:
    """Each direct subschema in the keywords of this schema, as (the keys that lead to it, its value)."""
    forms = SUBSCHEMA_FORMS[draft]
    for name, inner in value.items():
        form = forms.get(name)
        if form is None:
            continue
        if isinstance(inner, dict) and form in _MAP_FORMS:
            may_list_names = form is not _MAP_FORMS[0]
            for key, item in inner.items():
                if not may_list_names or isinstance(item, dict | bool):
                    yield (name, key), item
        elif isinstance(inner, list) and form in _LIST_FORMS:
            for index, item in enumerate(inner):
                yield (name, index), item
        elif form in _SCHEMA_FORMS and isinstance(inner, dict | bool):
            yield (name,), inner


_Path: TypeAlias = "tuple[_Path, tuple[str | int, ...]] | None"
"""A location: its parent location, and the keys that lead from there to it. None is the root."""

_IDENTIFIERS = frozenset(("id", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$schema"))
"""The keywords that the index of a document collects."""
_INDEXED_KEYWORDS = {draft: _IDENTIFIERS.union(forms) for draft, forms in SUBSCHEMA_FORMS.items()}
"""Draft -> these keywords, and the keywords that contain schemas."""


def _only_root_has_identifiers(text: str, document: Document) -> bool:
    """Whether the text proves that only the root can have one of `_IDENTIFIERS`. This is the usual case."""
    root = document.root if isinstance(document.root, dict) else {}
    for name in _IDENTIFIERS:
        if text.count(f'"{name}"') > (name in root) and (name != "id" or document.draft == "draft4"):
            return False
    return "\\u" not in text  # an escape may spell a name differently


def _pointer(path: _Path) -> str:
    parts = []
    while path is not None:
        path, keys = path
        parts.append(pointer_of(keys))
    return "".join(reversed(parts))


class Library:
    """The documents of one compilation, and the `Schema` for each location in them."""

    def __init__(
        self,
        schema: object,
        options: JsonSchemaOptions,
        registry: Mapping[str, object],
        limits: Limits,
        documents: Mapping[str, str] | None = None,
    ) -> None:
        self.documents = documents or {}
        """The texts that `x-guided-quote` names."""
        self._options, self._registry, self._limits = options, registry, limits
        self._targets: dict[tuple[str, str, str, Scope], Schema] = {}
        self._schemas: dict[tuple[Document, str, Scope], Schema] = {}
        self._resources: dict[str, tuple[Document, str]] = {}
        self._anchors: dict[tuple[str, str], tuple[Document, str]] = {}
        # base of an embedded document whose identifier only its own dialect recognises -> the enclosing base
        self._outer_bases: dict[str, str] = {}
        self._metaschemas: dict[str, Json] = {}  # by their key in the registry
        self._dialects: dict[str, Dialect] = {}  # by their URI
        self._dynamic_anchors: dict[str, dict[str, tuple[Document, str]]] = {}  # URI of a resource -> name -> location
        self.schemas_to_report: list[Schema] = []
        """The schemas reached so far whose keywords may have to be reported (`unenforced.py`)."""
        self.traversed_locations: set[tuple[Document, str]] = set()
        """The locations on the paths of references. Unknown keywords there contain schemas."""
        self.main = self._load(schema, "")
        self.root = self._schema_at(self.main, "", self.main.root, self.main.bases[""], None)

    def child(self, schema: Schema, keyword: str, *keys: str | int) -> Schema:
        """The schema in a keyword of this schema, at `keys` in the keyword's value."""
        assert isinstance(schema.value, dict)
        document, pointer, value = schema.document, f"{schema.pointer}/{keyword}", schema.value[keyword]
        for key in keys:
            value = value[key]  # type: ignore[index]
            pointer = f"{pointer}/{escape(str(key))}"
        base = document.bases.get(pointer, schema.base)
        if pointer in document.embedded_documents:
            document, pointer = document.embedded_documents[pointer], ""
            base = document.bases[""]
        return self._schema_at(document, pointer, value, base, schema)

    def resolve(self, schema: Schema, keyword: str) -> Schema:
        """The schema that `$ref`, `$dynamicRef` or `$recursiveRef` in `schema` points to."""
        reference = schema.get(keyword)
        if not isinstance(reference, str):
            raise malformed_error(schema, keyword, "a string", reference)
        key = (keyword, reference, schema.base, schema.scope)
        target = self._targets.get(key)
        if target is None:
            target = self._targets[key] = self._resolve(schema, keyword, reference)
        return target

    def _resolve(self, schema: Schema, keyword: str, reference: str) -> Schema:
        if keyword == "$recursiveRef" and reference != "#":
            raise malformed_error(schema, keyword, "'#'", reference, hint="use $ref for other targets")
        link = Link(schema, keyword, reference)
        uri, fragment = urldefrag(reference)
        document, pointer = self._find_resource(resolve_uri(uri, link) if uri else schema.base, link)
        try:
            fragment = unquote(fragment, errors="strict")
        except UnicodeDecodeError:
            raise link.make_error(" is not valid UTF-8 after percent-decoding") from None
        if fragment.startswith("/"):
            try:
                return self._walk(document, pointer, fragment, link)
            except SpecError:
                outer_base = None if uri else self._outer_bases.get(schema.base)
                if outer_base is None:
                    raise
                return self._walk(*self._resources[outer_base], fragment, link)
        uri = document.bases[pointer]
        is_dynamic = keyword == ("$recursiveRef" if fragment == RECURSIVE else "$dynamicRef")
        if is_dynamic and fragment in self._dynamic_anchors.get(uri, ()):
            document, pointer = self._dynamic_anchors[outermost_resource(schema.scope, fragment) or uri][fragment]
        elif fragment:
            if (uri, fragment) not in self._anchors:
                hint = "refer to a schema by its JSON Pointer, as in #/$defs/name"
                raise link.make_error(": there is no such anchor", hint)
            document, pointer = self._anchors[uri, fragment]
        return self._walk(document, pointer, "", link)

    def _walk(self, document: Document, pointer: str, rest: str, link: Link) -> Schema:
        """Follow the pointer `rest` from the location `pointer` of the document."""
        value, current, base = document.root, "", document.bases[""]
        for escaped_key in (pointer + rest).split("/")[1:]:
            key = escaped_key.replace("~1", "/").replace("~0", "~")
            current += "/" + escape(key)
            self.traversed_locations.add((document, current))
            base = document.bases.get(current, base)
            if isinstance(value, dict) and key in value:
                value = value[key]
            elif isinstance(value, list) and _INDEX.fullmatch(key) and int(key) < len(value):
                value = value[int(key)]
            else:
                location = document.prefix + current
                raise link.make_error(f" points to nothing: there is no {location!r}", suggest_name(value, key))
            if current in document.embedded_documents:
                document, current = document.embedded_documents[current], ""
                base = document.bases[""]
        return self._schema_at(document, current, value, base, link.source)

    def _schema_at(self, document: Document, pointer: str, value: Json, base: str, source: Schema | None) -> Schema:
        """The schema at a location that is reached from `source`."""
        scope: Scope = () if source is None else source.scope
        if source is None or base != source.base:
            scope = enter(scope, self._dynamic_anchors.get(base, ()), base)
        key = (document, pointer, scope)
        schema = self._schemas.get(key)
        if schema is None:
            if not isinstance(value, _SCHEMA_TYPES):
                kind = {"null": "null", "string": "a string", "array": "an array"}.get(json_type(value), "a number")
                message = f"a schema must be an object or a boolean, not {kind}"
                raise SpecError(message, pointer=document.prefix + pointer, hint=NOT_A_SCHEMA)
            if scope and len(self._schemas) * _LOCATION_COST > self._limits.nodes:
                raise LimitExceeded("nodes", len(self._schemas) * _LOCATION_COST, self._limits.nodes)
            constraints = (
                tuple(filter(ENFORCED_KEYWORDS[document.draft].__contains__, value)) if isinstance(value, dict) else ()
            )
            schema = self._schemas[key] = Schema(document, pointer, value, base, scope=scope, constraints=constraints)
            if isinstance(value, dict) and not document.unreported_names.issuperset(value):
                self.schemas_to_report.append(schema)
        return schema

    def _find_resource(self, uri: str, link: Link) -> tuple[Document, str]:
        if uri not in self._resources and (registered_uri := self._registered_uri(uri)) is not None:
            self._load(self._registry[registered_uri], uri, link.source.document)
        if uri not in self._resources and (named_text := find_metaschema(uri)):
            name, text = named_text
            if name not in self._resources:
                self._load(text, name)
            self._resources[uri] = self._resources[name]
        if uri not in self._resources:
            raise link.make_error(
                f" refers to {uri!r}, which is neither in the document nor in the registry",
                "pass it in registry={uri: schema}; nothing is fetched",
            )
        document, pointer = self._resources[uri]
        source_document = link.source.document
        if (
            document.inherits_dialect
            and uri != link.source.base
            and (document.draft, document.missing_keywords) != (source_document.draft, source_document.missing_keywords)
        ):
            raise UnsupportedError(
                f"{uri!r} has no $schema, but schemas of both {document.draft} and {source_document.draft} refer to it",
                pointer=link.source.location_of(link.keyword),
                hint="add a $schema to it",
            )
        return document, pointer

    # --- documents

    def _load(self, schema: object, uri: str, referrer: Document | None = None) -> Document:
        """Load a document. Without a `$schema`, it has the dialect of `referrer`, the document that refers to it."""
        root = self._read_document(schema, uri)
        prefix = uri + "#" if uri else ""
        dialect = self._read_dialect(root, prefix)
        inherits_dialect = dialect is None and referrer is not None
        is_declared = dialect is not None or (
            self._options.draft is not None if referrer is None else referrer.is_declared
        )
        if dialect is None:
            dialect = (
                Dialect(referrer.draft, referrer.missing_keywords)
                if referrer
                else Dialect(self._options.draft or "2020-12")
            )
        document = Document(
            root, dialect.draft, is_declared, prefix, dialect.missing_keywords, inherits_dialect=inherits_dialect
        )
        self._index(document, uri, schema if isinstance(schema, str) else None)
        return document

    def _read_document(self, schema: object, uri: str) -> Json:
        try:
            return read_json(schema, self._limits) if isinstance(schema, str) else normalise(schema, self._limits)
        except SpecError as error:
            error.pointer = f"{uri}#{error.pointer}" if uri else error.pointer
            raise

    def _read_dialect(self, value: Json, location: str) -> Dialect | None:
        """The dialect that `$schema` names."""
        dialect_uri = value.get("$schema") if isinstance(value, dict) else None
        if dialect_uri is None:
            return None
        dialect = self._dialects.get(dialect_uri) if isinstance(dialect_uri, str) else None
        if dialect is None:
            dialect = read_dialect(dialect_uri, self._find_registered, location + "/$schema", self._options.draft)
            self._dialects[dialect_uri] = dialect
        return dialect

    def _registered_uri(self, uri: str) -> str | None:
        """The key of the registry for a URI, whose empty fragment may be missing or redundant."""
        return next((key for key in (uri, uri + "#", uri.rstrip("#")) if key in self._registry), None)

    def _find_registered(self, uri: str) -> Json:
        key = self._registered_uri(uri)
        if key is None:
            return None
        if key not in self._metaschemas:
            self._metaschemas[key] = self._read_document(self._registry[key], key)
        return self._metaschemas[key]

    def _index(self, main: Document, uri: str, text: str | None) -> None:
        """Collect the identifiers and anchors of a document. `text` is its source, if there is one."""
        main.bases[""] = uri
        self._resources.setdefault(uri, (main, ""))
        if text is not None and _only_root_has_identifiers(text, main):
            if isinstance(main.root, dict):
                self._index_schema(main, "", main.root, uri)
            return
        work: list[tuple[Document, _Path, Json, str]] = [(main, None, main.root, uri)]
        while work:
            document, path, value, base = work.pop()
            if not isinstance(value, dict) or _INDEXED_KEYWORDS[document.draft].isdisjoint(value):
                continue
            if not _IDENTIFIERS.isdisjoint(value):
                pointer = _pointer(path)
                own_document, base = self._index_schema(document, pointer, value, base)
                if own_document is not document:
                    document, path = own_document, None
            for keys, inner in subschemas(value, document.draft):
                work.append((document, (path, keys), inner, base))

    def _index_schema(
        self, document: Document, pointer: str, value: dict[str, Json], base: str
    ) -> tuple[Document, str]:
        """Collect the identifiers of one schema. Returns its document and its base."""
        is_root = not pointer
        outer = document
        if not is_root:
            document, pointer = self._own_document(document, pointer, value, base)
        path, fragment = _identifier(value, document.draft)
        if path:
            outer_base, base = base, join_or_keep(base, path)
            document.bases[pointer] = base
            self._resources.setdefault(base, (document, pointer))
            if document is not outer and not _identifier(value, outer.draft)[0]:
                self._outer_bases.setdefault(base, self._outer_bases.get(outer_base, outer_base))
        if fragment:
            self._anchors.setdefault((base, fragment), (document, pointer))
        self._index_anchors(document, pointer, value, base)
        if value.get("$recursiveAnchor") is True and (path or is_root) and document.draft == "2019-09":
            self._dynamic_anchors.setdefault(base, {})[RECURSIVE] = (document, pointer)
        return document, base

    def _own_document(
        self, document: Document, pointer: str, value: dict[str, Json], base: str
    ) -> tuple[Document, str]:
        """The document and pointer of a schema. A schema that names another dialect becomes an embedded document."""
        location = document.prefix + pointer
        dialect = None if is_only_reference(value, document.draft) else self._read_dialect(value, location)
        if dialect is None or dialect == Dialect(document.draft, document.missing_keywords):
            return document, pointer
        inner = Document(value, dialect.draft, True, location, dialect.missing_keywords, {"": base})
        document.embedded_documents[pointer] = inner
        return inner, ""

    def _index_anchors(self, document: Document, pointer: str, value: dict[str, Json], base: str) -> None:
        for keyword in ("$anchor", "$dynamicAnchor"):
            name = value.get(keyword)
            if isinstance(name, str) and name and keyword in KNOWN_KEYWORDS[document.draft]:
                self._anchors.setdefault((base, name), (document, pointer))
                if keyword == "$dynamicAnchor":
                    self._dynamic_anchors.setdefault(base, {}).setdefault(name, (document, pointer))


def _identifier(value: dict[str, Json], draft: str) -> tuple[str, str]:
    """The URI in a schema's identifier and, before 2019-09, the anchor in it; each is "" if missing."""
    identifier = value.get("id" if draft == "draft4" else "$id")
    if not isinstance(identifier, str) or is_only_reference(value, draft):
        return "", ""
    path, fragment = urldefrag(identifier)
    return path, fragment if draft in BEFORE_2019 else ""
