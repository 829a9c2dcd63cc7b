"""Schemas and values that nest deeply: they compile, or raise LimitExceeded, but never RecursionError."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from guided.errors import GuidedError, LimitExceeded
from guided.frontends.json_schema import check_json_schema, json_schema_to_grammar
from guided.frontends.json_schema.check import schema_errors
from tests.json_schema_support import byte_compiler, matches

FRAMES = [0, 300]
RECURSIVE = {"a": {"items": {"$ref": "#/$defs/a"}}}
WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "oneOf": lambda inner: {"oneOf": [inner, {"const": 1}]},
    "anyOf": lambda inner: {"anyOf": [inner, {"const": 1}]},
    "allOf": lambda inner: {"allOf": [inner]},
    "not": lambda inner: {"not": inner},
    "if": lambda inner: {"if": inner, "then": {"minLength": 1}},
    "items": lambda inner: {"items": inner},
    "contains": lambda inner: {"contains": inner},
    "propertyNames": lambda inner: {"propertyNames": inner},
    "dependentSchemas": lambda inner: {"dependentSchemas": {"a": inner}},
    "unevaluatedItems": lambda inner: {"allOf": [inner], "unevaluatedItems": False},
    "unevaluatedProperties": lambda inner: {"allOf": [inner], "unevaluatedProperties": False},
}


def _call_below(frames: int, call: Callable[[], Any]) -> Any:
    return _call_below(frames - 1, call) if frames else call()


def _nested(depth: int, value: Any = None) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def _nested_text(depth: int, text: str = "null") -> str:
    return "[" * depth + text + "]" * depth


def _chain(length: int, last: Any, wrap: Callable[[Any], Any] = lambda inner: inner) -> dict[str, Any]:
    """A schema that leads to `last` through `length` references."""
    schemas = {f"d{index}": wrap({"$ref": f"#/$defs/d{index + 1}"}) for index in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**schemas, f"d{length}": last}}


@pytest.mark.parametrize("frames", FRAMES)
@pytest.mark.parametrize("depth", [8, 120, 480])
def test_different_items_may_nest_as_deeply_as_the_limit_allows(depth: int, frames: int) -> None:
    items = {"enum": [_nested(depth), _nested(depth - 1)], "items": {"$ref": "#/$defs/a"}}
    schema = {"type": "array", "uniqueItems": True, "minItems": 2, "items": items, "$defs": RECURSIVE}
    _call_below(frames, lambda: json_schema_to_grammar(schema))
    assert _call_below(frames, lambda: check_json_schema(schema)).ok
    grammar = byte_compiler().compile_json_schema(schema)
    a, b = _nested_text(depth), _nested_text(depth - 1)
    texts = [f"[{a},{b}]", f"[{b},{a}]", f"[{a},{a}]", f"[{a}]", f"[{a},{_nested_text(depth - 2)}]"]
    assert [matches(grammar, text) for text in texts] == [True, True, False, False, False]


def test_alternatives_are_checked_once_for_each_part_of_a_value() -> None:
    twice = [{"items": {"$ref": "#/$defs/a"}}, {"items": {"$ref": "#/$defs/a"}, "minItems": 1}]
    definitions = {"a": {"type": ["array", "null"], "anyOf": twice}}
    for innermost, is_valid in ((None, True), (1, False)):  # 2**60 paths lead to the innermost value
        values = [_nested(60, innermost), _nested(59)]
        items = {"enum": values, "$ref": "#/$defs/a"}
        schema = {"type": "array", "uniqueItems": True, "minItems": 2, "items": items, "$defs": definitions}
        assert check_json_schema(schema).ok is is_valid


@pytest.mark.parametrize("frames", FRAMES)
def test_complements_of_values_may_nest_deeply(frames: int) -> None:
    schema = {"not": {"enum": [_nested(450), {"a": _nested(450)}]}}
    _call_below(frames, lambda: json_schema_to_grammar(schema))
    small = byte_compiler().compile_json_schema({"not": {"enum": [_nested(3, 1), {"a": _nested(2)}]}})
    texts = ["[[[1]]]", "[[[2]]]", "[[[1],1]]", "[[1]]", '{"a":[[null]]}', '{"a":[null]}', '{"a":[[null]],"b":1}', "1"]
    assert [matches(small, text) for text in texts] == [False, True, True, True, False, True, True, True]


@pytest.mark.parametrize("length", [3, 1000, 3000])
def test_members_are_evaluated_through_a_long_chain_of_references(length: int) -> None:
    chain = _chain(length, {"properties": {"x": {"type": "string"}}})
    schema = {**chain, "type": "object", "unevaluatedProperties": False}
    _call_below(300, lambda: json_schema_to_grammar(schema))
    grammar = byte_compiler().compile_json_schema(schema)
    assert [matches(grammar, text) for text in ("{}", '{"x":"a"}', '{"x":1}', '{"y":"a"}')] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize("frames", FRAMES)
def test_no_schema_exhausts_the_stack(name: str, frames: int) -> None:
    wrap = WRAPPERS[name]
    nested: Any = {"type": "string"}
    for _ in range(150):
        nested = wrap(nested)
    for schema in (nested, _chain(300, {"type": "string"}, wrap)):
        try:
            _call_below(frames, lambda schema=schema: json_schema_to_grammar(schema, findings=[]))
            error: GuidedError | None = None
        except LimitExceeded as problem:
            error = problem
            assert problem.limit == "depth" and problem.fixed
        except GuidedError as problem:
            error = problem
        report = _call_below(frames, lambda schema=schema: check_json_schema(schema))
        assert type(report.error) is type(error)
        text = json.dumps(schema)
        try:
            assert _call_below(frames, lambda text=text: schema_errors(text)) == []
        except LimitExceeded as problem:
            assert problem.limit == "depth"
