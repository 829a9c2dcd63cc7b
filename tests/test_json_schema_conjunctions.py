"""Conjunctions whose alternatives would multiply: as conditions on members, they have the same language."""

from __future__ import annotations

import itertools
import json

import pytest

from guided.errors import UnsupportedError
from guided.frontends.json_schema.algebra import expand
from guided.matching import GrammarMatcher
from tests.json_schema_judge import Judge
from tests.json_schema_support import byte_compiler

ORDERS = ("declared", "any")


def pairs(count, each):
    return {"type": "object", "allOf": [each(at) for at in range(count)]}


def if_then(at):
    return {
        "if": {"properties": {f"a{at}": {"const": 1}}, "required": [f"a{at}"]},
        "then": {"required": [f"b{at}"], "properties": {f"b{at}": {"type": "boolean"}}},
    }


LARGE = {
    "if and then": pairs(60, if_then),
    "dependentRequired in a circle": {
        "type": "object",
        "dependentRequired": {f"p{at}": [f"p{(at + 1) % 100}"] for at in range(100)},
    },
    "dependentRequired apart": {"type": "object", "dependentRequired": {f"p{at}": [f"q{at}"] for at in range(100)}},
    "dependentSchemas": {
        "type": "object",
        "dependentSchemas": {f"p{at}": {"properties": {f"q{at}": {"type": "null"}}} for at in range(100)},
    },
    "contains": {"type": "array", "allOf": [{"contains": {"const": at}} for at in range(12)]},
    "anyOf of lengths": {
        "type": ["string", "object"],
        "allOf": [{"anyOf": [{"minLength": 2 * at}, {"maxLength": at}]} for at in range(1, 30)],
    },
    "anyOf": pairs(50, lambda at: {"anyOf": [{"required": [f"a{at}"]}, {"required": [f"b{at}"]}]}),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", LARGE)
def test_independent_conditions_do_not_multiply(name, order):
    """More conditions than any product could hold: the shortest instance and the effect of each condition are exact."""
    compiled = byte_compiler().compile_json_schema(LARGE[name], property_order=order)
    judge = Judge(LARGE[name])
    verdicts = {}
    for value in candidates(name):
        text = json.dumps(value)
        verdicts[text] = judge(text)
        assert accepts_value(compiled, value, order) == verdicts[text], text
    assert set(verdicts.values()) == {True, False}
    matcher = GrammarMatcher(compiled)
    assert matcher.min_tokens_to_finish() < 2000


def candidates(name):
    yield {}
    yield {"z": 1}
    if name == "if and then":
        yield from ({"a3": 1}, {"a3": 2}, {"a3": 1, "b3": True}, {"a3": 1, "b3": 1}, {"a3": 2, "b3": 1, "b4": 0})
    elif name == "dependentRequired in a circle":
        yield from ({"p1": 0}, {f"p{at}": 0 for at in range(100)}, {f"p{at}": 0 for at in range(99)})
    elif name == "contains":
        yield from (
            [],
            list(range(11)),
            list(range(12)),
            list(range(12, -1, -1)),
            [*range(12), "x"],
            [0.0, *range(1, 12)],
        )
    elif name == "anyOf of lengths":
        yield from ("x" * length for length in (0, 1, 2, 3, 29, 57, 58, 59))
    elif name == "anyOf":
        yield {f"{'ab'[at % 2]}{at}": 0 for at in range(50)}
        yield {f"{'ab'[at % 2]}{at}": 0 for at in range(49)}
        yield {f"{kind}{at}": 0 for at in range(50) for kind in "ab"}
    else:
        yield from ({"p1": 0}, {"p1": 0, "q1": None}, {"q1": 1}, {"p1": 0, "q1": 1}, {"p1": 0, "p2": 0, "q1": None})


def accepts(compiled, text):
    matcher = GrammarMatcher(compiled)
    return matcher.accept_string(text) and matcher.is_accepting()


def accepts_value(compiled, value, order):
    """Whether the value can be written. In declared order, its members may have to be in another order."""
    if order == "any" or not isinstance(value, dict) or len(value) > 3:
        return accepts(compiled, json.dumps(value))
    return any(accepts(compiled, json.dumps(dict(items))) for items in itertools.permutations(value.items()))


SMALL = {
    "oneOf that overlaps": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "oneOf": [
            {"properties": {"a": {"minimum": 2}}, "required": ["a"]},
            {"properties": {"b": {"minimum": 2}}, "required": ["b"]},
            {"required": ["a", "b"]},
        ],
    },
    "closed alternatives": {
        "anyOf": [
            {"properties": {"a": {"const": 1}}, "additionalProperties": False},
            {"properties": {"b": {}}, "required": ["b"], "additionalProperties": {"type": "null"}},
            {"patternProperties": {"^a": {"const": 2}}, "maxProperties": 0},
        ],
        "not": {"required": ["c"]},
    },
    "names": {
        "allOf": [
            {"anyOf": [{"propertyNames": {"enum": ["a", "c"]}}, {"minProperties": 1, "required": ["b"]}]},
            {"not": {"patternProperties": {"^[bc]$": {"const": 1}}}},
        ]
    },
    "constants": {"not": {"enum": [{"a": 1}, {"b": 1}, {}, 3, "x", None, True, [1]]}},
    "counted": {
        "minProperties": 2,
        "maxProperties": 2,
        "anyOf": [{"required": ["a"]}, {"properties": {"b": {"const": 2}}, "required": ["b"]}],
    },
    "any type": {
        "allOf": [
            {"if": {"type": "integer"}, "then": {"minimum": 2}, "else": {"not": {"const": "x"}}},
            {"if": {"required": ["a"]}, "then": {"properties": {"a": {"const": 1}}}, "else": {"maxItems": 0}},
        ]
    },
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", SMALL)
def test_a_condition_matches_its_multiplied_form(name, order, monkeypatch):
    """Each schema in both ways, compared with jsonschema, for all small instances."""
    judge = Judge(SMALL[name])
    multiplied = byte_compiler().compile_json_schema(SMALL[name], property_order=order)
    monkeypatch.setattr(expand, "_MIN_NODES", 0)
    monkeypatch.setattr(expand, "_MAX_GROWTH", 0)
    run = byte_compiler().compile_json_schema(SMALL[name], property_order=order)
    verdicts = set()
    for value in instances(order):
        valid = judge(json.dumps(value))
        assert accepts_value(run, value, order) == accepts_value(multiplied, value, order) == valid, value
        verdicts.add(valid)
    assert verdicts == {True, False}


def instances(order):
    yield from (None, True, False, 1, 2, 3, 2.5, "x", "y", [], [1], [1, 2])
    for size in range(4):
        for names in itertools.permutations("abc", size):
            if order == "declared" and list(names) != sorted(names):  # this test tries other orders
                continue
            for values in itertools.product((1, 2, None), repeat=size):
                yield dict(zip(names, values, strict=True))


def test_too_many_kinds_of_values():
    """Alternatives that constrain one member with many overlapping schemas are refused, with a location and a hint."""
    alternatives = [{"properties": {"a": {"type": "string", "pattern": f"x{at}"}}, "required": [f"r{at}"]}
                    for at in range(40)]  # fmt: skip
    schema = {"type": "object", "allOf": [{"oneOf": alternatives}]}
    with pytest.raises(UnsupportedError, match="they divide the values of the member") as caught:
        byte_compiler().compile_json_schema(schema)
    assert caught.value.pointer.startswith("/allOf/0/oneOf") and "required member" in caught.value.hint
