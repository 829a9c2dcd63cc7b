"""Bounds and forced text of grammars with a lexer, in vocabularies whose tokens overlap: a bound is always kept, and
what is forced is the only text that tokens can write.
"""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

import guided
from guided import GrammarCompiler, GrammarMatcher
from guided.errors import LimitExceeded, SpecError, VocabularyError

pytest.importorskip("lark", reason="lark is not installed")

from tests.effort import draws
from tests.lexer_support import TERMINALS, mask_of, random_grammar, vocabulary_of

LETTERS = [b"a", b"b", b"c", b" ", b"\n"]
BYTES = [bytes([byte]) for byte in range(256)]


def matcher_for(text: str, tokens: list[bytes]) -> GrammarMatcher:
    return GrammarMatcher(GrammarCompiler(vocabulary_of(tokens)).compile_lark(text))


def walk_within(matcher: GrammarMatcher, rng: random.Random, slack: int, max_steps: int = 40) -> int:
    """Follow masks with a budget. Returns the number of tokens that were left over."""
    budget = matcher.min_tokens_to_finish() + slack
    for _ in range(max_steps):
        least = matcher.min_tokens_to_finish()
        assert least <= budget
        assert mask_of(matcher, least), "a budget of the bound leaves no token"
        token = rng.choice(sorted(mask_of(matcher, budget)))
        assert matcher.accept_token(token)
        budget -= 1
        if matcher.is_terminated():
            break
    assert budget >= 0
    return budget


# The shortest text in bytes is not the one with the fewest tokens.
SHORTER_IN_TOKENS = {
    "another text": ('start: T\nT: /a*c/+ /[aA]b/', [*BYTES, b"ca"]),
    "a longer separator": (
        'start: x\nT: /[^a]*/ /ab/\n%ignore /c[ab]*c/\nx: "b" | T start T\n', [b"a", b"b", b"c", b"aac", b"bcac"],
    ),
    "a longer end": ('start: A "!"\nA: /a(b|cdefg)/', [*BYTES, b"cdefg!", b"cdefg", b"acd"]),
}  # fmt: skip


@pytest.mark.parametrize("name", SHORTER_IN_TOKENS)
def test_known_bounds_are_kept(name: str) -> None:
    text, tokens = SHORTER_IN_TOKENS[name]
    for seed in range(100):
        rng = random.Random(seed)
        walk_within(matcher_for(text, tokens), rng, rng.randrange(6))


def joined_terminals(text: str, rng: random.Random) -> str:
    """The grammar with two patterns in some terminals, and a separator."""
    lines = [f"{line} {rng.choice(TERMINALS)}" if line[0] == "T" and rng.random() < 0.5 else line
             for line in text.splitlines()]  # fmt: skip
    separator = rng.choice(["/c[ab]*c/", "/c+/", "/ +/", '"c"', "/[c ]+/", "/ca*/"])
    return "\n".join([*(line for line in lines if line[0] != "%"), f"%ignore {separator}"])


def test_random_bounds_are_kept() -> None:
    ended = 0
    for seed in range(draws(150, 3000)):
        rng = random.Random(f"bounds {seed}")
        words = {"".join(rng.choices("abc ", k=rng.randint(2, 4))).encode() for _ in range(6)}
        tokens = [*(LETTERS if rng.random() < 0.6 else BYTES), *sorted(words)]
        text = joined_terminals(random_grammar(rng), rng)
        with suppress(LimitExceeded, SpecError, VocabularyError):
            grammar = GrammarCompiler(vocabulary_of(tokens)).compile_lark(text)
            for slack in (0, 1, 3, 6):
                ended += walk_within(GrammarMatcher(grammar), rng, slack) >= 0
    assert ended > draws(150, 3000)


def test_what_is_forced_is_the_only_text_that_tokens_can_write() -> None:
    """Some bytes of these vocabularies are not tokens, so an output may continue inside a token."""
    endless = matcher_for("start: A\nA: /c*ab/", [b"c", b"ab"])
    assert mask_of(endless) == {0, 1} and endless.forced_tokens() == []
    choice = matcher_for('start: "x" ("y" | "é") "z"', [b"x", b"y", b"z", "é".encode()])
    assert choice.forced_tokens() == [0]
    assert choice.accept_token(0) and choice.forced_tokens() == []
    assert mask_of(choice) == {1, 3} and "or é" in str(choice.explain("q"))
    assert choice.accept_token(3) and choice.forced_tokens() == [2]


def test_text_ends_only_where_a_token_may_end() -> None:
    matcher = matcher_for('start: "x" "é" "z"', [b"x", b"z", "é".encode()])
    assert not matcher.accept_string(b"x\xc3")
    assert matcher.accept_string("xé") and mask_of(matcher) == {1}


def test_parts_with_a_lexer_read_characters_without_tokens_for_their_bytes() -> None:
    tokens = [b"x", b"y", b"z", "é".encode(), b"-"]
    compiler = GrammarCompiler(vocabulary_of(tokens))
    grammar = compiler.compile(guided.regex("-") + guided.lark('start: "x" ("y" | "é") "z"') + guided.regex("-"))
    matcher = GrammarMatcher(grammar)
    for token, mask in ((4, {4}), (0, {0}), (3, {1, 3}), (2, {2}), (4, {4})):
        assert mask_of(matcher) == mask
        assert matcher.accept_token(token)
    assert matcher.is_accepting()
