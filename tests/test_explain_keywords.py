"""Explanations name the keyword that decides: every keyword of JSON Schema, at the root and deeper.

Each text has one mistake. The judge is the package jsonschema: the locations of its errors. In addition, a schema
without the named keywords must allow the text.
"""

from __future__ import annotations

import copy
import json
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import guided
from guided.matching.explain.error_location import error_location_of
from tests.effort import every

COMPILER = guided.GrammarCompiler(guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256]))
DEFS = {
    "year": {"type": "integer", "minimum": 1700, "maximum": 2000},
    "node": {"$dynamicAnchor": "node", "maximum": 3},
}
KEYWORDS: dict[str, tuple[Any, Any]] = {
    "false": (False, 1),
    "type": ({"type": "integer"}, "x"),
    "types": ({"type": ["integer", "null"]}, [1]),
    "enum": ({"enum": ["ab", "cd", 1]}, "ax"),
    "const": ({"const": "ab"}, "ac"),
    "const of an object": ({"const": {"a": [1, 2]}}, {"a": [1, 3]}),
    "minimum": ({"minimum": 5}, 3),
    "maximum": ({"type": "integer", "maximum": 150}, 160),
    "maximum beside minimum": ({"type": "integer", "minimum": 1700, "maximum": 2000}, 2020),
    "minimum beside maximum": ({"type": "integer", "minimum": 1700, "maximum": 2000}, 1600),
    "exclusiveMinimum": ({"exclusiveMinimum": 5}, 5),
    "exclusiveMaximum": ({"type": "number", "exclusiveMaximum": 5}, 5),
    "multipleOf": ({"type": "integer", "multipleOf": 3}, 10),
    "minLength": ({"minLength": 3}, "ab"),
    "maxLength": ({"maxLength": 3}, "abcd"),
    "pattern": ({"pattern": "^a+$"}, "aab"),
    "format": ({"type": "string", "format": "date"}, "2020-13-01"),
    "minItems": ({"minItems": 2}, [1]),
    "maxItems": ({"maxItems": 2}, [1, 2, 3]),
    "uniqueItems": ({"uniqueItems": True}, ["a", "a"]),
    "uniqueItems over an enum": ({"items": {"enum": ["a", "b", "c"]}, "uniqueItems": True}, ["a", "a"]),
    "uniqueItems over integers": ({"items": {"enum": [1, 2, 3]}, "uniqueItems": True}, [1, 1]),
    "uniqueItems over objects": (
        {"items": {"properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False},
         "uniqueItems": True}, [{"a": 1}, {"a": 1}],
    ),
    "contains": ({"contains": {"type": "string"}}, [1, 2]),
    "contains beside maxItems": ({"contains": {"const": 1}, "maxItems": 2}, [2, 3]),
    "minContains": ({"contains": {"const": 1}, "minContains": 2}, [1, 2]),
    "maxContains": ({"contains": {"const": 1}, "maxContains": 1}, [1, 2, 1]),
    "prefixItems": ({"prefixItems": [{"type": "integer"}, {"type": "null"}]}, [1, 2]),
    "prefixItems of false": ({"prefixItems": [{"type": "integer"}, False]}, [1, 2]),
    "items": ({"items": {"type": "integer"}}, [1, None]),
    "items of false": ({"prefixItems": [{"type": "integer"}], "items": False}, [1, 2]),
    "required": ({"required": ["a", "b"]}, {"a": 1}),
    "properties": ({"properties": {"a": {"type": "integer"}}}, {"a": "x"}),
    "properties of false": ({"properties": {"ab": False}}, {"ab": 1}),
    "additionalProperties": ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1, "b": 2}),
    "additionalProperties of a schema": (
        {"properties": {"a": {}}, "additionalProperties": {"maxLength": 1}}, {"a": 1, "b": "xy"},
    ),
    "patternProperties": ({"patternProperties": {"^x": {"type": "null"}}}, {"xy": 1}),
    "patternProperties of false": ({"patternProperties": {"^x": False}}, {"xy": 1}),
    "propertyNames": ({"propertyNames": {"pattern": "^a"}}, {"b": 1}),
    "propertyNames and length": ({"propertyNames": {"minLength": 2}}, {"a": 1}),
    "minProperties": ({"minProperties": 2}, {"a": 1}),
    "maxProperties": ({"maxProperties": 1}, {"a": 1, "b": 2}),
    "dependentRequired": ({"dependentRequired": {"a": ["b"]}}, {"a": 1}),
    "dependentSchemas": ({"dependentSchemas": {"a": {"properties": {"b": {"type": "null"}}}}}, {"a": 1, "b": 2}),
    "dependentSchemas of the whole": ({"dependentSchemas": {"b": {"maxProperties": 1}}}, {"a": 1, "b": 2}),
    "allOf": ({"allOf": [{"type": "integer"}, {"minimum": 5}]}, 3),
    "allOf of bounds": ({"allOf": [{"minimum": 1700}, {"maximum": 2000}], "type": "integer"}, 2020),
    "anyOf": ({"anyOf": [{"const": "ab"}, {"maximum": 5}]}, "ac"),
    "anyOf in branches": ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x"),
    "oneOf without a branch": ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, "x"),
    "oneOf with two": ({"oneOf": [{"type": "integer"}, {"minimum": 3}]}, 4),
    "not": ({"not": {"type": "string"}}, "x"),
    "not of a constant": ({"not": {"const": "ab"}}, "ab"),
    "then": ({"if": {"type": "integer"}, "then": {"maximum": 5}}, 7),
    "else": ({"if": {"type": "string"}, "then": {"maxLength": 1}, "else": {"type": "null"}}, 7),
    "unevaluatedProperties": (
        {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, {"a": 1, "b": 2},
    ),
    "unevaluatedItems": ({"allOf": [{"prefixItems": [{}]}], "unevaluatedItems": False}, [1, 2]),
    "$ref": ({"$ref": "#/$defs/year"}, 2020),
    "$ref beside a keyword": ({"$ref": "#/$defs/year", "multipleOf": 10}, 1705),
    "$dynamicRef": ({"$dynamicRef": "#node"}, 7),
}  # fmt: skip
Wrapper = Callable[[Any, Any], tuple[Any, Any]]
PLACES: dict[str, Wrapper] = {
    "root": lambda schema, value: (schema, value),
    "member": lambda schema, value: (
        {"type": "object", "properties": {"n": {"type": "string"}, "v": schema}, "required": ["n", "v"]},
        {"n": "x", "v": value},
    ),
    "item": lambda schema, value: ({"type": "array", "items": {"anyOf": [{"const": 0}, schema]}}, None),
    "member of an item": lambda schema, value: (
        {"items": {"properties": {"v": schema}, "additionalProperties": False}}, [{}, {"v": value}]
    ),
    "item of a member": lambda schema, value: (
        {"properties": {"v": {"prefixItems": [{"type": "null"}, schema]}}}, {"w": 1, "v": [None, value]}
    ),
    "$ref": lambda schema, value: ({"$ref": "#/$defs/s", "$defs": {"s": schema}}, value),
    "allOf": lambda schema, value: ({"allOf": [True, schema], "title": "t"}, value),
    "$ref in allOf of an item": lambda schema, value: (
        {"prefixItems": [{"allOf": [{"$ref": "#/$defs/s"}, {}]}], "$defs": {"s": schema}}, [value]
    ),
    "then of a member": lambda schema, value: (
        {"properties": {"k": {"const": 1}}, "required": ["k"], "if": {"properties": {"k": {"const": 1}}},
         "then": {"properties": {"v": schema}}}, {"k": 1, "v": value}
    ),
}  # fmt: skip
del PLACES["item"]


