"""The testing kit, by brute force: counts, shortest differences, strategies; and engines with planted bugs."""

from __future__ import annotations

import itertools
import json
import random
import re
from types import SimpleNamespace

import jsonschema
import numpy as np
import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

import guided
from guided.testing import MaskMismatch, check_masks, count, counts, equivalent, near_misses, sample, sentences, subset
from tests.effort import examples

PATTERNS = st.recursive(
    st.sampled_from(["a", "b", "ab", "[ab]", "c?", "(ba)*"]),
    lambda inner: st.one_of(
        st.builds("({})({})".format, inner, inner),
        st.builds("(({})|({}))".format, inner, inner),
        st.builds("({}){{0,2}}".format, inner),
        st.builds("({})*".format, inner),
    ),
    max_leaves=5,
)
TEXTS = ["".join(text) for length in range(7) for text in itertools.product("abc", repeat=length)]


def language(pattern: str) -> list[str]:
    return [text for text in TEXTS if re.fullmatch(pattern, text)]


@given(PATTERNS)
@examples(60)
def test_counts_match_brute_force(pattern):
    wanted = [sum(len(text) == length for text in language(pattern)) for length in range(7)]
    assert counts(pattern, 6) == wanted
    assert count(pattern, 4) == wanted[4]


@given(PATTERNS, PATTERNS)
@examples(100)
def test_differences_are_shortest(a, b):
    mine, theirs = language(a), language(b)
    for found, wanted in (
        (equivalent(a, b), [text for text in TEXTS if (text in mine) != (text in theirs)]),
        (subset(a, b), [text for text in TEXTS if text in mine and text not in theirs]),
    ):
        if wanted:
            assert found is not None and len(found.text) == len(wanted[0]) and found.text in wanted
            assert (found.only == "first") == (found.text in mine)
        else:  # any difference is longer than the texts that were tried
            assert found is None or len(found.text) > 6


def test_languages_of_other_kinds():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    closed = schema | {"additionalProperties": False}
    assert equivalent(schema, schema) is None
    assert equivalent({"enum": [1, 2]}, {"type": "integer", "minimum": 1, "maximum": 2}) is None
    found = subset({"type": "integer"}, {"type": "integer", "not": {"const": 7}})
    assert found is not None and found.text == "7" and str(found) == "only the first allows '7'"
    assert subset(closed, schema, additional_properties=None) is None
    assert count({"type": "integer"}, 2) == 99
    assert count("é", 1) == 0 and count("é", 2) == 1  # bytes, not characters
    balanced = guided.lark('start: "(" start ")" | "x"')
    assert [count(balanced, length) for length in range(6)] == [0, 1, 0, 1, 0, 1]
    deeper = guided.lark('start: "(" start ")" | "x" | "((((yy))))"')
    found = equivalent(balanced, deeper)
    assert found is not None and found.text == "((((yy))))" and found.only == "second"
    with pytest.raises(guided.LimitExceeded, match="set a larger max_pairs") as caught:
        equivalent(balanced, balanced, max_pairs=200)
    assert "guided.Limits" not in str(caught.value)  # it has no such field
    with pytest.raises(guided.LimitExceeded, match="set a larger max_states"):
        count(balanced, 1000, max_states=100)
    with pytest.raises(guided.GuidedError, match="no constraint"):
        count(None, 1)


SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "integer", "minimum": 3}, "tags": {"type": "array", "items": {"enum": ["x", "é"]}}},
    "required": ["id"],
}


@given(sentences(SCHEMA, max_length=60))
@examples(80)
def test_sentences_are_texts_of_the_language(text):
    jsonschema.validate(json.loads(text), SCHEMA)
    assert len(text.encode()) <= 60


@given(near_misses(SCHEMA, max_length=40))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_near_misses_are_not_sentences(text):
    matcher = guided.GrammarMatcher(guided.GrammarCompiler(BYTES).compile_json_schema(SCHEMA, **GENERATED))
    assert not (matcher.accept_string(text) and matcher.is_accepting())


