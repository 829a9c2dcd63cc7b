"""Masks of a rule that ends with a call of another rule, over a vocabulary with many words.

The frame of a tail call has the caller of the calling rule. A walk of the vocabulary must not confuse its positions
with those of the rule in which the walk began.
"""

from __future__ import annotations

import random

import pytest

from guided.matching import GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.core_support import mask_of
from tests.effort import every
from tests.gbnf_grammars import GRAMMARS


@pytest.fixture(scope="module")
def words() -> Vocabulary:
    rng = random.Random(1)
    tokens: list[bytes | None] = [bytes([byte]) for byte in range(256)]
    for _ in range(2000):
        tokens.append("".join(rng.choices('abcdefg123"{}[]:,<>/\\ .+-*()éñ', k=rng.randint(2, 5))).encode())
    return Vocabulary(tokens, eos_token_ids=[len(tokens)])


@pytest.mark.parametrize("name", ["json", "arithmetic", "c"])
@pytest.mark.parametrize("seed", every(2, range(4)))
def test_masks_match_a_walk(name: str, seed: int, words: Vocabulary) -> None:
    rng = random.Random(seed)
    matcher = GrammarMatcher(GrammarCompiler(words, cache_bytes=0).compile_gbnf(GRAMMARS[name]))
    for _ in range(15):
        mask = mask_of(matcher)
        assert mask == tuple(matcher._walk_mask())
        if matcher.is_terminated() or not mask:
            return
        assert matcher.accept_token(rng.choice(mask))
