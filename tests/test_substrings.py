"""The node `Substrings`: the core's automaton compared with the set of all substrings, alone and in every context."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.automaton.reference.substrings import all_substrings, build_trie
from guided.errors import LimitExceeded, SpecError
from guided.frontends.json_schema.text.spelling import JSON_STRING, MINIMAL_STRING
from guided.frontends.regex.derivatives import Terms
from guided.ir import Alt, And, Distinct, Encoded, Entry, Grammar, Length, Node, Not, Ref, Repeat, Seq, Substrings, Text
from guided.ir.substrings import is_substring, occurrences
from guided.limits import Limits
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.core_support import mask_of, vocabulary
from tests.drawn_grammars import substrings, vocabularies
from tests.json_schema_support import byte_compiler
from tests.test_core_reference import walk
from tests.twin_support import small_searches

ALPHABETS = ("ab", " ab\n", "ab_-", "aé", "a😀", 'a"\n\\', "abcdefghijkl ")
"""The last one is long enough for states with many edges."""


@pytest.fixture(autouse=True, scope="module")
def limits_of_the_twin() -> Iterator[None]:
    with small_searches(300, 1500):
        yield


def texts_of(matcher: GrammarMatcher, most: int) -> set[str]:
    """All texts of a grammar over bytes with up to `most` bytes, by a walk along the masks."""
    found, work = set[bytes](), [(b"", matcher)]
    while work:
        text, at = work.pop()
        if at.is_accepting():
            found.add(text)
        for byte in mask_of(at) if len(text) < most else ():
            if byte < 256:
                after = at.fork()
                assert after.accept_token(byte)
                work.append((text + bytes([byte]), after))
    return {text.decode() for text in found}


def matcher_of(node: Node) -> GrammarMatcher:
    return GrammarMatcher(byte_compiler().compile_grammar(Grammar({"start": node})))


def some_substrings(data: st.DataObject, size: int = 12) -> Substrings:
    """A node that generates something: not only whitespace if it has whole words."""
    node = data.draw(substrings(data.draw(st.sampled_from(ALPHABETS)), size).filter(all_substrings))
    assert isinstance(node, Substrings)
    return node


# ---- the language


@given(st.data())
def test_the_language_is_the_set_of_all_substrings(data: st.DataObject):
    node = some_substrings(data)
    assert texts_of(matcher_of(node), 60) == all_substrings(node)


@given(st.data())
def test_a_spelled_substring_is_the_content_of_a_json_string(data: st.DataObject):
    """With one spelling for each character, the texts are those of `json.dumps`."""
    node = some_substrings(data, 8)
    texts = texts_of(matcher_of(Encoded(node, MINIMAL_STRING)), 60)
    assert texts == {json.dumps(text, ensure_ascii=False)[1:-1] for text in all_substrings(node)}


@given(st.data())
def test_every_spelling_of_a_substring_is_accepted(data: st.DataObject):
    node = some_substrings(data, 8)
    grammar = byte_compiler().compile_grammar(
        Grammar({"start": Seq((Text('"'), Encoded(node, JSON_STRING), Text('"')))})
    )
    parts = all_substrings(node)
    text = data.draw(st.sampled_from(sorted(parts)) | st.text("ab é", min_size=1, max_size=4))
    for spelled in (json.dumps(text), json.dumps(text, ensure_ascii=False)):
        matcher = GrammarMatcher(grammar)
        assert (matcher.accept_string(spelled) and matcher.is_accepting()) == (text in parts)


def test_words_are_not_cut():
    node = Substrings(("a cat, cats",), whole_words=True)
    texts = texts_of(matcher_of(node), 20)
    assert {"cat", "a cat", ", cats", ","} <= texts
    assert not {"c", "at", "cat, cat", "ca", "ats", " ", " cat", ", "} & texts


def test_no_substring_leads_from_one_text_to_the_next():
    assert texts_of(matcher_of(Substrings(("ab", "c", "ab"))), 9) == {"a", "b", "ab", "c"}


# ---- tokens, budgets and contexts, compared with the readable reference


@given(st.data())
def test_masks_and_budgets_match_the_reference(data: st.DataObject):
    alphabet = data.draw(st.sampled_from(ALPHABETS[:6]))
    node: Node = data.draw(substrings(alphabet))
    drawn = data.draw(vocabularies(alphabet))
    walk(Grammar({"start": node}), drawn, data.draw(st.integers(0, 2**32)), exact=True)


@given(st.data())
def test_as_a_part_of_rules(data: st.DataObject):
    alphabet = data.draw(st.sampled_from(ALPHABETS[:6]))
    part: Node = data.draw(substrings(alphabet))
    other: Node = data.draw(substrings(alphabet))
    rules = {
        "start": Alt((Seq((Text("("), Ref("start"), Text(")"))), Ref("list"), other)),
        "list": Seq((Text("["), Repeat(Seq((Encoded(part, MINIMAL_STRING), Text(","))), 1, 40), part, Text("]"))),
    }
    drawn = data.draw(vocabularies(alphabet + "()[],", complete=True))
    walk(Grammar(rules), drawn, data.draw(st.integers(0, 2**32)), exact=False)


@given(st.data())
def test_in_boolean_operations_and_length_windows(data: st.DataObject):
    alphabet = data.draw(st.sampled_from(ALPHABETS[:6]))
    one, two = data.draw(substrings(alphabet)), data.draw(substrings(alphabet))
    low, more = data.draw(st.integers(0, 3)), data.draw(st.sampled_from([None, 0, 1, 30]))
    high = None if more is None else low + more
    node: Node = data.draw(
        st.sampled_from(
            [And((one, two)), And((one, Not(two))), Length(one, low, high), Length(Seq((one, two)), low, high)]
        )
    )
    drawn = data.draw(vocabularies(alphabet, complete=True))
    walk(Grammar({"start": node}), drawn, data.draw(st.integers(0, 2**32)), exact=False)


@given(st.data())
def test_values_that_must_differ(data: st.DataObject):
    part = data.draw(substrings("ab", 3))
    string = Seq((Text('"'), Encoded(part, MINIMAL_STRING), Text('"')))
    rounds = data.draw(st.integers(0, len(all_substrings(part)) - 1))
    items = Seq((Entry(string), Repeat(Seq((Text(","), Entry(string))), 0, rounds)))
    drawn = data.draw(vocabularies('ab",[]', complete=True))
    grammar = Grammar({"start": Seq((Text("["), Distinct(items), Text("]")))})
    walk(grammar, drawn, data.draw(st.integers(0, 2**32)), exact=False)


def test_tokens_that_leave_the_part():
    """Tokens with the end of a part and the text after it, and tokens that could also continue the part."""
    words = ["the", " cat", "cat", 'cat"', '"', '"}', 't"', " c", "x", "at", '","']
    tokens = [bytes([byte]) for byte in range(256)] + [word.encode() for word in words]
    compiler = GrammarCompiler(Vocabulary(tokens, eos_token_ids=[len(tokens)]))
    part = Encoded(Substrings(('the cat", the',)), MINIMAL_STRING)
    matcher = GrammarMatcher(compiler.compile_grammar(Grammar({"start": Seq((Text('{"'), part, Text('"}')))})))
    assert matcher.accept_string('{"the')
    allowed = {tokens[token] for token in mask_of(matcher)}
    assert allowed == {b" ", b" c", b" cat", b'"', b'"}'}
    assert matcher.accept_string(" cat")
    assert {tokens[token] for token in mask_of(matcher)} == {b"\\", b'"', b'"}'}


# ---- questions about nodes in Python


@given(st.data())
def test_locations_match_a_regular_expression(data: st.DataObject):
    node = some_substrings(data)
    part = data.draw(st.sampled_from(sorted(all_substrings(node))) | st.text("ab ", min_size=1, max_size=3))
    border = r"(?:(?<!\w)|(?!\w))" if node.whole_words else ""
    pattern = re.compile(f"(?={border}{re.escape(part)}{border})" if part == part.strip() or not border else r"(?!)")
    expected = [(number, match.start()) for number, text in enumerate(node.texts) for match in pattern.finditer(text)]
    assert list(occurrences(node, part)) == expected
    assert is_substring(node, part) == (part in all_substrings(node)) == bool(expected)


@given(st.lists(st.tuples(st.text("ab", min_size=1, max_size=5), st.integers(1, 9)), min_size=1, max_size=4), st.data())
def test_places_in_repetitive_texts_equal_the_definition(blocks: list[tuple[str, int]], data: st.DataObject):
    text = "".join(block * times for block, times in blocks)
    start = data.draw(st.integers(0, len(text) - 1))
    part = text[start : data.draw(st.integers(start + 1, len(text)))]
    expected = [(0, at) for at in range(len(text)) if text[at : at + len(part)] == part]
    assert list(occurrences(Substrings((text,)), part)) == expected


def test_a_repetitive_text_is_searched_a_few_times():
    class Searched(str):
        searches = 0

        def find(self, *args: Any) -> int:
            Searched.searches += 1
            return super().find(*args)

    text = Searched("ab" * 1_000 + "c" + "ab" * 1_000)
    assert [at for _, at in occurrences(Substrings((text,)), "ab" * 600)] == [*range(0, 801, 2), *range(2001, 2802, 2)]
    assert Searched.searches <= 5


@given(st.data())
def test_derivatives_match_the_trie(data: st.DataObject):
    node = some_substrings(data, 5)
    terms = Terms()
    mine, trie = terms.read(node), terms.read(build_trie(all_substrings(node)))
    assert all(len(ranges) == 1 for ranges, _ in terms.transitions(mine))
    difference = terms.union(
        [terms.intersection([mine, terms.negate(trie)]), terms.intersection([trie, terms.negate(mine)])]
    )
    work, seen = [difference], {difference}
    while work:
        term = work.pop()
        assert not terms.nullable[term]
        new = {target for _, target in terms.transitions(term)} - seen
        seen |= new
        work += new


# ---- limits and errors


def test_texts_are_limited():
    node = Substrings(("ab" * 600, "c" * 600))
    compiler = GrammarCompiler(vocabulary(), limits=Limits(states=1_500))
    with pytest.raises(LimitExceeded, match="1,800 > 1,500"):
        compiler.compile_grammar(Grammar({"start": node}))


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (Substrings(()), "there is no text"),
        (Substrings(("",)), "there is no text"),
        (Substrings(("a\ud800",)), "a text contains a surrogate"),
        (Substrings((3,)), "malformed"),  # type: ignore[arg-type]
    ],
)
def test_malformed_nodes_are_refused(node: Substrings, reason: str):
    with pytest.raises(SpecError, match=reason):
        GrammarCompiler(vocabulary()).compile_grammar(Grammar({"start": node}))


def test_a_vocabulary_that_cannot_write_the_text():
    only_a = Vocabulary([b"a", b"b"], eos_token_ids=[2])
    matcher = GrammarMatcher(GrammarCompiler(only_a).compile_grammar(Grammar({"start": Substrings(("ax ba",))})))
    assert mask_of(matcher) == (0, 1)
    assert matcher.accept_string("a")
    assert mask_of(matcher) == (2,)


def test_a_long_text_has_few_states():
    text = " ".join(f"word{number * 7919 % 1000}" for number in range(3_000))
    grammar = GrammarCompiler(vocabulary()).compile_grammar(Grammar({"start": Substrings((text,))}))
    assert len(text) < grammar.native.positions < 2 * len(text)
    matcher = GrammarMatcher(grammar)
    assert matcher.accept_string(text[5_000:15_000])
    assert matcher.is_accepting()
