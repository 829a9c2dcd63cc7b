"""Hypothesis strategies for grammars of the IR, and for vocabularies whose tokens split and join their texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from hypothesis import strategies as st

from guided.ir.conditions import AllOf, AnyOf, Condition, NoneOf, Written
from guided.ir.encodings import Encoding
from guided.ir.nodes import (
    ANY_CHAR,
    EPSILON,
    Alt,
    And,
    Chars,
    Encoded,
    Grammar,
    Length,
    Member,
    Node,
    Not,
    Permutation,
    Ref,
    Repeat,
    Seq,
    Special,
    Substrings,
    Text,
)
from guided.ir.ranges import charset, complement
from tests.brute_force import ENCODINGS, SPECIALS

ALPHABETS = ("ab", "aé", "a€😀")


def _chars(draw: st.DrawFn, alphabet: str) -> Node:
    picked = draw(st.sets(st.sampled_from(alphabet), min_size=1))
    ranges = charset((ord(c), ord(c)) for c in picked)
    return Chars(complement(ranges) if draw(st.integers(0, 3)) == 0 else ranges)


def _seldom(draw: st.DrawFn, often: st.SearchStrategy, else_: st.SearchStrategy):
    return draw(else_ if draw(st.integers(0, 9)) == 9 else often)


seldom = st.composite(_seldom)
"""seldom(often, else_): mostly the one, one time in ten the other, so that few of the drawn languages are empty."""


@cache
def leaves(alphabet: str) -> st.SearchStrategy[Node]:
    """One character or a short text over `alphabet`; rarely any character, the empty set, the empty text, or a
    substring.
    """
    texts = st.text(alphabet, min_size=1, max_size=2).map(Text)
    odd = st.sampled_from([ANY_CHAR, Chars(()), EPSILON, Text(""), Text(3 * alphabet[0])])
    return seldom(texts | st.composite(_chars)(alphabet), odd | substrings(alphabet))


def substrings(alphabet: str, size: int = 6) -> st.SearchStrategy[Node]:
    """The substrings of one to three texts, with and without whole words."""
    texts = st.lists(st.text(alphabet, min_size=1, max_size=size), min_size=1, max_size=3).map(tuple)
    return st.builds(Substrings, texts, st.booleans())


def _bounds(draw: st.DrawFn) -> tuple[int, int | None]:
    low = draw(st.sampled_from([0, 0, 1, 1, 2, 3]))
    return low, draw(seldom(st.sampled_from([None, low + 1, low + 2]), st.sampled_from([low, 0, 1])))


bounds: st.SearchStrategy[tuple[int, int | None]] = st.composite(_bounds)()


def _some(items: st.SearchStrategy[Node], most: int = 3) -> st.SearchStrategy[tuple[Node, ...]]:
    return seldom(st.lists(items, min_size=1, max_size=most), st.just([])).map(tuple)


def _plain(items: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.one_of(
        _some(items).map(Seq),
        _some(items).map(Alt),
        st.builds(lambda item, at: Repeat(item, *at), items, bounds),
    )


@cache
def plain_nodes(alphabet: str, max_leaves: int = 6) -> st.SearchStrategy[Node]:
    """Regular nodes without boolean operations, as in a textbook."""
    return st.recursive(leaves(alphabet), _plain, max_leaves=max_leaves)


@cache
def regular_nodes(alphabet: str, names: tuple[str, ...] = (), max_leaves: int = 6) -> st.SearchStrategy[Node]:
    """Regular nodes of every kind that may be part of a boolean node. `names`: the rules to refer to."""
    base = leaves(alphabet)
    if names:
        base = base | st.sampled_from(sorted(names)).map(Ref)

    def extend(items: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        return st.one_of(
            _plain(items),
            _some(items, 2).map(And),
            items.map(Not),
            st.builds(lambda item, at: Length(item, *at), items, bounds),
        )

    # The reference cannot handle large counts inside counts, so they are not nested.
    many = (Repeat(Text(alphabet[-1]), 0, 1000), Length(Not(Text(alphabet[0])), 1, 1000), Not(Repeat(ANY_CHAR, 2, 500)))
    return seldom(st.recursive(base, extend, max_leaves=max_leaves), st.sampled_from(many))


def _permutation(draw: st.DrawFn, alphabet: str, items: st.SearchStrategy[Node], distinct: bool) -> Node:
    firsts = draw(st.permutations(alphabet)) if distinct else draw(st.lists(st.sampled_from(alphabet), max_size=4))
    members = []
    for first in firsts[: draw(st.integers(0, 4))]:
        item: Node = Seq((Text(first), draw(items))) if draw(st.booleans()) else Text(first)
        members.append(Member(item, draw(st.booleans()), draw(st.integers(0, 2)) == 0))
    low, high = draw(bounds)
    separator = draw(st.sampled_from([EPSILON, Text(","), Repeat(Text(","), 0, 1), Text(alphabet[0])]))
    if draw(st.booleans()):
        return Permutation(tuple(members), separator, low, high)
    slots: list[int] = []
    for at, member in enumerate(members):
        shares = slots and not member.repeatable and not members[slots[-1]].repeatable and draw(st.booleans())
        slots.append(slots[-1] if shares else at)
    condition = draw(conditions(len(members))) if members else None
    return Permutation(tuple(members), separator, max(low, 1), high, tuple(slots), draw(st.booleans()), condition)


def conditions(members: int) -> st.SearchStrategy[Condition | None]:
    """Conditions on a given number of members."""
    some = st.builds(Written, st.lists(st.integers(0, members - 1), max_size=3, unique=True).map(tuple))

    def extend(items: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
        several = st.lists(items, max_size=3).map(tuple)
        return st.builds(AllOf, several) | st.builds(AnyOf, several) | st.builds(NoneOf, several)

    return st.none() | st.recursive(some, extend, max_leaves=8)


@cache
def nodes(
    alphabet: str,
    names: tuple[str, ...],
    *,
    regular_names: tuple[str, ...] = (),
    specials: tuple[int | str, ...] = (),
    permutations: bool = True,
    distinct: bool = False,
    encodings: tuple[Encoding, ...] = ENCODINGS,
    max_leaves: int = 6,
) -> st.SearchStrategy[Node]:
    """Nodes of every kind. `names` may be recursive. `distinct`: the members of a permutation begin differently."""
    inner = regular_nodes(alphabet, regular_names, max_leaves=4)
    base = leaves(alphabet) | inner
    if encodings:
        base = base | st.builds(Encoded, inner, st.sampled_from(list(encodings)))
    if names:
        base = st.sampled_from(sorted(names)).map(Ref) | base
    if specials:
        base = base | st.sampled_from(sorted(specials, key=str)).map(Special)

    def extend(items: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        if not permutations:
            return _plain(items)
        return _plain(items) | st.composite(_permutation)(alphabet, items, distinct)

    return st.recursive(base, extend, max_leaves=max_leaves)


def _grammar(
    draw: st.DrawFn,
    alphabet: str,
    specials: tuple[int | str, ...] = (),
    permutations: bool = True,
    distinct: bool = False,
    encodings: tuple[Encoding, ...] = ENCODINGS,
) -> Grammar:
    names = ("start", *"ABC"[: draw(st.integers(0, 3))])
    options = {"permutations": permutations, "distinct": distinct, "encodings": encodings, "specials": specials}
    kinds = nodes(alphabet, names, regular_names=("R",), **options)
    rules = {name: draw(kinds) for name in names}
    for name, node in rules.items():  # without this, most recursive rules generate nothing
        if draw(st.integers(0, 3)):
            rules[name] = Alt((node, draw(kinds), draw(leaves(alphabet))))
    rules["R"] = draw(plain_nodes(alphabet, max_leaves=3))
    return Grammar(rules)


grammars = st.composite(_grammar)
"""grammars(alphabet, ...): one to four rules that refer to each other in any way, and a regular rule R."""


@cache
def finite_nodes(alphabet: str) -> st.SearchStrategy[Node]:
    """Regular nodes with finitely many strings, all of them short."""
    letters = st.text(alphabet, max_size=2).map(Text)

    def extend(items: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        repeat = st.builds(lambda item, low, more: Repeat(item, low, low + more), items, *[st.integers(0, 1)] * 2)
        return st.one_of(_some(items).map(Seq), _some(items).map(Alt), repeat, st.tuples(items, items).map(And))

    return st.recursive(letters, extend, max_leaves=6)


@dataclass(frozen=True)
class DrawnVocabulary:
    """The arguments of a vocabulary."""

    tokens: tuple[bytes | None, ...]
    eos_token_ids: tuple[int, ...]
    special_tokens: Mapping[int, str] = field(default_factory=dict)

    @property
    def texts(self) -> dict[int, bytes]:
        """The ids that encode a text."""
        no_text = {*self.eos_token_ids, *self.special_tokens}
        return {id: data for id, data in enumerate(self.tokens) if data and id not in no_text}

    @property
    def ids(self) -> dict[int | str, set[int]]:
        """How a grammar can refer to a control token -> the ids."""
        names: dict[int | str, set[int]] = {id: {id} for id in self.special_tokens}
        for id, name in self.special_tokens.items():
            names.setdefault(name, set()).add(id)
        return names


def _vocabulary(
    draw: st.DrawFn, alphabet: str, complete: bool | None = None, specials: Iterable[str] = SPECIALS
) -> DrawnVocabulary:
    pieces = []
    for text in draw(st.lists(st.text(alphabet + ",!c", min_size=1, max_size=3), max_size=9)):
        first, last = draw(st.sampled_from([(0, 4), (0, 1), (1, 4), (2, 9)]))
        pieces.append(text.encode()[first:last])
    texts: list[bytes | None] = [piece for piece in pieces if piece]
    texts += draw(st.lists(st.sampled_from([None, *texts]), max_size=3))
    if draw(st.booleans()) if complete is None else complete:
        everything = (alphabet + ",!c").encode() if draw(st.booleans()) else b"".join(text or b"" for text in texts)
        texts += [bytes([byte]) for byte in dict.fromkeys(everything)]
    names = list(specials)
    slots: list[bytes | str | None] = [*texts, *names, "end"]
    slots = draw(st.permutations(slots))
    tokens: list[bytes | None] = []
    control, ends = {}, []
    for id, slot in enumerate(slots):
        if not isinstance(slot, str):
            tokens.append(slot)
            continue
        tokens.append(draw(st.sampled_from([None, slot.encode() or None, alphabet.encode()])))
        if slot == "end":
            ends.append(id)
        else:
            control[id] = slot
    if draw(st.integers(0, 3)) == 0:
        ends.append(len(tokens) + draw(st.integers(0, 3)))
    return DrawnVocabulary(tuple(tokens), tuple(ends), control)


vocabularies = st.composite(_vocabulary)
"""vocabularies(alphabet, complete=None, specials=...): tokens that share bytes, have none, or split characters."""
