"""Stored grammars: they are read back, and behave as before."""

from __future__ import annotations

import copy
import json
import os
import pickle
import random
import warnings
from collections import OrderedDict
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided import CompiledGrammar, GrammarCompiler, GrammarMatcher, Limits
from guided.describe import describe
from guided.errors import GuidedError, LimitExceeded, SpecError, VocabularyError
from guided.frontends.common.plain_values import content_of
from guided.frontends.python_types.type_schema import type_to_schema
from guided.frontends.stored import container as container_module
from guided.frontends.stored import read_container, write_container
from guided.frontends.stored.layout import LAYOUT
from guided.ir import nodes
from guided.ir.nodes import Alt, Chars, Grammar, MaxTokens, OtherTokens, Ref, Repeat, Seq, Special, Text
from guided.matching.constraint import value_parser
from tests.core_support import EVERY_SPEC, mask_of, vocabulary
from tests.drawn_grammars import ALPHABETS, grammars
from tests.specifications import SPECIFICATIONS
from tests.test_json_schema_suites import _data

VOCABULARY = vocabulary()
MAX_SCHEMAS = 25 * int(os.environ.get("GUIDED_FUZZ_CASES", "20"))


def reread(grammar: CompiledGrammar) -> CompiledGrammar:
    return CompiledGrammar.from_bytes(grammar.to_bytes(), grammar.vocabulary)


def assert_equal(one: CompiledGrammar, other: CompiledGrammar, steps: int = 25, seed: int = 1) -> None:
    """Check for the same data, and for the same masks and budgets along random outputs."""
    assert (other.kind, other.findings, other.origins) == (one.kind, one.findings, one.origins)
    assert other.grammar.rules == one.grammar.rules
    assert other.regions == one.regions
    assert_same_masks(one, other, steps, seed)


def assert_same_masks(one: CompiledGrammar, other: CompiledGrammar, steps: int = 25, seed: int = 1) -> None:
    """Check for the same masks and budgets along random outputs."""
    rng, a, b = random.Random(seed), GrammarMatcher(one), GrammarMatcher(other)
    for _ in range(steps):
        least = a.min_tokens_to_finish()
        assert b.min_tokens_to_finish() == least
        assert a.is_accepting() == b.is_accepting()
        mask = mask_of(a, least + 3)
        assert mask_of(b, least + 3) == mask
        assert b.forced_tokens() == a.forced_tokens()
        token = rng.choice(mask)
        assert a.accept_token(token) and b.accept_token(token)
        if a.is_terminated():
            break


@pytest.mark.parametrize("name", EVERY_SPEC)
def test_specifications_of_the_core(name):
    grammar = EVERY_SPEC[name](GrammarCompiler(VOCABULARY, warn=False))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", guided.GuidedWarning)
        assert_equal(grammar, reread(grammar))


def test_varied_specifications():
    compiler = GrammarCompiler(VOCABULARY)
    for each in SPECIFICATIONS:
        grammar = each.compile(compiler)
        assert_equal(grammar, reread(grammar), steps=6)


@given(st.data())
def test_any_ir(data):
    """Every grammar is read back unchanged. Equal nodes become the same object."""
    alphabet = data.draw(st.sampled_from(ALPHABETS))
    grammar = data.draw(grammars(alphabet, specials=("<call>", 256)))
    extra = data.draw(
        st.sampled_from(
            (
                OtherTokens(("<call>", 3), 2, None),
                MaxTokens(Repeat(Text("a"), 10**50, None), 2**40),
                Repeat(Chars(()), 2**32 - 3, 2**32 - 2),
                Special("<end>"),
            )
        )
    )
    grammar = replace(grammar, rules={**grammar.rules, "extra": extra, "twice": Seq((extra, extra))})
    (again,) = [read_container(write_container([grammar], {}), Limits()).grammar()]
    assert again == grammar
    twice = again.rules["twice"]
    assert isinstance(twice, Seq) and twice.items[0] is twice.items[1] is again.rules["extra"]
    assert write_container([again], {}) == write_container([grammar], {})


def test_every_class_of_the_ir_has_a_form():
    classes = {each for each in vars(nodes).values() if isinstance(each, type) and each.__module__ == nodes.__name__}
    assert classes <= {cls for cls, _ in LAYOUT}


def test_shared_parts_are_stored_once():
    """A tower of sequences with two equal parts each would have 2**200 nodes if it were written out."""
    node = other = Text("a")
    for _ in range(200):
        node, other = Seq((node, other)), Seq((other, node))
    data = write_container([Grammar({"start": node, "other": other})], {})
    assert len(data) < 2000
    again = read_container(data, Limits()).grammar()
    assert again.rules["start"] is again.rules["other"]


@dataclass
class Person:
    name: str
    age: int


SCHEMA: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
TAG = {"format": {"type": "tag", "begin": "<a>", "content": {"type": "json_schema", "json_schema": SCHEMA}, "end": "<"}}


