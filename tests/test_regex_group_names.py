"""Which groups of an ECMA-262 pattern may have the same name, compared with the definition for each pair of groups."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import SpecError
from guided.frontends.regex import parse_regex
from tests.effort import examples

NAMES = st.sampled_from(["(?<a>", "(?<b>", "(?<c>", "(", "(?:", "(?=", "(?i:"])
# A pattern is a list of alternatives, an alternative a list of groups, and a group is (its beginning, its pattern).
PATTERNS: st.SearchStrategy[Any] = st.recursive(
    st.just([[]]),
    lambda inner: st.lists(st.lists(st.tuples(NAMES, inner), max_size=3), min_size=1, max_size=3),
    max_leaves=12,
)


def write(pattern: Any) -> str:
    return "|".join("".join(f"{begin}x{write(inner)})" for begin, inner in branch) for branch in pattern)


def names_of(pattern: Any) -> set[str] | None:
    """The names in a pattern. None if two groups that can both match have the same name."""
    out = set[str]()
    for branch in pattern:
        in_branch = set[str]()
        for begin, inner in branch:
            names = names_of(inner)
            own = {begin[3:-1]} if begin.startswith("(?<") else set()
            if names is None or names & own or (names | own) & in_branch:
                return None
            in_branch |= names | own
        out |= in_branch
    return out


@examples(1_000)
@given(PATTERNS)
def test_which_groups_may_share_a_name(pattern: Any) -> None:
    text = write(pattern)
    if names_of(pattern) is None:
        with pytest.raises(SpecError, match="duplicate group name"):
            parse_regex(text, dialect="ecma")
    else:
        parse_regex(text, dialect="ecma")


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        ("(?:(?<a>x)|(?<a>y))(?<a>z)", False),
        ("(?:(?<a>x)|(?<a>y))|(?<a>z)", True),
        ("(?<a>x|(?<a>y))", False),
        ("(?<a>x)|(?:(?<b>y)|(?<a>z)(?<b>x))", True),
        ("(?:(?<a>x)|y)(?:z|(?<a>x))", False),
        ("(?<$_\u200c1>x)", True),
        ("(?<\\u0061>x)(?<a>y)", False),
        ("(?<\\u{1d49c}>x)", True),
        ("(?<1>x)", False),
        ("(?<\u200c>x)", False),
        ("(?<a-b>x)", False),
        ("(?<>x)", False),
        ("(?<a", False),
    ],
)
def test_corners(text: str, is_valid: bool) -> None:
    if is_valid:
        parse_regex(text, dialect="ecma")
    else:
        with pytest.raises(SpecError):
            parse_regex(text, dialect="ecma")
