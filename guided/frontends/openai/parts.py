"""Helpers of strict.py: references with finite values, conjunctions of two schemas, and disjoint schemas.

In: schemas as dicts. Out: schemas and answers. An answer is True only if that is certain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from guided.frontends.json_schema.documents.keywords import CONSTRAINING_KEYWORDS
from guided.frontends.json_schema.documents.source_spans import escape, reference_target

__all__ = [
    "FinitenessTest",
    "as_type_list",
    "have_distinct_values",
    "is_annotation",
    "merge",
    "schemas_in",
    "types_of",
]

_JsonObject: TypeAlias = dict[str, Any]

_TYPE_NAMES: Final = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    list: "array",
}
_SCHEMA_MAP_KEYWORDS: Final = ("properties", "$defs", "definitions")
_IDENTIFIER_KEYWORDS: Final = ("$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor")  # targets of references
_DEPENDENT_KEYWORDS: Final = (
    ("properties", "patternProperties", "additionalProperties"),
    ("prefixItems", "items", "additionalItems"),
    ("contains", "minContains", "maxContains"),
    ("if", "then", "else"),
)
"""Groups of keywords of which one depends on others in the same schema."""
_IN_PLACE_KEYWORDS: Final = (
    "$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas",
)  # fmt: skip
_UNEVALUATED_KEYWORDS: Final = {
    "unevaluatedProperties": (*_IN_PLACE_KEYWORDS, "properties", "patternProperties", "additionalProperties"),
    "unevaluatedItems": (*_IN_PLACE_KEYWORDS, "prefixItems", "items", "additionalItems", "contains"),
}
"""Unevaluated... keyword -> the keywords in the same schema on whose results it depends."""
_SCHEMA_LIST_KEYWORDS: Final = ("anyOf", "oneOf", "prefixItems")


class FinitenessTest:
    """Determines which schemas have a finite value if all members are required.

    Attributes:
        finite_references: the references whose targets have a finite value, computed as a least fixpoint.
    """

    def __init__(self, root: _JsonObject) -> None:
        self.finite_references = set[str]()
        targets = {each["$ref"]: reference_target(root, each["$ref"]) for each in _references(root)}
        users: dict[str, list[str]] = {}  # for each reference, the references whose targets contain it
        for reference, target in targets.items():
            for inner in _references(target):
                users.setdefault(inner["$ref"], []).append(reference)
        work = [*targets]
        while work:
            reference = work.pop()
            if reference not in self.finite_references and self.is_finite(targets[reference]):
                self.finite_references.add(reference)
                work += users.get(reference, ())

    def is_finite(self, value: Any) -> bool:
        """Whether a schema has a finite value. A schema with members but no type is an object, as in the result."""
        if not isinstance(value, dict):
            return True
        if isinstance(reference := value.get("$ref"), str) and reference not in self.finite_references:
            return False
        for keyword in ("anyOf", "oneOf"):
            if isinstance(cases := value.get(keyword), list) and not any(map(self.is_finite, cases)):
                return False
        if isinstance(parts := value.get("allOf"), list) and not all(map(self.is_finite, parts)):
            return False
        members = value.get("properties")
        if isinstance(members, dict) and types_of(value) in ([], ["object"]):
            return all(map(self.is_finite, members.values()))
        return not value.get("minItems") or self.is_finite(value.get("items"))


def schemas_in(value: _JsonObject) -> Iterator[tuple[str, Any]]:
    """The schemas in the keywords that strict mode supports, each with a JSON Pointer relative to this schema."""
    for keyword in _SCHEMA_MAP_KEYWORDS:
        if isinstance(inner := value.get(keyword), dict):
            yield from ((f"/{keyword}/{escape(name)}", each) for name, each in inner.items())
    for keyword in _SCHEMA_LIST_KEYWORDS:
        if isinstance(inner := value.get(keyword), list):
            yield from ((f"/{keyword}/{number}", each) for number, each in enumerate(inner))
    if "items" in value:
        yield "/items", value["items"]


def is_annotation(keyword: str) -> bool:
    """Whether a keyword is an annotation. Definitions are not, since references use them as constraints."""
    return keyword not in CONSTRAINING_KEYWORDS and keyword not in ("$defs", "definitions", *_IDENTIFIER_KEYWORDS)


def _references(root: Any) -> Iterator[_JsonObject]:
    work: list[Any] = [root]
    while work:
        if isinstance(value := work.pop(), dict):
            if isinstance(value.get("$ref"), str):
                yield value
            work += [each for _, each in schemas_in(value)]
            work += parts if isinstance(parts := value.get("allOf"), list) else []


def merge(part: _JsonObject, rest: _JsonObject) -> _JsonObject | None:
    """One schema for two that both apply; None if merging might change their meaning. Annotations of `rest` win."""
    if any(part[each] != rest[each] for each in part.keys() & rest.keys() if not is_annotation(each)):
        return None
    for group in [*_DEPENDENT_KEYWORDS, *_dependent_groups(part), *_dependent_groups(rest)]:
        first, second = ({each: schema[each] for each in group if each in schema} for schema in (part, rest))
        if first and second and first != second:
            return None
    return {**part, **rest}


def _dependent_groups(schema: _JsonObject) -> Iterator[tuple[str, ...]]:
    """The groups that matter only if the schema has a certain keyword: `unevaluatedItems`, `unevaluatedProperties`, or
    draft 4's boolean `exclusiveMinimum` or `exclusiveMaximum`.
    """
    for keyword, others in _UNEVALUATED_KEYWORDS.items():
        if keyword in schema:
            yield (keyword, *others)
    for bound in ("minimum", "maximum"):
        exclusive_bound = f"exclusive{bound.title()}"
        if isinstance(schema.get(exclusive_bound), bool):  # draft 4
            yield bound, exclusive_bound


def have_distinct_values(schemas: list[Any]) -> bool:
    """Whether no two of these schemas allow the same value. True only if all of them list strings, which all differ."""
    strings = list[str]()
    for schema in schemas:
        values = [schema["const"]] if isinstance(schema, dict) and "const" in schema else None
        values = schema.get("enum") if values is None and isinstance(schema, dict) else values
        if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
            return False
        strings += values
    return len(strings) == len(set(strings))


def as_type_list(types: Any) -> list[Any]:
    """The value of `type`, as a list."""
    return types if isinstance(types, list) else [] if types is None else [types]


def types_of(schema: _JsonObject) -> list[str]:
    """The types that a schema declares, or the types of its listed values. Empty if unknown."""
    if "type" in schema:
        return as_type_list(schema["type"])
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return (
        list(dict.fromkeys(_TYPE_NAMES.get(type(each), "object") for each in values))
        if isinstance(values, list)
        else []
    )
