"""Budgets where values must differ: no mask allows a token after which the rest no longer fits, and a mask costs little
however many values were seen.
"""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.bad_inputs.calls import vocabulary as search_vocabulary
from guided import Limits
from guided.errors import BudgetError, SpecError
from guided.matching import CompiledGrammar, GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.core_support import mask_of
from tests.effort import examples

Schema = dict[str, Any]
BYTES = [bytes([byte]) for byte in range(256)]
PATTERNS = (
    "^[ab]{2}$",
    "^[ab]{1,2}$",
    "^a[bc]$|^b[ab]$",
    "^(ab|ba|aa)$",
    "^[ab]{3}$",
    "^a?b*$",
    "^(a|bb|ccc)$",
    "^.{2}$",
)
SCALARS = st.one_of(
    st.sampled_from(PATTERNS).map(lambda pattern: {"type": "string", "pattern": pattern}),
    st.sets(st.sampled_from(["aa", "ab", "ba", "bb", "a", 1, 10, 12, None]), min_size=3).map(
        lambda values: {"enum": sorted(values, key=str)}
    ),
    st.sampled_from([5, 12, 120]).map(lambda most: {"type": "integer", "minimum": 0, "maximum": most}),
    st.just({"type": "number", "minimum": 0, "maximum": 3}),
    st.sampled_from([1, 2, 3]).map(lambda most: {"type": "string", "maxLength": most}),
)


@st.composite
def items(draw: st.DrawFn) -> Schema:
    """A scalar, a short array, or an object with one or two members."""
    kind = draw(st.sampled_from(["scalar", "scalar", "array", "object"]))
    if kind == "scalar":
        return draw(SCALARS)
    if kind == "array":
        least = draw(st.integers(0, 2))
        return {
            "type": "array",
            "items": draw(SCALARS),
            "minItems": least,
            "maxItems": draw(st.integers(2, 3)),
            "uniqueItems": draw(st.booleans()),
        }
    members = {"a": draw(SCALARS), "b": draw(SCALARS)}
    required = draw(st.sampled_from([["a"], ["a", "b"]]))
    return {"type": "object", "properties": members, "required": required, "additionalProperties": False}


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """An array whose items must differ, possibly behind others, or an object with several names."""
    least = draw(st.integers(2, 4))
    kind = draw(st.sampled_from(["array", "array", "prefix", "names"]))
    if kind == "names":
        names = {draw(st.sampled_from(PATTERNS)): draw(items())}
        return {"type": "object", "patternProperties": names, "additionalProperties": False, "minProperties": least}
    before = {"prefixItems": draw(st.lists(items(), min_size=1, max_size=2))} if kind == "prefix" else {}
    return {"type": "array", **before, "items": draw(items()), "minItems": least, "uniqueItems": True}


@st.composite
def compilers(draw: st.DrawFn) -> GrammarCompiler:
    """All bytes, and a few tokens that join the characters of such arrays."""
    pieces = st.text(draw(st.sampled_from(['ab"', 'ab",[]', 'a",:', "01,", '{}":a,b'])), min_size=2, max_size=4)
    joined = sorted({piece.encode() for piece in draw(st.lists(pieces, min_size=1, max_size=8))})
    return GrammarCompiler(Vocabulary([*BYTES, *joined, None], eos_token_ids=[256 + len(joined)]), cache_bytes=0)


def walk(grammar: CompiledGrammar, spare: int, rng: random.Random) -> None:
    """Write one output within `spare` tokens more than it needs at least. Check every token of each mask."""
    matcher = GrammarMatcher(grammar)
    left, tokens, written = matcher.min_tokens_to_finish() + spare, grammar.vocabulary.tokens, b""
    likely = {id for id, token in enumerate(tokens) if token and (id >= 256 or token in b'ab012",[]')}
    while not matcher.is_terminated():
        allowed = mask_of(matcher, left)
        assert allowed, (written, left)
        for token in allowed if len(allowed) < 50 else rng.sample(allowed, 50):
            after = matcher.fork()
            assert after.accept_token(token)
            needed = after.min_tokens_to_finish()
            assert needed < left, (written, tokens[token], left, needed)
        going_on = [token for token in allowed if token in likely] or list(allowed)
        token = rng.choice(going_on if rng.random() < 0.9 else list(allowed))
        assert matcher.accept_token(token)
        written += tokens[token] or b""
        left -= 1


@examples(200, 1000)
@given(compilers(), schemas(), st.sampled_from([0, 0, 1, 2, 6]), st.randoms(use_true_random=False))
def test_after_each_allowed_token_the_budget_suffices(
    compiler: GrammarCompiler, schema: Schema, spare: int, rng: random.Random
) -> None:
    """Whatever values were written, the shortest rest is as long as the mask assumed."""
    try:
        grammar = compiler.compile_json_schema(schema)
    except SpecError:  # there are not enough different values
        return
    for _ in range(2):
        walk(grammar, spare, rng)


