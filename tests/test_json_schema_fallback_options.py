"""`additional_properties="minimal"`: objects that declare members have no others, unless no value would remain.

The judges are the language without the option, which must contain the narrowed one, and jsonschema.
"""

from __future__ import annotations

import json
import random
from contextlib import suppress

import pytest

from guided.errors import SpecError, UnsupportedError
from guided.frontends.json_schema import JsonSchemaOptions
from guided.frontends.json_schema.compile import json_schema_to_grammar
from guided.frontends.json_schema.text import narrow
from tests.effort import draws
from tests.json_schema_judge import Judge, NoJudge
from tests.json_schema_support import byte_compiler, compiled, matches, sample
from tests.random_schemas import draw_schema

BOOLEAN, INTEGER, ANY = {"type": "boolean"}, {"type": "integer"}, {}


def both(schema, **options):
    """The language of the schema, and the narrowed one; None for an empty language."""
    return tuple(_compiled(schema, {**options, **more}) for more in ({}, {"additional_properties": "minimal"}))


def _compiled(schema, options):
    try:
        grammar = json_schema_to_grammar(schema, JsonSchemaOptions(**options), findings=[])
    except SpecError as error:
        if error.message == "the schema refers to itself without end":
            raise NoJudge from None
        assert error.message.startswith("no JSON value"), error
        return None
    return compiled(grammar)


def names(**properties):
    return {"type": "object", "properties": properties}


# (schema, texts that are generated, texts that the schema allows but that are not generated)
CLOSED = {
    "names": (names(a=INTEGER), ["{}", '{"a":1}'], ['{"b":1}', '{"a":1,"b":1}']),
    "no type": ({"properties": {"a": INTEGER}}, ["1", '"x"', "[{}]", '{"a":1}'], ['{"b":1}']),
    "inside": (names(a=names(b=ANY)), ['{"a":{"b":{"z":1}}}'], ['{"a":{"c":1}}']),
    "items": ({"items": names(a=ANY)}, ['[{"a":1}]'], ['[{"b":1}]']),
    "required, not declared": ({**names(a=ANY), "required": ["b"]}, ['{"b":1}', '{"a":1,"b":2}'], ['{"b":1,"c":2}']),
    "required alone": ({"type": "object", "required": ["b"]}, ['{"b":1}'], ['{"b":1,"c":2}']),
    "allOf": ({"allOf": [names(a=ANY), names(b=ANY)]}, ['{"a":1,"b":2}'], ['{"a":1,"c":2}']),
    "$ref": ({"$ref": "#/$defs/d", "properties": {"b": ANY}, "$defs": {"d": names(a=ANY)}}, ['{"b":2,"a":1}'],
             ['{"c":2}']),
    "oneOf": ({"oneOf": [{**names(a=INTEGER), "required": ["a"]}, {**names(b=INTEGER), "required": ["b"]}]},
              ['{"a":1}', '{"b":1}'], ['{"a":1,"c":2}', '{"a":1,"b":"x"}', '{"b":1,"a":null}']),
    "oneOf, optional": ({"oneOf": [{**names(a=INTEGER, x=INTEGER), "required": ["a"]},
                                   {**names(b=INTEGER, z=INTEGER), "required": ["b"]}, {"type": "integer"}]},
                        ['{"a":1}', '{"a":1,"x":2}', '{"b":1,"z":1}', "7"],
                        ['{"a":1,"z":"x"}', '{"a":1,"z":"x","b":1}', '{"b":1,"x":"x"}']),
    "oneOf, common": ({"oneOf": [{**names(t={"const": "x"}, a=INTEGER), "required": ["a"]},
                                 {**names(t={"const": "y"}, b=INTEGER), "required": ["b"]}]},
                      ['{"a":1}', '{"t":"x","a":1}', '{"b":1}'], ['{"a":1,"b":"x"}', '{"t":"x","a":1,"b":1}']),
    "if": ({**names(k={"enum": ["x", "y"]}), "if": {"properties": {"k": {"const": "x"}}, "required": ["k"]},
            "then": {"properties": {"p": INTEGER}, "required": ["p"]}, "else": {"properties": {"q": INTEGER}}},
           ['{"k":"x","p":1}', '{"k":"y","q":1}', "{}"], ['{"k":"x","p":1,"z":1}', '{"k":"y","z":1}', '{"z":1}']),
    "recursive": ({**names(v=INTEGER, next={"$ref": "#"}), "required": ["v"]}, ['{"v":1,"next":{"v":2}}'],
                  ['{"v":1,"w":1}', '{"v":1,"next":{"v":2,"w":3}}']),
    "not": ({**names(a=ANY), "not": {"properties": {"a": INTEGER}, "required": ["a"]}}, ["{}", '{"a":"x"}'],
            ['{"b":1}']),
    "few members": ({**names(a=BOOLEAN), "minProperties": 1}, ['{"a":true}'], ['{"b":1}', '{"a":true,"b":1}']),
    "unlike items": ({"type": "array", "uniqueItems": True, "minItems": 2, "items": names(a={"type": "string"})},
                     ['[{"a":"x"},{"a":"y"}]'], ['[{"a":"x"},{"b":1}]']),
    "a formula": ({**names(**{f"p{i}": BOOLEAN for i in range(9)}), "allOf": [
        {"anyOf": [{"required": [f"p{i}"]}, {"properties": {f"p{i + 1}": {"const": True}}}]} for i in range(8)]},
        ['{"p0":true,"p1":true}', '{"p8":true}', "{}"], ['{"p0":true,"z":1}', '{"z":1}']),
}  # fmt: skip