@pytest.mark.parametrize(
    ("pattern", "parser", "shortest"),
    [
        (r"[A-Z]{2}-[0-9]{2,4}", r"[A-Z]{2}-[0-9]{2,4}\n?", "AA-00\n"),  # $ also matches before a final line break
        (r"[A-Z]{2}-[0-9]{2,4}", r"[A-Z]{2}-[0-9]{2,4}(?s:.*)", "AA-00 "),  # the text after it is not checked
        (r"[A-Z]{2}-[0-9]{2,4}", r"\s*[A-Z]{2}-[0-9]{2,4}", " AA-00"),
        (r"[A-Z]{2}-[0-9]{2,4}", r"[A-Z]{2}-[0-9]{2,}", "AA-00000"),
        (r"[A-Z]{2}-[0-9]{2,4}", r"[A-Za-z]{2}-[0-9]{2,4}", "AA-00"),
        (r"[A-Z]{2}-[0-9]{2,4}", r"[A-Z]+-[0-9]{2,4}", "A-00"),
    ],
)
def test_near_misses_find_parsers_that_take_too_much(pattern, parser, shortest):
    enough = settings(max_examples=2000)
    found = find(near_misses(pattern), lambda text: re.fullmatch(parser, text) is not None, settings=enough)
    assert len(found) == len(shortest) and not re.fullmatch(pattern, found)


def test_examples_are_shrunk_to_short_and_plain_ones():
    assert find(sentences(SCHEMA), lambda text: True) == '{"id": 3}'
    assert find(sentences(SCHEMA), lambda text: "tags" in text) == '{"id": 3, "tags": []}'
    assert find(sentences("[a-z]{2,9}"), lambda text: len(text) >= 4) == "aaaa"
    assert find(near_misses("ab+"), lambda text: True) == ""
    with pytest.raises(guided.BudgetError):
        sentences("a{30}", max_length=20)


def test_the_error_of_a_specification_without_near_misses():
    for every in ("(?s).*", "(?s)a*.*|b", guided.lark("start: /./s*")):
        with pytest.raises(guided.GuidedError, match="every text is allowed: there is no near miss"):
            near_misses(every)
    short = "(?s).{0,9}"
    with pytest.raises(guided.GuidedError, match=r"refused has 10 bytes: .* at most 5 bytes have no near miss"):
        near_misses(short, max_length=5)
    assert find(near_misses(guided.lark('start: "(" start ")" | "x"')), lambda text: True) == ""


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: sample("a", max_length="x"), "max_length is 'x', but must be an integer of at least 0"),
        (lambda: sample("a", n=True), "n is True, but must be an integer of at least 1"),
        (lambda: count("a", 1.5), "length is 1.5, but must be an integer of at least 0"),
        (lambda: count("a", -1), "length is -1, but must be an integer of at least 0"),
        (lambda: counts("a", 1, max_states="x"), "max_states is 'x', but must be an integer"),
        (lambda: equivalent("a", "b", max_pairs=None), "max_pairs is None, but must be an integer of at least 1"),
        (lambda: sentences("a", max_length=2.0), "max_length is 2.0, but must be an integer of at least 0"),
        (lambda: near_misses("a", max_length="x"), "max_length is 'x', but must be an integer of at least 0"),
        (
            lambda: check_masks(Engine, KEYS, VOCABULARY, walks="x"),
            "walks is 'x', but must be an integer of at least 1",
        ),
        (
            lambda: check_masks(Engine, KEYS, VOCABULARY, length=-1),
            "length is -1, but must be an integer of at least 0",
        ),
    ],
)
def test_the_error_of_a_value_that_is_not_a_number(call, said):
    with pytest.raises(guided.OptionError, match=said):
        call()


BYTES = guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
GENERATED = guided.JsonSchemaOptions.for_generation().non_defaults()
WORDS = [b"{", b"}", b'"', b":", b", ", b": ", b"[", b"]", b'"id"', b'{"id": ', b"1", b"12", b"3", b"0", b"-", b"true",
         b'"tags"', b'"x"', b"x", b'", "', b" ", b",", None]  # fmt: skip
