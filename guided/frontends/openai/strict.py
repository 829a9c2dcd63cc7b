"""Rewrites a JSON Schema for OpenAI's strict mode. In: a schema. Out: the rewritten schema, and remarks that list what
strict mode refuses and what was rewritten.

Strict mode requires an object at the root. All members must be required, and all objects closed. It does not support
`allOf` and lengths of strings (https://platform.openai.com/docs/guides/structured-outputs, "Supported schemas"). A
schema is rewritten if every answer still satisfies the original: optional members become required, objects that declare
their members are closed, `oneOf` of exclusive cases becomes `anyOf`, and a reference with other keywords is replaced
by its target. What cannot be rewritten is kept, and gets a remark. No keyword that constrains values is dropped. So
servers that enforce all of JSON Schema, such as guided's, also accept the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from guided.errors import LimitExceeded, brief
from guided.frontends.json_schema.check import Entry
from guided.frontends.json_schema.documents.source_spans import escape
from guided.frontends.openai.parts import (
    FinitenessTest,
    have_distinct_values,
    is_annotation,
    merge,
    target,
    type_list,
    types_of,
)

__all__ = ["to_strict"]

_Json: TypeAlias = dict[str, Any]

_MEMBERS: Final = "write a list of objects with a key and a value"
_ITEMS: Final = "write an object with a member for each item, or bounds of the length"
_HINTS: Final[Mapping[str, str]] = {
    keyword: hint
    for hint, keywords in (
        ("write a pattern, such as ^.{1,20}$", "minLength maxLength"),
        ("write a pattern", "format"),
        (
            "write out the cases under anyOf",
            "allOf oneOf not if then else dependentRequired dependentSchemas dependencies",
        ),
        (_MEMBERS, "patternProperties propertyNames minProperties maxProperties additionalProperties"),
        (_MEMBERS, "unevaluatedProperties"),
        (_ITEMS, "prefixItems additionalItems unevaluatedItems contains minContains maxContains uniqueItems"),
        ("write #/$defs/NAME", "$id $anchor $dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor"),
    )
    for keyword in keywords.split()
}
_SUPPORTED: Final = frozenset(
    ("type", "enum", "const", "anyOf", "$ref", "$defs", "definitions", "title", "description", "properties", "required",
     "additionalProperties", "items", "pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum",
     "exclusiveMaximum", "minItems", "maxItems")
)  # fmt: skip
_FORMATS: Final = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
_KEPT_ANNOTATIONS: Final = ("title", "description")  # annotations that the model reads
_MAX_DEPTH: Final = 100
_MAX_NODES: Final = 100_000  # subschemas of the result


def to_strict(schema: _Json) -> tuple[_Json, tuple[Entry, ...]]:
    """The schema for strict mode, and the remarks. Their locations refer to the given schema, in which a reference at
    the root is replaced by its target.

    Raises:
        LimitExceeded: it nests too deeply, or becomes too large when references are replaced by their targets.
    """
    writer = _Writer(schema)
    return writer.convert(), tuple(dict.fromkeys(writer.remarks))


class _Writer:
    """Rewrites one schema."""

    def __init__(self, root: _Json) -> None:
        self._root = root
        self.remarks: list[Entry] = []
        self._finite = FinitenessTest(root)
        self._inlining = set[str]()  # references that are being replaced by their targets
        self._count = 0

    def convert(self) -> _Json:
        """The rewritten schema."""
        schema = self._schema(self._root, "", 0)
        if not isinstance(schema, dict) or schema.get("type") != "object":
            has_cases = isinstance(schema, dict) and "anyOf" in schema
            reason = "the root must be an object" + (", not anyOf" if has_cases else "")
            self._refuse("", reason, "make it a member of an object")
        return schema if isinstance(schema, dict) else {}

    def _refuse(self, pointer: str, reason: str, hint: str = "") -> None:
        self.remarks.append(Entry(pointer, pointer.rpartition("/")[2], "refused", reason, hint))

    def _note(self, pointer: str, reason: str, hint: str = "") -> None:
        self.remarks.append(Entry(pointer, pointer.rpartition("/")[2], "note", reason, hint))

    def _schema(self, value: Any, at: str, depth: int) -> Any:
        self._count += 1
        for what, converted, limit in (("depth", depth, _MAX_DEPTH), ("nodes", self._count, _MAX_NODES)):
            if converted > limit:
                raise LimitExceeded(what, converted, limit, fixed=True)
        if not isinstance(value, dict):
            self._refuse(at, f"{brief(value)} declares no type", "write the type of the value")
            return value
        value = self._merge_all_of(value, at)
        reference = value.get("$ref")
        if not isinstance(reference, str) or len(value) == 1:
            return self._convert_object(value, at, depth)
        merged = None if reference in self._inlining else self._inline_target(value, at)
        if merged is None:  # a recursive reference cannot be replaced
            without_annotations = {keyword: inner for keyword, inner in value.items() if not is_annotation(keyword)}
            if len(without_annotations) < len(value):
                self._note(f"{at}/$ref", "a reference must stand alone, so the annotations next to it are omitted")
            return self._convert_object(without_annotations, at, depth)
        self._inlining.add(reference)
        converted = self._schema(merged, at if at == "" else reference[1:], depth + 1)
        self._inlining.discard(reference)
        return converted

    def _convert_object(self, value: _Json, at: str, depth: int) -> _Json:
        out: _Json = {}
        for keyword, inner in value.items():
            self._keyword(keyword, inner, f"{at}/{escape(keyword)}", depth, out)
        self._add_type(out, at)
        if out.get("type") == "object":
            self._close_object(out, at)
        if "array" in type_list(out.get("type")) and "items" not in out:
            self._refuse(f"{at}/items", "an array must declare its items", "write items")
        return out

    def _keyword(self, keyword: str, inner: Any, at: str, depth: int, out: _Json) -> None:
        if keyword in ("properties", "$defs", "definitions") and isinstance(inner, dict):
            each = {name: self._schema(schema, f"{at}/{escape(name)}", depth + 1) for name, schema in inner.items()}
            out[keyword] = each
        elif keyword in ("anyOf", "oneOf") and isinstance(inner, list):
            cases = [self._schema(schema, f"{at}/{number}", depth + 1) for number, schema in enumerate(inner)]
            if keyword == "oneOf" and "anyOf" not in out and self._are_exclusive(inner):
                self._note(at, "its cases exclude each other, so it is written as anyOf")
                keyword = "anyOf"
            elif keyword == "oneOf":
                self._refuse(at, "its cases may overlap", "write anyOf if a value may satisfy several cases")
            out[keyword] = cases
        elif keyword == "items":
            out[keyword] = self._schema(inner, at, depth + 1)
        elif is_annotation(keyword) and keyword not in _KEPT_ANNOTATIONS:
            self._note(at, "this keyword does not constrain the value, so it is omitted")
        else:
            out[keyword] = inner
            self._check(keyword, inner, at)

    def _check(self, keyword: str, inner: Any, at: str) -> None:
        if keyword == "format" and inner not in _FORMATS:
            self._refuse(at, f"the format {brief(inner)} is not supported", _HINTS[keyword])
        elif keyword == "$ref" and not isinstance(target(self._root, inner), dict):
            self._refuse(at, "this reference does not point to a schema in this document", "write #/$defs/NAME")
        elif keyword == "additionalProperties" and inner is not False:
            self._refuse(at, "objects may only have the members that they declare", _HINTS[keyword])
        elif keyword not in _SUPPORTED:
            self._refuse(at, f"{keyword} is not supported", _HINTS.get(keyword, ""))

    def _add_type(self, out: _Json, at: str) -> None:
        """Declare the type of a schema, unless it is a reference or a union."""
        if out.keys() & {"type", "$ref", "anyOf", "oneOf", "allOf", "not", "if"}:
            return
        types = types_of(out)
        if not types and "properties" in out:
            types = ["object"]
            self._note(at, "it declares members but no type, so the type object is added")
        if types:
            out["type"] = types[0] if len(types) == 1 else types
        else:
            self._refuse(at, "any value is allowed", "write the type of the value")

    def _close_object(self, out: _Json, at: str) -> None:
        """Make all members required, and close the object."""
        members, required = out.get("properties"), out.get("required", [])
        if not isinstance(members, dict):
            if "additionalProperties" not in out:
                self._refuse(f"{at}/properties", "an object must declare its members", _MEMBERS)
            members = {}
        elif not out.keys() & {"additionalProperties", "patternProperties", "unevaluatedProperties"}:
            out["additionalProperties"] = False
            self._note(
                f"{at}/additionalProperties", "the object is closed: it may only have the members that it declares"
            )
        names = []
        for name, member in members.items():
            place = f"{at}/properties/{escape(name)}"
            if name in required or self._finite.is_finite(member):
                names.append(name)
            else:
                self._refuse(place, "if this member were required, no value could be finite", "allow null")
            if name not in required and name in names:
                self._note(place, "this optional member becomes required", "allow null to keep it optional")
        for name in required:
            if name not in members:
                self._refuse(f"{at}/required", f"{brief(name)} is required, but not among the properties", "declare it")
                names.append(name)
        out["required"] = names

    def _inline_target(self, value: _Json, at: str) -> _Json | None:
        """A schema in which the reference is replaced by its target. None if this is impossible."""
        rest = {keyword: inner for keyword, inner in value.items() if keyword != "$ref"}
        target_schema = target(self._root, value["$ref"])
        merged = merge(target_schema, rest) if isinstance(target_schema, dict) else None
        if merged is None and not all(map(is_annotation, rest)):
            self._refuse(f"{at}/$ref", "a reference must stand alone", "write out its target")
        return merged

    def _merge_all_of(self, value: _Json, at: str) -> _Json:
        """A schema without `allOf`, if its parts do not constrain the same thing."""
        parts = value.get("allOf")
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            return value
        merged: _Json | None = {keyword: inner for keyword, inner in value.items() if keyword != "allOf"}
        for part in parts:
            merged = None if merged is None else merge(part, merged)
        if merged is None:
            return value  # the keyword is refused
        self._note(f"{at}/allOf", "its parts constrain different things, so they are merged into one schema")
        return merged

    def _are_exclusive(self, cases: list[Any]) -> bool:
        """Whether no value satisfies two of the cases."""
        resolved = [
            target(self._root, each["$ref"]) if isinstance(each, dict) and "$ref" in each else each for each in cases
        ]
        if not all(isinstance(case, dict) for case in resolved):
            return False
        types = [{"number" if each == "integer" else each for each in types_of(case)} for case in resolved]
        if have_distinct_values(resolved):
            return True
        if all(types) and sum(map(len, types)) == len(set().union(*types)):
            return True
        if any(each != {"object"} for each in types):
            return False
        common = set.intersection(
            *(set(case.get("properties", {})) & set(case.get("required", ())) for case in resolved)
        )
        return any(have_distinct_values([case["properties"][name] for case in resolved]) for name in common)
