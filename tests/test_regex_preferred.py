"""What a backtracking matcher takes as a whole: `re` is the judge."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.automaton.reference_language import accepts
from guided.ir.nodes import Grammar, Node
from guided.limits import Limits
from guided.spec.regex.budget import Budget
from guided.spec.regex.preferred import Undecided, preferred
from guided.spec.regex.python_syntax import PythonReader

QUANTIFIERS = ["*", "+", "?", "*?", "+?", "??", "{1,2}", "{1,2}?", "{2}", "{2,}?"]


def taken(pattern: str) -> Node:
    return preferred(PythonReader(pattern, Budget(Limits()), classes="full", ordered=True).read())


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
def test_the_texts_are_those_that_re_matches_to_their_ends(pattern):
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
def test_what_is_not_decided(pattern):
    with pytest.raises(Undecided):
        taken(pattern)