VOCABULARY = guided.Vocabulary([*WORDS, None], eos_token_ids=[len(WORDS)], size=len(WORDS) + 9)
KEYS = {"type": "object", "properties": {"id": {"type": "integer"}, "tags": {"type": "array", "items": {"const": "x"}}},
        "required": ["id"]}  # fmt: skip


class Engine:
    """A correct engine."""

    def __init__(self):
        compiler = guided.GrammarCompiler(VOCABULARY)
        self.matcher = guided.GrammarMatcher(compiler.compile_json_schema(KEYS, **GENERATED))
        self.bitmask, self.steps = guided.allocate_token_bitmask(1, VOCABULARY.size), 0

    def allowed(self):
        self.matcher.fill_next_token_bitmask(self.bitmask)
        return set(guided.allowed_tokens(self.bitmask))

    def accept(self, token):
        self.steps += 1
        return self.matcher.accept_token(token)

    def rollback(self, n):
        self.matcher.rollback(n)


class AllowsPadding(Engine):
    def allowed(self):
        return super().allowed() | {VOCABULARY.size - 1}


class ForgetsTheEnd(Engine):
    def allowed(self):
        return super().allowed() - {len(WORDS)}


class EndsEarly(Engine):
    def allowed(self):
        return super().allowed() | ({len(WORDS)} if self.steps > 3 else set())


class LosesTokensOfSeveralBytes(Engine):
    def allowed(self):
        found = super().allowed()
        return {id for id in found if len(VOCABULARY.token_bytes(id) or b"") < 3} or found


class IsAStepLate(Engine):
    def __init__(self):
        super().__init__()
        self.before = None

    def allowed(self):
        now = super().allowed()
        late, self.before = self.before if self.steps > 5 and self.before else now, now
        return late


class AcceptsAnything(Engine):
    def accept(self, token):
        super().accept(token)
        return True


class RefusesWhatItAllows(Engine):
    def accept(self, token):
        return False if VOCABULARY.token_bytes(token) == b"12" else super().accept(token)


class TakesBackOneTooFew(Engine):
    def rollback(self, n):
        super().rollback(n - 1)


class OpensAfterTheEnd(Engine):
    def allowed(self):
        return set(range(len(WORDS))) if self.matcher.is_terminated() else super().allowed()


@pytest.mark.parametrize("reference", [False, True])
def test_a_right_engine_conforms(reference):
    asked = list[Engine]()

    def begin() -> Engine:
        asked.append(Engine())
        return asked[-1]

    check_masks(begin, KEYS, VOCABULARY, walks=30 if not reference else 6, reference=reference)
    assert asked


@pytest.mark.parametrize(
    "engine",
    [AllowsPadding, ForgetsTheEnd, EndsEarly, LosesTokensOfSeveralBytes, IsAStepLate, AcceptsAnything,
     RefusesWhatItAllows, TakesBackOneTooFew, OpensAfterTheEnd],
)  # fmt: skip
def test_planted_bugs_are_found(engine):
    for seed in range(3):
        with pytest.raises(MaskMismatch) as found:
            check_masks(engine, KEYS, VOCABULARY, seed=seed)
        assert found.value.extra or found.value.missing
        assert found.value.text == VOCABULARY.decode(found.value.tokens)


def test_peers_conform_too():
    """xgrammar's matcher on a regular expression, judged like any other engine."""
    xgrammar = pytest.importorskip("xgrammar", reason="xgrammar is not installed")
    tokens = [bytes([byte]) for byte in range(256)] + [b"ab", b"ba", b"abc"]
    vocabulary = guided.Vocabulary([*tokens, None], eos_token_ids=[len(tokens)])
    info = xgrammar.TokenizerInfo([*tokens, b"</s>"], vocab_size=vocabulary.size, stop_token_ids=[len(tokens)])
    compiled = xgrammar.GrammarCompiler(info).compile_regex("(ab|c)+")

    class Theirs:
        def __init__(self):
            self.matcher = xgrammar.GrammarMatcher(compiled)
            self.bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)

        def allowed(self):
            if self.matcher.is_terminated():
                return {len(tokens)}
            self.matcher.fill_next_token_bitmask(self.bitmask)
            return guided.allowed_tokens(self.bitmask.numpy())

        def accept(self, token):
            return not self.matcher.is_terminated() and self.matcher.accept_token(token)

    check_masks(Theirs, "(ab|c)+", vocabulary, walks=20)


