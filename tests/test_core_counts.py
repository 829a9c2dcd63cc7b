"""Masks inside of counted repetitions, over a vocabulary with thousands of words: those of a walk of the vocabulary.

Token tables of counts are made without bounds, and a look-up selects what the bounds permit. Near a bound, a token that
counts beyond it may still be read if the repetition ends inside of it.
"""

from __future__ import annotations

import random

import pytest

from guided.matching import GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.core_support import SANITIZED, mask_of

PATTERNS = {
    "its own class after it": r"[a-z0-9](?:[a-z0-9-]{0,25}[a-z0-9])?",
    "its own class after it, more than once": r"[a-z]{1,9}(?:[a-z]{0,30}[a-c]x)?[,:]",
    "a list of labels": r"[a-z](?:[a-z0-9]{0,30}[a-z])?(?:,[a-z](?:[a-z0-9]{0,30}[a-z])?)*",
    "counts in counts": r"([a-g]{1,12} ?){1,40}",
    "any character but a word": r"<((?!</abc>)[\s\S]){0,60}</abc>",
    "any character but a word, a count at least": r"<((?!ab:)[\s\S]){30,60}ab:",
    "every character, then some": r"[^x]{3,40}[a-z]{2}",
    "a class that loops after one character": r"\"[^\"]{0,50}\"",
}


@pytest.fixture(scope="module")
def words() -> Vocabulary:
    rng = random.Random(5)
    tokens: list[bytes | None] = [bytes([byte]) for byte in range(256)]
    for letters in 3 * ["aabbccdefgxyz019-"] + ['abcx ,:<>/é€"']:
        for _ in range(400 if SANITIZED else 1500):
            tokens.append("".join(rng.choices(letters, k=rng.randint(2, 9))).encode())
    tokens += [b"a" * 40, b"ab" * 9, b"</abc>", b"c</a", b"bc>", b"ab:", b"x" * 70]
    return Vocabulary(tokens, eos_token_ids=[len(tokens)])


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("seed", range(2 if SANITIZED else 6))
def test_masks_inside_of_counts(name: str, seed: int, words: Vocabulary) -> None:
    rng = random.Random(seed)
    matcher = GrammarMatcher(GrammarCompiler(words, cache_bytes=0).compile_regex(PATTERNS[name]))
    for _ in range(40):
        mask = mask_of(matcher)
        assert mask == tuple(matcher._walk_mask())
        if matcher.is_terminated() or not mask:
            return
        longest = rng.sample(mask, min(3, len(mask)))  # long tokens come near the bounds
        token = max(longest, key=lambda id: len(words.token_bytes(id) or b""))
        assert matcher.accept_token(token)
        if matcher.is_accepting() and rng.random() < 0.2:
            matcher.reset()
