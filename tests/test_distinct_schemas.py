"""Arrays of JSON Schema whose items must differ: no walk reaches a state without a remaining value, with or without a
budget.
"""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.matching import GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.core_support import mask_of
from tests.effort import examples
from tests.json_schema_support import byte_compiler

NAMES = st.sampled_from(["", "a", "b", "ab"])
ANYTHING = byte_compiler().compile_json_schema({"type": "array", "uniqueItems": True})
TWO = {"type": "array", "minItems": 2, "maxItems": 2}
SCARCE = [
    {"items": {"enum": [1, "\u00e9", "\u00ef", "\u12ab"]}},
    {"items": TWO | {"uniqueItems": True, "items": {"enum": ["a", "b", "c"]}}},
    {"items": TWO | {"items": {"enum": ["a", "b"]}}},
    {"items": {"anyOf": [{"enum": ["a", 1]}, TWO | {"items": {"const": "a"}}]}},
    {"items": {"type": "boolean"}, "maxItems": 3, "contains": {"type": "boolean"}, "maxContains": 3},
    {"items": {"enum": [1, "a", None]}, "contains": {"type": ["string", "null"]}, "minContains": 0, "maxContains": 3},
    {
        "items": {
            "type": "object",
            "properties": {"a": {"const": 1}, "b": {"enum": [1, 2]}},
            "required": ["a", "b"],
            "additionalProperties": False,
        }
    },
]


def canonical(value: Any) -> Any:
    """Equal for equal JSON values: other than in Python, 1 and true differ, but 1 and 1.0 do not."""
    if isinstance(value, list):
        return [canonical(item) for item in value]
    if isinstance(value, dict):
        return {name: canonical(inner) for name, inner in value.items()}
    return [type(value) in (int, float), float(value) if type(value) is int else value]


@pytest.mark.parametrize("order", ["declared", "any"])
@pytest.mark.parametrize("schema", SCARCE, ids=range(len(SCARCE)))
def test_an_array_never_comes_to_where_no_value_is_left(schema: dict[str, Any], order: str) -> None:
    """Random walks that go on as long as possible, with any spelling of each character: some continuation always
    remains.
    """
    grammar = byte_compiler().compile_json_schema(
        {"type": "array", "uniqueItems": True, **schema}, property_order=order, whitespace=" ?"
    )
    rng = random.Random(7)
    for _ in range(60):
        matcher = GrammarMatcher(grammar)
        for _ in range(400):
            allowed = mask_of(matcher)
            assert allowed
            if matcher.is_accepting():
                break
            going_on = [t for t in allowed if t != ord("]")] or allowed
            assert matcher.accept_token(rng.choice(going_on if rng.random() < 0.9 else allowed))


FEW = {
    "shared beginnings": (["ab", "abc", "abd", "b"], []),
    "another string before": (["a", "ab"], ["zz", "a", "c"]),
    "what must be escaped": (["a", 'a"', "a\\b", "a\n"], ["a"]),
    "past ASCII": (["\u00e9", "\u00e8a", "e", ""], ["\u00e9"]),
    "a surrogate pair": (["\U0001f600", "\U0001f601", "a"], []),
}


@pytest.mark.parametrize("name", FEW)
def test_the_last_of_few_strings(name: str) -> None:
    """Masks equal those from all arrays, written out. Other spellings allow the same, and have an end."""
    words, before = FEW[name]
    few = {"enum": words}
    schema = {"type": "array", "uniqueItems": True, "items": few, "prefixItems": [{"const": word} for word in before]}
    arrays = [[*before[:n]] for n in range(len(before) + 1)]
    rest = [word for word in words if word not in before]
    arrays += [[*before, *some] for n in range(1, len(rest) + 1) for some in itertools.permutations(rest, n)]
    texts = [json.dumps(array, separators=(",", ":"), ensure_ascii=False).encode() for array in arrays]
    tokens = sorted({text[at : at + n] for text in texts for at in range(len(text)) for n in (2, 3)})
    vocabulary = Vocabulary([*(bytes([byte]) for byte in range(256)), *tokens, None], eos_token_ids=[256 + len(tokens)])
    compiler = GrammarCompiler(vocabulary, cache_bytes=0)
    plain = compiler.compile_json_schema(schema, whitespace="compact", escapes="minimal")
    free = compiler.compile_json_schema(schema, whitespace="compact")
    rng = random.Random(name)
    for _ in range(12):
        narrow, wide, written = GrammarMatcher(plain), GrammarMatcher(free), b""
        while not narrow.is_terminated():
            rests = [text[len(written) :] for text in texts if text.startswith(written)]
            allowed = {
                id for id, token in enumerate(vocabulary.tokens) if token and any(r.startswith(token) for r in rests)
            }
            allowed |= set(vocabulary.eos_token_ids) if b"" in rests else set()
            assert set(mask_of(narrow)) == allowed
            assert allowed <= set(mask_of(wide))
            going_on = sorted(id for id in allowed if not (vocabulary.tokens[id] or b"]").endswith(b"]"))
            token = rng.choice(going_on or sorted(allowed))
            assert narrow.accept_token(token) and wide.accept_token(token)
            written += vocabulary.tokens[token] or b""
        spelled = GrammarMatcher(free)
        while not spelled.is_terminated():
            allowed = set(mask_of(spelled))
            assert allowed
            assert spelled.accept_token(rng.choice(sorted(allowed - {ord("]")} or allowed)))


