"""Shortest completions on grammars whose guards forbid what is nearest in bytes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import BudgetError
from guided.grammar import Alt, Chars, Grammar, Member, Node, Permutation, Repeat, Seq, Text
from guided.matching import GrammarCompiler, GrammarMatcher, allocate_token_bitmask, allowed_tokens
from guided.vocabulary import Vocabulary

LETTERS = GrammarCompiler(Vocabulary([b"a", b"b", b"c", b" ", b",", b"aa", b", ", b"  "], eos_token_ids=[8]))
SPACE = Repeat(Text(" "), 0, None)
COMMA = Text(",")


def test_space_before_a_member_that_was_written_is_no_way_forward():
    """After the cheap member, a space costs less than the dear one: the completion writes the dear one all the same."""
    members = (Member(Text("a"), required=True), Member(Text("c" * 9), required=True))
    grammar = Grammar({"start": Permutation(members, Seq((SPACE, COMMA, SPACE)))})
    matcher = GrammarMatcher(LETTERS.compile_grammar(grammar))
    assert matcher.min_tokens_to_finish() == 1 + 1 + 9 + 1
    assert matcher.accept_string("a, ") and matcher.min_tokens_to_finish() == 10
    assert matcher.explain().completion == b"c" * 9


SEPARATORS: list[Node] = [
    Seq((SPACE, COMMA, SPACE)), Seq((COMMA, SPACE)), Seq((SPACE, COMMA)), COMMA, Repeat(Alt((COMMA, Text(" "))), 1, None),  # noqa: E501
    Seq((COMMA, Repeat(Text(" "), 0, 40))), Chars(((32, 32), (44, 44))),
]  # fmt: skip
ITEMS: list[Node] = [
    Text("a"), Text("b" * 7), Text("ca"), Seq((Text("cb"), Repeat(Text("a"), 0, None))), Seq((Text("cc"), SPACE, Text("b"))),  # noqa: E501
    Seq((Text("aab"), Repeat(Text("c"), 3, 50))),
]  # fmt: skip


@given(st.data())
def test_budgets_of_permutations(data: st.DataObject) -> None:
    picked = data.draw(st.lists(st.sampled_from(ITEMS), min_size=1, max_size=4, unique=True))
    members = [Member(item, data.draw(st.booleans()), data.draw(st.integers(0, 3)) == 0) for item in picked]
    low = data.draw(st.integers(0, len(members)))
    high = data.draw(st.sampled_from([None, len(members), len(members) + 3]))
    permutation = Permutation(tuple(members), data.draw(st.sampled_from(SEPARATORS)), low, high)
    matcher = GrammarMatcher(LETTERS.compile_grammar(Grammar({"start": permutation})))
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    bitmask = allocate_token_bitmask(1, 9)
    for left in range(matcher.min_tokens_to_finish() + data.draw(st.sampled_from([0, 1, 5, 20])), 0, -1):
        with pytest.raises(BudgetError):
            matcher.fill_next_token_bitmask(bitmask, max_tokens=matcher.min_tokens_to_finish() - 1)
        matcher.fill_next_token_bitmask(bitmask, max_tokens=left)
        allowed = allowed_tokens(bitmask)
        assert allowed and matcher.accept_token(rng.choice(allowed))
        if matcher.is_terminated():
            return
    raise AssertionError("not complete")
