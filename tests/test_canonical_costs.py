"""Canonical masks cost little, and do not depend on what was computed before."""

from __future__ import annotations

import random

import numpy as np
import pytest

from guided import GrammarCompiler, GrammarMatcher, Vocabulary
from guided.matching.bitmask import allocate_token_bitmask, allowed_tokens
from guided.matching.canonical.derivations import Derivations
from guided.matching.canonical.matcher import MAX_STEPS, CanonicalMatcher
from guided.matching.canonical.pairs import PairTable, pack_row
from guided.matching.canonical.spelling import Spelling, spelling_of
from tests.canonical_support import trained

pytest.importorskip("tokenizers", reason="the package tokenizers trains the vocabulary")

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return trained()


def make_spelling(vocabulary: Vocabulary) -> Spelling:
    return Spelling(vocabulary.size, vocabulary.tokens, vocabulary.byte_pairs())


@pytest.mark.parametrize("max_tokens", [1, 2, 3, 5])
def test_the_last_masks_try_few_tokens(vocabulary, monkeypatch, max_tokens):
    """Free text ends within the budget after most tokens, so most tokens could be tried."""
    matcher = CanonicalMatcher(
        GrammarMatcher(GrammarCompiler(vocabulary).compile_regex("(?s).*")), spelling_of(vocabulary)
    )
    calls, advance = [], Spelling.advance
    monkeypatch.setattr(Spelling, "advance", lambda *args: calls.append(args) or advance(*args))
    bitmask = allocate_token_bitmask(1, vocabulary.size)
    matcher.fill_next_token_bitmask(bitmask, max_tokens=max_tokens + 1)
    assert len(allowed_tokens(bitmask)) > 1000
    assert len(calls) <= 3 * MAX_STEPS


@pytest.mark.parametrize("constraint", ["(?s).*", SCHEMA])
def test_masks_do_not_depend_on_earlier_masks(vocabulary, constraint):
    compiler, shared, rng = GrammarCompiler(vocabulary), make_spelling(vocabulary), random.Random(7)
    compiled = compiler.compile(constraint) if isinstance(constraint, dict) else compiler.compile_regex(constraint)
    for _ in range(6):
        budget = rng.choice([12, 20, 40])
        warm, cold = (
            CanonicalMatcher(GrammarMatcher(compiled), spelling) for spelling in (shared, make_spelling(vocabulary))
        )
        masks = allocate_token_bitmask(2, vocabulary.size)
        for left in range(budget, 0, -1):
            for row, matcher in enumerate((warm, cold)):
                matcher.fill_next_token_bitmask(masks, row, max_tokens=left)
            assert (masks[0] == masks[1]).all()
            token = rng.choice([id for id in allowed_tokens(masks[:1]) if id < vocabulary.size])
            assert warm.accept_token(token) and cold.accept_token(token)
            if warm.is_terminated():
                break


def test_tokens_with_a_mark_are_those_that_contain_it(vocabulary):
    spelling = make_spelling(vocabulary)
    marks = allowed_tokens(spelling.punctuation[None])
    assert {vocabulary.token_bytes(mark) for mark in marks} >= {b'"', b",", b" "}
    for mark in marks:
        expected = [id for id, data in enumerate(vocabulary.tokens) if data and vocabulary.token_bytes(mark) in data]
        assert allowed_tokens(spelling.tokens_with_any([mark])[None]) == expected


def test_tokens_are_derived_as_words_are_merged(vocabulary):
    pairs = vocabulary.byte_pairs()
    table, derivations = PairTable(pairs, vocabulary.size), Derivations(pairs, vocabulary.size)
    for data, token in pairs.ids.items():
        assert derivations.reachable[token] == (table.merge_word(data) == [token])
        left, right = derivations.halves[:, token].tolist()
        if left >= 0:
            rank, merged = pairs.find_merge(left, right)
            assert merged == token
            assert derivations.time[token] == max(rank, *derivations.time[[left, right]])
        else:
            assert len(data) == 1 or not derivations.reachable[token]


@pytest.mark.parametrize("size", [1, 31, 32, 33, 100])
def test_bools_are_packed_as_a_row(size):
    allowed = np.random.default_rng(size).random(size) < 0.5
    assert allowed_tokens(pack_row(allowed)[None]) == np.flatnonzero(allowed).tolist()
