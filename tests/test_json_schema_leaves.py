"""Schemas of scalars with the same meaning share their rules. Others do not."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from guided.errors import SpecError
from guided.frontends.json_schema import json_schema_to_grammar
from tests.json_schema_support import allows, byte_compiler

LEAVES: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "string", "enum": ["1", "2"]},
    {"type": "string", "enum": ["1"]},
    {"type": "string", "const": "1"},
    {"type": "string", "pattern": "^1"},
    {"type": "string", "format": "date"},
    {"type": "string", "minLength": 1},
    {"type": "string", "maxLength": 1},
    {"type": "integer", "minimum": 1},
    {"type": "integer", "maximum": 1},
    {"type": "integer", "exclusiveMinimum": 1},
    {"type": "integer", "multipleOf": 2},
    {"type": "number", "enum": [1, 2.5]},
    {"type": "boolean", "enum": [True, 1]},
    {"type": "boolean", "const": True},
    {"type": "integer", "const": 1},
    {"type": "null"},
]
VALUES = ["", "1", "12", "2", "2020-02-29", 0, 1, 2, 2.5, True, False, None]


@pytest.mark.parametrize("first", range(len(LEAVES)))
def test_a_leaf_means_the_same_next_to_another_leaf(first: int) -> None:
    for second in range(len(LEAVES)):
        pair = {"prefixItems": [LEAVES[first], {**LEAVES[second], "title": "t"}, LEAVES[first]], "minItems": 3}
        both = byte_compiler().compile_json_schema({**pair, "type": "array", "items": False})
        for a, b in itertools.product(VALUES[::2], VALUES):
            expected = _alone(first, a) and _alone(second, b)
            assert allows(both, [a, b, a]) == expected, (LEAVES[first], LEAVES[second], a, b)


def _alone(at: int, value: object) -> bool:
    return allows(byte_compiler().compile_json_schema(LEAVES[at]), value)


def test_equal_leaves_are_one_rule() -> None:
    leaf = {"type": "string", "pattern": "^a+$", "maxLength": 9}
    places = {"a": {**leaf, "title": "one"}, "b": leaf, "c": {**leaf, "description": "three"}}
    rules = json_schema_to_grammar({"type": "object", "properties": places, "additionalProperties": False}).rules
    assert len([name for name in rules if name.startswith("string of") and "member" not in name]) == 1


def test_a_wrong_leaf_is_reported_at_its_first_location() -> None:
    wrong = {"type": "integer", "minimum": "1"}
    with pytest.raises(SpecError) as caught:
        json_schema_to_grammar({"type": "array", "prefixItems": [{"type": "null"}, wrong, wrong]})
    assert caught.value.pointer == "/prefixItems/1/minimum"
