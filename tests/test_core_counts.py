"""Loops inside of loops, both with bounds: a text has many possible counts at once, of which the core keeps the lowest.

The oracle is the set of all short texts, computed from the definitions.
"""

from __future__ import annotations

import random
from functools import cache
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.ir import Alt, Grammar, Node, Repeat, Seq, Text
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.core_support import mask_of
from tests.effort import every, examples

LETTERS = "ab "
LONGEST = 7
ALL_TEXTS = ["".join(letters) for length in range(LONGEST + 1) for letters in product(LETTERS, repeat=length)]
TOKENS = [letter.encode() for letter in LETTERS + "!"]
TOKENS += [b"aa", b"ab", b"aaa", b" a", b"a ", b"ba", b"bb", b"a a", b"aab", b"aaaaa", b"  "]
END = len(TOKENS)
VOCABULARY = Vocabulary(TOKENS, eos_token_ids=[END])

bounds = st.sampled_from([(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (3, 3), (0, 4), (1, 6), (2, None), (1, None)])


ANOTHER = Text("!" * 25)
"""An alternative of this length keeps small loops from being unrolled, so they have a count."""


def extend(items: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    some = st.lists(items, min_size=1, max_size=3).map(tuple)
    counted = st.builds(
        lambda item, at, long: Repeat(Alt((item, ANOTHER)) if long else item, *at), items, bounds, st.booleans()
    )
    return counted | counted | some.map(Seq) | some.map(Alt)


nodes = st.recursive(st.sampled_from(["a", "b", " ", "aa", "ab"]).map(Text), extend, max_leaves=6)


@cache
def texts(node: Node) -> frozenset[str]:
    """All texts of a node with at most LONGEST characters."""
    match node:
        case Text(text):
            return frozenset({text} if len(text) <= LONGEST else ())
        case Alt(items):
            return frozenset().union(*map(texts, items))
        case Seq(items):
            out = frozenset({""})
            for item in items:
                out = joined(out, texts(item))
            return out
        case Repeat(item, low, high):
            out, power, found = frozenset({""}), frozenset({""}), frozenset[str]()
            # Each item has a character or is empty, so a larger count adds no short text.
            for count in range(min(low + LONGEST, LONGEST + low if high is None else high) + 1):
                power = out if count == 0 else joined(power, texts(item))
                found |= power if count >= low else frozenset()
            return found
    raise AssertionError(node)


def joined(left: frozenset[str], right: frozenset[str]) -> frozenset[str]:
    return frozenset(a + b for a in left for b in right if len(a) + len(b) <= LONGEST)


@given(nodes, nodes, st.randoms(use_true_random=False))
@examples(150)
def test_the_language_of_loops_in_loops(node: Node, tail: Node, rng: random.Random) -> None:
    whole = Seq((Repeat(node, 1, 5), tail))
    expected = texts(whole)
    if not expected:
        return
    start = GrammarMatcher(GrammarCompiler(VOCABULARY, cache_bytes=0).compile_grammar(Grammar({"start": whole})))
    begins = {text[:at] for text in expected for at in range(len(text) + 1)}
    for text in rng.sample(ALL_TEXTS, 150) + rng.sample(sorted(expected), min(30, len(expected))):
        matcher = start.fork()
        accepted = matcher.accept_string(text)
        assert accepted or text not in begins
        assert (accepted and matcher.is_accepting()) == (text in expected)
    matcher, text = start, ""
    while matcher.steps < 6:
        mask = mask_of(matcher)
        assert set(mask) == set(matcher._walk_mask())
        assert (END in mask) == matcher.is_accepting()
        allowed = {token for token in range(END) if text + TOKENS[token].decode() in begins}
        assert allowed <= set(mask)  # texts longer than the oracle's may follow, too
        fewest = matcher.min_tokens_to_finish()
        assert fewest <= 1 + min((len(end) - len(text) for end in expected if end.startswith(text)), default=1000)
        within = mask_of(matcher, fewest)
        assert within and set(within) <= set(mask)
        token = rng.choice(within if rng.random() < 0.3 else mask)
        if token == END:
            return
        assert matcher.accept_token(token)
        text += TOKENS[token].decode()


@pytest.mark.parametrize("seed", every(2, range(3)))
@pytest.mark.parametrize("text", ['root ::= "b" | "a" root{1,30}', 'root ::= "b" | "a" "b"? root{1,30}'])
def test_loops_that_contain_themselves_share_their_callers(text: str, seed: int) -> None:
    """If only lowest counts were kept here, the callers of equal frames would differ, and multiply."""
    bytes_and_end = Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
    matcher = GrammarMatcher(GrammarCompiler(bytes_and_end, cache_bytes=0).compile_gbnf(text))
    letters = random.Random(seed)
    assert matcher.accept_string("aaa" + "".join(letters.choice("ab") for _ in range(250)))
    assert matcher.memory_bytes < 20_000_000


@pytest.mark.parametrize(
    ("pattern", "letters", "beyond"),
    [
        ("([a-z]{1,20} ?){1,200}", "a" * 4000, "a"),
        ("((a|aa|aaa){1,300}b?){1,300}", "ab" * 300, "a"),
        ("(([a-z]{1,30}){1,30} ?){1,60}", "abc " * 60, "a"),
        ("([a-z]{5,20} ?){10,200}", "a" * 4000, "a"),
        ("(a{1,3}|b){2,400}", "aaab" * 200, "b"),
    ],
)
def test_few_threads_for_many_counts(pattern: str, letters: str, beyond: str) -> None:
    """Each letter may begin another item, so there are thousands of pairs of counts. The longest text has only one."""
    bytes_and_end = Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256])
    matcher = GrammarMatcher(GrammarCompiler(bytes_and_end, cache_bytes=0).compile_regex(pattern))
    half = letters[: len(letters) // 2]
    assert matcher.accept_string(half)
    assert matcher.memory_bytes < len(half) * 6_000
    assert matcher.accept_string(letters[len(half) :])
    assert matcher.is_accepting()
    assert not matcher.accept_string(beyond)
