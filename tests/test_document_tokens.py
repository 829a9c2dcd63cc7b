"""Vocabularies whose tokens are parts of documents: whole names, values and separators in one token.

In real vocabularies, few tokens contain a whole member name with its quotation marks, so errors of masks with such
tokens stay hidden. Here, most tokens do. Several matchers share each grammar, so that the caches of one matcher would
show in the masks of another.
"""

from __future__ import annotations

import json
import random
from typing import Any, Literal

import pytest

from guided.errors import GuidedError, LimitExceeded
from guided.matching import CompiledGrammar, GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.core_support import mask_of
from tests.effort import draws
from tests.random_schemas import draw_schema, draw_value

BYTES = [bytes([byte]) for byte in range(256)]
NAMES = ("a", "b", "ab", "c", "", "d", "aa", "x")
PARTS = 4


def draw_object(rng: random.Random, depth: int = 0) -> dict[str, Any]:
    """The schema of an object with declared names and other names."""
    schema: dict[str, Any] = {"type": "object"}
    if rng.random() < 0.75:
        schema["properties"] = {name: draw_member(rng, depth) for name in rng.sample(NAMES, rng.randint(1, 3))}
        if rng.random() < 0.5:
            schema["required"] = rng.sample(list(schema["properties"]), rng.randint(1, len(schema["properties"])))
    if rng.random() < 0.3:
        schema["patternProperties"] = {rng.choice(("^a", "b$", "^[ab]$", "a")): draw_member(rng, depth)}
    if rng.random() < 0.3:
        few = {"enum": rng.sample(NAMES, 3)}
        schema["propertyNames"] = rng.choice((few, {"pattern": "^[abc]"}, {"maxLength": 1}, {"minLength": 1}))
    if rng.random() < 0.4:
        schema["additionalProperties"] = rng.choice((False, draw_member(rng, depth)))
    if rng.random() < 0.5:
        schema[rng.choice(("minProperties", "maxProperties"))] = rng.randint(2, 3)
    return schema