CONTAINED: dict[str, Schema] = {
    "objects": {"type": "object"},
    "objects of few values": {"type": "object", "additionalProperties": {"enum": [0.5, ""]}},
    "arrays": {"type": "array", "items": {"type": "integer"}},
    "integers": {"type": "integer", "minimum": 1000},
    "a short string or a long one": {"type": "string", "pattern": "^(aaaa|b{30})$"},
}


@pytest.mark.parametrize("others", [{}, {"type": ["object", "number", "array", "string"]}], ids=["any", "some"])
@pytest.mark.parametrize("name", CONTAINED)
def test_items_that_must_come_although_others_are_shorter(name: str, others: Schema) -> None:
    """Once the shortest such item has been seen, an endless row of other items must not follow."""
    schema = {"type": "array", "items": others, "uniqueItems": True, "contains": CONTAINED[name], "minContains": 2}
    vocabulary = Vocabulary([*BYTES, b'":', b"],", b"},", None], eos_token_ids=[259])
    grammar = GrammarCompiler(vocabulary, cache_bytes=0).compile_json_schema(schema)
    rng = random.Random(name)
    for spare in (0, 0, 1, 6):
        walk(grammar, spare, rng)
    for written in ("[1,", '[{"a":2},', '[7,"x",'):
        matcher = GrammarMatcher(grammar)
        assert matcher.accept_string(written)
        assert matcher.min_tokens_to_finish() < 60


TIES = [
    ({"type": "string", "pattern": "^[ab]{2}$"}, [b'a"'], 3, '["aa","b'),
    ({"enum": ["aa", "ab", "ba", "bb"]}, [b'a"'], 3, '["aa","b'),
    (
        {"type": "array", "minItems": 2, "maxItems": 2, "uniqueItems": True, "items": {"enum": ["", "a", "b"]}},
        [b',"', b',"a', b'a"]'],
        2,
        '[["b",""],[""',
    ),
]


@pytest.mark.parametrize(("item", "joined", "least", "text"), TIES, ids=["pattern", "enum", "pairs"])
def test_equally_short_values_need_different_numbers_of_tokens(
    item: Schema, joined: list[bytes], least: int, text: str
) -> None:
    """Which of them is written last must not depend on the values that were seen before it."""
    vocabulary = Vocabulary([*BYTES, *joined, None], eos_token_ids=[256 + len(joined)])
    schema = {"type": "array", "items": item, "minItems": least, "uniqueItems": True}
    matcher = GrammarMatcher(GrammarCompiler(vocabulary, cache_bytes=0).compile_json_schema(schema))
    assert matcher.accept_string(text)
    least_left = matcher.min_tokens_to_finish()
    with pytest.raises(BudgetError):
        mask_of(matcher, least_left - 1)
    for left in range(least_left, least_left + 4):
        for token in mask_of(matcher, left):
            after = matcher.fork()
            assert after.accept_token(token) and after.min_tokens_to_finish() < left


def pair(n: int) -> list[str]:
    """A pair of short strings; different numbers give different pairs."""
    return [f"{n % 7:03}", f"{n:03}"]


SEVERAL: dict[str, tuple[Schema, list[Any], str]] = {
    "pairs": (
        {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2},
        [pair(n) for n in range(40)],
        '["',
    ),
    "objects": (
        {
            "type": "object",
            "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
            "required": ["name", "age"],
            "additionalProperties": False,
        },
        [{"name": f"n{n}", "age": n % 5} for n in range(40)],
        '{"name":"',
    ),
    "objects in objects": (
        {
            "type": "object",
            "properties": {
                "user": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
            },
            "required": ["user"],
            "additionalProperties": False,
        },
        [{"user": {"name": f"n{n}"}} for n in range(40)],
        '{"user":{"name":"n',
    ),
    "objects in arrays": (
        {
            "type": "array",
            "prefixItems": [
                {"type": "string"},
                {"type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": False},
            ],
            "items": False,
            "minItems": 2,
        },
        [["p", {"name": f"n{n}"}] for n in range(40)],
        '["p",{"name":"n',
    ),
    "integers": ({"type": "integer", "minimum": 0, "maximum": 1000}, list(range(40)), ""),
    "numbers": ({"type": "number", "minimum": 0, "maximum": 9}, [n / 8 for n in range(40)], ""),
    "dates": ({"type": "string", "format": "date"}, [f"2020-01-{n % 28 + 1:02}" for n in range(28)], '"'),
}