@pytest.mark.parametrize(
    ("compile_name", "source", "kind"),
    [
        ("compile_json_schema", SCHEMA, "json_schema"),
        ("compile_json_schema", json.dumps(SCHEMA), "json_schema"),
        ("compile_json_schema", True, "json_schema"),
        ("compile_regex", r"[a-c]+\d", "regex"),
        ("compile_gbnf", 'root ::= "a" [0-9]+', "gbnf"),
        ("compile_structural_tag", TAG, "structural_tag"),
        ("compile_structural_tag", json.dumps(TAG), "structural_tag"),
        ("compile_choice", ("yes", "no"), "choice"),
        ("compile_pattern", [("UPPER", "1"), (":", "+")], "pattern"),
        ("compile_grammar", Grammar({"start": Alt((Text("a"), Ref("b"))), "b": Text("b")}), "grammar"),
    ],
)
def test_every_kind(compile_name, source, kind):
    grammar = getattr(GrammarCompiler(VOCABULARY), compile_name)(source)
    again = reread(grammar)
    assert again.kind == kind and again.source == source
    assert content_of(again.source) == content_of(grammar.source)
    assert_equal(grammar, again)
    assert value_parser(again) == value_parser(grammar)
    assert describe(again) == describe(grammar)
    assert_equal(grammar, reread(again), steps=3)


def test_types_become_schemas():
    grammar = GrammarCompiler(VOCABULARY).compile_type(Person)
    again = reread(grammar)
    assert (again.kind, again.source) == ("json_schema", type_to_schema(Person))
    assert value_parser(again)('{"name": "a", "age": 3}') == {"name": "a", "age": 3}
    assert mask_of(GrammarMatcher(again)) == mask_of(GrammarMatcher(grammar))


@pytest.mark.parametrize(
    ("part", "is_json"), [(guided.json_schema(SCHEMA), True), (guided.regex("[0-9]+") + "!" | guided.rule("x"), False)]
)
def test_composed_specifications_become_their_grammar(part, is_json):
    compiler = GrammarCompiler(VOCABULARY)
    grammar = compiler.compile(guided.rules(part, x="[" + guided.rule("x") + "]" | guided.text("")))
    grammar = compiler.compile(part) if is_json else grammar
    again = reread(grammar)
    assert_equal(grammar, again)
    assert value_parser(again).is_json == value_parser(grammar).is_json == is_json
    assert_same_masks(grammar, compiler.compile(again.source))


def test_schemas_with_everything_that_explanations_use():
    compiler = GrammarCompiler(VOCABULARY, warn=False)
    schema = {
        "properties": {"a": {"$ref": "https://example.org/b"}, "q": {"type": "string", "x-guided-quote": "text"}},
        "required": ["a", "q"], "additionalProperties": False, "format": "unknown",
    }  # fmt: skip
    registry = {"https://example.org/b": {"type": "integer", "minimum": 10}}
    grammar = compiler.compile_json_schema(
        schema, registry=registry, documents={"text": "all cats sleep"}, separators=(", ", ": ")
    )
    with pytest.warns(guided.GuidedWarning):
        again = reread(grammar)
    assert again.findings == grammar.findings != ()
    (one,), (other,) = grammar.grammar.schemas.values(), again.grammar.schemas.values()
    assert one == other
    text = '{"a": 12, "q": "cats sl'
    for wrong in ('{"a": 9, "', text + "ow", '{"b'):
        matchers = [GrammarMatcher(each) for each in (grammar, again)]
        explanations = [str(matcher.explain(wrong)) for matcher in matchers]
        assert explanations[0] == explanations[1]
    assert_equal(grammar, again)


def test_captures_temperatures_and_canonical_tokens():
    text = """
        start: name "=" value
        name[capture="key", temperature=0.5]: /[a-z]+/
        value[capture="value"]: /[0-9]+/
    """
    grammar = GrammarCompiler(VOCABULARY).compile_lark(text)
    again = reread(grammar)
    matchers = [GrammarMatcher(each) for each in (grammar, again)]
    for matcher in matchers:
        assert matcher.temperature() == 0.5
        assert matcher.accept_string("ab=12")
    assert matchers[0].captures() == matchers[1].captures() != {}


def tools(count: int) -> dict[str, Any]:
    """A tag with deferred parts."""
    names = [f"n{at}" for at in range(count)]
    schemas = [{"type": "object", "properties": {name: {"type": "integer"}}, "required": [name]} for name in names]
    tags = [
        {"begin": f"<t{at}>", "content": {"type": "json_schema", "json_schema": schema}, "end": "</t>"}
        for at, schema in enumerate(schemas)
    ]
    return {"format": {"type": "triggered_tags", "triggers": ["<t"], "tags": tags}}


def test_rules_that_are_compiled_later():
    compiler = GrammarCompiler(VOCABULARY)
    grammar = compiler.compile_structural_tag(tools(20))
    again = reread(grammar)
    assert (
        again.native.positions
        == grammar.native.positions
        < GrammarCompiler(VOCABULARY).compile_grammar(grammar.grammar).native.positions
    )
    matchers = [GrammarMatcher(each) for each in (grammar, again)]
    for text in ("so <t1", '3>{"n13": ', "12", "}</t> <t7>"):
        for matcher in matchers:
            assert matcher.accept_string(text)
        assert mask_of(matchers[0]) == mask_of(matchers[1])
        assert matchers[0].min_tokens_to_finish() == matchers[1].min_tokens_to_finish()
    assert grammar.origins == again.origins
    assert_same_masks(again, reread(again))


