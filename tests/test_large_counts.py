"""Masks under a budget, and completions, have the same cost for all counts.

The judges: for counts, the fewest tokens of the written-out text; for names and items that must differ, `json`.
"""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.ir import Alt, Grammar, Node, Ref, Repeat, Seq, Text
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.core_support import mask_of
from tests.effort import every

ASCII = [bytes([byte]) for byte in range(0x20, 0x7F)]
SOME = [*ASCII, b"ab", b'":', b'",', b"0,", b'"}', b'{"', b'["', b"12", b"123", b"aaa"]
CALLS = [b"a", b"b", b"(", b")", b",", b"z"]


def compiler_of(tokens: list[bytes]) -> GrammarCompiler:
    return GrammarCompiler(Vocabulary(tokens, eos_token_ids=[len(tokens)]), cache_bytes=0)


def fewest(text: bytes, tokens: list[bytes]) -> int:
    """The smallest number of tokens for a text, including the end token."""
    cost = [0] * (len(text) + 1)
    for at in range(len(text) - 1, -1, -1):
        cost[at] = 1 + min(cost[at + len(token)] for token in tokens if text.startswith(token, at))
    return cost[0] + 1


def searched_for_nothing(node: Node) -> Grammar:
    """A language with a recursive rule, at a higher cost: no exact distances are searched for."""
    return Grammar({"start": Alt((node, Seq((Text("z"), Ref("start")))))})


@given(st.data())
def test_counts_take_as_many_tokens_as_their_text(data: st.DataObject) -> None:
    letters = st.text("ab,", min_size=2, max_size=5).map(str.encode)
    tokens = [*CALLS, *data.draw(st.lists(letters, max_size=6, unique=True))]
    spelled = data.draw(st.text("ab", min_size=1, max_size=3))
    node: Node = Text(spelled)
    for _ in range(data.draw(st.integers(1, 3))):
        before, between = data.draw(st.sampled_from(["", "("])), data.draw(st.sampled_from(["", ","]))
        count = data.draw(st.sampled_from([1, 2, 9, 10, 24, 40]))
        if len(spelled) * count > 4000:
            break
        after = ")" if before else ""
        again: Node = Repeat(Seq((Text(between), node)), count, count)
        node = Seq((Text(before), *([node] if between else []), again, Text(after)))
        spelled = before + (spelled if between else "") + (between + spelled) * count + after
    matcher = GrammarMatcher(compiler_of(tokens).compile_grammar(searched_for_nothing(node)))
    assert matcher.min_tokens_to_finish() == fewest(spelled.encode(), tokens)
    for at in sorted(random.Random(len(spelled)).sample(range(len(spelled)), min(6, len(spelled)))):
        along = matcher.fork()
        assert along.accept_string(spelled[:at])
        assert along.min_tokens_to_finish() == fewest(spelled[at:].encode(), tokens)


def test_a_million_take_no_more_states_than_a_thousand():
    tokens = [b"a", b"b", b"aaaaa", b"aaaaaaaa", b"ba"]
    made = {}
    for count in (100_000, 1_000_000):
        for name, pattern in (("one", f"a{{{count}}}"), ("two", f"((ab){{{count}}}b){{{count}}}")):
            matcher = GrammarMatcher(compiler_of(tokens).compile_regex(pattern))
            needed = matcher.min_tokens_to_finish()
            assert needed == -(-count // 8) + 1 or name == "two"
            made[name, count] = matcher.configurations
    assert made["one", 1_000_000] == made["one", 100_000]
    assert made["two", 1_000_000] == made["two", 100_000]


def walk(schema: Any, tokens: list[bytes], seed: int, slack: int) -> Any:
    """Random allowed tokens. After each allowed token, the rest of the budget suffices."""
    rng = random.Random(seed)
    matcher = GrammarMatcher(compiler_of(tokens).compile_json_schema(schema))
    left = matcher.min_tokens_to_finish() + slack
    text = b""
    while True:
        allowed = mask_of(matcher, left)
        assert allowed
        for token in rng.sample(sorted(allowed), min(8, len(allowed))):
            if token < len(tokens):
                after = matcher.fork()
                assert after.accept_token(token) and after.min_tokens_to_finish() < left, (text, tokens[token])
        token = rng.choice(sorted(allowed))
        if token == len(tokens):
            return json.loads(text, object_pairs_hook=list, parse_int=Decimal, parse_float=Decimal)
        assert matcher.accept_token(token)
        text += tokens[token]
        left -= 1


FEW = {"type": "string", "pattern": "^[ab]+$"}
SHORT = {"type": "string", "pattern": "^[a-d]{1,3}$"}
DIFFERENT: dict[str, tuple[Any, int]] = {
    "names": ({"type": "object", "minProperties": 12}, 12),
    "names of two letters": ({"type": "object", "minProperties": 20, "propertyNames": FEW}, 20),
    "names of three letters at most": ({"type": "object", "minProperties": 20, "propertyNames": SHORT}, 20),
    "a required name": (
        {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"], "minProperties": 20,
         "additionalProperties": {"type": "integer"}}, 20,
    ),
    "names in names": (
        {"type": "object", "minProperties": 5, "additionalProperties": {"type": "object", "minProperties": 6}}, 5,
    ),
    "strings": ({"type": "array", "uniqueItems": True, "minItems": 20, "items": {"type": "string"}}, 20),
    "integers": ({"type": "array", "uniqueItems": True, "minItems": 30, "items": {"type": "integer"}}, 30),
    "any": ({"type": "array", "uniqueItems": True, "minItems": 12, "items": {"type": ["string", "number"]}}, 12),
}  # fmt: skip


@pytest.mark.parametrize("slack", every(2, [0, 3]))
@pytest.mark.parametrize("name", DIFFERENT)
def test_entries_that_must_differ_come_to_an_end(name: str, slack: int):
    schema, least = DIFFERENT[name]
    for seed, tokens in enumerate((ASCII, SOME)):
        value = walk(schema, tokens, seed, slack)
        keys = [member[0] for member in value] if schema["type"] == "object" else value
        assert len(keys) >= least and len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "minProperties": 0},
        {"type": "object", "minProperties": 0, "properties": {"a": {"type": "null"}}, "required": ["a"]},
        {"type": "array", "uniqueItems": True, "minItems": 0, "items": {"type": "integer"}},
        {"type": "array", "uniqueItems": True, "minItems": 0, "items": {"type": "string", "minLength": 3}},
    ],
)
def test_more_entries_take_hardly_more_states(schema: dict[str, Any]):
    made = []
    key = "minProperties" if schema["type"] == "object" else "minItems"
    for count in (1_000, 50_000):
        matcher = GrammarMatcher(compiler_of(SOME).compile_json_schema(schema | {key: count}))
        least = matcher.min_tokens_to_finish()
        assert 2 * count < least < 12 * count
        assert mask_of(matcher, least) and mask_of(matcher, least + 3)
        made.append(matcher.configurations)
    assert made[1] < 2 * made[0]
