"""Masks under a budget are sound: after every token that they allow, the remaining budget suffices for the rest.

Walks check this for the tokens that they accept. Here, every token of a mask is checked, along random texts.
"""

from __future__ import annotations

import random
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.bad_inputs.calls import vocabulary as search_vocabulary
from guided import Limits
from guided.errors import BudgetError, GuidedError, LimitExceeded
from guided.frontends.json_schema import JsonSchemaOptions
from guided.ir import Alt, Chars, Grammar, Ref, Seq, Text
from guided.matching import CompiledGrammar, GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.core_support import mask_of, vocabulary
from tests.drawn_grammars import ALPHABETS, grammars, vocabularies
from tests.json_schema_support import QUIET, byte_compiler, compiled, grammar_of, sample, schemas

NO_BOUND = 2**40  # more tokens than any rest needs
SMALL = GrammarCompiler(vocabulary(), cache_bytes=0)


def check(grammar: CompiledGrammar, tokens: list[int]) -> None:
    """Check every position along the tokens of a text."""
    matcher = GrammarMatcher(grammar)
    for token in [*tokens, None]:
        least = matcher.min_tokens_to_finish()
        with pytest.raises(BudgetError):
            mask_of(matcher, least - 1)
        for left in (least, least + 1, least + 4):
            mask = mask_of(matcher, left)
            assert mask, (tokens, left)
            for allowed in mask:
                after = matcher.fork()
                assert after.accept_token(allowed)
                needed = after.min_tokens_to_finish()
                assert needed < left, (tokens, grammar.vocabulary.tokens[allowed], left, needed)
        if token is None or not matcher.accept_token(token):
            return


def check_bound(grammar: CompiledGrammar, tokens: list[int]) -> None:
    """A mask reports that the budget may have removed tokens whenever it lacks some."""
    matcher = GrammarMatcher(grammar)
    for token in [*tokens, None]:
        plain = mask_of(matcher)
        assert not matcher.budget_bound
        least = matcher.min_tokens_to_finish()
        for left in (least, least + 1, least + 4, 2 * least, 10_000):
            assert mask_of(matcher, left) == plain or matcher.budget_bound
        if token is None or not matcher.accept_token(token):
            return


def check_any_token(matcher: GrammarMatcher, bound: int) -> None:
    """After any token, a bound plus the end token is enough."""
    for allowed in mask_of(matcher, bound + 2):
        after = matcher.fork()
        assert after.accept_token(allowed)
        needed = after.min_tokens_to_finish()
        assert needed <= bound + 1, (matcher.grammar.vocabulary.tokens[allowed], bound, needed)
    assert mask_of(matcher, bound + 2) == mask_of(matcher) and not matcher.budget_bound


def check_rest(grammar: CompiledGrammar, tokens: list[int]) -> bool:
    """Bounds from the rules alone hold for each token. Returns whether there are any."""
    matcher, says = GrammarMatcher(grammar), False
    for token in [*tokens, None]:
        bound = matcher._rests()[0]  # the last number may include tokens after which there is no end
        if bound < NO_BOUND:
            says = True
            check_any_token(matcher, bound)
        if token is None or not matcher.accept_token(token):
            break
    return says


@QUIET
@given(st.data())
def test_json_schemas(data: st.DataObject) -> None:
    options = data.draw(st.sampled_from(({}, {"property_order": "any", "numbers": "plain", "escapes": "minimal"})))
    grammar = grammar_of(data.draw(schemas(leaves=4)), JsonSchemaOptions(**options))
    native = compiled(grammar, SMALL)
    if native is None:
        return
    rng = random.Random(data.draw(st.integers(0, 999)))
    text = sample(compiled(grammar, byte_compiler()), rng, 20)
    tokens = SMALL.vocabulary.encode(text[: rng.randrange(40)])
    check(native, tokens)
    check_bound(native, tokens)
    check_rest(native, tokens)


