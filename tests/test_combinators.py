"""Combinators: random terms compared with spans computed from their definition, refusals, and names that do not
collide.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided.errors import LimitExceeded, SpecError, VocabularyError
from guided.ir import Grammar, Ref, Text
from guided.limits import Limits
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.core_support import mask_of
from tests.effort import draws, examples

TOKENS = [b"a", b"b", b"ab", b"1", b"[", b"]", None, None]
NAMES = {6: "<s>", 7: "<t>"}
VOCABULARY = Vocabulary(TOKENS, eos_token_ids=[8], special_tokens=NAMES)
COMPILER = GrammarCompiler(VOCABULARY)
SYMBOLS = [token.decode() if token else NAMES[at][1].upper() for at, token in enumerate(TOKENS)]  # S, T
LENGTH = 3
SCHEMA, VALUES = {"enum": [1, [1], [], [1, [1]]]}, ([1], 1, [], [1, [1]])

# ---- terms (kind, ...), and their meaning
LEAVES = st.one_of(
    st.text("ab1[]", max_size=2).map(lambda text: ("text", text)),
    st.sampled_from(["<s>", "<t>"]).map(lambda name: ("special", name)),
    st.sampled_from(["a*b", "[ab]", "(ab)?", ".", "(?=a)..", "b|"]).map(lambda pattern: ("regex", pattern)),
    st.sampled_from([("schema",), ("type",), ("compiled",), ("grammar",), ("pattern",)]),
    st.sampled_from("xy").map(lambda name: ("rule", name)),
)
TERMS = st.recursive(
    LEAVES,
    lambda items: st.one_of(
        st.tuples(st.just("sequence"), st.lists(items, max_size=3).map(tuple)),
        st.tuples(st.just("choice"), st.lists(items, min_size=1, max_size=3).map(tuple)),
        st.tuples(st.just("repeat"), items, st.integers(0, 2), st.sampled_from([None, 0, 1, 2])),
        st.tuples(st.just("rules"), items, items, items),
    ),
    max_leaves=8,
)


def built(term) -> guided.Expr:
    match term:
        case "text", text:
            return guided.text(text)
        case "special", name:
            return guided.special(name)
        case "regex", pattern:
            return guided.regex(pattern)
        case ("schema",):
            return guided.json_schema(SCHEMA, whitespace="compact", numbers="plain")
        case ("type",):
            return guided.python_type(bool | list[bool], whitespace="compact")
        case ("compiled",):
            return guided.sequence(COMPILER.compile_choice(["a", "b1"]))
        case ("grammar",):  # rules whose names also occur in other parts
            return guided.sequence(Grammar({"start": Ref("x"), "x": Text("[b")}))
        case ("pattern",):
            return guided.pattern([("LOWER", "+"), ("1", "1")])
        case "rule", name:
            return guided.rule(name)
        case "sequence", parts:
            return guided.sequence(*map(built, parts))
        case "choice", parts:
            return guided.choice(*map(built, parts))
        case "repeat", part, low, more:
            return guided.repeat(built(part), low, None if more is None else low + more)
        case "rules", start, x, y:
            return guided.rules(built(start), x=built(x), y=built(y))
    raise AssertionError(term)


class Oracle:
    """The parts (i, j) of a word that a term matches. The sets of rules grow until nothing is added."""

    def __init__(self, word: str) -> None:
        self.word, self.found, self.meaning = word, {}, {}
        self.all = [(i, j) for i in range(len(word) + 1) for j in range(i, len(word) + 1)]

    def matches(self, term) -> bool:
        while True:
            before = dict(self.found)
            spans = self.spans(term, ())
            for key, (part, scope) in list(self.meaning.items()):
                self.found[key] = self.spans(part, scope)
            if self.found == before:
                return (0, len(self.word)) in spans

    def spans(self, term, scope) -> frozenset:
        match term:
            case "sequence", parts:
                spans = self.nothing
                for part in parts:
                    spans = after(spans, self.spans(part, scope))
                return spans
            case "choice", parts:
                return frozenset().union(*(self.spans(part, scope) for part in parts))
            case "repeat", part, low, more:
                return self.repeated(self.spans(part, scope), low, more)
            case "rule", name:
                return self.found.get(dict(scope)[name], frozenset())
            case "rules", start, x, y:
                inner = (*scope, ("x", (term, scope, "x")), ("y", (term, scope, "y")))
                self.meaning[term, scope, "x"], self.meaning[term, scope, "y"] = (x, inner), (y, inner)
                return self.spans(start, inner)
        return frozenset((i, j) for i, j in self.all if leaf_matches(term, self.word[i:j]))

    @property
    def nothing(self) -> frozenset:
        return frozenset((i, i) for i in range(len(self.word) + 1))

    def repeated(self, once, low, more) -> frozenset:
        spans = self.nothing
        for _ in range(low):
            spans = after(spans, once)
        every = spans
        for _ in range(len(self.word) + 1 if more is None else more):  # a part that adds nothing changes nothing
            spans = after(spans, once)
            every |= spans
        return every


def after(left, right) -> frozenset:
    return frozenset((i, k) for i, j in left for j_, k in right if j == j_)


@cache
def leaf_matches(term, word: str) -> bool:
    match term:
        case "text", text:
            return word == text
        case "special", name:
            return word == name[1].upper()
        case "regex", pattern:
            return re.fullmatch(pattern, word) is not None and not set(word) & {"S", "T"}
        case ("schema",):
            return word in [json.dumps(value, separators=(",", ":")) for value in VALUES]
        case ("type",):
            return word == "[]"  # texts that the vocabulary can spell
        case ("compiled",):
            return word in ("a", "b1")
        case ("grammar",):
            return word == "[b"
        case ("pattern",):
            return re.fullmatch("[ab]+1", word) is not None
    raise AssertionError(term)


@cache
def sentences() -> list[tuple[int, ...]]:
    return [ids for n in range(LENGTH + 1) for ids in itertools.product(range(len(TOKENS)), repeat=n)]


@examples(60, many=150)
@given(TERMS)
def test_terms_have_their_defined_meaning(term):
    closed = ("rules", term, ("text", "a"), ("rule", "y"))  # y never ends
    known: dict[str, bool] = {}

    def member(ids) -> bool:
        word = "".join(SYMBOLS[id] for id in ids)
        if word not in known:
            known[word] = Oracle(word).matches(closed)
        return known[word]

    expected = {ids for ids in sentences() if member(ids)}
    try:
        matcher = GrammarMatcher(COMPILER.compile(built(closed)))
    except (SpecError, VocabularyError):  # it generates nothing, or nothing with these tokens
        assert not expected
        return
    found = set()
    for ids in sentences():
        matcher.reset()
        taken = sum(map(matcher.accept_token, ids))
        if taken == len(ids) and matcher.is_accepting():
            found.add(ids)
    assert found == expected


def test_operators_take_texts_on_either_side():
    digit = guided.regex("[0-9]")
    for expr, texts in [
        ("a" + digit + "b", ["a1b"]),
        (digit + "a" | "b", ["1a", "b"]),
        ("b" | digit, ["b", "1"]),
        (guided.optional("a") + guided.repeat("b", 1, 2), ["b", "abb", "ab"]),
        (guided.sequence(), [""]),
    ]:
        grammar = COMPILER.compile(expr)
        for text in ["", "a", "b", "1", "a1b", "1a", "ab", "abb", "bbb"]:
            matcher = GrammarMatcher(grammar)
            assert (matcher.accept_string(text) and matcher.is_accepting()) == (text in texts), (expr, text)


def test_left_recursion_and_rules_that_call_each_other():
    sums = guided.rules(
        guided.rule("sum"), sum=guided.rule("sum") + "b" + guided.rule("term") | guided.rule("term"),
        term="1" | "[" + guided.rule("sum") + "]",
    )  # fmt: skip
    grammar = COMPILER.compile(sums)
    for text, wanted in {"1b1b[1b1]": True, "b1": False, "[[1]b1]": True, "[1": False, "1b": False}.items():
        matcher = GrammarMatcher(grammar)
        assert (matcher.accept_string(text) and matcher.is_accepting()) == wanted, text


def test_names_are_visible_only_inside_their_rules():
    inner = guided.rules(guided.rule("x") + guided.rule("y"), x="a")
    whole = guided.rules(guided.rule("x") + inner + guided.rule("x"), x="1", y="b")
    matcher = GrammarMatcher(COMPILER.compile(whole))
    assert matcher.accept_string("1ab1")
    with pytest.raises(SpecError, match="rule 'y' is not defined"):
        COMPILER.compile(inner)
    # two schemas have rules with the same names and different meanings
    one, two = {"const": {"a": 1}}, {"type": "array", "items": {"$ref": "#"}}
    part = guided.json_schema(one) + "|" + guided.json_schema(two)
    grammar = GrammarCompiler(Vocabulary([bytes([b]) for b in range(256)], eos_token_ids=[256])).compile(part)
    for text, wanted in {'{"a": 1}|[[], []]': True, '{"a": 1}|{"a": 1}': False, '[]|{"a": 1}': False}.items():
        matcher = GrammarMatcher(grammar)
        assert (matcher.accept_string(text) and matcher.is_accepting()) == wanted, text


def test_later_changes_of_a_schema_have_no_effect():
    schema = {"const": 1}
    part = guided.json_schema(schema)
    schema["const"] = "a"
    assert mask_of(GrammarMatcher(COMPILER.compile(part))) == (3,)
    assert COMPILER.compile(part) is COMPILER.compile(part)


def test_a_shared_part_is_read_once():
    part = guided.regex("a*b")
    for _ in range(60):
        part = part + "1" | part + "["
    with pytest.raises(LimitExceeded):  # must not be: there is no end
        GrammarCompiler(VOCABULARY, limits=Limits(states=10_000)).compile(part)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: COMPILER.compile(guided.rule("value")), "(?s)'value' is not defined.*hint: wrap it in guided.rules"),
        (
            lambda: COMPILER.compile(guided.rules(guided.rule("valu"), value="a")),
            "(?s)rule 'valu' is not defined.*did you mean 'value'",
        ),
        (
            lambda: COMPILER.compile(guided.rules(guided.rule("x"), x="a" + guided.rule("x"))),
            "(?s)no output at all.*rules that can never end",
        ),
        (
            lambda: COMPILER.compile(guided.sequence(Grammar({"start": Ref("strt")}))),
            "(?s)refers to 'strt', which is not defined.*the rules defined here are start",
        ),
        (lambda: guided.sequence("a", 3), "(?s)3 is not a part of a specification.*guided.json_schema"),
        (lambda: guided.sequence("a", {"type": "integer"}), r"(?s)not a part.*for a JSON Schema, guided.json_schema"),
        (lambda: guided.text("a") | None, "None is not a part"),
        (lambda: guided.choice(), "there is nothing to choose from"),
        (lambda: guided.choice(["a", "b"]), "is not a part"),
        (lambda: guided.repeat("a", 2, 1), "max is 1, less than min, 2"),
        (lambda: guided.repeat("a", -1), "min is -1"),
        (lambda: guided.repeat("a", None), "min is None"),
        (lambda: guided.text("\ud800"), "lone surrogate"),
        (lambda: guided.text(b"a"), "a text is a string"),
        (lambda: guided.special(True), "a control token is a name or an id, not True"),
        (lambda: guided.regex(3), "a pattern is a string"),
        (lambda: guided.rule(3), "the name of a rule is a string"),
        (lambda: COMPILER.compile(guided.regex("(a")), r"(?s)    \(a\n    \^"),
        (lambda: COMPILER.compile(guided.json_schema({"type": "strin"})), "strin"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(SpecError) as caught:
        make()
    assert re.search(message, str(caught.value))


def test_errors_of_unknown_control_tokens_list_the_known_ones():
    with pytest.raises(VocabularyError, match=r"no control token '<call>' \(it has: <s>, <t>\)"):
        COMPILER.compile(guided.special("<call>"))
    with pytest.raises(VocabularyError, match="9 is not a token id"):
        COMPILER.compile(guided.special(9))


def test_deep_nesting_is_refused():
    part = guided.text("a")
    for _ in range(600):
        part = guided.optional(part)
    with pytest.raises((LimitExceeded, SpecError)):
        COMPILER.compile(part)
    with pytest.raises(LimitExceeded, match="depth"):
        GrammarCompiler(VOCABULARY, limits=Limits(depth=3)).compile(guided.repeat(guided.repeat("a" + part)))


def test_options_are_checked_where_they_are_written():
    with pytest.raises(TypeError, match="did you mean 'whitespace'"):
        guided.json_schema({}, whitespce="json")
    with pytest.raises(SpecError, match="registry must be a mapping"):
        guided.json_schema({}, registry=[])


SCHEMAS = [
    {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"type": "integer"}}, "required": ["b"]},
    {"type": "array", "uniqueItems": True, "items": {"enum": [1, 2, "é"]}, "minItems": 1},
    {"type": "string", "minLength": 2, "maxLength": 400, "pattern": "^[ab]"},
    {"not": {"type": ["object", "array"]}},
    {
        "$defs": {"x": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/$defs/x"}}]}},
        "$ref": "#/$defs/x",
    },
    {"type": "object", "minProperties": 2, "maxProperties": 3, "patternProperties": {"^x": {"type": "boolean"}}},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
@pytest.mark.parametrize("order", ["declared", "any"])
def test_a_schema_is_the_same_inside_of_others(schema, order):
    """For any nodes and any other names: walks through the schema alone and between two copies."""
    compiler = GrammarCompiler(Vocabulary([bytes([b]) for b in range(256)], eos_token_ids=[256]))
    alone = compiler.compile_json_schema(schema, property_order=order)
    around = [guided.json_schema(other) for other in ({"const": {"k": [1]}}, {"type": "array"})]
    whole = around[0] + guided.json_schema(schema, property_order=order) + around[1]
    grammar = compiler.compile(whole)
    rng = random.Random(5)
    for _ in range(draws(10)):
        inside, apart = GrammarMatcher(grammar), GrammarMatcher(alone)
        assert inside.accept_string('{"k":[1]}')
        for _ in range(40):
            expected = mask_of(apart)
            assert set(expected) - {256} <= set(mask_of(inside)) <= {*expected, *b" \n\t\r["}
            assert inside.explain(b"[]").accepted or not apart.is_accepting()
            token = rng.choice(expected)
            if token == 256:
                break
            assert inside.accept_token(token)
            assert apart.accept_token(token)


def test_a_part_that_is_doubled_again_and_again_stays_small():
    part = guided.regex("[a-z]")
    for _ in range(60):
        part = part + part
    assert len(part.parts) == 61