def draw_member(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(9 if depth < 2 else 7)
    if kind == 7:
        return draw_object(rng, depth + 1)
    if kind == 8:
        return {"type": "array", "uniqueItems": rng.random() < 0.6, "items": draw_member(rng, depth + 1)}
    word = {"const": "x" * rng.randint(1, 30)}
    kinds = ({"type": "integer"}, {"type": "boolean"}, {"type": "string"}, {"enum": ["a", "b", 1]}, word, True)
    return (*kinds, {"type": ["null", "array"]})[kind]


def draw_instance(rng: random.Random, schema: Any) -> Any:
    """A value that is often valid."""
    if not isinstance(schema, dict):
        return draw_value(rng)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if schema.get("type") == "object":
        declared = schema.get("properties", {})
        names = [name for name in (*declared, *rng.sample(NAMES, 2)) if rng.random() < 0.7]
        return {name: draw_instance(rng, declared.get(name, True)) for name in names}
    if schema.get("type") == "array":
        return [draw_instance(rng, schema.get("items", True)) for _ in range(rng.randint(0, 3))]
    simple = {"integer": (0, 1, 10), "boolean": (True, False), "string": ("", "a", "b", "ab")}
    return rng.choice(simple.get(str(schema.get("type")), (draw_value(rng),)))


def check_walk(grammar: CompiledGrammar, documents: list[bytes], rng: random.Random) -> None:
    """Compare the masks along one output with the accepted tokens. Each allowed token must fit the budget."""
    matcher, tokens = GrammarMatcher(grammar), grammar.vocabulary.tokens
    left = matcher.min_tokens_to_finish() + rng.choice((0, 1, 3, 8)) if rng.random() < 0.5 else None
    document, written = rng.choice(documents) if rng.random() < 0.6 else b"", b""
    for _ in range(40):
        allowed = mask_of(matcher)
        assert allowed == tuple(matcher._walk_mask()), written
        if left is not None:
            in_time = mask_of(matcher, left)
            assert in_time and set(in_time) <= set(allowed), (written, left)
            for token in in_time if len(in_time) < 40 else rng.sample(in_time, 40):
                after = matcher.fork()
                assert after.accept_token(token)
                assert after.is_terminated() or after.min_tokens_to_finish() < left, (written, tokens[token], left)
            allowed, left = in_time, left - 1
        ids = [token for token in allowed if tokens[token] is not None]
        if not ids or (len(ids) < len(allowed) and rng.random() < 0.2):
            return
        rest = document.removeprefix(written) if document.startswith(written) else b""
        ids = [token for token in ids if rest.startswith(tokens[token] or b"")] or ids
        long_ids = [token for token in ids if token >= len(BYTES)]
        token = rng.choice(long_ids if long_ids and rng.random() < 0.6 else ids)
        assert matcher.accept_token(token)
        written += tokens[token] or b""


@pytest.mark.parametrize("part", range(PARTS))
def test_tokens_that_contain_names_and_values(part: int) -> None:
    count = draws(250, 4000)
    for seed in range(part * count, (part + 1) * count):
        rng = random.Random(seed)
        schema = draw_object(rng) if rng.random() < 0.75 else draw_schema(rng)
        values = [draw_instance(rng, schema) for _ in range(4)] + [draw_value(rng) for _ in range(2)]
        documents = [json.dumps(value, separators=rng.choice(((",", ":"), (", ", ": ")))).encode() for value in values]
        pieces = set[bytes]()
        for _ in range(rng.randint(3, 30)):
            document = rng.choice(documents)
            begin = rng.randrange(len(document))
            pieces.add(document[begin : begin + rng.randint(2, 9)])
        joined = sorted(piece for piece in pieces if len(piece) > 1)
        vocabulary = Vocabulary([*BYTES, *joined, None], eos_token_ids=[len(BYTES) + len(joined)])
        orders: tuple[Literal["any", "declared"], ...] = ("any", "declared")
        compiler = GrammarCompiler(vocabulary, cache_bytes=0)
        try:
            grammar = compiler.compile_json_schema(schema, property_order=rng.choice(orders))
        except GuidedError:  # unsatisfiable, or not supported
            continue
        try:
            for _ in range(4):
                check_walk(grammar, documents, rng)
        except LimitExceeded:  # arrays of arrays that must differ
            continue


LOST: list[tuple[str, bytes, dict[str, Any], str]] = [
    ("a declared name", b',"c"', {"properties": {"d": {"type": "integer"}, "c": {"type": "boolean"}}}, '{"d":0'),
    ("a declared name at the start", b' "c"', {"properties": {"c": {"type": "boolean"}}}, "{"),
    ("an empty declared name", b' ""', {"properties": {"": {"type": "boolean"}}}, "{"),
]


@pytest.mark.parametrize(("name", "joined", "schema", "written"), LOST, ids=[case[0] for case in LOST])
def test_a_declared_name_in_one_token(name: str, joined: bytes, schema: dict[str, Any], written: str) -> None:
    """It is not one of the other names, although it must differ from them."""
    vocabulary = Vocabulary([*BYTES, joined, None], eos_token_ids=[257])
    matcher = GrammarMatcher(GrammarCompiler(vocabulary).compile_json_schema({"type": "object", **schema}))
    assert matcher.accept_string(written)
    assert 256 in mask_of(matcher)


def test_a_matcher_whose_names_are_used_up() -> None:
    """It may not go on with another member. A later matcher of the same grammar may."""
    vocabulary = Vocabulary([*BYTES, b'",', None], eos_token_ids=[257])
    schema = {"type": "object", "propertyNames": {"enum": ["x", "aa"]}}
    grammar = GrammarCompiler(vocabulary).compile_json_schema(schema, property_order="any")
    for written, goes_on in (('{"x":1,"aa":"', False), ('{"aa":"', True)):
        matcher = GrammarMatcher(grammar)
        assert matcher.accept_string(written)
        assert (256 in mask_of(matcher)) == goes_on
        assert (256 in mask_of(matcher, 50)) == goes_on


def test_a_budget_with_a_declared_name_in_one_token() -> None:
    """After the token, only the long value of the declared name may follow."""
    vocabulary = Vocabulary([*BYTES, b'","a":', None], eos_token_ids=[257])
    schema = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"const": "x" * 72}}, "required": ["b"]}
    matcher = GrammarMatcher(GrammarCompiler(vocabulary).compile_json_schema(schema))
    assert matcher.accept_string('{"b":"')
    assert 256 not in mask_of(matcher, 8)
    assert 256 in mask_of(matcher, 80)