def resolved(root: Any, tokens: Iterator[Any]) -> str:
    """The pointer to which the path of an error leads, through references."""
    at, pointer = root, ""
    for token in tokens:
        if token in ("$ref", "$dynamicRef"):
            continue
        while isinstance(at, dict) and token not in at:  # the path leaves out references
            name = str(at.get("$ref", at.get("$dynamicRef"))).replace("/", "#").rpartition("#")[2]
            at, pointer = root["$defs"][name], f"/$defs/{name}"
        at = at[token]
        pointer += "/" + str(token).replace("~", "~0").replace("/", "~1")
    if isinstance(at, dict) and root["$defs"].get(at.get("$ref", "").rpartition("/")[2]) is False:
        return str(at["$ref"])[1:]
    if isinstance(at, dict | list) and False in (values := list(at.values()) if isinstance(at, dict) else at):
        number = values.index(False)  # and the token of a schema `false`
        pointer += f"/{list(at)[number] if isinstance(at, dict) else number}"
    return pointer


def errors_of(schema: Any, value: Any) -> set[str]:
    """The pointers of jsonschema's errors. For a choice without a valid branch, those of its branches."""
    jsonschema = pytest.importorskip("jsonschema")
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    out: set[str] = set()
    work = list(jsonschema.Draft202012Validator(schema, format_checker=checker).iter_errors(value))
    while work:
        error = work.pop()
        if error.context:
            work += error.context
            continue
        path = list(error.absolute_schema_path)
        if error.validator in ("minContains", "maxContains"):
            path[-1] = error.validator
        out.add(resolved(schema, iter(path)))
    return out