def test_maskbench():
    """Equal masks, and equal data, for published schemas."""
    files = sorted(_data("maskbench").glob("*.json"))
    compiler, compared = GrammarCompiler(VOCABULARY, warn=False), 0
    for path in files[:: max(1, len(files) // MAX_SCHEMAS)]:
        schema = json.loads(path.read_text(encoding="utf-8"))["schema"]
        try:
            grammar = compiler.compile_json_schema(schema)
        except GuidedError:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", guided.GuidedWarning)
            assert_equal(grammar, reread(grammar), steps=5)
        compared += 1
    assert compared > 0.7 * min(MAX_SCHEMAS, len(files))


# ---- errors


def stored(pattern: str = "a+") -> bytes:
    return GrammarCompiler(VOCABULARY).compile_regex(pattern).to_bytes()


@pytest.mark.parametrize(
    "changes",
    [
        {"tokens": [*VOCABULARY.tokens[:-1], b"other"]},
        {"eos_token_ids": [2]},
        {"special_tokens": {256: "<other>", 257: "<end>"}},
        {"size": VOCABULARY.size + 1},
    ],
)
def test_another_vocabulary(changes):
    own = {name: getattr(VOCABULARY, name) for name in ("tokens", "eos_token_ids", "special_tokens", "size")}
    assert CompiledGrammar.from_bytes(stored(), guided.Vocabulary(**own)).kind == "regex"
    with pytest.raises(VocabularyError, match="another vocabulary"):
        CompiledGrammar.from_bytes(stored(), guided.Vocabulary(**{**own, **changes}))


def test_another_version(monkeypatch):
    data = stored()
    monkeypatch.setattr(container_module, "__version__", "9.9.9")
    with pytest.raises(SpecError, match=r"another version of guided, not 9\.9\.9"):
        CompiledGrammar.from_bytes(data, VOCABULARY)
    monkeypatch.setattr(container_module, "FORMAT", 77)
    with pytest.raises(SpecError, match="has format 2, not 77"):
        CompiledGrammar.from_bytes(data, VOCABULARY)


def test_damaged_bytes():
    data = stored("(ab|c){3}[0-9]")
    for end in range(len(data)):
        with pytest.raises(SpecError, match=r"not a stored grammar|malformed"):
            CompiledGrammar.from_bytes(data[:end], VOCABULARY)
    with pytest.raises(SpecError, match="other data follows"):
        CompiledGrammar.from_bytes(data + b"x", VOCABULARY)
    with pytest.raises(SpecError, match="is bytes, not a str"):
        CompiledGrammar.from_bytes("text", VOCABULARY)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="vocabulary must be"):
        CompiledGrammar.from_bytes(data, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="limits must be"):
        CompiledGrammar.from_bytes(data, VOCABULARY, limits=3)  # type: ignore[arg-type]


def test_limits():
    schema = {"enum": [f"word {number}" for number in range(500)]}
    data = GrammarCompiler(VOCABULARY).compile_json_schema(schema).to_bytes()
    assert CompiledGrammar.from_bytes(data, VOCABULARY).limits == Limits()
    for name, value in (("nodes", 100), ("states", 50), ("spec_length", 100)):
        with pytest.raises(LimitExceeded) as caught:
            CompiledGrammar.from_bytes(data, VOCABULARY, limits=Limits(**{name: value}))
        assert caught.value.limit == name


def test_schemas_that_are_not_json():
    compiler = GrammarCompiler(VOCABULARY)
    for schema in ({"enum": [Decimal(1), 2]}, {"enum": [1, 2], "default": {"a": Decimal("0.1")}}):
        with pytest.raises(SpecError, match="cannot be stored"):
            compiler.compile_json_schema(schema).to_bytes()
    for schema in ({"enum": (1, 2)}, OrderedDict(enum=[1, 2])):  # stored as JSON
        data = compiler.compile_json_schema(schema).to_bytes()
        assert CompiledGrammar.from_bytes(data, VOCABULARY).source == {"enum": [1, 2]}
    schema = {"enum": [1]}
    grammar = compiler.compile_json_schema(schema)
    schema["enum"].append(2)
    with pytest.raises(SpecError, match="has changed"):
        grammar.to_bytes()


def test_pickling_is_refused_and_copies_are_not():
    grammar = GrammarCompiler(VOCABULARY).compile_regex("a+")
    with pytest.raises(TypeError, match=r"a CompiledGrammar cannot be pickled: pickle its to_bytes\(\)"):
        pickle.dumps(grammar)
    assert copy.deepcopy([grammar])[0] is grammar
    duplicate = copy.copy(grammar)
    duplicate.findings = (guided.Finding("/a", "a", "it is a test"),)
    assert grammar.findings == () and mask_of(GrammarMatcher(duplicate)) == mask_of(GrammarMatcher(grammar))
