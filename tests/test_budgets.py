"""Masks under a budget are sound: whatever token they allow, the rest can be written with what is left.

Walks ask that of the tokens that they take. Here every token of a mask is asked, along random texts.
"""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from guided.grammar import Alt, Chars, Grammar, Ref, Seq, Text
from guided.matching import CompiledGrammar, GrammarCompiler, GrammarMatcher
from guided.spec.json_schema import JsonSchemaOptions
from guided.vocabulary import Vocabulary
from tests.core_support import mask_of, vocabulary
from tests.json_schema_support import QUIET, byte_compiler, compiled, grammar_of, sample, schemas

SMALL = GrammarCompiler(vocabulary(), cache_bytes=0)


def check(grammar: CompiledGrammar, tokens: list[int]) -> None:
    """Along a text's tokens."""
    matcher = GrammarMatcher(grammar)
    for token in [*tokens, None]:
        least = matcher.min_tokens_to_finish()
        for left in (least, least + 1, least + 4):
            for allowed in mask_of(matcher, left):
                after = matcher.fork()
                assert after.accept_token(allowed)
                needed = after.min_tokens_to_finish()
                assert needed < left, (tokens, grammar.vocabulary.tokens[allowed], left, needed)
        if token is None or not matcher.accept_token(token):
            return


def check_bound(grammar: CompiledGrammar, tokens: list[int]) -> None:
    """A mask is said to lack what the budget took wherever it lacks something."""
    matcher = GrammarMatcher(grammar)
    for token in [*tokens, None]:
        plain = mask_of(matcher)
        assert not matcher.budget_bound
        least = matcher.min_tokens_to_finish()
        for left in (least, least + 1, least + 4, 2 * least, 10_000):
            assert mask_of(matcher, left) == plain or matcher.budget_bound
        if token is None or not matcher.accept_token(token):
            return


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


def test_what_was_written_counts_after_an_object_has_begun() -> None:
    """Before a value that opens names of its own, the names around it are not forgotten."""
    grammar = SMALL.compile_json_schema({"type": "object", "patternProperties": {"a": {}}, "minProperties": 2})
    for text in ('{"":', '{"":{"":', '{"":[{', '{"":0,"0":'):
        check(grammar, SMALL.vocabulary.encode(text))


def test_a_token_that_stays_where_another_one_leaves() -> None:
    """Both lead to the same state of the frame, but one of them could also have left it."""
    a, c = Ref("A"), Chars(((0, 55295), (57344, 1114111)))
    rules = {"start": a, "A": Alt((Seq((a, c, a, a)), Text("a"), Text("é"))), "c": c}
    words = Vocabulary([b"a", "é,".encode(), b"aa", b"\xc3", b"\xa9", b",", None], eos_token_ids=[6])
    grammar = GrammarCompiler(words).compile_grammar(Grammar(rules))
    for tokens in ([1], [1, 0, 0], [0, 1, 2], [2, 1, 1]):
        check(grammar, tokens)
