"""Strings of a regular language whose length lies in a window, also if the lengths of the language have gaps.

The oracle is the set of all texts in the window, computed from the definitions.
"""

from __future__ import annotations

import random
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

import guided
from guided.ir import Alt, Grammar, Length, Node, Not, Repeat, Seq, Text
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.brute_force import fewest_tokens, language
from tests.core_support import mask_of
from tests.effort import examples

LONGEST = 8
TOKENS = [b"a", b"b", b"!", b"aa", b"ab", b"ba", b"bb", b"aaa", b"abab", b"bbbbb", b"a!", b"bb!"]
END = len(TOKENS)
VOCABULARY = Vocabulary(TOKENS, eos_token_ids=[END])

bounds = st.sampled_from([(0, None), (1, None), (0, 2), (1, 2), (2, 2), (2, None), (0, 3)])


def extend(items: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    some = st.lists(items, min_size=1, max_size=3).map(tuple)
    return some.map(Seq) | some.map(Alt) | st.builds(lambda item, at: Repeat(item, *at), items, bounds)


words = st.text("ab", min_size=1, max_size=6).map(Text)
nodes = st.recursive(words, extend, max_leaves=5) | words.map(Not)
windows = st.tuples(st.integers(0, LONGEST - 1), st.integers(0, 4)).map(lambda w: (w[0], min(sum(w), LONGEST - 1)))


@cache
def outputs(item: Node, window: tuple[int, int]) -> frozenset[bytes]:
    """All strings of the item in the window, followed by `!`."""
    grammar = Grammar({"start": Seq((Length(item, *window), Text("!")))})
    return frozenset(bytes(output) for output in language(grammar, b"ab!", LONGEST))


@given(nodes, windows, st.integers(0, 3), st.randoms(use_true_random=False))
@examples(200)
def test_strings_in_a_window(item: Node, window: tuple[int, int], spare: int, rng: random.Random) -> None:
    expected = outputs(item, window)
    compiler = GrammarCompiler(VOCABULARY, cache_bytes=0)
    grammar = Grammar({"start": Seq((Length(item, *window), Text("!")))})
    if not expected:
        with pytest.raises(guided.GuidedError):
            compiler.compile_grammar(grammar)
        return
    begins = {text[:at] for text in expected for at in range(len(text) + 1)}
    matcher, text = GrammarMatcher(compiler.compile_grammar(grammar)), b""
    budget = matcher.min_tokens_to_finish() + spare
    while not matcher.is_terminated():
        mask = mask_of(matcher)
        assert set(mask) - {END} == {id for id in range(END) if text + TOKENS[id] in begins}
        assert (END in mask) == (text in expected)
        rests = [tuple(output[len(text) :]) for output in expected if output.startswith(text)]
        fewest = min(count for rest in rests if (count := fewest_tokens(rest, TOKENS)) is not None)
        assert fewest + 1 <= matcher.min_tokens_to_finish() <= budget  # the end token counts
        within = mask_of(matcher, budget)
        assert within and set(within) <= set(mask)
        id = rng.choice(within)
        assert matcher.accept_token(id)
        text += b"" if id == END else TOKENS[id]
        budget -= 1


@pytest.mark.parametrize(
    ("pattern", "low", "high"),
    [("^([^,]{1,50},){0,20}[^,]{1,50}$", 3, 255), ("^(?:.{1,80}\\n){0,20}.{1,80}$", 3, 1000), ("^(ab)*$", 11, 4000)],
)
def test_gaps_shorter_than_the_window_need_few_states(pattern: str, low: int, high: int) -> None:
    """After 50 characters without a comma, no character may follow, or at least two."""
    compiler = GrammarCompiler(Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256]))
    schema = {"type": "string", "pattern": pattern, "minLength": low, "maxLength": high}
    with_window, without = compiler.compile_json_schema(schema), compiler.compile_json_schema(schema | {"minLength": 0})
    assert with_window.native.positions <= 2 * without.native.positions
