"""Finds schemas with equal content. In: a schema. Out: the schema with the same content that was looked up first.

Why: definitions are copied. One member often has the same schema in each of many alternatives, at many locations.
Comparisons of alternatives recognise schemas as equal only if they are the same object, so copies are replaced by one
representative. Two schemas are equal if they have the same keywords in the same order, annotations aside, and resolve
references alike: the same document, base and dynamic scope. A schema with its own identifier equals no other schema.

How: content is numbered from the inside out (hash consing), each value of a document once. A schema is only numbered
if another one has the same signature (keywords and names), since most signatures occur once. Cost: linear in the
documents.

Schemas of scalars mean the same at every location, so their keywords identify them (`leaf_content`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TypeAlias

from guided.frontends.json_schema.documents.dynamic_scope import Scope
from guided.frontends.json_schema.documents.keywords import (
    CONSTRAINING_KEYWORDS,
    KEYWORDS,
    SUBSCHEMA_FORMS,
    SubschemaForm,
)
from guided.frontends.json_schema.documents.schema import Document, Schema
from guided.frontends.json_schema.documents.values import Json
from guided.ir.serial import ByIdentity

__all__ = ["EqualSchemas", "leaf_content"]

_SCALAR_TYPES = frozenset(("null", "boolean", "integer", "number", "string"))
_LEAF_KEYWORDS = frozenset(
    ("type", "enum", "const", "format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum",
     "exclusiveMaximum", "multipleOf")
)  # fmt: skip
"""Keywords that mean the same at every location."""
_MAX_VALUES = 64  # longer enumerations are rarely repeated
_SCHEMA, _SCHEMAS, _DATA = "schema", "schemas", "data"
_COMPARED_KEYWORDS = CONSTRAINING_KEYWORDS | {name for name in KEYWORDS if name.startswith("content")}
_IDENTIFIERS = frozenset(("id", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$schema"))
_MAP_FORMS = (SubschemaForm.MAP, SubschemaForm.MAP_OF_SCHEMAS_OR_NAMES)
_LIST_FORMS = (SubschemaForm.LIST, SubschemaForm.SCHEMA_OR_LIST)

_Signature: TypeAlias = tuple[Document, str, Scope, tuple[str, ...], tuple[str, ...], str]
"""Properties that equal schemas share, but other schemas rarely share: document, base, scope, keywords, names, type."""


class EqualSchemas:
    """Compares the schemas of one compilation."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self._container_numbers: dict[tuple[str, str], ByIdentity[Json, int]] = defaultdict(ByIdentity)
        self._first_schemas: dict[_Signature, Schema | None] = {}
        self._representatives: dict[tuple[_Signature, int], Schema] = {}
        self._representatives_by_schema: dict[Schema, Schema] = {}

    def representative(self, schema: Schema) -> Schema:
        """The schema with the same content that was looked up first."""
        first = self._representatives_by_schema.get(schema)
        if first is None:
            first = self._find_representative(schema, schema.value) if type(schema) is Schema else schema
            self._representatives_by_schema[schema] = first
        return first

    def _find_representative(self, schema: Schema, value: Json) -> Schema:
        if not isinstance(value, dict):
            return schema
        properties, kind = value.get("properties"), value.get("type")
        names = tuple(properties) if isinstance(properties, dict) else ()
        signature = (
            schema.document,
            schema.base,
            schema.scope,
            schema.constraints,
            names,
            kind if isinstance(kind, str) else "",
        )
        if signature not in self._first_schemas:
            self._first_schemas[signature] = schema
            return schema
        first = self._first_schemas[signature]
        if first is not None:  # the first schema with this signature has no number yet
            self._first_schemas[signature] = None
            self._representatives[signature, self._number_schema(first)] = first
        return self._representatives.setdefault((signature, self._number_schema(schema)), schema)

    def _number_schema(self, schema: Schema) -> int:
        root, draft = schema.value, schema.document.draft
        stack: list[tuple[Json, str]] = [(root, _SCHEMA)]
        while stack:
            value, kind = stack[-1]
            missing: list[tuple[Json, str]] = []
            content: list[tuple[str, int | None]] = []
            for name, part, part_kind in _parts(value, kind, draft):
                number = self._number_of(part, part_kind, draft)
                if number is None:
                    missing.append((part, part_kind))
                content.append((name, number))
            if missing:
                stack += missing
                continue
            stack.pop()
            has_identifier = kind == _SCHEMA and isinstance(value, dict) and not _IDENTIFIERS.isdisjoint(value)
            key = (kind, type(value), len(self._numbers) if has_identifier else tuple(content))
            self._container_numbers[kind, draft][value] = self._numbers.setdefault(key, len(self._numbers))
        return self._container_numbers[_SCHEMA, draft][root]

    def _number_of(self, value: Json, kind: str, draft: str) -> int | None:
        """The number of a value. None for a container that has no number yet."""
        if isinstance(value, dict | list):
            return self._container_numbers[kind, draft].get(value)
        return self._numbers.setdefault((type(value), value), len(self._numbers))


def _parts(value: Json, kind: str, draft: str) -> Iterator[tuple[str, Json, str]]:
    """The relevant parts of an object or array: (name, value, whether it is a schema, schemas or data)."""
    if isinstance(value, list):
        for item in value:
            yield "", item, _SCHEMA if kind == _SCHEMAS else _DATA
    elif isinstance(value, dict):
        for name, item in value.items():
            if kind != _SCHEMA:
                yield name, item, _SCHEMA if kind == _SCHEMAS else _DATA
            elif name in _COMPARED_KEYWORDS:
                form = SUBSCHEMA_FORMS[draft].get(name, SubschemaForm.NOTHING)
                has_several = form in _MAP_FORMS if isinstance(item, dict) else form in _LIST_FORMS
                yield name, item, _SCHEMAS if has_several else _DATA if form is SubschemaForm.NOTHING else _SCHEMA


def leaf_content(schema: Schema) -> tuple[object, ...] | None:
    """The content of a schema for scalars of one type, if all of its keywords are in `_LEAF_KEYWORDS`, else None."""
    value, keywords = schema.value, schema.constraints
    if not isinstance(value, dict) or schema.document.missing_keywords or not _LEAF_KEYWORDS.issuperset(keywords):
        return None
    name = value.get("type")
    if not isinstance(name, str) or name not in _SCALAR_TYPES:
        return None
    if len(keywords) == 1:  # the usual case: the result of the loop below
        return (schema.document.draft, "type", str, 1, str, name)
    description: list[object] = [schema.document.draft]  # drafts disagree on what an integer is
    for keyword in keywords:
        content = value[keyword]
        items = content if isinstance(content, list) else (content,)
        description += (keyword, type(content), len(items))
        for item in items[: _MAX_VALUES + 1]:
            if isinstance(item, dict | list) or len(items) > _MAX_VALUES:
                return None
            description += (type(item), item)
    return tuple(description)
