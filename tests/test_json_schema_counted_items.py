"""JSON Schema: arrays whose items are counted, or must differ with few possible values.

The jsonschema library judges every short array over a few values, and some longer ones. Every prefix that the masks
allow must have an end.
"""

from __future__ import annotations

import json
import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import SpecError, UnsupportedError
from guided.frontends.json_schema import json_schema_to_grammar
from guided.matching import GrammarMatcher
from tests.core_support import mask_of
from tests.json_schema_judge import Judge
from tests.json_schema_support import QUIET, byte_compiler, matches

VALUES = (None, 1, 2, "a", [])
ARRAYS = [json.dumps(items) for length in range(4) for items in product(VALUES, repeat=length)]
LONGER = [json.dumps(items) for length in (4, 5) for items in product(VALUES, repeat=length)]
NO_END = 2**40


def compiled(schema, order="any"):
    """The grammar; None if there is no value."""
    try:
        return byte_compiler().compile_json_schema(schema, property_order=order)
    except SpecError as error:
        assert "no JSON value" in error.message or "allows no output" in error.message
        return None


def walk(grammar, rng: random.Random) -> str:
    """A text along the masks. At each step, the shortest completion is accepted."""
    matcher, out = GrammarMatcher(grammar), bytearray()
    for _ in range(rng.randint(0, 30)):
        allowed = mask_of(matcher)
        marks = [byte for byte in allowed if byte in {*map(ord, '[]{},"')}]
        byte = rng.choice(marks if marks and rng.random() < 0.5 else allowed)
        assert matcher.accept_token(byte), bytes(out)
        if matcher.is_terminated():
            return out.decode()
        out.append(byte)
        assert matcher.min_tokens_to_finish() < NO_END, bytes(out)
    rest = matcher.explain().completion
    assert matcher.accept_string(rest) and matcher.is_accepting(), (bytes(out), rest)
    return (out + rest).decode()


def check(schema, order="any"):
    """Compare with the judge, and walk."""
    grammar, judge = compiled(schema, order), Judge(schema)
    rng = random.Random(json.dumps(schema))
    for text in (*ARRAYS, *rng.sample(LONGER, 30)) if schema.get("type") == "array" else ():
        assert matches(grammar, text) == judge(text), (schema, text)
    for _ in range(10 if grammar else 0):
        text = walk(grammar, rng)
        assert judge(text), (schema, text)


CONTAINED = st.sampled_from(
    [{"const": 1}, {"enum": [1, 2]}, {"type": "null"}, {"type": "string"}, {"type": "array"}, {"enum": [[], "a"]}, True]
)
ITEMS = st.sampled_from([{}, {"enum": [1, 2, "a"]}, {"type": ["integer", "null"]}, {"enum": [None, 1, [], [1]]}, False])


@st.composite
def arrays(draw):
    """Schemas of arrays with constraints on items, differences and lengths."""
    schema = {"type": "array"}
    if draw(st.integers(0, 3)):
        schema["uniqueItems"] = True
    if draw(st.booleans()):
        schema["items"] = draw(ITEMS)
    if draw(st.booleans()):
        schema["prefixItems"] = draw(st.lists(ITEMS, min_size=1, max_size=3))
    for keyword in ("minItems", "maxItems"):
        if draw(st.booleans()):
            schema[keyword] = draw(st.integers(0, 4))
    asked = []
    for _ in range(draw(st.integers(0, 2))):
        one = {"contains": draw(CONTAINED)}
        for keyword in ("minContains", "maxContains"):
            if draw(st.booleans()):
                one[keyword] = draw(st.integers(0, 3))
        asked.append(one)
    if draw(st.integers(0, 4)) == 0:
        asked.append({"not": {"items": draw(ITEMS), "prefixItems": [{}] * draw(st.integers(1, 2))}})
    return {**schema, "allOf": asked} if asked else schema


@QUIET
@given(arrays())
def test_the_arrays_are_right_without_dead_ends(schema):
    check(schema)


@QUIET
@given(ITEMS, st.lists(ITEMS, max_size=2), st.integers(0, 4), st.integers(0, 4))
def test_two_equal_items(items, prefix, low, high):
    """The complement of `uniqueItems`: exact if there are few values, otherwise refused."""
    schema = {"type": "array", "items": items, "prefixItems": prefix, "minItems": low, "maxItems": high}
    schema = {key: value for key, value in schema.items() if value != []} | {"not": {"uniqueItems": True}}
    try:
        compiled(schema)
    except UnsupportedError as error:
        assert "two equal items" in error.reason
        assert {} in (items, *prefix) or {"type": ["integer", "null"]} in (items, *prefix)
    else:
        check(schema)