LEAVES = st.sampled_from([0, 1, 10, 1.5, "", "a", "ab", "0", "é", True, None])
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))


def spelled(value: Any, rng: random.Random) -> str:
    """Write a value with its members in any order, and numbers and strings in several ways."""
    if isinstance(value, list):
        return "[" + ", ".join(spelled(item, rng) for item in value) + "]"
    if isinstance(value, dict):
        members = [f"{spelled(name, rng)}:{spelled(inner, rng)}" for name, inner in value.items()]
        rng.shuffle(members)
        return "{" + ",".join(members) + "}"
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5)
    if isinstance(value, str):
        return text.replace("a", rng.choice(["a", "\\u0061"]))
    others = {"1": ["1", "1.0", "10e-1"], "10": ["10", "1e1"], "0": ["0", "-0", "0.00"]}
    return rng.choice(others.get(text, [text]))


@examples(150, 1000)
@given(st.lists(VALUES, min_size=2, max_size=30), st.randoms(use_true_random=False))
def test_a_value_is_accepted_unless_it_was_seen(values: list[Any], rng: random.Random) -> None:
    """Also if many values were seen, and however deep they nest."""
    matcher = GrammarMatcher(ANYTHING)
    seen = set[str]()
    assert matcher.accept_string("[")
    for value in values:
        key = json.dumps(canonical(value), sort_keys=True)
        after = matcher.fork()
        assert after.accept_string(text := spelled(value, rng) + ",") == (key not in seen), (text, seen)
        if key in seen:
            continue
        some = matcher.fork()
        assert some.accept_string(text[: rng.randrange(len(text))])
        assert mask_of(some) == tuple(token for token in range(257) if some.fork().accept_token(token))
        seen.add(key)
        matcher = after


INTEGERS = {"items": {"type": "integer"}}
OBJECTS = {
    "items": {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
        "required": ["id", "name"],
        "additionalProperties": False,
    }
}


@pytest.mark.parametrize("items", [INTEGERS, {"items": {"type": "string"}}, OBJECTS, {}], ids=range(4))
def test_a_budget_that_was_plenty_runs_out_well(items: dict[str, Any]) -> None:
    """While the budget is ample, the plain mask is used. It never leads to a state for which the remaining budget is
    too small.
    """
    grammar = byte_compiler().compile_json_schema(
        {"type": "array", "uniqueItems": True, **items}, whitespace="compact", numbers="plain", escapes="minimal"
    )
    rng = random.Random(3)
    letters = [*b'0123456789ab"[]{},:-.', 256]
    for budget in (30, 60, 120, 200):
        matcher = GrammarMatcher(grammar)
        assert matcher.accept_string(b"[")
        for left in range(budget, 0, -1):
            mask = mask_of(matcher, left)
            assert mask
            going_on = [token for token in mask if token in letters and token != ord("]")]
            assert matcher.accept_token(rng.choice(going_on or list(mask)))
            if matcher.is_terminated():
                break
        assert matcher.is_terminated()


def test_a_token_that_uses_up_the_last_value_and_goes_on_is_refused() -> None:
    """Also beside hundreds of tokens that only continue the current value."""
    spaces = sorted({bytes(piece) for n in (2, 3, 4) for piece in itertools.product(b" \t\n\r", repeat=n)})
    joined = [b"},", b"} ,", b"},\n", b"}]"]
    vocabulary = Vocabulary([*(bytes([byte]) for byte in range(256)), *spaces, *joined, None], eos_token_ids=[596])
    assert len(vocabulary.tokens) == 597
    items = {"type": "object", "properties": {"a": {"type": "boolean"}}, "additionalProperties": False}
    grammar = GrammarCompiler(vocabulary, cache_bytes=0).compile_json_schema(
        {"type": "array", "items": items, "uniqueItems": True}
    )
    for text, is_last in (("[{", False), ('[{},{"a":true},{"a":false', True), ('[{"a":true},{"a":false},{', True)):
        matcher = GrammarMatcher(grammar)
        assert matcher.accept_string(text)
        mask = mask_of(matcher)
        assert mask == tuple(token for token in range(597) if matcher.fork().accept_token(token))
        assert (vocabulary.tokens.index(b"},") in mask) == (not is_last)


def test_a_member_that_begins_like_many_others() -> None:
    """Beside more than sixteen objects, members are followed as far as their beginnings tell."""
    words = list("abcdefghijklmnopqr")
    inner = {"type": "object", "properties": {"k": {"enum": words}}, "required": ["k"], "additionalProperties": False}
    for length in (3, 28, 29, 40):
        long = {"type": "array", "prefixItems": [{"const": "x" * length}, inner], "items": False, "minItems": 2}
        items = {"type": "object", "properties": {"a": long}, "required": ["a"], "additionalProperties": False}
        grammar = byte_compiler().compile_json_schema(
            {"type": "array", "items": items, "uniqueItems": True}, whitespace="compact", escapes="minimal"
        )
        matcher = GrammarMatcher(grammar)
        for number, word in enumerate(words[:-1]):
            item = json.dumps({"a": ["x" * length, {"k": word}]}, separators=(",", ":"))
            assert matcher.accept_string(("," if number else "[") + item)
        assert matcher.accept_string(',{"a":["' + "x" * length + '",{"k":"')
        assert mask_of(matcher) == (ord(words[-1]),)
