"""The words of regular languages with few words, compared with Python's `re` on short texts over a small alphabet."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.frontends.regex import parse_regex
from guided.frontends.regex.derivatives import Terms
from guided.frontends.regex.small_language import list_small_language
from guided.ir.nodes import And, Length, Not

LETTERS, LONGEST = "ab", 5
TEXTS = ["".join(word) for length in range(LONGEST + 1) for word in product(LETTERS, repeat=length)]
PATTERNS = st.recursive(
    st.sampled_from(["a", "b", "[ab]", ""]),
    lambda inner: (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})")
        | st.tuples(inner, st.sampled_from(["?", "*", "{2}", "{1,3}"])).map(lambda pair: f"(?:{pair[0]}){pair[1]}")
    ),
    max_leaves=6,
)


def node_of(pattern: str):
    return parse_regex(rf"^(?:{pattern})$", dialect="ecma")


@given(PATTERNS, PATTERNS)
def test_the_words_of_two_patterns(first: str, second: str) -> None:
    """All words of one language up to a length that the other language lacks."""
    node = And((Length(node_of(first), 0, LONGEST), Not(node_of(second))))
    expected = {text for text in TEXTS if re.fullmatch(first, text) and not re.fullmatch(second, text)}
    words = list_small_language(Terms(), node, 100)
    assert words is not None and len(words) == len(set(words)) and set(words) == expected
    assert list_small_language(Terms(), node, len(expected)) == words
    assert expected == set() or list_small_language(Terms(), node, len(expected) - 1) is None


@pytest.mark.parametrize("pattern", ["a+", "[ab]*b", "(?:ab){3,}", "[a-z]{3}", "a{0,2000}"])
def test_many_words(pattern: str) -> None:
    assert list_small_language(Terms(), parse_regex(pattern, dialect="ecma"), 1000) is None
