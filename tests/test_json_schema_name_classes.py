"""Names of members that fall into many classes, given by the patterns that mention them."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest

from guided.matching import GrammarMatcher
from tests.core_support import mask_of
from tests.effort import draws
from tests.json_schema_support import byte_compiler, matches

PATTERNS = ("a.*b", "b.*c", "[0-9]{2}", "^x", "y$", "z{2}")


def overlapping(count: int, **more: Any) -> dict[str, Any]:
    patterns = {pattern: {"type": "integer", "multipleOf": n + 2} for n, pattern in enumerate(PATTERNS[:count])}
    return {"type": "object", "properties": {"xab": {"type": "string"}}, "patternProperties": patterns, **more}


@pytest.mark.parametrize("order", ["declared", "any"])
@pytest.mark.parametrize("count", [2, 3, 6])
@pytest.mark.parametrize("more", [{}, {"additionalProperties": {"const": 1}}, {"minProperties": 3}], ids=range(3))
def test_each_pattern_asks_for_its_part(count: int, more: dict[str, Any], order: str) -> None:
    schema = overlapping(count, **more)
    judge = jsonschema.Draft202012Validator(schema)
    grammar = byte_compiler().compile_json_schema(schema, property_order=order)
    rng = random.Random(count)
    met = set()
    for _ in range(draws(400)):
        names = {"".join(rng.choice("abcxyz07") for _ in range(rng.randint(0, 7))) for _ in range(rng.randint(0, 3))}
        value: dict[str, Any] = {"xab": "x"} if rng.random() < 0.3 else {}
        value |= {name: rng.choice([1, 2, 6, 12, 60, 420, 840]) for name in sorted(names)}
        right = judge.is_valid(value)
        met.add(right)
        assert matches(grammar, json.dumps(value)) == right, value
        if len(value) > 1:
            again = json.dumps(value)[:-1] + "," + json.dumps(dict([rng.choice(list(value.items()))]))[1:]
            assert not matches(grammar, again)
    assert met == {True, False}


def test_a_name_in_many_classes_is_one_thread() -> None:
    """Inside a name, whatever it may still match, masks add few configurations, and equal those of a walk."""
    patterns = {pattern: {"maximum": n} for n, pattern in enumerate(PATTERNS)}
    matcher = GrammarMatcher(byte_compiler().compile_json_schema({"type": "object", "patternProperties": patterns}))
    masks = []
    for byte in b'{"a0bcx12zzy':
        masks.append(mask_of(matcher))
        assert matcher.accept_token(byte)
    assert matcher.configurations < 100
    for mask in reversed(masks):
        matcher.rollback(1)
        assert mask == tuple(matcher._walk_mask())
