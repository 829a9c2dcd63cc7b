"""Constants next to keywords that require some item or some member, against a validator."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest

import guided
from tests.effort import draws

COMPILER = guided.GrammarCompiler(
    guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256]), cache_bytes=0, warn=False
)
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
NOTHING_LEFT = "no JSON value satisfies the schema"


def accepted(schema: dict[str, Any], texts: list[str]) -> list[bool]:
    try:
        grammar = COMPILER.compile_json_schema(schema)
    except guided.SpecError as error:
        assert NOTHING_LEFT in str(error)
        return [False] * len(texts)
    matchers = [guided.GrammarMatcher(grammar) for _ in texts]
    return [m.accept_string(text) and m.accept_token(256) for m, text in zip(matchers, texts, strict=True)]


def random_value(source: random.Random, depth: int) -> Any:
    kind = source.randrange(4 if depth else 2)
    if kind < 2:
        return source.choice([1, 2, 3, "a", "b", None])
    if kind == 2:
        return [random_value(source, depth - 1) for _ in range(source.randrange(5))]
    return {source.choice("xyz"): random_value(source, depth - 1) for _ in range(source.randrange(4))}


def random_schema(source: random.Random, depth: int) -> dict[str, Any]:
    def inner() -> dict[str, Any]:
        return random_schema(source, depth - 1)

    plain: list[dict[str, Any]] = [
        {"const": source.choice([1, 2, "a"])},
        {"type": source.choice(["integer", "string", "array", "object"])},
    ]
    if not depth:
        return source.choice(plain)
    return source.choice(
        [
            *plain,
            {"contains": inner()},
            {"contains": inner(), "minContains": 2},
            {"not": {"items": inner()}},
            {"not": {"additionalProperties": inner()}},
            {"not": {"properties": {"x": inner(), "y": inner()}}},
            {"items": inner()},
            {"prefixItems": [inner()], "contains": inner()},
            {"allOf": [{"contains": inner()} for _ in range(source.randint(2, 5))]},
            {"allOf": [inner(), inner()]},
            {"additionalProperties": inner()},
        ]
    )


@pytest.mark.parametrize("seed", range(draws(150)))
def test_constants_satisfy_their_obligations(seed: int) -> None:
    source = random.Random(seed)
    values = [random_value(source, 3) for _ in range(5)]
    schema = {"enum": values, "allOf": [random_schema(source, 3) for _ in range(source.randint(1, 5))]}
    validator = jsonschema.Draft202012Validator(schema)
    assert accepted(schema, [json.dumps(value) for value in values]) == [validator.is_valid(one) for one in values]


@pytest.mark.parametrize("nested", [False, True])
def test_more_than_three_obligations(nested: bool) -> None:
    arrays = [[1, 2, 3, 4], [1, 2, 3, 5], [5, 6], [4, 3, 2, 1, 0]]
    rest = {"allOf": [{"contains": {"const": number}} for number in (1, 2, 3, 4)]}
    schema = {"enum": [[array] for array in arrays], "items": rest} if nested else {"enum": arrays, **rest}
    texts = [json.dumps([array] if nested else array) for array in arrays]
    assert accepted(schema, texts) == [True, False, False, True]


def test_draft_4_decides_integers_by_their_spelling() -> None:
    """Some item is an integer. In draft 4, 1.0 is not one."""
    for count in (1, 4):
        rest = {"allOf": [{"not": {"items": {"not": {"type": "integer"}}}}] * count}
        schema = {"$schema": DRAFT_4, "enum": [[1, "a"], ["a"], [1, 2]], **rest}
        texts = ['[1, "a"]', '[1.0, "a"]', '["a"]', "[1, 2]", "[1.0, 2]", "[1.0, 2.0]"]
        assert accepted(schema, texts) == [True, False, False, True, True, False]


def test_long_constants_compile_quickly() -> None:
    """The obligations are decided value by value. Trying all items for all of them would exceed the limit on work."""
    arrays = [list(range(start, start + 30)) for start in range(20)]
    schema = {"enum": arrays, "allOf": [{"contains": {"const": number}} for number in (17, 18, 19)]}
    assert accepted(schema, [json.dumps(array) for array in arrays]) == [
        19 in array and 17 in array for array in arrays
    ]
    members = {f"m{number}": number for number in range(60)}
    rest = {"allOf": [{"not": {"additionalProperties": {"const": number}}} for number in range(3)]}
    assert accepted({"const": members, **rest}, [json.dumps(members)]) == [True]
