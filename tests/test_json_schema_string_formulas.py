"""Strings under many alternatives, which are decided as a formula, against a validator."""

from __future__ import annotations

import json
import random
from itertools import product
from typing import Any

import jsonschema
import pytest

import guided
from tests.effort import draws

COMPILER = guided.GrammarCompiler(
    guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256]), cache_bytes=0
)
TEXTS = ["".join(letters) for size in range(5) for letters in product("ab1", repeat=size)]


def random_schema(source: random.Random, depth: int) -> dict[str, Any]:
    if not depth:
        leaves: list[dict[str, Any]] = [
            {"pattern": source.choice(["a", "^a", "b$", "ab", "1.*a", "^..$", "[ab]1"])},
            {"minLength": source.randrange(4)},
            {"maxLength": source.randrange(4)},
            {"enum": source.sample(["a", "ab", "1", "", "ba1"], 2)},
        ]
        return source.choice(leaves)
    parts = [random_schema(source, depth - 1) for _ in range(source.randint(2, 4))]
    keyword = source.choice(["anyOf", "allOf", "not", "anyOf"])
    return {"not": parts[0]} if keyword == "not" else {keyword: parts}


@pytest.mark.parametrize("seed", range(draws(80)))
def test_strings_under_many_alternatives(seed: int) -> None:
    source = random.Random(seed)
    schema = {"type": "string", "allOf": [random_schema(source, 3) for _ in range(3)], **random_schema(source, 0)}
    valid = jsonschema.Draft202012Validator(schema).is_valid
    try:
        grammar = COMPILER.compile_json_schema(schema)
    except guided.SpecError as error:
        assert "no JSON value satisfies the schema" in str(error)
        assert not any(map(valid, TEXTS))
        return
    for text in TEXTS:
        matcher = guided.GrammarMatcher(grammar)
        accepted = matcher.accept_string(json.dumps(text)) and matcher.accept_token(256)
        assert accepted == valid(text), text


def test_alternatives_are_intersected_one_by_one() -> None:
    """The automaton of all alternatives together would exceed the limit on work."""

    def alternative(*patterns: str) -> dict[str, Any]:
        return {"not": {"anyOf": [{"not": {"pattern": pattern}} for pattern in patterns]}}

    schema = {
        "type": "string",
        "pattern": "[aA][12].*[zZ]",
        "minLength": 10,
        "maxLength": 90,
        "anyOf": [
            alternative("^.{16}$", "ab1", "b12", "bc1", "c12", "ca1", "a12"),
            alternative("^\\w*$", "\\d\\d", "[a|b]", "[b|c]", "[c|a]"),
            alternative("^\\w+", "1.*2", "ac", "a2", "a1"),
        ],
    }
    grammar = COMPILER.compile_json_schema(schema)
    assert grammar.native.positions < 20_000
    for text in ("A1_ab1b12bc1cz", "ab1b12bc1c12ca1z", "a2_34567_bcz", "a2_34567_-cz", "a1xx2xxacxxxz", "a1x2acz"):
        matcher = guided.GrammarMatcher(grammar)
        accepted = matcher.accept_string(json.dumps(text)) and matcher.accept_token(256)
        assert accepted == jsonschema.Draft202012Validator(schema).is_valid(text), text
