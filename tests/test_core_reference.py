"""The native core against its readable twin: masks, steps, ends, shortest completions and budgets, state by state."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from guided.errors import BudgetError, LimitExceeded
from guided.ir import (
    EPSILON,
    Alt,
    Chars,
    Encoded,
    Encoding,
    Form,
    Grammar,
    Member,
    Node,
    Not,
    OtherTokens,
    Permutation,
    Ref,
    Repeat,
    Seq,
    Span,
    Text,
)
from tests.brute_force import ENCODINGS, SPECIALS
from tests.core_support import mask_of
from tests.drawn_grammars import ALPHABETS, DrawnVocabulary, grammars, nodes, regular_nodes, vocabularies
from tests.twin_support import compile_both, small_searches


@pytest.fixture(autouse=True, scope="module")
def limits_of_the_twin() -> Iterator[None]:
    with small_searches(300, 1500):
        yield


def walk(grammar: Grammar, drawn: DrawnVocabulary, seed: int, exact: bool) -> None:
    """`exact`: the budgets are the smallest and the largest; otherwise they are sound bounds."""
    pair = compile_both(grammar, drawn.tokens, drawn.eos_token_ids, drawn.special_tokens)
    if pair is None:
        return
    matcher, twin = pair
    state = twin.initial()
    rng = random.Random(seed)
    path: list[int] = []
    for _ in range(7):
        try:
            expected = twin.mask(state)
            least = twin.min_tokens(state)
        except LimitExceeded:
            event("the reference gave up")
            return
        assert set(mask_of(matcher)) == expected, path
        assert set(matcher._walk_mask()) == expected, path
        assert matcher.is_accepting() == twin.is_accepting(state)
        if not matcher.is_terminated() and drawn.eos_token_ids and least is not None:
            ours = matcher.min_tokens_to_finish()
            assert ours == least if exact else ours >= least
            with pytest.raises(BudgetError):
                mask_of(matcher, ours - 1)
            for n in (ours, ours + 1, ours + 3):
                mask = set(mask_of(matcher, n))
                assert mask and mask <= expected
                if exact:
                    try:
                        largest = twin.budget_mask(state, n)
                    except LimitExceeded:
                        event("the reference gave up")
                        return
                    assert mask == largest
                for token in mask:
                    fork = matcher.fork()
                    assert fork.accept_token(token)
                    assert fork.min_tokens_to_finish() <= n - 1
        for token in range(matcher.grammar.vocabulary.size):
            if token not in expected:
                assert not matcher.accept_token(token)
        if not expected:
            return
        token = rng.choice(sorted(expected))
        path.append(token)
        assert matcher.accept_token(token)
        after = twin.accept_token(state, token)
        assert after is not None
        state = after


@given(st.data())
def test_regular_languages_over_any_vocabulary(data: st.DataObject) -> None:
    alphabet = data.draw(st.sampled_from(ALPHABETS))
    node: Node = data.draw(regular_nodes(alphabet))
    drawn = data.draw(vocabularies(alphabet))
    walk(Grammar({"start": node}), drawn, data.draw(st.integers(0, 2**32)), exact=True)


@given(st.data())
def test_recursive_grammars_over_byte_complete_vocabularies(data: st.DataObject) -> None:
    alphabet = data.draw(st.sampled_from(ALPHABETS))
    grammar = data.draw(grammars(alphabet, specials=tuple(SPECIALS)))
    drawn = data.draw(vocabularies(alphabet, complete=True))
    walk(grammar, drawn, data.draw(st.integers(0, 2**32)), exact=False)


@given(st.data())
def test_excluded_tokens(data: st.DataObject) -> None:
    alphabet = data.draw(st.sampled_from(ALPHABETS))
    drawn = data.draw(vocabularies(alphabet, complete=True))
    named = st.lists(st.sampled_from([*SPECIALS, *range(len(drawn.tokens))]), max_size=3).map(tuple)
    counts = st.sampled_from([(1, 1), (0, None), (1, None), (0, 1), (2, 3), (2, None)])
    others = st.builds(lambda but, at: OtherTokens(but, *at), named, counts)
    grammar = data.draw(grammars(alphabet, specials=tuple(SPECIALS)))
    around = st.lists(st.one_of(others, st.just(Ref("start")), others.map(lambda one: Repeat(one, 0, 2))), max_size=3)
    start = Alt(tuple(Seq(tuple(items)) for items in data.draw(st.lists(around, min_size=1, max_size=3))))
    rules = {**grammar.rules, "around": start}
    walk(Grammar(rules, "around"), drawn, data.draw(st.integers(0, 2**32)), exact=False)


def large_counts(node: Node) -> int:
    """How many of its parts have counts of hundreds."""
    parts = [getattr(node, "item", None), *getattr(node, "items", ())]
    return (max(getattr(node, "max", None) or 0, getattr(node, "min", 0)) >= 100) + sum(
        map(large_counts, filter(None, parts))
    )


@given(st.data())
def test_control_tokens_over_any_vocabulary(data: st.DataObject) -> None:
    alphabet = data.draw(st.sampled_from(ALPHABETS))
    # A thousand characters with two spellings each, or two counts of a thousand side by side: the token graph is too
    # large for exact distances.
    encoded = data.draw(st.booleans())
    encodings = ENCODINGS if encoded else ()
    node = data.draw(nodes(alphabet, (), specials=tuple(SPECIALS), permutations=False, encodings=encodings))
    exact = not encoded and large_counts(node) < 2
    walk(Grammar({"start": node}), data.draw(vocabularies(alphabet)), data.draw(st.integers(0, 2**32)), exact=exact)


@given(st.data())
def test_bounds_where_distances_are_not_searched(data: st.DataObject) -> None:
    """A token that is too long to be written makes the vocabulary large, so budgets rely on shortest completions."""
    alphabet = data.draw(st.sampled_from(ALPHABETS))
    grammar = data.draw(grammars(alphabet, specials=tuple(SPECIALS)))
    drawn = data.draw(vocabularies(alphabet, complete=True))
    drawn = replace(drawn, tokens=(*drawn.tokens, b"\xff" * 4200, b"\xff"))
    walk(grammar, drawn, data.draw(st.integers(0, 2**32)), exact=False)


def test_a_token_across_frames_that_were_merged() -> None:
    """Inside R it is unknown whether "yz" or "qqq" follows. "syz" ends one of them in one token."""
    rules = {
        "start": Seq((Text("c"), Alt((Ref("A"), Ref("B"))))),
        "A": Seq((Ref("R"), Text("yz"))),
        "B": Seq((Ref("R"), Text("qqq"))),
        "R": Alt((Text("rs"), Seq((Text("("), Ref("R"), Text(")"))))),
    }
    tokens = (*(bytes([byte]) for byte in b"crsyzq()"), b"cr", b"syz", b"qqq", None)
    walk(Grammar(rules), DrawnVocabulary(tokens, (11,)), 1, exact=True)


def test_encodings_whose_digits_do_not_spell_all_of_their_ranges() -> None:
    half = Encoding("half", (Form(((0x61, 0x7A),), ((Span(0x61, 0x6D, 0x61, 1),),)),))
    cases = [Alt((Seq((Text("q"), Ref("x"))), Text("2"))), Permutation((Member(Ref("x")), Member(Text("2"))), EPSILON)]
    for case in [*cases, Alt((Repeat(Encoded(Text("z"), half), 1, 50), Text("2")))]:
        rules = {"start": Seq((Text("1"), case)), "x": Encoded(Text("z"), half)}
        tokens = (*(bytes([byte]) for byte in b"12qz!" + bytes(range(0x61, 0x6E))), None)
        walk(Grammar(rules), DrawnVocabulary(tokens, (len(tokens) - 1,)), 1, exact=False)


def test_no_member_at_most_and_one_required() -> None:
    empty = Permutation((Member(Text("x"), required=True),), EPSILON, 0, 0)
    grammar = Grammar({"start": Alt((Text("c"), Seq((Text("a"), empty, Text("b")))))})
    walk(grammar, DrawnVocabulary((b"a", b"b", b"c", b"x", None), (4,)), 1, exact=True)


def test_budgets_near_the_bound_of_a_count() -> None:
    """Two items of one character or of more than 40: "aaa" begins a long one, although it could also be three items."""
    long = Not(Repeat(Chars(((0, 0xD7FF), (0xE000, 0x10FFFF))), 2, 40))
    for low in range(3):
        grammar = Grammar({"start": Repeat(long, low, 2)})
        walk(grammar, DrawnVocabulary((b"aaa", b"a", None), (2,)), 0, exact=False)