@pytest.mark.parametrize(
    "spec",
    [
        "[ab]{2,60}c",
        "([ab]{1,40}-){3,12}c",
        "((a|b){0,50}c){1,5}",
        {"type": "string", "maxLength": 8},
        {"type": "string", "minLength": 2, "maxLength": 13},
        {"type": "string", "maxLength": 60, "pattern": "^(abc)*a?$"},
        {"items": {"type": "string", "maxLength": 9, "pattern": "a$"}, "minItems": 3, "maxItems": 9, "type": "array"},
    ],
    ids=str,
)
def test_every_count_of_a_counter_has_the_right_mask(spec: str | dict[str, Any]) -> None:
    """The mask has exactly the tokens after which the rest fits, from the first count to the last."""
    compile_spec = SMALL.compile_regex if isinstance(spec, str) else SMALL.compile_json_schema
    matcher = GrammarMatcher(compile_spec(spec))
    rng = random.Random(str(spec))
    for _ in range(70):
        least = matcher.min_tokens_to_finish()
        plain, needed = mask_of(matcher), dict[int, int]()
        for token in plain:
            after = matcher.fork()
            assert after.accept_token(token)
            needed[token] = after.min_tokens_to_finish()
        for left in range(least, least + 5):
            assert set(mask_of(matcher, left)) == {token for token, rest in needed.items() if rest < left}, left
        inside = sorted(token for token in plain if needed[token] > 0)
        if not inside:
            return
        assert matcher.accept_token(rng.choice(inside))


SAY: dict[str, dict[str, Any]] = {
    "required members": {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a", "b"]},
    "names that are free": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "null"}}},
    "calls itself": {"properties": {"next": {"$ref": "#"}, "value": {"enum": ["low", "high"]}}, "required": ["value"]},
    "any value": {},
    "counted": {"type": "array", "items": {"type": "string", "maxLength": 5}, "minItems": 2, "maxItems": 4},
    "conditions": {"dependentRequired": {"a": ["b", "c"], "d": ["a"]}, "properties": {"b": {"const": "long"}}},
    "a format": {"type": "object", "properties": {"mail": {"type": "string", "format": "email"}}, "required": ["mail"]},
    "names of a pattern": {"patternProperties": {"^[a-z]+$": {"type": "null"}}, "additionalProperties": False},
    "names of many characters": {"patternProperties": {"^[a-z]{1,255}$": {"type": "null"}}, "minProperties": 2},
    "unique words": {"type": "array", "items": {"enum": ["a", "b", "cc"]}, "uniqueItems": True, "minItems": 2},
    "unique names": {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 3},
}


@pytest.mark.parametrize("order", ["declared", "any"])
@pytest.mark.parametrize("name", SAY)
def test_bounds_from_the_rules(name: str, order: Literal["declared", "any"]) -> None:
    grammar = SMALL.compile_json_schema(SAY[name], property_order=order)
    for seed in range(2):
        text = sample(byte_compiler().compile_json_schema(SAY[name], property_order=order), random.Random(seed), 16)
        assert check_rest(grammar, SMALL.vocabulary.encode(text))


@QUIET
@given(st.data())
def test_bounds_from_the_rules_are_upper_bounds(data: st.DataObject) -> None:
    alphabet = data.draw(st.sampled_from(ALPHABETS))
    drawn = data.draw(vocabularies(alphabet, complete=True))
    words = Vocabulary(drawn.tokens, eos_token_ids=drawn.eos_token_ids, special_tokens=drawn.special_tokens)
    try:
        grammar = GrammarCompiler(words).compile_grammar(data.draw(grammars(alphabet)))
    except GuidedError:
        return
    matcher, rng, path = GrammarMatcher(grammar), random.Random(data.draw(st.integers(0, 999))), []
    for _ in range(8):
        path.append(rng.choice(mask_of(matcher)))
        matcher.accept_token(path[-1])
        if matcher.is_terminated():
            break
    check_rest(grammar, [token for token in path if token not in drawn.eos_token_ids])


