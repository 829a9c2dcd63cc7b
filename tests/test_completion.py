"""Shortest completions of grammars whose conditions forbid the completion with the fewest bytes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import BudgetError
from guided.ir import Alt, Chars, Grammar, Member, Node, Permutation, Ref, Repeat, Seq, Text
from guided.matching import GrammarCompiler, GrammarMatcher, allocate_token_bitmask
from guided.vocabulary import Vocabulary
from tests.core_support import mask_of

LETTERS = GrammarCompiler(Vocabulary([b"a", b"b", b"c", b" ", b",", b"aa", b", ", b"  "], eos_token_ids=[8]))
SPACE = Repeat(Text(" "), 0, None)
COMMA = Text(",")


def test_space_before_a_repeated_member_is_refused():
    """After the cheap member, a space costs less than the expensive member. The completion writes the expensive member
    anyway.
    """
    members = (Member(Text("a"), required=True), Member(Text("c" * 9), required=True))
    grammar = Grammar({"start": Permutation(members, Seq((SPACE, COMMA, SPACE)))})
    matcher = GrammarMatcher(LETTERS.compile_grammar(grammar))
    assert matcher.min_tokens_to_finish() == 1 + 1 + 9 + 1
    assert matcher.accept_string("a, ") and matcher.min_tokens_to_finish() == 10
    assert matcher.explain().completion == b"c" * 9


def test_a_member_that_holds_its_own_object_is_not_waited_for():
    """At least one of two members is required, and one of them nests without end."""
    members = (Member(Seq((Text("b"), Ref("start")))), Member(Text("c" * 9)))
    grammar = Grammar({"start": Seq((Text("a"), Permutation(members, COMMA, 1), Text(" ")))})
    matcher = GrammarMatcher(LETTERS.compile_grammar(grammar))
    assert matcher.min_tokens_to_finish() == 1 + 9 + 1 + 1
    assert matcher.explain().completion == b"a" + b"c" * 9 + b" "


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
    for left in range(matcher.min_tokens_to_finish() + data.draw(st.sampled_from([0, 1, 5, 20])), 0, -1):
        with pytest.raises(BudgetError):
            mask_of(matcher, matcher.min_tokens_to_finish() - 1)
        allowed = mask_of(matcher, left)
        assert allowed and matcher.accept_token(rng.choice(allowed))
        if matcher.is_terminated():
            return
    raise AssertionError("not complete")


def test_budgets_over_large_vocabularies_without_byte_tokens():
    """The text with the fewest bytes has no encoding in tokens, so the smallest number must be computed from the
    tokens.
    """
    tokens = [b"a" * n for n in range(1, 300)] + [b"xa", b"b", b"c"]
    grammar = GrammarCompiler(Vocabulary(tokens, eos_token_ids=[len(tokens)])).compile_regex("[ab]{0,20000}(x|cc)")
    matcher = GrammarMatcher(grammar)
    assert matcher.min_tokens_to_finish() == 3
    assert mask_of(matcher, 3) == (301,)


@pytest.mark.parametrize("members", [30, 60])
def test_the_rest_of_a_frame_is_kept_once(members: int):
    """The memory of budgets at every byte is linear in the text, not quadratic."""
    schema = {
        "type": "object",
        "properties": {f"member{i}": {"type": "boolean"} for i in range(members)},
        "required": [f"member{i}" for i in range(members)],
        "additionalProperties": False,
    }
    vocabulary = Vocabulary([bytes([byte]) for byte in range(256)] + [b"\xff" * 4200], eos_token_ids=[257])
    matcher = GrammarMatcher(GrammarCompiler(vocabulary).compile_json_schema(schema, whitespace="compact"))
    text = "{" + ",".join(f'"member{i}":true' for i in range(members)) + "}"
    bitmask = allocate_token_bitmask(1, vocabulary.size)
    for byte in text.encode():
        matcher.fill_next_token_bitmask(bitmask, max_tokens=10_000)
        assert matcher.accept_token(byte)
    assert matcher.is_accepting() and matcher.memory_bytes < 12_000 * len(text)