# (schema, texts that are still generated): keywords about other members hold, and no language becomes empty
OPEN = {
    "nothing is named": ({"type": "object"}, ['{"b":1}']),
    "true": ({**names(a=ANY), "additionalProperties": True}, ['{"b":1}']),
    "a schema": ({**names(a=ANY), "additionalProperties": INTEGER}, ['{"b":1}']),
    "unevaluated": ({**names(a=ANY), "unevaluatedProperties": INTEGER}, ['{"b":1}']),
    "one branch opens": ({"allOf": [names(a=ANY), {"additionalProperties": True}]}, ['{"b":1}']),
    "patterns": ({**names(a=ANY), "patternProperties": {"^x": INTEGER}}, ['{"x1":1}']),
    "names": ({**names(a=ANY), "propertyNames": {"maxLength": 3}}, ['{"b":1}']),
    "named and forbidden": ({"type": "object", "properties": {"a": False}}, ['{"b":1}']),
    "too few are named": ({**names(a=ANY), "minProperties": 2}, ['{"a":1,"b":2}', '{"b":1,"c":2}']),
    "no value, as automata tell": (
        {**names(a=INTEGER, b={"type": "string", "pattern": "b$", "maxLength": 0}), "minProperties": 2},
        ['{"a":1,"z":2}'],
    ),
    "values without end": ({**names(a={"$ref": "#"}), "minProperties": 1}, ['{"b":1}', '{"a":{"b":1}}']),
    "without end, in two": (
        {"$ref": "#/$defs/x", "$defs": {"x": {**names(a={"$ref": "#/$defs/y"}), "minProperties": 1},
                                        "y": {**names(b={"$ref": "#/$defs/x"}), "required": ["b"]}}}, ['{"z":1}']),
    "oneOf, excluded by a member": ({"oneOf": [{**names(a=INTEGER), "required": ["a"]}, {**names(b=INTEGER, a=INTEGER),
                                     "required": ["a", "b"]}]}, ['{"a":1}']),
    "oneOf, by that alone": ({"oneOf": [{**names(a=INTEGER)}, {**names(b=INTEGER)}]}, ['{"a":1,"b":"x"}']),
    "oneOf, too few": ({"oneOf": [{**names(a=INTEGER), "minProperties": 2}, {**names(b=INTEGER), "minProperties": 2}]},
                       ['{"a":1,"b":"x"}']),
    "some other member": ({**names(a=INTEGER), "type": "object", "not": {"properties": {"a": ANY},
                           "additionalProperties": INTEGER}}, ['{"b":"x"}']),
    "too few unlike items": ({"type": "array", "uniqueItems": True, "minItems": 4, "items": names(a=BOOLEAN)},
                             ['[{},{"a":true},{"a":false},{"b":1}]']),
    "of unlike arrays": ({"type": "array", "uniqueItems": True, "minItems": 9, "items": {
        "type": "array", "maxItems": 1, "items": names(a=BOOLEAN)}}, ['[[],[{}],[{"b":1}],[{"b":2}],[{"b":3}],'
                                                                     '[{"b":4}],[{"b":5}],[{"b":6}],[{"b":7}]]']),
    "a formula that asks": ({**names(**{f"p{i}": BOOLEAN for i in range(9)}), "minProperties": 10, "allOf": [
        {"anyOf": [{"required": [f"p{i}"]}, {"properties": {f"p{i + 1}": {"const": True}}}]} for i in range(8)]},
        ["{" + ",".join(f'"p{i}":true' for i in range(9)) + ',"z":1}']),
}  # fmt: skip


