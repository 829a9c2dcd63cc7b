"""Constructs of JSON Schema: each keyword, scaled in each number and list that it contains, and pairs of keywords.

Out: `SCHEMAS`, and `pairs()`, which puts every two keywords into one schema. `FRAGMENTS` scale the keywords; their
values merge into one schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Any, Final

from benchmarks.bad_inputs.construct import Construct, largest

__all__ = ["FRAGMENTS", "SCHEMAS", "pairs"]

_Schema = dict[str, Any]
_INTEGER: Final = {"type": "integer"}
_ANY_ORDER: Final = {"property_order": "any"}


def _names(n: int, begin: str = "p") -> list[str]:
    return [f"{begin}{i}" for i in range(n)]


def _each(n: int, make: Callable[[int], Any]) -> list[Any]:
    return [make(i) for i in range(n)]


def _properties(n: int, schema: Any = _INTEGER, begin: str = "p") -> _Schema:
    return dict.fromkeys(_names(n, begin), schema)


def _required(i: int) -> _Schema:
    return {"properties": {f"p{i}": {"const": i}}, "required": [f"p{i}"]}


def _nested(n: int, around: Callable[[Any], _Schema], inner: Any) -> _Schema:
    for _ in range(n):
        inner = around(inner)
    return inner  # type: ignore[no-any-return]


def _chain(n: int, link: Callable[[str], Any], last: Any) -> _Schema:
    """A chain of references."""
    links = {f"d{i}": link(f"#/$defs/d{i + 1}") for i in range(n)}
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{n}": last}}


def _of_kind(i: int) -> _Schema:
    """An alternative that a required constant distinguishes."""
    return {
        "type": "object",
        "properties": {"kind": {"const": f"k{i}"}, f"v{i}": _INTEGER},
        "required": ["kind", f"v{i}"],
    }


def _condition(i: int) -> _Schema:
    return {"if": {"properties": {"kind": {"const": i}}, "required": ["kind"]}, "then": {"required": [f"p{i}"]}}


def _other_condition(i: int) -> _Schema:
    return {"if": {"required": [f"p{i}"]}, "then": {"required": [f"q{i}"]}, "else": {"required": [f"r{i}"]}}


FRAGMENTS: Final[Mapping[str, Callable[[int], _Schema]]] = {
    "enum of numbers": lambda n: {"enum": list(range(n))},
    "enum of texts": lambda n: {"enum": _names(n)},
    "enum of objects": lambda n: {"enum": [{"a": i, "b": [i]} for i in range(n)]},
    "const text": lambda n: {"const": "x" * n},
    "const array": lambda n: {"const": list(range(n))},
    "const object": lambda n: {"const": dict(zip(_names(n), range(n), strict=True))},
    "pattern alternatives": lambda n: {"type": "string", "pattern": f"^({'|'.join(_names(n))})$"},
    "pattern count": lambda n: {"type": "string", "pattern": f"^[a-z]{{{n}}}$"},
    "pattern search": lambda n: {"type": "string", "pattern": f"a.{{{n}}}b"},
    "minLength": lambda n: {"type": "string", "minLength": n},
    "maxLength": lambda n: {"type": "string", "maxLength": n},
    "minimum": lambda n: {"type": "integer", "minimum": 10 ** min(n, 4000)},
    "maximum": lambda n: {"type": "number", "maximum": 10 ** min(n, 4000)},
    "exclusiveMinimum digits": lambda n: {"type": "number", "exclusiveMinimum": 10.0 ** -min(n, 300)},
    "exclusiveMaximum": lambda n: {"type": "integer", "exclusiveMaximum": -(10 ** min(n, 4000))},
    "multipleOf": lambda n: {"type": "integer", "multipleOf": n},
    "minItems": lambda n: {"type": "array", "minItems": n},
    "maxItems": lambda n: {"type": "array", "maxItems": n},
    "uniqueItems": lambda n: {"type": "array", "uniqueItems": True, "minItems": n},
    "items": lambda n: {"type": "array", "items": {"enum": list(range(n))}},
    "prefixItems": lambda n: {"type": "array", "prefixItems": _each(n, lambda i: {"const": i})},
    "contains": lambda n: {"type": "array", "contains": {"const": 1}, "minContains": n},
    "maxContains": lambda n: {"type": "array", "contains": {"const": 1}, "maxContains": n},
    "unevaluatedItems": lambda n: {"type": "array", "unevaluatedItems": {"enum": list(range(n))}},
    "minProperties": lambda n: {"type": "object", "minProperties": n},
    "maxProperties": lambda n: {"type": "object", "maxProperties": n},
    "properties": lambda n: {"type": "object", "properties": _properties(n)},
    "required": lambda n: {"type": "object", "required": _names(n)},
    "patternProperties": lambda n: {"type": "object", "patternProperties": _properties(n, begin="^p")},
    "additionalProperties": lambda n: {"type": "object", "additionalProperties": {"enum": list(range(n))}},
    "propertyNames": lambda n: {"type": "object", "propertyNames": {"enum": _names(n)}},
    "propertyNames length": lambda n: {"type": "object", "propertyNames": {"minLength": n}},
    "dependentRequired": lambda n: {"type": "object", "dependentRequired": {f"p{i}": [f"q{i}"] for i in range(n)}},
    "dependentSchemas": lambda n: {"type": "object", "dependentSchemas": {f"p{i}": _required(i + 1) for i in range(n)}},
    "unevaluatedProperties": lambda n: {"type": "object", "unevaluatedProperties": {"enum": list(range(n))}},
    "anyOf": lambda n: {"anyOf": _each(n, _required)},
    "oneOf": lambda n: {"oneOf": _each(n, _of_kind)},
    "allOf": lambda n: {"allOf": _each(n, lambda i: {"properties": {f"p{i}": _INTEGER}})},
    "allOf of anyOf": lambda n: {"allOf": _each(n, lambda i: {"anyOf": [_required(2 * i), _required(2 * i + 1)]})},
    "not": lambda n: {"not": {"enum": list(range(n))}},
    "if": lambda n: {"if": {"required": _names(n)}, "then": {"minProperties": 1}, "else": {"required": ["a"]}},
    "format": lambda n: {"type": "string", "format": "date-time", "maxLength": n},
    "ref": lambda n: {"$ref": "#/$defs/d", "$defs": {"d": {"type": ["object", "array"], "maxProperties": n}}},
}
"""Keyword -> n -> a schema with it. Any two of different members can stand in one schema."""

_ALONE: Final[Mapping[str, Callable[[int], Any]]] = {
    "x-guided-quote": lambda n: {"type": "string", "x-guided-quote": {"documents": {"d": "ab " * n}}},
    "x-guided-python-pattern": lambda n: {"type": "string", "x-guided-python-pattern": f"(?i:[a-z]{{{n}}})"},
    "minProperties closed": lambda n: {"type": "object", "minProperties": n, "propertyNames": {"pattern": "^[a-z]+$"}},
    "minProperties among properties": lambda n: {
        "type": "object",
        "properties": _properties(n),
        "minProperties": n // 2,
        "additionalProperties": False,
    },
    "patternProperties overlapping": lambda n: {
        "patternProperties": {f"a.*{chr(97 + i % 26)}{i}": {"minimum": i} for i in range(n)},
    },
    "pattern nested counts": lambda n: {"pattern": f"^{'(' * n}a{'){1,9}' * n}$"},
    "items nested": lambda n: _nested(n, lambda inner: {"type": "array", "items": inner, "minItems": 1}, {}),
    "items nested counts": lambda n: _nested(
        n, lambda inner: {"items": inner, "minItems": 9, "type": "array"}, _INTEGER
    ),
    "items nested unique": lambda n: _nested(
        n, lambda inner: {"items": inner, "minItems": 2, "uniqueItems": True, "type": "array"}, {"type": "boolean"}
    ),
    "properties nested": lambda n: _nested(
        n, lambda inner: {"type": "object", "properties": {"a": inner, "b": _INTEGER}, "required": ["a"]}, {}
    ),
    "minProperties nested": lambda n: _nested(
        n, lambda inner: {"type": "object", "additionalProperties": inner, "minProperties": 3}, _INTEGER
    ),
    "not nested": lambda n: _nested(n, lambda inner: {"not": inner}, {"type": "string"}),
    "not nested in properties": lambda n: _nested(n, lambda inner: {"not": {"properties": {"a": inner}}}, _INTEGER),
    "anyOf nested": lambda n: (
        _nested(n, lambda inner: {"anyOf": [inner, {"type": "array", "items": inner}]}, _INTEGER)
        if n < 12
        else _nested(n, lambda inner: {"anyOf": [inner, {"type": "null"}]}, _INTEGER)
    ),
    "oneOf nested": lambda n: _nested(n, lambda inner: {"oneOf": [inner, {"minimum": n}]}, _INTEGER),
    "if nested": lambda n: _nested(n, lambda inner: {"if": {"required": ["a"]}, "then": inner}, {"required": ["b"]}),
    "anyOf of prefixItems, contains, unevaluatedItems": lambda n: {
        "type": "array",
        "anyOf": _each(n, lambda i: {"prefixItems": [{"const": i}, {"type": "string"}]}),
        "contains": {"const": 1},
        "unevaluatedItems": False,
    },
    "anyOf of contains, unevaluatedItems": lambda n: {
        "type": "array",
        "anyOf": _each(n, lambda i: {"contains": {"const": i}}),
        "unevaluatedItems": False,
    },
    "allOf of contains": lambda n: {"type": "array", "allOf": _each(n, lambda i: {"contains": {"const": i}})},
    "anyOf of properties, unevaluatedProperties": lambda n: {
        "type": "object",
        "anyOf": _each(n, _required),
        "unevaluatedProperties": False,
    },
    "allOf of if, unevaluatedProperties": lambda n: {
        "type": "object",
        "allOf": _each(n, _other_condition),
        "unevaluatedProperties": False,
    },
    "dependentSchemas, unevaluatedProperties": lambda n: (
        FRAGMENTS["dependentSchemas"](n) | {"unevaluatedProperties": False}
    ),
    "anyOf of types": lambda n: {
        "anyOf": _each(n, lambda i: {"type": ["string", "integer"], "maximum": i, "maxLength": i})
    },
    "anyOf of patterns": lambda n: {"anyOf": _each(n, lambda i: {"type": "string", "pattern": f"a{i}b"})},
    "allOf of patterns": lambda n: {"type": "string", "allOf": _each(n, lambda i: {"pattern": f"a{i}b"})},
    "allOf of not pattern": lambda n: {"type": "string", "allOf": _each(n, lambda i: {"not": {"pattern": f"a{i}b"}})},
    "allOf of multipleOf": lambda n: {"type": "integer", "allOf": _each(n, lambda i: {"multipleOf": i + 2})},
    "allOf of not multipleOf": lambda n: {
        "type": "integer",
        "allOf": _each(n, lambda i: {"not": {"multipleOf": i + 2}}),
    },
    "allOf of oneOf": lambda n: {"allOf": _each(n, lambda i: {"oneOf": [_required(i), _required(i + 1)]})},
    "allOf of if by constants": lambda n: {"type": "object", "allOf": _each(n, _condition)},
    "allOf of if": lambda n: {"type": "object", "allOf": _each(n, _other_condition)},
    "oneOf overlapping": lambda n: {"oneOf": _each(n, lambda i: {"type": "integer", "minimum": i, "maximum": 2 * i})},
    "oneOf of required": lambda n: {"type": "object", "oneOf": _each(n, lambda i: {"required": [f"p{i}"]})},
    "oneOf of enums": lambda n: {"oneOf": _each(n, lambda i: {"enum": [i, i + 1]})},
    "oneOf of patterns": lambda n: {"oneOf": _each(n, lambda i: {"type": "string", "pattern": f"a{i}b"})},
    "not of properties": lambda n: {"type": "object", "not": {"properties": _properties(n)}},
    "not of required": lambda n: {"type": "object", "not": {"required": _names(n)}},
    "not of anyOf": lambda n: {"type": "object", "not": {"anyOf": _each(n, _required)}},
    "not of items": lambda n: {"type": "array", "not": {"prefixItems": _each(n, lambda i: {"const": i})}},
    "not of uniqueItems": lambda n: {"not": {"type": "array", "uniqueItems": True, "items": {"enum": list(range(n))}}},
    "unknown keywords": lambda n: {f"keyword{i}": i for i in range(n)},
    "unknown keywords nested": lambda n: {"properties": {f"p{i}": {"maxlength": i} for i in range(n)}},
    "unknown formats": lambda n: {"properties": {f"p{i}": {"type": "string", "format": f"f{i}"} for i in range(n)}},
    "required without properties, twice": lambda n: {"required": _names(n), "properties": _properties(n // 2)},
    "members required, any order": lambda n: {
        "type": "object",
        "properties": _properties(n),
        "required": _names(n),
        "additionalProperties": False,
    },
    "references in a chain": lambda n: _chain(n, lambda to: {"$ref": to}, _INTEGER),
    "references doubled": lambda n: _chain(
        n,
        lambda to: {"type": "array", "prefixItems": [{"$ref": to}, {"$ref": to}], "minItems": 2, "items": False},
        _INTEGER,
    ),
    "references doubled in properties": lambda n: _chain(
        n,
        lambda to: {"type": "object", "properties": {"a": {"$ref": to}, "b": {"$ref": to}}, "required": ["a", "b"]},
        _INTEGER,
    ),
    "references doubled in allOf": lambda n: _chain(n, lambda to: {"allOf": [{"$ref": to}, {"$ref": to}]}, _INTEGER),
    "references doubled in anyOf": lambda n: _chain(
        n, lambda to: {"anyOf": [{"$ref": to}, {"items": {"$ref": to}}]}, _INTEGER
    ),
    "references doubled, unevaluated": lambda n: {
        **_chain(n, lambda to: {"anyOf": [{"$ref": to}, {"required": ["a"], "$ref": to}]}, {"properties": {"b": {}}}),
        "unevaluatedProperties": False,
    },
    "recursive alternatives": lambda n: {
        "$ref": "#/$defs/e",
        "$defs": {
            "e": {"anyOf": [*_each(n, lambda i: {"const": i}), {"type": "array", "items": {"$ref": "#/$defs/e"}}]}
        },
    },
    "recursive with counts": lambda n: {
        "type": "object",
        "properties": {"a": {"$ref": "#"}},
        "additionalProperties": {"$ref": "#"},
        "maxProperties": n,
    },
    "recursive references": lambda n: {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "$recursiveAnchor": True,
        "properties": {name: {"$recursiveRef": "#"} for name in _names(n)},
    },
    "additionalItems": lambda n: {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "array",
        "items": _each(n, lambda i: {"const": i}),
        "additionalItems": {"enum": list(range(n))},
    },
    "anchors": lambda n: {"$defs": {f"d{i}": {"$anchor": f"a{i}"} for i in range(n)}, "$ref": "#a0"},
    "dynamic references": lambda n: _chain(n, lambda to: {"$dynamicRef": to, "$dynamicAnchor": "a"}, _INTEGER),
    "identifiers": lambda n: {"$defs": {f"d{i}": {"$id": f"https://example.org/{i}"} for i in range(n)}},
    "enum of long texts": lambda n: {"enum": ["x" * n + "a", "x" * n + "b"]},
    "enum of nested arrays": lambda n: {"const": _nested(n, lambda inner: [inner], 1)},  # type: ignore[arg-type,return-value]
    "enum beside pattern": lambda n: {"enum": _names(n), "pattern": "[02468]$", "maxLength": 4},
    "enum beside uniqueItems": lambda n: {
        "type": "array",
        "uniqueItems": True,
        "items": {"enum": _names(n)},
        "minItems": n,
    },
    "uniqueItems of objects": lambda n: {
        "type": "array",
        "uniqueItems": True,
        "minItems": n,
        "items": {"type": "object", "minProperties": 2},
    },
    "uniqueItems of booleans": lambda n: {
        "type": "array",
        "uniqueItems": True,
        "items": {"type": "array", "items": {"type": "boolean"}, "maxItems": n},
    },
    "contains nested": lambda n: _nested(n, lambda inner: {"type": "array", "contains": inner, "items": {}}, _INTEGER),
    "contains and uniqueItems": lambda n: {
        "type": "array",
        "contains": {"type": "integer"},
        "minContains": n,
        "uniqueItems": True,
    },
    "prefixItems of anyOf": lambda n: {
        "type": "array",
        "prefixItems": [{"type": ["integer", "string"]}] * n,
        "minItems": n,
    },
    "propertyNames beside patternProperties": lambda n: {
        "propertyNames": {"pattern": "^[a-z]*$"},
        "patternProperties": _properties(n, begin="x"),
    },
    "properties beside patternProperties": lambda n: {
        "properties": _properties(n),
        "patternProperties": {f"{i}$": {"maximum": i} for i in range(10)},
    },
    "contentSchema": lambda n: {
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": {"properties": _properties(n)},
    },
    "contentEncoding length": lambda n: {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "string",
        "contentEncoding": "base64",
        "maxLength": n,
    },
    "dependencies": lambda n: {"dependencies": {f"p{i}": [f"p{i + 1}"] for i in range(n)}},
    "long names": lambda n: {"properties": {"x" * n: _INTEGER}, "required": ["x" * n]},
    "long names that begin alike": lambda n: {"properties": {"x" * 100 + f"{i}": _INTEGER for i in range(n)}},
    "integer bounds of many digits": lambda n: {
        "type": "integer",
        "minimum": -(10 ** min(n, 4000)),
        "maximum": 10 ** min(n, 4000),
    },
    "number with fine bounds": lambda n: {"type": "number", "minimum": 0.1, "maximum": 0.1 + 1 / n},
    "titles": lambda n: {"properties": {f"p{i}": {"title": "x" * 50} for i in range(n)}},
}

_IN_ANY_ORDER: Final = (
    "properties",
    "required",
    "members required, any order",
    "dependentRequired",
    "minProperties among properties",
    "const object",
    "allOf of if",
    "anyOf",
    "maxProperties",
)


def _constructs() -> Iterator[Construct]:
    """Numbers are scaled further than lists, since they do not lengthen the text."""
    both = {**FRAGMENTS, **_ALONE}
    for name, build in both.items():
        yield Construct(f"schema: {name}", "json_schema", build, most=largest(build, 1 << 17))
    for name in _IN_ANY_ORDER:
        yield Construct(f"schema, any order: {name}", "json_schema", both[name], _ANY_ORDER)


def pairs() -> Iterator[Construct]:
    """Every two fragments in one schema. If both have a keyword, the second one wins."""
    for (first, one), (second, two) in combinations(FRAGMENTS.items(), 2):

        def build(n: int, one: Any = one, two: Any = two) -> _Schema:
            begun, ended = one(n), two(n)
            return begun | ended if begun.get("type") == ended.get("type") else {"allOf": [begun, ended]}

        yield Construct(f"schemas: {first} + {second}", "json_schema", build, most=1 << 12)


SCHEMAS: Final = tuple(_constructs())
