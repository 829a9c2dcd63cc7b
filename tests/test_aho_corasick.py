"""Free text up to a marker, against the definition read character by character."""

from __future__ import annotations

import itertools
import random

import pytest

from guided.errors import LimitExceeded
from guided.frontends.common.aho_corasick import FreeText, free_text
from guided.ir.nodes import EMPTY, Alt, Automaton, Grammar, Node, Seq, Text
from guided.limits import Limits
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.effort import every


def matches(node: Node, text: str) -> bool:
    """Whether the automaton accepts the text."""
    if not isinstance(node, Automaton):
        assert node is EMPTY
        return False
    state = node.start
    for char in text:
        following = [to for low, high, to in node.states[state][1] if low <= ord(char) <= high]
        if not following:
            return False
        (state,) = following
    return node.states[state][0]


def occurs(text: str, strings: list[str]) -> bool:
    return any(string in text for string in strings)


def ends_first(text: str, at: int, ends: list[str], never: list[str]) -> bool:
    """Whether `text` ends with the first occurrence of a word, and this is word number `at`; by definition."""
    for stop in range(len(text) + 1):
        seen = text[:stop]
        if occurs(seen, never):
            return False
        if any(seen.endswith(end) for end in ends):
            first = max((end for end in ends if seen.endswith(end)), key=len)
            break
    else:
        return False
    start = stop - len(first)  # another longer end may follow from here, before which no word is complete
    for later in range(stop, len(text) + 1):
        within = text[start:later]
        if later > stop and any(within.endswith(string) for string in never):
            return False
        others = [end for end in ends if within.endswith(end) and end != within]
        if later > stop and others and within not in ends:
            return False
    return text[start:] == ends[at]


def random_strings(source: random.Random, most: int) -> list[str]:
    return ["".join(source.choice("ab") for _ in range(source.randint(1, 4))) for _ in range(source.randint(0, most))]


@pytest.mark.parametrize("seed", every(3, range(60)))
def test_against_the_definition(seed: int) -> None:
    source = random.Random(seed)
    ends, never = random_strings(source, 4), random_strings(source, 2)
    parts = free_text(ends, never)
    reached: set[int] = set()
    for length in range(8):
        for chars in itertools.product("abc", repeat=length):
            text = "".join(chars)
            assert matches(parts.without_markers, text) == (not occurs(text, ends + never)), (ends, never, text)
            expected = [ends_first(text, at, ends, never) for at in range(len(ends))]
            assert [matches(parts.until(at), text) for at in range(len(ends))] == expected, (ends, never, text)
            assert matches(parts.until(*range(0, len(ends), 2)), text) == any(expected[::2])
            reached.update(at for at, yes in enumerate(expected) if yes)
    assert set(parts.unreachable) == set(range(len(ends))) - reached


def languages(parts: FreeText, text: str) -> list[bool]:
    return [matches(node, text) for node in (parts.without_markers, *map(parts.until, range(len(parts.end_states))))]


def test_a_marker_that_continues_another_one() -> None:
    parts = free_text(["<t>", "<t>!"])
    assert languages(parts, "a<t") == [True, False, False]
    assert languages(parts, "a<t>") == [False, True, False]
    assert languages(parts, "a<t>!") == [False, False, True]
    assert languages(parts, "a<t>?") == [False, False, False]
    assert parts.unreachable == ()


def test_of_markers_that_end_together_the_longest_counts() -> None:
    parts = free_text(["abc", "c"])
    assert languages(parts, "xabc") == [False, True, False]
    assert languages(parts, "xbc") == [False, False, True]


def test_words_that_contain_a_shorter_word_are_unreachable() -> None:
    assert free_text(["abc", "b"]).unreachable == (0,)
    assert free_text(["abc"], ["c"]).unreachable == (0,)
    assert free_text(["abc"], ["abc"]).unreachable == (0,)
    assert free_text(["ab", "ab"]).unreachable == ()


def test_characters_outside_of_ascii_and_at_the_surrogates() -> None:
    parts = free_text(["é\U0001f600", "\ud7ff\ue000", "\U0010ffff"])
    for text in ("é", "éx\U0001f600", "\ud7ffx\ue000", "é\U0001f601", "\ud7ff", "\ue000", "\U0010fffe"):
        assert languages(parts, text) == [True, False, False, False], text
    assert languages(parts, "éé\U0001f600") == [False, True, False, False]
    assert languages(parts, "\ud7ff\ud7ff\ue000") == [False, False, True, False]
    assert languages(parts, "é\U0010ffff") == [False, False, False, True]


def test_no_markers_at_all() -> None:
    parts = free_text([])
    assert matches(parts.without_markers, "anything") and not matches(parts.until(), "anything")


def test_the_empty_marker_ends_every_text_at_once() -> None:
    parts = free_text(["", "ab"])
    assert matches(parts.until(0), "") and not matches(parts.until(0), "a")
    assert parts.unreachable == (1,)
    assert not matches(parts.without_markers, "x")


def test_in_a_compiled_grammar() -> None:
    parts = free_text(["<a>", "<bc>"], never=["!"])
    rules = Alt((Seq((parts.until(0), Text("1"))), Seq((parts.until(1), Text("2"))), parts.without_markers))
    vocabulary = Vocabulary([bytes([code]) for code in range(256)], eos_token_ids=[256])
    matcher = GrammarMatcher(GrammarCompiler(vocabulary).compile_grammar(Grammar({"start": rules})))
    for text, whole in (("x<a", True), ("x<a>1", True), ("<<bc>2", True), ("é<a>", False), ("", True)):
        assert matcher.accept_string(text) and matcher.is_accepting() == whole, text
        matcher.reset()
    for text in ("x<a>2", "<a>11", "<bc>1", "x!", "<a>!"):
        assert not matcher.accept_string(text), text


def test_bounds_on_states_and_edges() -> None:
    with pytest.raises(LimitExceeded) as error:
        free_text(["a" * 200], limits=Limits(states=100))
    assert error.value.limit == "states"
    many = [chr(0x4E00 + number) * 5 for number in range(100)]
    with pytest.raises(LimitExceeded) as error:
        free_text(many, limits=Limits(nodes=1000))
    assert error.value.limit == "nodes"


def test_a_chain_of_markers_stays_linear() -> None:
    parts = free_text(["a" * length for length in range(1, 300)])
    assert len(parts.states) < 700