DIFFER: dict[str, tuple[dict[str, Any], str]] = {
    "open objects": (
        {"type": "array", "uniqueItems": True, "items": {"type": "object"}},
        '[{"a": 0, "b": true}, {"a": 0, "b": null}, {}, {"a": 0, "b": [{"c": 1}, {"c": 10}]}, {"a": 0}]',
    ),
    "any values": (
        {"uniqueItems": True},
        '[[], {}, [[]], "", "a", 1, 10, null, [true], {"": [0]}, {"": [1, {"a": 2}]}, 0.5]',
    ),
    "a dictionary beside many members": (
        {
            "properties": {
                f"{word}_{n}": {"const": 1} for word in ("alpha", "berg", "cedar", "delta") for n in range(50)
            },
            "additionalProperties": {"const": 1},
        },
        '{"berg_7": 1, "delta_40": 1, "berg": 1, "zz": 1, "berg_77": 1, "b": 1, "alpha_": 1, "": 1}',
    ),
}
MANY_NUMBERS = GrammarCompiler(
    Vocabulary([*(bytes([byte]) for byte in range(256)), *(b"%d" % n for n in range(10, 200))], eos_token_ids=[446]),
    cache_bytes=0,
)


@pytest.mark.parametrize("name", DIFFER)
def test_a_bound_is_known_wherever_values_must_differ(name: str) -> None:
    """The bound holds for every allowed token, so no completion is searched for while the budget is ample."""
    schema, text = DIFFER[name]
    for numbers in ("json", "plain"):
        matcher = GrammarMatcher(MANY_NUMBERS.compile_json_schema(schema, numbers=numbers))
        first, *tokens = MANY_NUMBERS.vocabulary.encode(text)
        assert matcher.accept_token(first)
        for token in tokens:
            bound = matcher._rests()[1]
            assert bound < NO_BOUND
            check_any_token(matcher, bound)
            assert matcher.accept_token(token)


def test_earlier_text_counts_after_an_object_begins() -> None:
    """After a value with names of its own begins, the names around it still count."""
    grammar = SMALL.compile_json_schema({"type": "object", "patternProperties": {"a": {}}, "minProperties": 2})
    for text in ('{"":', '{"":{"":', '{"":[{', '{"":0,"0":'):
        check(grammar, SMALL.vocabulary.encode(text))


@pytest.mark.parametrize("order", ["declared", "any"])
def test_the_bound_after_every_token_suffices(order: Literal["declared", "any"]) -> None:
    """If values must differ, the number of tokens after any token may be known to be small, even if the shortest text
    is not known.
    """
    names = {"type": "object", "propertyNames": {"maxLength": 1}}
    schema = {
        "properties": {"b": {"const": [1]}, "ab": True},
        "patternProperties": {"^a": {**names, "minProperties": 0}},
        "additionalProperties": {
            "type": "object",
            "properties": {"": {"const": ""}},
            "required": ["c", "b"],
            "patternProperties": {"^$": {"enum": [2, None]}, "^(a|ab)$": {"type": ["boolean"]}},
            "dependentRequired": {"": ["ab"]},
        },
        "minProperties": 3,
        "anyOf": [{**names, "maxProperties": 3}],
    }
    check(SMALL.compile_json_schema(schema, property_order=order), [])


def test_another_name_may_ask_for_a_longer_value() -> None:
    """The shortest remaining name is not the name of the shortest member: the bound must consider both."""
    names = {"^$": {"type": "array"}, "b$": {"type": "string"}}
    schema = {
        "type": "object",
        "patternProperties": names,
        "minProperties": 3,
        "additionalProperties": {"const": [1] * 30},
    }
    grammar = byte_compiler().compile_json_schema(schema, property_order="any")
    check(grammar, list(b'{"b":"a","":[],"bb":""'))
    matcher = GrammarMatcher(grammar)
    assert matcher.accept_string('{"b":"a","":[')
    assert matcher.min_tokens_to_finish() == len('],"bb":""}') + 1


def test_a_token_that_stays_where_another_one_leaves() -> None:
    """Both tokens lead to the same state of the frame, but one of them can also leave the frame."""
    a, c = Ref("A"), Chars(((0, 55295), (57344, 1114111)))
    rules = {"start": a, "A": Alt((Seq((a, c, a, a)), Text("a"), Text("é"))), "c": c}
    words = Vocabulary([b"a", "é,".encode(), b"aa", b"\xc3", b"\xa9", b",", None], eos_token_ids=[6])
    grammar = GrammarCompiler(words).compile_grammar(Grammar(rules))
    for tokens in ([1], [1, 0, 0], [0, 1, 2], [2, 1, 1]):
        check(grammar, tokens)