@pytest.mark.parametrize("case", CLOSED)
def test_no_member_is_written_that_is_not_named(case):
    schema, written, left_out = CLOSED[case]
    wide, narrow_ = both(schema)
    assert all(matches(wide, text) for text in (*written, *left_out))
    assert all(matches(narrow_, text) for text in written)
    assert not any(matches(narrow_, text) for text in left_out)


@pytest.mark.parametrize("case", [case for case in CLOSED if "oneOf" in case])
def test_false_leaves_out_the_members_of_other_branches(case):
    schema, written, left_out = CLOSED[case]
    closed = byte_compiler().compile_json_schema(schema, additional_properties=False)
    assert all(matches(closed, text) for text in written)
    assert not any(matches(closed, text) for text in left_out)


@pytest.mark.parametrize("case", OPEN)
def test_objects_that_are_open_or_would_be_empty_stay_open(case):
    schema, written = OPEN[case]
    for grammar in both(schema):
        assert all(matches(grammar, text) for text in written)


def test_the_other_values_of_the_option():
    schema = names(a=INTEGER)
    for value, verdict in ((None, True), (True, True), (False, False)):
        grammar = byte_compiler().compile_json_schema(schema, additional_properties=value)
        assert matches(grammar, '{"b":1}') == verdict
    wide = byte_compiler().compile_json_schema(schema)
    assert wide.native.positions == both(schema)[0].native.positions


@pytest.mark.parametrize("order", ["declared", "any"])
def test_random_schemas_are_narrowed_and_never_emptied(order):
    """Walks end in texts that the schema allows, and there are some if the schema has a value."""
    made, narrowed, count = 0, 0, draws(300, 600)
    for seed in range(count):
        rng = random.Random(f"narrow {order} {seed}")
        schema = draw_schema(rng)
        try:
            wide, narrow_ = both(schema, property_order=order)
            judge = Judge(schema) if "2020-12" in schema["$schema"] else None  # the library has known errors in 2019-09
        except (UnsupportedError, NoJudge):
            continue
        assert (wide is None) == (narrow_ is None), schema
        if wide is None:
            continue
        made += 1
        narrowed += wide.native.positions != narrow_.native.positions
        for _ in range(3):
            text = sample(narrow_, rng, 40)
            assert matches(wide, text), (schema, text)
            with suppress(NoJudge):
                assert judge is None or judge(text), (schema, text)
    assert made > count / 2
    assert narrowed > count / 20


def test_the_work_for_closed_objects_is_bounded(monkeypatch):
    """A schema that is too large to be examined stays open. No answer is a guess."""
    monkeypatch.setattr(narrow, "_MAX_GOALS", 0)
    grammar = both({**names(a=names(b=BOOLEAN), c=BOOLEAN), "minProperties": 2})[1]
    assert matches(grammar, json.dumps({"a": {}, "z": 1}))