@pytest.mark.parametrize("walks", [0, -1])
def test_a_check_that_would_check_nothing_is_an_error(walks):
    with pytest.raises(ValueError, match="at least 1"):
        check_masks(Engine, KEYS, VOCABULARY, walks=walks)


def gives(allowed, accepted=True):
    """A function that makes followers with this result."""
    return lambda: SimpleNamespace(allowed=lambda: allowed, accept=lambda token: accepted)


ROW = guided.allocate_token_bitmask(1, BYTES.size)


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (gives(None), r"allowed\(\) returned None: .* as a set or a list; guided.allowed_tokens\(bitmask\) converts"),
        (gives(ROW), r"allowed\(\) returned an array of shape \(1, 9\): "),
        (gives(ROW[0]), r"allowed\(\) returned an array of shape \(9,\): "),
        (gives(np.ones(BYTES.size, bool)), r"allowed\(\) returned an array of shape \(257,\): "),
        (gives("a"), r"allowed\(\) returned 'a': "),
        (gives([1.5]), r"allowed\(\) returned \[1.5\]: "),
        (gives({ord("a")}, None), r"accept\(\) returned None: a follower must return True, or False"),
        (lambda: None, r"start\(\) returned None, which has no method allowed\(\)"),
        (None, "start is None, but must be a function that returns a follower"),
    ],
)
def test_the_error_of_a_wrong_follower(start, said):
    with pytest.raises(TypeError, match=said):
        check_masks(start, "ab?", BYTES)


def test_ids_may_come_in_an_array():
    class Arrays(Engine):
        def allowed(self):
            return np.array(sorted(super().allowed()))

        def accept(self, token):
            return np.bool_(super().accept(token))

    check_masks(Arrays, KEYS, VOCABULARY, walks=3)


def test_seeds_give_the_same_walks():
    told = []
    for _ in range(2):
        with pytest.raises(MaskMismatch) as found:
            check_masks(EndsEarly, KEYS, VOCABULARY, seed=random.Random(4).randrange(1000))
        told.append(str(found.value))
    assert told[0] == told[1] and "which the specification forbids" in told[0]


@given(PATTERNS, st.integers(0, 99), st.booleans())
@examples(60)
def test_samples_are_texts_of_the_language_and_repeatable(pattern, seed, any_character):
    shortest = min(len(text) for text in language(pattern))
    texts = sample(pattern, 4, seed=seed, max_length=shortest + 3, any_character=any_character)
    assert len(texts) == 4
    assert all(re.fullmatch(pattern, text) and len(text) <= shortest + 3 for text in texts)
    assert texts == sample(pattern, 4, seed=seed, max_length=shortest + 3, any_character=any_character)
    if shortest:
        with pytest.raises(guided.BudgetError):
            sample(pattern, max_length=shortest - 1)


def test_samples_of_a_schema_and_of_a_compiled_grammar():
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}, "required": ["a"]}
    for text in sample(schema, 20, seed=1, whitespace="compact"):
        jsonschema.validate(json.loads(text), schema)
        assert " " not in text
    model = guided.Vocabulary([b"a", b"b", b"ab"], eos_token_ids=[3])
    found = sample(guided.GrammarCompiler(model).compile_regex("(ab|b)c?"), 40, seed=1)
    assert set(found) == {"ab", "b", "abc", "bc"}
    assert all(text.isascii() for text in sample("[^x]{3}", 20, seed=2))
    for n in (0, True, "2"):
        with pytest.raises(ValueError, match="n is"):
            sample("a", n)
    with pytest.raises(guided.GuidedError, match="no constraint"):
        sample(None)