@pytest.mark.parametrize(
    "text",
    [
        '[{"a":"x","b":"hello"},{"a":"x","b":"he',
        "[" + "".join(f'{{"a":"{n}"}},' for n in range(40)) + '{"b":"he',
    ],
    ids=["like another", "beside many"],
)
def test_the_rest_of_an_object_is_examined_as_far_as_it_may_repeat_a_name(text: str) -> None:
    """Of a thousand tokens in the last string, the search follows those that continue like another object or end this
    one.
    """
    string = {"type": "string"}
    names = {"properties": {"a": string, "b": string}, "patternProperties": {"^x": string}}
    items = {"type": "object", **names, "additionalProperties": False}
    compiler = GrammarCompiler(search_vocabulary(), cache_bytes=0, limits=Limits(call_work=100_000))
    matcher = GrammarMatcher(compiler.compile_json_schema({"type": "array", "uniqueItems": True, "items": items}))
    assert matcher.accept_string(text)
    allowed = mask_of(matcher)
    assert len(allowed) > 800
    least = matcher.min_tokens_to_finish()
    masks = {left: mask_of(matcher, left) for left in (least, least + 1)}
    needed = dict[int, int]()
    for token in allowed:
        after = matcher.fork()
        assert after.accept_token(token)
        needed[token] = after.min_tokens_to_finish()
    assert masks == {left: tuple(token for token in allowed if needed[token] < left) for left in masks}


def test_ties_between_equally_short_names_are_stable() -> None:
    """`ab` is one token, `ac` and `cb` are two: after the quotation mark, the completion still uses the same name as
    before it.
    """
    tokens = [*(bytes([byte]) for byte in range(256)), b"ab", b'":', b'":[', b'a"']
    names = {"propertyNames": {"pattern": "^[a-d]{1,3}$"}, "properties": {"a": {"type": "integer"}}}
    compiler = GrammarCompiler(Vocabulary(tokens, eos_token_ids=[len(tokens)], size=len(tokens) + 1), cache_bytes=0)
    grammar = compiler.compile_json_schema({"type": "object", **names, "minProperties": 12, "required": ["a"]})
    text = '{"a":0,"b":0,"da":0,"ca":0,"cab":0,"bd":0,"bc":0,"c":0,"abc":0,"d":0,"aa":0,"ab":0}'
    matcher = GrammarMatcher(grammar)
    for byte in text.encode():
        assert mask_of(matcher, matcher.min_tokens_to_finish())
        assert matcher.accept_token(byte)
    assert matcher.is_accepting()


@pytest.mark.parametrize("order", ["declared", "any"])
@pytest.mark.parametrize("least", [2, 3, 4])
def test_a_name_may_be_shortest_with_an_escape(order: Literal["declared", "any"], least: int) -> None:
    r"""Of the names without a character that `.` matches, `""` is the shortest, then `"\n"`; U+2028 needs one more
    byte.
    """
    schema = {"type": "object", "patternProperties": {".": {"type": "null"}}, "minProperties": least}
    matcher = GrammarMatcher(byte_compiler().compile_json_schema(schema, property_order=order))
    assert matcher.accept_string('{"":8,')
    assert least > 2 or matcher.min_tokens_to_finish() == len(r'"\n":8}') + 1
    rng = random.Random(least)
    while not matcher.is_terminated():
        mask = mask_of(matcher, matcher.min_tokens_to_finish())
        assert mask
        assert matcher.accept_token(rng.choice(mask))


@pytest.mark.parametrize("levels", [5, 20, 50, 60, 80])
def test_an_output_of_exponential_length_does_not_fit(levels: int) -> None:
    """Costs in bytes saturate at 50 levels."""
    rules = {f"r{at}": Seq((Text("["), Ref(f"r{at + 1}"), Ref(f"r{at + 1}"), Text("]"))) for at in range(levels)}
    grammar = SMALL.compile_grammar(Grammar({"start": Ref("r0"), **rules, f"r{levels}": Text("a")}))
    with pytest.raises((BudgetError, LimitExceeded)):
        mask_of(GrammarMatcher(grammar), 20)
