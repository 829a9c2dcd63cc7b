"""The number of tokens needed to end an output, by brute force, for grammars with a lexer over a few letters.

For each prefix up to a number of bytes: the core accepts it exactly if its twin finds a completion. Then the number of
tokens to the end is finite, and at least the number that a breadth-first search of the twin's states finds. With
exactly this number of tokens, every walk ends, for random choices among the allowed tokens, and for choices that leave
the most to do.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

import guided
from guided.automaton.reference.lexer import LexedLanguage, LexedState
from guided.errors import LimitExceeded

pytest.importorskip("lark", reason="lark is not installed")

from tests import test_indentation_masks, test_lexer_masks
from tests.lexer_support import mask_of, random_grammar

SEED = int(os.environ.get("GUIDED_FUZZ_SEED", "0"))  # for the slow runs
ENDLESS = 2**40  # more tokens than any of these grammars needs


class Least:
    """The smallest number of tokens from a state to the end, including the end token: a search of the twin's states."""

    def __init__(self, language: LexedLanguage, tokens: tuple[bytes, ...]) -> None:
        self.language, self.tokens = language, tokens
        self.after = cache(self._after)

    def _after(self, state: LexedState) -> frozenset[LexedState]:
        out = set()
        for token in self.tokens:
            after = state
            for byte in token:
                after = self.language.read(after, byte)
            out.add(after)
        return frozenset(out - {frozenset()})

    def __call__(self, start: LexedState, most: int) -> int:
        """`most`: the number at which the search ends without a result."""
        now, met = {start}, {start}
        for count in range(1, most):
            if any(map(self.language.is_accepting, now)):
                return count
            now = {after for state in now for after in self.after(state)} - met
            met |= now
        return most


def beginnings(pair: Any, depth: int) -> Iterator[tuple[guided.GrammarMatcher, LexedState, bytes]]:
    """Each prefix of up to `depth` bytes that can continue, once for each state of the twin. Both agree about these
    prefixes.
    """
    first = guided.GrammarMatcher(pair.grammar)
    now = [(first, pair.language.initial_readings, b"")]
    ids = {token: id for id, token in enumerate(pair.tokens) if len(token) == 1}
    met = {pair.language.initial_readings}
    yield now[0]
    for _ in range(depth):
        before, now = now, []
        for matcher, state, text in before:
            for byte, id in ids.items():
                after, moved = pair.language.read(state, byte[0]), matcher.fork()
                taken = moved.accept_token(id)
                assert taken == bool(after and pair.language._is_completable(after)), (pair.text, text + byte)
                if taken and after not in met:
                    met.add(after)
                    now.append((moved, after, text + byte))
        yield from now


def walk_ends(matcher: guided.GrammarMatcher, tokens: tuple[bytes, ...], least: int, rng: random.Random) -> bytes:
    """Walks with the smallest number of tokens, by choices that leave the most to do, or by random ones."""
    worst, written = rng.random() < 0.7, b""
    for left in range(least, 0, -1):
        allowed = sorted(mask_of(matcher, left))
        assert allowed, written
        token = rng.choice(allowed)
        if worst and token != len(tokens):
            needed = {}
            for each in allowed:
                after = matcher.fork()
                assert after.accept_token(each)
                needed[each] = after.min_tokens_to_finish()
                assert needed[each] <= left - 1
            token = max(needed, key=lambda each: needed[each])
        assert matcher.accept_token(token)
        if token == len(tokens):
            return written
        written += tokens[token]
    raise AssertionError("the budget is used up, and the output is not complete")


def judge(pair: Any, depth: int, rng: random.Random, counts: Counter[tuple[str, int]]) -> None:
    """See the head of the file. `counts`: how often the core's number exceeds the smallest one by how much."""
    search = Least(pair.language, pair.tokens)
    sure = "sure texts" if pair.grammar.native.sure else "searched"
    try:
        for matcher, state, text in beginnings(pair, depth):
            least = matcher.min_tokens_to_finish()
            assert least < ENDLESS, (pair.text, text)
            found = search(state, least)
            counts[sure, least - found] += 1
            written = walk_ends(matcher.fork(), pair.tokens, least, rng)
            assert pair.language.accepts(text + written), (pair.text, text, written)
    except LimitExceeded:
        counts["undecided", 0] += 1


def spaced_grammar(rng: random.Random) -> str:
    """A random grammar in which c separates words that would otherwise be one word."""
    lines = [line for line in random_grammar(rng).splitlines() if not line.startswith("%ignore")]
    lines.insert(0, f"WORD: {rng.choice(['/a+/', '/[ab]+/', '/b+/', '/a[ab]*/'])}")
    used = [line.replace("T0", "WORD") if line[0].islower() else line for line in lines]
    return "\n".join([*used, "%ignore " + rng.choice(['"c"', "/c+/", "/cb?/"])]) + "\n"


def drawn_tokens(rng: random.Random) -> tuple[bytes, ...]:
    """The letters, and a few tokens of two to four letters."""
    longer = {bytes(rng.choice(b"abc") for _ in range(rng.randint(2, 4))) for _ in range(rng.randint(0, 8))}
    return (b"a", b"b", b"c", *sorted(longer))


def judge_words(rng: random.Random, how: Any, count: int, depth: int) -> Counter[tuple[str, int]]:
    counts = Counter[tuple[str, int]]()
    pairs = test_lexer_masks.drawn_pairs(rng, count, how)
    for pair in pairs + test_lexer_masks.drawn_pairs(rng, count, how, spaced_grammar):
        judge(pair, depth, rng, counts)
        judge(test_lexer_masks.Pair(pair.text, how, drawn_tokens(rng)), depth, rng, counts)
    return counts


def judge_blocks(seed: int, count: int, depth: int) -> Counter[tuple[str, int]]:
    rng, counts = random.Random(seed), Counter[tuple[str, int]]()
    for pair in test_indentation_masks.drawn_pairs(seed, count):
        judge(pair, depth, rng, counts)
    return counts


def is_enough(counts: Counter[tuple[str, int]], least: int) -> None:
    """Both kinds of completions occurred, and nearly all prefixes were decided."""
    print(counts)
    assert all(sum(counts[kind, more] for more in range(9)) >= least for kind in ("sure texts", "searched"))
    assert counts["undecided", 0] <= counts.total() // 50


@pytest.mark.parametrize("how", ["contextual", "basic"])
def test_words(how: Any) -> None:
    is_enough(judge_words(random.Random(f"words {how}"), how, 25, 4), 30)


def test_blocks() -> None:
    is_enough(judge_blocks(1, 10, 4), 30)


@pytest.mark.parametrize("ignored", ["/cb?/", "/c(bb)?/", "/cb?c?/"])
def test_a_separator_of_several_tokens(ignored: str) -> None:
    """After the first of its tokens it may have ended, and another one would be needed: the rest of it is shorter."""
    text, counts = f"start: WORD WORD\nWORD: /b+/\n%ignore {ignored}\n", Counter[tuple[str, int]]()
    judge(test_lexer_masks.Pair(text, tokens=(b"b", b"c")), 6, random.Random(0), counts)
    assert counts["undecided", 0] == 0 and counts.total() > 5


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("how", ["contextual", "basic"])
def test_many_words(how: Any, part: int) -> None:
    is_enough(judge_words(random.Random(f"{SEED} {part}"), how, 150, 5), 300)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many_blocks(part: int) -> None:
    is_enough(judge_blocks(1000 + 4 * SEED + part, 40, 5), 100)
