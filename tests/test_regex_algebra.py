"""The parts of the regex lowering, each compared with the definition of the language."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from guided.frontends.regex.algebra import (
    ANY_TEXT,
    EndCharacters,
    alt,
    conj,
    negate,
    repeat,
    seq,
)
from guided.frontends.regex.budget import Budget
from guided.frontends.regex.derivatives import EMPTY_STRING, Terms, partition
from guided.frontends.regex.state_elimination import eliminate
from guided.ir.nodes import Alt, And, Chars, Length, Node, Not, Repeat, Seq, Text
from guided.ir.ranges import ALL_CHARS, Ranges, charset, complement, contains, intersect
from guided.limits import Limits
from tests.regex_support import matches

TEXTS = ["".join(letters) for length in range(5) for letters in product("ab", repeat=length)]

ranges_of_letters = st.sampled_from([((97, 97),), ((98, 98),), ((97, 98),), complement(((97, 97),)), ALL_CHARS])
leaves = st.one_of(
    ranges_of_letters.map(Chars),
    st.sampled_from(["a", "b", "ab", "ba", "aba"]).map(Text),
    st.sampled_from([Seq(()), Alt(())]),
)


def counts(low: int, extra: int | None) -> tuple[int, int | None]:
    return low, None if extra is None else low + extra


bounds = st.builds(counts, st.integers(0, 2), st.none() | st.integers(0, 2))


def larger(nodes: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    several = st.lists(nodes, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        several.map(Seq),
        several.map(Alt),
        several.map(And),
        nodes.map(Not),
        st.builds(lambda item, b: Repeat(item, *b), nodes, bounds),
        st.builds(lambda item, b: Length(item, *b), nodes, bounds),
    )


ir = st.recursive(leaves, larger, max_leaves=6)
sets = st.lists(st.tuples(st.integers(90, 110), st.integers(0, 8)), max_size=4).map(
    lambda pairs: charset((low, low + size) for low, size in pairs)
)


def language(node: Node) -> set[str]:
    return {text for text in TEXTS if matches(node, text)}


@given(sets, sets)
def test_sets(a: Ranges, b: Ranges) -> None:
    codes = range(85, 125)
    assert [contains(intersect(a, b), c) for c in codes] == [contains(a, c) and contains(b, c) for c in codes]
    blocks = partition([a, b])
    assert charset(r for block in blocks for r in block) == ALL_CHARS
    for block in blocks:
        inside = [c for c in codes if contains(block, c)]
        assert len({(contains(a, c), contains(b, c)) for c in inside}) <= 1


@given(st.lists(ir, max_size=3), bounds)
def test_constructors(nodes: list[Node], bound: tuple[int, int | None]) -> None:
    assert language(seq(nodes)) == language(Seq(tuple(nodes)))
    assert language(alt(nodes)) == language(Alt(tuple(nodes)))
    for node in nodes:
        assert language(repeat(node, *bound)) == language(Repeat(node, *bound))
        assert language(negate(node)) == language(Not(node))
        assert language(conj(node, nodes[0])) == language(And((node, nodes[0])))
        assert language(repeat(repeat(node, *bound), 1, 3)) == language(Repeat(Repeat(node, *bound), 1, 3))


counted = st.builds(
    lambda ranges, bound, more: (
        Seq((Repeat(Chars(ranges), *bound), ANY_TEXT)) if more else Repeat(Chars(ranges), *bound)
    ),
    ranges_of_letters,
    st.builds(counts, st.integers(0, 4), st.none() | st.integers(0, 2)),
    st.booleans(),
)


@given(ir, ir | counted)
def test_exclusion(node: Node, other: Node) -> None:
    assert language(EndCharacters().exclude(node, other)) == language(node) - language(other)
    characters = EndCharacters().find_characters(node)
    assert all(contains(characters, ord(letter)) for text in language(node) for letter in text)


def test_excluded_long_strings_become_a_bound_on_the_length() -> None:
    letters = Repeat(Chars(((97, 98),)), 1, None)
    for other in (Seq((Repeat(Chars(((97, 122),)), 5, 9), ANY_TEXT)), Repeat(Chars(((97, 98),)), 5, None)):
        assert EndCharacters().exclude(letters, other) == Length(letters, 0, 4)
    for other in (Repeat(Chars(((97, 97),)), 5, None), Repeat(Chars(((97, 98),)), 5, 9)):
        assert EndCharacters().exclude(letters, other) == And((letters, Not(other)))


@given(ir, ranges_of_letters, st.booleans(), st.booleans())
def test_restriction_by_the_first_or_last_character(node: Node, ranges: Ranges, empty: bool, last: bool) -> None:
    cut = EndCharacters().restrict(node, ranges, empty, last)
    for text in TEXTS:
        allowed = contains(ranges, ord(text[-1 if last else 0])) if text else empty
        assert matches(cut, text) == (allowed and matches(node, text)), text
    nullable, edge = EndCharacters().find_end(node, last)
    assert nullable == matches(node, "")
    assert all(contains(edge, ord(text[-1 if last else 0])) for text in language(node) if text)


@given(ir)
def test_derivatives(node: Node) -> None:
    terms = Terms()
    start = terms.read(node)
    assert language(terms.node(start)) == language(node)
    for text in TEXTS:
        term = start
        for c in text:
            term = next((target for ranges, target in terms.transitions(term) if contains(ranges, ord(c))), 0)
        assert terms.nullable[term] == matches(node, text), text
    near = terms.next_char_condition(start)
    if near is not None:
        assert language(node) == {text for text in TEXTS if (contains(near[0], ord(text[0])) if text else near[1])}


@given(ir)
def test_elimination_inverts_derivation(node: Node) -> None:
    terms = Terms()
    start = terms.read(node)
    edges: dict[int | str, dict[int | str, Node]] = {}
    todo = [start]
    while todo:
        term = todo.pop()
        if term in edges:
            continue
        edges[term] = {target: Chars(ranges) for ranges, target in terms.transitions(term)}
        todo.extend(target for target in edges[term] if isinstance(target, int))
        if terms.nullable[term]:
            edges[term]["end"] = Seq(())
    found = eliminate(edges, start, {"end"}, Budget(Limits())).get("end", Alt(()))
    assert language(found) == language(node)


def test_equal_terms_have_one_number() -> None:
    terms = Terms()
    assert terms.read(Alt((Text("a"), Text("b")))) == terms.read(Alt((Text("b"), Text("a"))))
    assert terms.read(Not(Not(Text("a")))) == terms.read(Text("a"))
    assert terms.read(Repeat(Seq(()), 0, None)) == EMPTY_STRING
