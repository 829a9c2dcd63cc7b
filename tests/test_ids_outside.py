"""Ids outside the vocabulary: a matcher raises ValueError. Ids inside it without text are simply not allowed."""

from __future__ import annotations

import random

import pytest

from guided import GrammarCompiler, GrammarMatcher, Vocabulary
from guided.automaton.reference.token_masks import ReferenceGrammar
from guided.matching.canonical.matcher import CanonicalMatcher
from guided.matching.canonical.spelling import spelling_of
from guided.matching.healing import HealingMatcher
from guided.matching.output_masks import masks_of
from tests.core_support import EVERY_SPEC, vocabulary

OUTSIDE = (-1, -(2**31), 2**31 - 1, 2**31, 2**40, -(2**63), 10**9)


def refuses(matcher, size: int) -> None:
    """Ids outside the vocabulary raise an error and change nothing."""
    steps = getattr(matcher, "steps", None)
    for id in (size, *OUTSIDE):
        with pytest.raises(ValueError, match=rf"^{id} is not a token id of this vocabulary \(0 to {size - 1}\)$"):
            matcher.accept_token(id)
    assert getattr(matcher, "steps", None) == steps


@pytest.mark.parametrize("name", EVERY_SPEC)
def test_matchers_of_every_kind(name):
    """On random walks from the start to the end, an id of the vocabulary is accepted if and only if the mask has it."""
    words = vocabulary()
    grammar = EVERY_SPEC[name](GrammarCompiler(words))
    rng, size = random.Random(name), words.size
    matcher = GrammarMatcher(grammar)
    for _ in range(12):
        refuses(matcher, size)
        allowed = matcher._walk_mask()
        assert [id for id in range(size) if matcher.fork().accept_token(id)] == sorted(allowed)
        assert matcher.accept_token(rng.choice(allowed))
    refuses(matcher, size)


@pytest.mark.parametrize("pattern", ["ab*", "(?s:.*)"])
def test_holes_and_padding_are_not_allowed(pattern):
    """As documented, ids without bytes are inside the vocabulary."""
    tokens = [b"a", None, b"b", None, b"ab"]
    words = Vocabulary(tokens, eos_token_ids=[7], special_tokens={9: "<x>"}, size=40)
    grammar = GrammarCompiler(words).compile_regex(pattern)
    twin = ReferenceGrammar(grammar.grammar, tokens, [7], {9: "<x>"})
    matcher, state = GrammarMatcher(grammar), twin.initial()
    for token in (0, 2, 7, 7):
        accepted = [id for id in range(40) if matcher.fork().accept_token(id)]
        assert accepted == [id for id in range(40) if twin.accept_token(state, id) is not None]
        assert token in accepted and set(accepted) <= {0, 2, 4, 7}
        refuses(matcher, 40)
        state = twin.accept_token(state, token)
        assert matcher.accept_token(token)


def test_methods_that_judge_outputs_count_invalid_ids_as_refused():
    """`validate_tokens` and `masks_of` return how much of an output is right, for any ids."""
    words = Vocabulary([b"a", b"b"], eos_token_ids=[2])
    grammar = GrammarCompiler(words).compile_regex("a*")
    for id in OUTSIDE:
        assert GrammarMatcher(grammar).validate_tokens([0, 0, id, 0]) == 2
        masks = masks_of(grammar, [0, 0, id, 0])
        assert masks.refused_at == 2 and f"{id} is not" in str(masks.explain())


def test_wrappers_of_matchers():
    pytest.importorskip("torch", reason="torch is not installed")
    from guided.engine.reasoning import ReasoningGate

    letters = [bytes([byte]) for byte in range(256)]
    words = Vocabulary([*letters, b"ab"], eos_token_ids=[257], size=300)
    matcher = GrammarMatcher(GrammarCompiler(words).compile_regex("ab"))
    gate = ReasoningGate(matcher.fork(), [ord("!")], words)
    healing = HealingMatcher(matcher.fork(), b"x", words)
    for wrapper, begin in ((gate, ord("!")), (healing, ord("x"))):
        refuses(wrapper, 300)
        assert not wrapper.accept_token(299)
        assert wrapper.accept_token(begin)
        refuses(wrapper, 300)
        assert wrapper.accept_token(256) and wrapper.accept_token(257)
        wrapper.rollback(3)


def test_canonical_matchers():
    from tests.canonical_support import huggingface

    words = huggingface([(b"a", b"b")])
    grammar = GrammarCompiler(words).compile_regex("ab")
    matcher = CanonicalMatcher(GrammarMatcher(grammar), spelling_of(words))
    refuses(matcher, words.size)
    assert matcher.accept_token(words.encode("ab")[0])
    refuses(matcher, words.size)


def test_a_machine_refuses_every_other_id():
    pytest.importorskip("torch", reason="torch is not installed")
    from guided.levels.patterns import compile_pattern

    machine = compile_pattern([("a", "+")], {}, {"a": 0}, end_tokens=[1])
    assert [id for id in (-1, 2, 10**9, 0) if machine.advance(id)] == [0]