UNIQUE = {"type": "array", "uniqueItems": True}
FROM_AFAR = [
    {"uniqueItems": True, "contains": {"const": 1}, "minContains": 2},
    {**UNIQUE, "contains": {"enum": [None, 0]}, "minItems": 4, "maxItems": 4},
    {"oneOf": [{"type": "object"}, {"uniqueItems": True, "contains": {"enum": ["b"]}, "minContains": 3}]},
    {**UNIQUE, "contains": {"enum": [[], 2]}, "minContains": 3},
    {**UNIQUE, "contains": {"enum": [[], 2]}, "minContains": 3, "maxContains": 3},
    {**UNIQUE, "items": {**UNIQUE, "contains": {"type": "string", "pattern": "^a?$"}, "minContains": 3}, "minItems": 2},
    {"anyOf": [{"type": "object"}, {**UNIQUE, "prefixItems": [{"enum": [[1], 1]}], "contains": {"type": "null"}, "minContains": 2}]},  # noqa: E501
    {**UNIQUE, "minItems": 3, "items": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 0}, "maxProperties": 1, "required": ["c"]}},  # noqa: E501
    {"properties": {"a": {"type": "object"}, "c": {"type": "boolean"}, "b": {"const": []}}, "patternProperties": {"^(a|b|c)$": {"enum": [[1], []]}}, "additionalProperties": False, "minProperties": 3},  # noqa: E501
    {**UNIQUE, "items": {**UNIQUE, "prefixItems": [{"type": "integer", "minimum": 0, "maximum": 2}, {"type": "boolean"}, {"type": "null"}]}, "minItems": 2},  # noqa: E501
    {**UNIQUE, "items": {"type": "string", "maxLength": 1}, "prefixItems": [{"type": "string", "maxLength": 0}, {"enum": [2, True, [1]]}], "contains": {"enum": ["b"]}, "minContains": 2},  # noqa: E501
    {"oneOf": [{**UNIQUE, "contains": {"type": "boolean"}, "minContains": 3}, {**UNIQUE, "prefixItems": [{"enum": [True]}, {"enum": [1]}, {"enum": ["b", None, 0]}]}]},  # noqa: E501
    {"oneOf": [{**UNIQUE, "contains": {"type": "array", "items": {"enum": [1]}, "maxItems": 1}, "minContains": 3}, {"type": "object", "propertyNames": {"pattern": "^a"}}]},  # noqa: E501
    {"type": "object", "if": {"propertyNames": {"not": {"const": "a"}}}, "then": {"patternProperties": {"^a": {"type": "number"}, "b$": {"type": "null"}}, "propertyNames": {"enum": ["ab", "c", "b"]}}, "else": True},  # noqa: E501
    {"type": "object", "patternProperties": {"^ab$": True}, "dependentSchemas": {"ab": False}, "additionalProperties": {"$ref": "#"}, "minProperties": 1},  # noqa: E501
    {"type": "object", "patternProperties": {"^[xy]$": {}}, "additionalProperties": False, "not": {"patternProperties": {"^[xy]$": {"type": "integer"}}}},  # noqa: E501
]  # fmt: skip
"""Found by random tests: walks without an end."""


@pytest.mark.parametrize("order", ["any", "declared"])
@pytest.mark.parametrize("schema", FROM_AFAR, ids=json.dumps)
def test_found_by_random_tests(schema, order):
    check(schema, order)
    texts = ['{"x":1,"y":1}', '{"x":1,"y":"a"}', '{"a":1}', '{"b":null}', '{"ab":1}', "1", "[]"]
    judge, grammar = Judge(schema), compiled(schema)
    assert [matches(grammar, text) for text in texts] == [judge(text) for text in texts]


def test_values_other_than_arrays_remain_possible():
    schema = {"prefixItems": [{"not": {}}], "uniqueItems": True, "minItems": 1}
    assert matches(compiled(schema), "{}") and not matches(compiled(schema), "[1]")


@pytest.mark.parametrize(
    "schema",
    [
        {**UNIQUE, "contains": {"enum": [[], 2]}, "minContains": 3},
        {"required": ["a"], "type": "object", "properties": {"a": {**UNIQUE, "items": {"const": 1}, "minItems": 2}}},
        {**UNIQUE, "prefixItems": [{"const": 1}, {"const": 1}], "minItems": 2},
        {**UNIQUE, "prefixItems": [{"enum": [1, 2]}] * 3, "minItems": 3},
        {"type": "object", "minProperties": 2, "properties": {"a": {"type": "string", "const": 1}, "b": {}}, "additionalProperties": False},  # noqa: E501
    ],
    ids=json.dumps,
)  # fmt: skip
def test_there_are_not_as_many_values(schema):
    assert compiled(schema) is None


def test_counts_next_to_windows_of_any_size():
    """A window that needs no counting after some items does not increase the number of states."""
    schema = {"type": "array", "contains": {"const": 1}, "minContains": 2, "minItems": 3, "prefixItems": [{}, {}]}
    grammar = compiled(schema)
    for text, valid in [("[1,1]", False), ("[1,1,3]", True), ("[3,4,5,1]", False), ("[3,4,5,1,6,1,1,1,7]", True)]:
        assert matches(grammar, text) is valid
    assert len(json_schema_to_grammar(schema).rules) < 40