@pytest.mark.parametrize("seen", [0, 3, 40])
@pytest.mark.parametrize("name", SEVERAL)
def test_a_mask_costs_little_beside_many_seen_values(name: str, seen: int) -> None:
    """Only the tokens that continue like a seen value, or like one that must be written, are examined one by one."""
    item, values, begun = SEVERAL[name]
    schema = {"type": "array", "items": item, "minItems": 5, "uniqueItems": True}
    compiler = GrammarCompiler(search_vocabulary(), cache_bytes=0, limits=Limits(call_work=1_000_000))
    matcher = GrammarMatcher(compiler.compile_json_schema(schema))
    before = "".join(json.dumps(value, separators=(",", ":")) + "," for value in values[:seen])
    assert matcher.accept_string(f"[{before}{begun}")
    plain = mask_of(matcher)
    least = matcher.min_tokens_to_finish()
    masks = [mask_of(matcher, left) for left in (least, least + 1, least + 20, 10_000)]
    assert masks[0] and masks[-1] == plain
    for fewer, more in itertools.pairwise(masks):
        assert set(fewer) <= set(more)


@pytest.mark.parametrize("name", ["pairs", "objects", "integers", "dates"])
def test_many_values_that_must_differ_compile(name: str) -> None:
    """The end of an array of forty or more items is found without a search over all values."""
    item = SEVERAL[name][0]
    least = 200 if name == "dates" else 40
    schema = {"type": "array", "items": item, "minItems": least, "uniqueItems": True}
    grammar = GrammarCompiler(search_vocabulary(), cache_bytes=0).compile_json_schema(schema)
    assert GrammarMatcher(grammar).min_tokens_to_finish() > least


def test_objects_of_several_names_that_must_differ() -> None:
    """The names of each object are chosen without a search, although the objects must differ, too."""
    item = {"type": "object", "properties": {"": {"type": "object"}}, "minProperties": 3}
    schema = {"type": "array", "items": item, "minItems": 4, "uniqueItems": True}
    limits = Limits(call_work=10_000_000)
    grammar = GrammarCompiler(Vocabulary(BYTES, eos_token_ids=[256]), cache_bytes=0, limits=limits).compile_json_schema(
        schema, whitespace="compact"
    )
    texts = ['{"":{}," ":0,"!":0}', '{" ":0,"!":0,"#":1}', '{" ":0,"!":0,"#":0}', '{" ":0,"!":1,"#":0}']
    least = GrammarMatcher(grammar).min_tokens_to_finish()
    assert 4 * 18 < least <= len(f"[{','.join(texts)}]") + 4


NESTED: dict[str, tuple[Schema, str]] = {
    "numbers": ({"type": "array", "items": {"type": "number"}, "minItems": 2, "uniqueItems": True}, "[{0},77]"),
    "strings": ({"type": "array", "items": {"type": "string"}, "minItems": 2, "uniqueItems": True}, '["{0}","z"]'),
}


@pytest.mark.parametrize("seen", [6, 7, 8, 20])
@pytest.mark.parametrize("name", NESTED)
def test_values_that_must_differ_within_others(name: str, seen: int) -> None:
    """However many values were seen, each token of the shortest rest makes it shorter."""
    inner, written = NESTED[name]
    item = {"type": "array", "prefixItems": [{"type": "string"}, inner], "items": False, "minItems": 2}
    grammar = GrammarCompiler(Vocabulary(BYTES, eos_token_ids=[256]), cache_bytes=0).compile_json_schema(
        {"type": "array", "items": item, "uniqueItems": True}
    )
    matcher = GrammarMatcher(grammar)
    before = ",".join('["abc",' + written.replace("{0}", str(number)) + "]" for number in range(seen))
    assert matcher.accept_string(f'[{before},["ab')
    for left in range(matcher.min_tokens_to_finish(), 0, -1):
        assert matcher.min_tokens_to_finish() <= left
        assert matcher.accept_token(mask_of(matcher, left)[0])
    assert matcher.is_terminated()


@pytest.mark.parametrize(
    ("begun", "rest"),
    [
        ('"\\', '"":0}'),
        ('"\\u', '0000":0}'),
        ('"\\u00', '00":0}'),
        ('"a\\u006', '0":0}'),
        ('"\\ud83d\\', 'ude00":0}'),
    ],
)
def test_the_rest_of_an_escape_that_has_begun(begun: str, rest: str) -> None:
    """Of the names that an unfinished escape may still give, a shortest unseen one is written."""
    compiler = GrammarCompiler(Vocabulary(BYTES, eos_token_ids=[256]), cache_bytes=0)
    schema = {"type": "object", "minProperties": 3, "additionalProperties": {"type": "integer"}}
    matcher = GrammarMatcher(compiler.compile_json_schema(schema, whitespace="compact"))
    assert matcher.accept_string('{"@":1,"":7,' + begun)
    assert matcher.min_tokens_to_finish() == len(rest) + 1
    assert matcher.fork().accept_string(rest)
