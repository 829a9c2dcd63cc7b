"""Rewrites a JSON Schema for OpenAI's strict mode. In: a schema. Out: the rewritten schema, and remarks that list what
strict mode refuses and what was rewritten.

Strict mode requires an object at the root. All members must be required, and all objects closed. It does not support
`allOf` or string lengths (https://platform.openai.com/docs/guides/structured-outputs, "Supported schemas"). A
schema is rewritten if every answer still satisfies the original: optional members become required, objects that declare
their members are closed, `oneOf` of exclusive cases becomes `anyOf`, and a reference with other keywords is replaced
by its target. Anything else is kept, and gets a remark. No keyword that constrains values is dropped. So servers
that enforce all of JSON Schema, such as guided's, also accept the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from guided.errors import LimitExceeded, brief
from guided.frontends.json_schema.check import Entry
from guided.frontends.json_schema.documents.source_spans import escape, reference_target
from guided.frontends.openai.parts import (
    FinitenessTest,
    as_type_list,
    have_distinct_values,
    is_annotation,
    merge,
    types_of,
)

__all__ = ["to_strict"]

_JsonObject: TypeAlias = dict[str, Any]

_MEMBERS_HINT: Final = "write a list of objects with a key and a value"
_ITEMS_HINT: Final = "write an object with a member for each item, or bounds of the length"
_REFERENCE_HINT: Final = "write #/$defs/NAME"
_HINTS: Final[Mapping[str, str]] = {
    keyword: hint
    for hint, keywords in (
        ("write a pattern, such as ^.{1,20}$", "minLength maxLength"),
        ("write a pattern", "format"),
        (
            "write out the cases under anyOf",
            "allOf oneOf not if then else dependentRequired dependentSchemas dependencies",
        ),
        (_MEMBERS_HINT, "patternProperties propertyNames minProperties maxProperties additionalProperties"),
        (_MEMBERS_HINT, "unevaluatedProperties"),
        (_ITEMS_HINT, "prefixItems additionalItems unevaluatedItems contains minContains maxContains uniqueItems"),
        (_REFERENCE_HINT, "$id $anchor $dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor"),
    )
    for keyword in keywords.split()
}
_SUPPORTED_KEYWORDS: Final = frozenset(
    ("type", "enum", "const", "anyOf", "$ref", "$defs", "definitions", "title", "description", "properties", "required",
     "additionalProperties", "items", "pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum",
     "exclusiveMaximum", "minItems", "maxItems")
)  # fmt: skip
_SUPPORTED_FORMATS: Final = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
_KEPT_ANNOTATIONS: Final = ("title", "description")  # annotations that the model reads
_MAX_DEPTH: Final = 100
_MAX_NODES: Final = 100_000  # subschemas of the result


def to_strict(schema: _JsonObject) -> tuple[_JsonObject, tuple[Entry, ...]]:
    """The schema for strict mode, and the remarks. Their locations refer to the given schema, in which a reference at
    the root is replaced by its target.

    Raises:
        LimitExceeded: it nests too deeply, or becomes too large when references are replaced by their targets.
    """
    writer = _Writer(schema)
    return writer.convert(), tuple(dict.fromkeys(writer.remarks))


class _Writer:
    """Rewrites one schema."""

    def __init__(self, root: _JsonObject) -> None:
        self._root = root
        self.remarks: list[Entry] = []
        self._finiteness = FinitenessTest(root)
        self._kept_references: list[tuple[str, str]] = []  # (location in the result, reference)
        self._open_references = set[str]()  # references that are being replaced by their targets
        self._count = 0

    def convert(self) -> _JsonObject:
        """The rewritten schema."""
        schema = self._convert_schema(self._root, "", 0)
        for pointer, reference in self._kept_references:
            if not isinstance(reference_target(schema, reference), dict):
                self._add_refusal(pointer, "its target is rewritten, and no longer at this location", _REFERENCE_HINT)
        if not isinstance(schema, dict) or schema.get("type") != "object":
            has_cases = isinstance(schema, dict) and "anyOf" in schema
            reason = "the root must be an object" + (", not anyOf" if has_cases else "")
            self._add_refusal("", reason, "make it a member of an object")
        return schema if isinstance(schema, dict) else {}

    def _add_refusal(self, pointer: str, reason: str, hint: str = "") -> None:
        self.remarks.append(Entry(pointer, pointer.rpartition("/")[2], "refused", reason, hint))

    def _add_note(self, pointer: str, reason: str, hint: str = "") -> None:
        self.remarks.append(Entry(pointer, pointer.rpartition("/")[2], "note", reason, hint))

    def _convert_schema(self, value: Any, pointer: str, depth: int) -> Any:
        self._count += 1
        for what, count, limit in (("depth", depth, _MAX_DEPTH), ("nodes", self._count, _MAX_NODES)):
            if count > limit:
                raise LimitExceeded(what, count, limit, fixed=True)
        if not isinstance(value, dict):
            self._add_refusal(pointer, f"{brief(value)} declares no type", "write the type of the value")
            return value
        value = self._merge_all_of(value, pointer)
        reference = value.get("$ref")
        if not isinstance(reference, str) or len(value) == 1:
            return self._convert_object(value, pointer, depth)
        merged_schema = None if reference in self._open_references else self._inline_target(value, pointer)
        if merged_schema is None:  # the reference is recursive, or the keywords next to it cannot be merged
            without_annotations = {keyword: inner for keyword, inner in value.items() if not is_annotation(keyword)}
            if len(without_annotations) < len(value):
                self._add_note(
                    f"{pointer}/$ref", "a reference must stand alone, so the annotations next to it are omitted"
                )
            return self._convert_object(without_annotations, pointer, depth)
        self._open_references.add(reference)
        converted_schema = self._convert_schema(merged_schema, pointer if pointer == "" else reference[1:], depth + 1)
        self._open_references.discard(reference)
        return converted_schema

    def _convert_object(self, value: _JsonObject, pointer: str, depth: int) -> _JsonObject:
        out: _JsonObject = {}
        for keyword, inner in value.items():
            self._convert_keyword(keyword, inner, f"{pointer}/{escape(keyword)}", depth, out)
        self._add_type(out, pointer)
        if "object" in as_type_list(out.get("type")):
            self._close_object(out, pointer)
        if "array" in as_type_list(out.get("type")) and "items" not in out:
            self._add_refusal(f"{pointer}/items", "an array must declare its items", "write items")
        return out

    def _convert_keyword(self, keyword: str, inner: Any, pointer: str, depth: int, out: _JsonObject) -> None:
        if keyword in ("properties", "$defs", "definitions") and isinstance(inner, dict):
            schemas = {
                name: self._convert_schema(schema, f"{pointer}/{escape(name)}", depth + 1)
                for name, schema in inner.items()
            }
            out[keyword] = schemas
        elif keyword == "oneOf" and isinstance(inner, list) and ("anyOf" in out or not self._are_exclusive(inner)):
            self._add_refusal(pointer, "its cases may overlap", "write anyOf if a value may satisfy several cases")
            out[keyword] = inner  # with narrower cases, more values could satisfy exactly one
        elif keyword in ("anyOf", "oneOf") and isinstance(inner, list):
            if keyword == "oneOf":
                self._add_note(pointer, "its cases exclude each other, so it is written as anyOf")
            out["anyOf"] = [
                self._convert_schema(schema, f"{pointer}/{number}", depth + 1) for number, schema in enumerate(inner)
            ]
        elif keyword == "items":
            out[keyword] = self._convert_schema(inner, pointer, depth + 1)
        elif is_annotation(keyword) and keyword not in _KEPT_ANNOTATIONS:
            self._add_note(pointer, "this keyword does not constrain the value, so it is omitted")
        else:
            out[keyword] = inner
            self._check_keyword(keyword, inner, pointer)

    def _check_keyword(self, keyword: str, inner: Any, pointer: str) -> None:
        if keyword == "format" and inner not in _SUPPORTED_FORMATS:
            self._add_refusal(pointer, f"the format {brief(inner)} is not supported", _HINTS[keyword])
        elif keyword == "$ref":
            if isinstance(reference_target(self._root, inner), dict):
                self._kept_references.append((pointer, inner))
            else:
                reason = "this reference does not point to a schema in this document"
                self._add_refusal(pointer, reason, _REFERENCE_HINT)
        elif keyword == "additionalProperties" and inner is not False:
            self._add_refusal(pointer, "objects may only have the members that they declare", _HINTS[keyword])
        elif keyword not in _SUPPORTED_KEYWORDS:
            self._add_refusal(pointer, f"{keyword} is not supported", _HINTS.get(keyword, ""))

    def _add_type(self, out: _JsonObject, pointer: str) -> None:
        """Declare the type of a schema, unless it is a reference or a union."""
        if out.keys() & {"type", "$ref", "anyOf", "oneOf", "allOf", "not", "if"}:
            return
        types = types_of(out)
        if not types and "properties" in out:
            types = ["object"]
            self._add_note(pointer, "it declares members but no type, so the type object is added")
        if types:
            out["type"] = types[0] if len(types) == 1 else types
        else:
            self._add_refusal(pointer, "any value is allowed", "write the type of the value")

    def _close_object(self, out: _JsonObject, pointer: str) -> None:
        """Make all members required, and close the object."""
        members, required = out.get("properties"), out.get("required", [])
        if not isinstance(members, dict):
            if "additionalProperties" not in out:
                self._add_refusal(f"{pointer}/properties", "an object must declare its members", _MEMBERS_HINT)
            members = {}
        elif not out.keys() & {"additionalProperties", "patternProperties", "unevaluatedProperties"}:
            out["additionalProperties"] = False
            self._add_note(
                f"{pointer}/additionalProperties", "the object is closed: it may only have the members that it declares"
            )
        names = []
        for name, member in members.items():
            member_pointer = f"{pointer}/properties/{escape(name)}"
            if name in required or self._finiteness.is_finite(member):
                names.append(name)
            else:
                self._add_refusal(
                    member_pointer, "if this member were required, no value could be finite", "allow null"
                )
            if name not in required and name in names:
                self._add_note(
                    member_pointer, "this optional member becomes required", "allow null to keep it optional"
                )
        for name in required:
            if name not in members:
                self._add_refusal(
                    f"{pointer}/required", f"{brief(name)} is required, but not among the properties", "declare it"
                )
                names.append(name)
        out["required"] = names

    def _inline_target(self, value: _JsonObject, pointer: str) -> _JsonObject | None:
        """A schema in which the reference is replaced by its target. None if this is impossible."""
        other_keywords = {keyword: inner for keyword, inner in value.items() if keyword != "$ref"}
        target_schema = reference_target(self._root, value["$ref"])
        merged_schema = merge(target_schema, other_keywords) if isinstance(target_schema, dict) else None
        if merged_schema is None and not all(map(is_annotation, other_keywords)):
            self._add_refusal(f"{pointer}/$ref", "a reference must stand alone", "write out its target")
        return merged_schema

    def _merge_all_of(self, value: _JsonObject, pointer: str) -> _JsonObject:
        """The schema with its `allOf` merged into it if the parts constrain different things, otherwise unchanged."""
        parts = value.get("allOf")
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            return value
        merged_schema: _JsonObject | None = {keyword: inner for keyword, inner in value.items() if keyword != "allOf"}
        for part in parts:
            merged_schema = None if merged_schema is None else merge(part, merged_schema)
        if merged_schema is None:
            return value  # the keyword is refused
        self._add_note(f"{pointer}/allOf", "its parts constrain different things, so they are merged into one schema")
        return merged_schema

    def _are_exclusive(self, cases: list[Any]) -> bool:
        """Whether no value satisfies two of the cases."""
        resolved_cases = [
            reference_target(self._root, each["$ref"]) if isinstance(each, dict) and "$ref" in each else each
            for each in cases
        ]
        if not all(isinstance(case, dict) for case in resolved_cases):
            return False
        types = [{"number" if each == "integer" else each for each in types_of(case)} for case in resolved_cases]
        if have_distinct_values(resolved_cases):
            return True
        if all(types) and sum(map(len, types)) == len(set().union(*types)):
            return True
        if any(each != {"object"} for each in types):
            return False
        common_names = set.intersection(
            *(set(case.get("properties", {})) & set(case.get("required", ())) for case in resolved_cases)
        )
        return any(have_distinct_values([case["properties"][name] for case in resolved_cases]) for name in common_names)