def without(schema: Any, pointers: set[str]) -> Any:
    """A schema without these keywords. If the schema as a whole is named, it allows anything."""
    schema = copy.deepcopy(schema)
    for pointer in pointers:
        *path, last = [each.replace("~1", "/").replace("~0", "~") for each in pointer.split("/")]
        if not path:
            return True
        at = schema
        for token in path[1:]:
            at = at[int(token)] if isinstance(at, list) else at[token]
        if isinstance(at, list):
            at[int(last)] = True
        elif at[last] is False and last not in ("additionalProperties", "items"):
            at[last] = True
        else:
            del at[last]
    return schema


def compiled(schema: Any) -> guided.CompiledGrammar:
    return COMPILER.compile_json_schema(schema, whitespace="compact", property_order="any")


@pytest.mark.parametrize(
    ("keyword", "place"), every(3, [(keyword, place) for keyword in KEYWORDS for place in PLACES], unpack=True)
)
def test_the_keyword_that_decides(keyword: str, place: str) -> None:
    fragment, bad = KEYWORDS[keyword]
    schema, value = PLACES[place](fragment, bad)
    if isinstance(schema, bool):
        pytest.skip("no value satisfies it, so it does not compile")
    schema = {**schema, "$defs": {**DEFS, **schema.get("$defs", {})}}
    text = json.dumps(value, separators=(",", ":"))
    try:
        grammar = compiled(schema)
    except guided.SpecError:
        assert keyword == "false"
        pytest.skip("no value satisfies it, so it does not compile")
    wanted = errors_of(schema, value)
    found = error_location_of(grammar, text.encode(), must_end=True).explanation
    assert set(found.refused_by) == wanted, (schema, text, found.reason)
    assert all(len(group) == 1 for group in found.refusals)
    assert not found.is_partial
    if keyword == "oneOf without a branch":  # without the keywords of its branches, both would hold
        return
    allowed = guided.GrammarMatcher(compiled(without(schema, wanted)))
    assert allowed.accept_string(text) and allowed.is_accepting()


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        ("2", (("/properties/born/minimum", "/properties/born/maximum"),)),  # 202 is too small, 2020 too large
        ("20", (("/properties/born/maximum",),)),
        ("20}", (("/properties/born/maximum",),)),
        ("3}", (("/properties/born/minimum",),)),
    ],
)
def test_bounds_that_refuse_a_digit_together(asked: str, refused: tuple[tuple[str, ...], ...]) -> None:
    schema = {"properties": {"born": {"type": "integer", "minimum": 1700, "maximum": 2000}}, "required": ["born"]}
    grammar = COMPILER.compile_json_schema(schema, numbers="plain")
    matcher = guided.GrammarMatcher(grammar)
    assert matcher.accept_string('{"born": 20')
    explanation = matcher.explain(asked)
    assert not explanation.accepted and explanation.refusals == refused
    words = " and ".join(refused[0]) + (" together" if len(refused[0]) > 1 else "")
    assert f"refused by {words})" in explanation.reason


def test_explanations_of_deeply_nested_texts_need_little_memory() -> None:
    """The written parts of all open values would be 200 MB together."""
    matcher = guided.GrammarMatcher(COMPILER.compile_json_schema({"items": {"$ref": "#"}}))
    assert matcher.accept_string("[" * 20_000)
    tracemalloc.start()
    try:
        matcher.explain("}")
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()
