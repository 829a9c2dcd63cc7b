"""The core's reader of stored tables. The judge is the grammar that the core compiles from the IR that Python reads
from the same bytes.

GUIDED_FUZZ_CASES is the number of changed files, GUIDED_FUZZ_SEED the first seed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided import CompiledGrammar, GrammarCompiler, GrammarMatcher, Limits
from guided.automaton import _core
from guided.errors import GuidedError, LimitExceeded
from guided.frontends.stored import Tables, read_container, write_container
from guided.frontends.stored import tables as tables_module
from guided.frontends.stored.layout import LAYOUT
from guided.ir.conditions import AllOf, AnyOf, NoneOf, Written
from guided.ir.indentation import Indentation
from guided.ir.nodes import (
    Alt,
    Automaton,
    Chars,
    DeferredRule,
    Dispatch,
    Distinct,
    Ending,
    Entry,
    Grammar,
    MaxTokens,
    Member,
    OtherTokens,
    Permutation,
    Ref,
    Region,
    Repeat,
    Seq,
    Special,
    Substrings,
    Text,
)
from guided.matching.compiled import read_compiled
from guided.matching.native import NativeCompiler, vocabulary_digest
from tests.core_support import EVERY_SPEC, mask_of, vocabulary
from tests.drawn_grammars import ALPHABETS, grammars
from tests.test_core_fuzz import CASES, chances
from tests.test_json_schema_suites import _data
from tests.test_stored import MAX_SCHEMAS, assert_same_masks, tools
from tests.test_stored_fuzz import LIMITS, seeds, split, with_other_ints

VOCABULARY = vocabulary()
SMALL = vocabulary(20)
A = Automaton(((False, ((97, 97, 1),)), (True, ((98, 99, 0), (100, 100, 1)))), 0)
NODES = {
    "numbers that Python reads": Repeat(Text("a"), 2**40, None),
    "ranges that Python sorts": Chars(((98, 99), (97, 97))),
    "tokens": OtherTokens(("<call>", 3), 2, None),
    "any text": OtherTokens((), 1, None),
    "a limit of tokens": Seq((MaxTokens(Repeat(Text("a"), 1, 9), 3), Text("b"))),
    "words": Substrings(("a cat, cats", "é dog"), whole_words=True),
    "a start behind": Automaton(((True, ()), (False, ((97, 98, 0), (99, 0xD7FF, 1)))), 1),
    "followers": Dispatch(replace(A, start=1), (0, 1, 0), (Text("x"), Special(256), Dispatch(A, (1,), (Text("y"),)))),
    "a condition": Permutation(
        tuple(Member(Text(letter), letter == "a", letter == "d") for letter in "abcd"),
        Text(","),
        1,
        3,
        (0, 1, 1, 2),
        True,
        AnyOf((AllOf((Written((0, 1)), NoneOf((Written((2,)),)))), NoneOf((Written((0, 1)),)))),
    ),
    "a scope": Distinct(Seq((Entry(Text('"a"')), Text(","), Entry(Alt((Text('"a"'), Text('"b"')))))), ("c",)),
}


class Rare(Exception):
    """The core refuses the table."""


class ByTable(NativeCompiler):
    """Compiles only tables that the core reads itself."""

    def compile(self, grammar: Grammar, limits: Limits) -> _core.Compiled:
        raise Rare


class ByIR(NativeCompiler):
    """Compiles everything from the IR."""

    def compile_stored(self, tables: Tables, number: int, limits: Limits) -> None:
        return None


def both(data: bytes) -> list[CompiledGrammar]:
    """The grammars from both readers."""
    return [read_compiled(data, kind(VOCABULARY), Limits()) for kind in (ByTable, ByIR)]


def facts(grammar: CompiledGrammar) -> tuple[Any, ...]:
    """The core's data about a grammar, and the data next to it."""
    native = grammar.native
    found = (type(native), native.positions, native.rules, native.recursive, grammar.origins, grammar.kind)
    if not isinstance(native, _core.CompiledRules) or native.positions > 5000:
        return found
    return *found, native.limits_tokens, native.automaton()


def assert_equal(one: CompiledGrammar, other: CompiledGrammar, steps: int = 12, seed: int = 1) -> None:
    assert facts(one) == facts(other)
    assert not one.regions and not other.regions
    assert_same_masks(one, other, steps, seed)


def stored(grammar: Grammar, vocabulary: guided.Vocabulary = VOCABULARY) -> bytes:
    about = {"kind": "grammar", "vocabulary": vocabulary_digest(vocabulary), "findings": []}
    return write_container([grammar], about)


