"""The texts that a backtracking matcher consumes completely. The judge is `re`."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.automaton.reference.language import accepts
from guided.errors import LimitExceeded
from guided.frontends.regex import leftmost_match as preferred_module
from guided.frontends.regex.budget import Budget
from guided.frontends.regex.derivatives import TooLarge
from guided.frontends.regex.leftmost_match import Undecided, is_deterministic, leftmost_match
from guided.frontends.regex.python_syntax import PythonReader
from guided.frontends.regex.tree import Tree
from guided.ir.nodes import Automaton, Grammar
from guided.limits import Limits
from guided.meter import limit_compilation

QUANTIFIERS = ["*", "+", "?", "*?", "+?", "??", "{1,2}", "{1,2}?", "{2}", "{2,}?"]


def tree_of(pattern: str) -> Tree:
    return PythonReader(pattern, Budget(Limits()), classes="full", ordered=True).read()


def taken(pattern: str) -> Automaton:
    return leftmost_match(tree_of(pattern), Budget(Limits()))


def extended(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    looks = st.sampled_from(["(?<!a)", "(?<=b)", "(?<=a)"])
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(QUANTIFIERS)).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        st.tuples(looks, inner).map("".join),
    )


PATTERNS = st.recursive(st.sampled_from(["a", "b", "[ab]", ".", "ab"]), extended, max_leaves=6)


@given(PATTERNS)
def test_texts_match_re_at_their_ends(pattern):
    try:
        node = taken(pattern)
    except Undecided:
        return
    grammar, compiled = Grammar({"start": node}), re.compile(pattern)
    for length in range(5):
        for letters in itertools.product("ab", repeat=length):
            text = "".join(letters)
            found = compiled.match(text)
            assert accepts(grammar, text.encode()) == (found is not None and found.end() == length), text


def test_most_patterns_are_decided():
    for pattern in ("a", "a|ab", "(?:a|b)*?b", "[ab]{2,}?", "a(?<!b)b", r'".*?(?<!\\)(\\\\)*?"', "(?i)Ab|c+"):
        taken(pattern)


@pytest.mark.parametrize("pattern", ["(?:a*)*", "(?:a??)+", "a(?=b)b", "(?:a|)*"])
def test_undecided_patterns(pattern):
    with pytest.raises(Undecided):
        taken(pattern)


@given(PATTERNS)
def test_a_deterministic_pattern_takes_all_that_it_matches(pattern):
    """So its counts may stay: the texts that `re` consumes completely are all texts that it can match."""
    if not is_deterministic(tree_of(pattern)):
        return
    compiled = re.compile(pattern)
    for length in range(7):
        for letters in itertools.product("ab", repeat=length):
            text = "".join(letters)
            found = compiled.match(text)
            assert (found is not None and found.end() == length) == (compiled.fullmatch(text) is not None), text


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("(ab){2,50000}c", True), ("[a-z]{1,50000}", True), ("((a{1,30}b){1,30}c){1,30}", True),
        ("((a{1,300}b){1,300}c){1,300}", False),
        ("a{2,9}?b", True), ("[^;]{0,9};", True), ("(?:ab|c){3,9}d?", True), ("(?i:ab){2,9}", True),
        ("a{2,9}?", False), (".{0,9};", False), ("(?:a|ab){2,9}c", False), ("(?:a?){9}", False),
        ("(?:a{9}){9}", False), ("(?:|a)", False), ("a(?<!b){2,9}", False), ("[^\\s\\S]{2,9}", False),
    ],
)  # fmt: skip
def test_which_patterns_are_deterministic(pattern, expected):
    assert is_deterministic(tree_of(pattern)) == expected


def test_many_texts_need_states_by_their_characters():
    texts = [f"{number:04}{'x' * 30}" for number in range(1_000)]
    states = taken("|".join(texts)).states
    assert len(states) == 1 + 1 + 10 + 100 + 1_000 + 1_000 * 29 + 1
    assert sum(ends for ends, _ in states) == 1


def test_states_and_steps_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(preferred_module, "_MAX_STEPS", 1_000_000)
    monkeypatch.setattr(preferred_module, "_MAX_EDGES", 1_000)
    for pattern, what in (
        ("(?:a|b)*a(?:a|b){18}", "edges between states"),
        ("(?:a?){9000}", "1000000 steps"),
        ("(?:a|ab){99999}", "200000 states"),
    ):
        with pytest.raises(TooLarge) as caught:
            taken(pattern)
        assert f"{caught.value.limit} {caught.value.unit}".endswith(what)
    with pytest.raises(LimitExceeded, match="seconds"), limit_compilation(Limits(seconds=0)):
        leftmost_match(tree_of("(?:a?){5000}"), Budget(Limits()))