@contextmanager
def no_objects(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let Python read no grammar."""

    def read(*_: object) -> Grammar:
        raise AssertionError("Python reads a table")

    with monkeypatch.context() as patch:
        patch.setattr(Tables, "read", read)
        yield


@given(st.data())
def test_any_ir(data):
    alphabet = data.draw(st.sampled_from(ALPHABETS))
    grammar = data.draw(grammars(alphabet, specials=("<call>", 256)))
    name = data.draw(st.sampled_from(sorted(NODES)))
    rules = {**grammar.rules, "start": Alt((grammar.rules["start"], Ref("more"))), "more": NODES[name]}
    origins = {"start": "/a", "more": "/é"}
    content = stored(Grammar(rules, "start", origins))
    limits = Limits(work=2_000_000, states=20_000, call_work=1_000_000)
    try:
        judge = read_compiled(content, ByIR(VOCABULARY), limits)
    except GuidedError as error:
        with pytest.raises(type(error)) as caught:
            CompiledGrammar.from_bytes(content, VOCABULARY, limits=limits)
        if not isinstance(error, LimitExceeded):  # the vocabulary's caches change the work
            assert str(caught.value) == str(error)
        return
    try:
        own = read_compiled(content, ByTable(VOCABULARY), limits)
    except Rare:
        assert name in ("numbers that Python reads", "ranges that Python sorts", "a limit of tokens")
        return
    with suppress(LimitExceeded):  # work of a call: some grammars are too ambiguous
        assert_equal(own, judge, steps=6, seed=data.draw(st.integers(0, 99)))


@pytest.mark.parametrize("name", sorted(NODES))
def test_each_node(name):
    content = stored(Grammar({"start": Seq((Text("<"), Ref("node"))), "node": NODES[name]}))
    if name in ("numbers that Python reads", "ranges that Python sorts"):
        with pytest.raises(Rare):
            read_compiled(content, ByTable(VOCABULARY), Limits())
    else:
        assert_equal(*both(content))


@pytest.mark.parametrize("name", EVERY_SPEC)
def test_specifications_of_the_core(name):
    content = EVERY_SPEC[name](GrammarCompiler(VOCABULARY, warn=False)).to_bytes()
    if name in ("captured", "captured lexemes", "composed"):
        with pytest.raises(Rare):
            read_compiled(content, ByTable(VOCABULARY), Limits())
    else:
        assert_equal(*both(content))


@pytest.mark.parametrize("name", guided.library())
def test_library(name, monkeypatch):
    pytest.importorskip("lark")
    found = guided.library()[name]
    content = GrammarCompiler(VOCABULARY).compile_lark(found.text, **found.options).to_bytes()
    assert_equal(*both(content))
    with no_objects(monkeypatch):
        matcher = GrammarMatcher(CompiledGrammar.from_bytes(content, VOCABULARY))
        assert mask_of(matcher)


def test_maskbench():
    """The core reads nearly all published schemas, and their grammars are equal."""
    files = sorted(_data("maskbench").glob("*.json"))
    compiler, compared, rare = GrammarCompiler(VOCABULARY, warn=False), 0, 0
    for path in files[:: max(1, len(files) // MAX_SCHEMAS)]:
        schema = json.loads(path.read_text(encoding="utf-8"))["schema"]
        try:
            content = compiler.compile_json_schema(schema).to_bytes()
        except GuidedError:
            continue
        try:
            assert_equal(*both(content), steps=4)
        except Rare:
            rare += 1
        compared += 1
    assert compared > 0.7 * min(MAX_SCHEMAS, len(files))
    assert rare <= 0.02 * compared


def test_deferred_rules(monkeypatch):
    content = GrammarCompiler(VOCABULARY).compile_structural_tag(tools(20)).to_bytes()
    one, other = both(content)
    with no_objects(monkeypatch):
        fresh = CompiledGrammar.from_bytes(content, VOCABULARY)
        matcher = GrammarMatcher(fresh)
        assert matcher.accept_string('so <t13>{"n13": 12')
        assert mask_of(matcher)
    assert_equal(one, other, steps=40)
    for text in ("so <t1", '3>{"n13": ', "12", "}</t> <t7>"):
        assert [GrammarMatcher(each).accept_string(text) for each in (one, other)] in ([True] * 2, [False] * 2)
    matchers = [GrammarMatcher(each) for each in (one, other)]
    for matcher in matchers:
        assert matcher.accept_string('so <t13>{"n13": 12')
    assert one.origins == other.origins
    assert one.origins["start"] == fresh.origins["start"]


def test_deferred_rules_with_rare_parts():
    """A deferred rule whose table Python reads when the rule is entered."""
    rare = DeferredRule(lambda: Grammar({"start": Repeat(Text("b"), 1, 2**40)}), b"x", 1)
    rules = {"start": Seq((Text("a"), Ref("b"))), "b": Repeat(Text("b"), 1, None)}
    one, other = both(stored(Grammar(rules, later={"b": rare})))
    assert_equal(one, other)
    assert one.origins == other.origins == {"b: start": "start"}


def test_captures_are_rare():
    grammar = Grammar({"start": Seq((Text("a"), Ref("b"))), "b": Text("b")}, regions={"b": Region("x")})
    with pytest.raises(Rare):
        read_compiled(stored(grammar), ByTable(VOCABULARY), Limits())
    assert CompiledGrammar.from_bytes(stored(grammar), VOCABULARY).regions == grammar.regions


def test_limits():
    content = stored(Grammar({"start": Alt(tuple(Text(f"word {number}") for number in range(500)))}))
    for limits in (Limits(nodes=501), Limits(nodes=100), Limits(states=50), Limits(work=10)):
        with pytest.raises(LimitExceeded) as expected:
            read_compiled(content, ByIR(VOCABULARY), limits)
        with pytest.raises(LimitExceeded) as caught:
            CompiledGrammar.from_bytes(content, VOCABULARY, limits=limits)
        assert caught.value.limit == expected.value.limit
    assert facts(CompiledGrammar.from_bytes(content, VOCABULARY, limits=Limits(nodes=502)))


def test_changed_tables():
    """Python accepts whatever the core accepts, and gets the same grammar."""
    known, accepted, total = sorted(seeds(), key=len), 0, 0
    for rng in chances(5 * CASES):
        data = with_other_ints(*split(known[int(len(known) * rng.random() ** 2)]), rng)
        total += 1
        try:
            own = read_compiled(data, ByTable(SMALL), LIMITS)
        except (GuidedError, Rare):
            continue
        accepted += 1
        judge = read_compiled(data, ByIR(SMALL), LIMITS)
        assert facts(own) == facts(judge)
        masks = []
        for grammar in (own, judge):
            try:
                masks.append(mask_of(GrammarMatcher(grammar)))
            except GuidedError as error:
                masks.append((type(error), str(error)))
        assert masks[0] == masks[1]
    assert 0.02 < accepted / total < 0.9


def test_untrusted_tables():
    """Data that no writer produces is refused, for any integers."""
    rng = random.Random(5)
    for length in (0, 1, 3, 7, 40):
        for _ in range(40):
            ints = b"".join(rng.choice((0, 1, 5, 35, 2**32 - 1)).to_bytes(4, "little") for _ in range(length))
            with pytest.raises(ValueError, match="malformed"):
                _core.StoredTable(ints, ("a", "b"), 0, 1, 1000)
    for texts in ((1,), ("a", b"b")):
        with pytest.raises(ValueError, match="malformed"):
            _core.StoredTable(bytes(8), texts, 0, 1, 1000)
    with pytest.raises(ValueError, match="malformed"):
        _core.StoredTable(bytes(7), ("a",), 0, 1, 1000)


def test_a_table_is_of_its_builder():
    """A table with a lexer cannot be compiled as rules, nor the reverse."""
    content = stored(Grammar({"start": Text("a")}))
    head, ints = split(content)
    table = _core.StoredTable(ints.tobytes(), tuple(head["texts"]), 0, 1, 1000)
    assert (len(table), table.has_lexer, table.start, table.rules) == (2, False, "start", ["start"])
    native = NativeCompiler(VOCABULARY).native
    utf8 = _core.Encoding([([(0, 127)], [[(0, 127, 0, 1)]])])
    with pytest.raises(ValueError, match="no lexer"):
        table.compile_lexer(utf8, native, (1000, 1.0, 1000, 1000, 1000))
    with pytest.raises(ValueError, match="number of digests"):
        table.compile_rules(_core.Builder(), utf8, len, native, {}, [], (1000, 1.0, 1000, 1000, 1000), "", [b""], None)


def test_every_class_is_tried():
    """The tests above read every class of the IR that is not rare."""
    compiler, seen = GrammarCompiler(VOCABULARY, warn=False), set()
    contents = [each(compiler).to_bytes() for each in EVERY_SPEC.values()]
    contents += [stored(Grammar({"start": node})) for node in NODES.values()]
    contents.append(compiler.compile_structural_tag(tools(20)).to_bytes())
    for content in contents:
        tables = read_container(content, Limits()).tables
        for number in range(len(tables.tables)):
            reader = tables_module._TableReader(tables, number, Limits())
            reader.read()
            seen |= set(map(type, reader.entries))
    assert {cls for cls, _ in LAYOUT} <= seen | {
        Indentation,
        Ending,
    }  # `test_library` reads lines


@pytest.mark.parametrize("name", ["json", "c", "markdown"])
def test_built_in_grammars(name, monkeypatch):
    """The core reads the stored form of a built-in grammar with a lexer if it is the whole specification."""
    part = guided.grammar(name)
    with monkeypatch.context() as patch:
        patch.setattr(NativeCompiler, "compile_stored", lambda *_: None)
        judge = GrammarCompiler(VOCABULARY).compile(part)
    own = GrammarCompiler(VOCABULARY).compile(part)
    assert_equal(own, judge)
    assert own.source is part and own.grammar == judge.grammar
    if guided.library()[name].semantics == "lexer":
        with no_objects(monkeypatch):
            assert facts(GrammarCompiler(VOCABULARY).compile(part)) == facts(judge)
