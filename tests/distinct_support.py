"""Random grammars with `Distinct` and `Entry`, and walks of the native core compared with the readable twin.

In *roomy* grammars, every required value comes from an infinite set, so an unused value always exists. Other grammars
may run out of values between two entries.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import strategies as st

from guided.automaton.reference import token_masks as reference
from guided.automaton.reference.token_masks import ReferenceGrammar
from guided.errors import BudgetError, LimitExceeded
from guided.ir import (
    EPSILON,
    Alt,
    Chars,
    Distinct,
    Entry,
    Grammar,
    Length,
    Member,
    Node,
    Permutation,
    Ref,
    Repeat,
    Seq,
    Special,
    Text,
)
from guided.matching import GrammarMatcher
from tests.core_support import mask_of
from tests.twin_support import compile_both, note

LETTERS = '"ab\\u06120.e-,;:[]{} tr'
PIECES = (
    *('","', "1,1", '"a","a"', "],[", '"a"', '",', ',"', "1,2", ",1", "],[1", "[1],[1", "1],", "a,", ", ", "1,2,1"),
    *(r'"\u0061', r"\u00", '"a":1', '{"a":', ',"a":', '","b', "11", "1.0", "]]", "]];", "1;", '"]', "},{", "1,11,2"),
)
CONTROL = "<s>"
NO_WAY = 2**40  # more tokens than any completion has


# ---- strategies


def texts(*items: str) -> Node:
    return Alt(tuple(map(Text, items)))


def chars(text: str) -> Node:
    return Alt(tuple(map(Text, text))) if len(text) > 2 else Chars(tuple((ord(c), ord(c)) for c in sorted(text)))


LETTER = texts("a", "b", r"\u0061")
STRING = Seq((Text('"'), Repeat(LETTER, 0, None), Text('"')))
INTEGER = Repeat(chars("12"), 1, None)
NUMBER = Seq((INTEGER, Repeat(texts(".0", "0e-1"), 0, 1)))
FORMED = Length(Seq((Text('"'), Repeat(chars("ab"), 1, None), Text('"'))), 3, 40)
NOT_A = Seq((Text('"a'), Repeat(chars("ab"), 0, 30), Text('"')))
UNBOUNDED = (STRING, INTEGER, NUMBER, Alt((STRING, INTEGER)))
FEW = (
    texts("1", "1.0", "10e-1", "2"),
    texts('"a"', r'"\u0061"', '"b"', '"1"', "1"),
    texts("true", '"true"', "0", "-0"),
    texts("[1,2]", "[2,1]", "[1.0, 2]", "[]"),
    texts('{"a":1,"b":2}', '{"b":2,"a":1}', '{ "a":2,"b":1}'),
    Repeat(chars("12"), 1, 2),
    FORMED,
    NOT_A,
)
GAPS = (EPSILON, Repeat(Text(" "), 0, 1), Repeat(Text(" "), 0, None))
COMMA = Text(",")


@dataclass
class Drawing:
    """Draws one grammar. `roomy`: required values come from infinite sets."""

    draw: st.DrawFn
    roomy: bool
    rules: dict[str, Node] = field(default_factory=dict)

    def one_of(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def named(self, node: Node) -> Node:
        """The node itself, and sometimes a reference to it."""
        if self.one_of(0, 0, 1):
            name = f"rule{len(self.rules)}"
            self.rules[name] = node
            return Ref(name)
        return node

    def scalar(self, unbounded: bool) -> Node:
        return self.draw(st.sampled_from(UNBOUNDED if unbounded and self.roomy else (*UNBOUNDED, *FEW)))

    def value(self, depth: int, unbounded: bool) -> Node:
        """JSON values. Entries inside are in scopes of their own."""
        kind = self.one_of("scalar", "scalar", "scope", "list", "recursive") if depth else "scalar"
        if kind == "scalar":
            node = self.scalar(unbounded)
        elif kind == "scope":
            node = Seq((Text("["), self.scope(depth - 1, unbounded), Text("]")))
        elif kind == "list":
            item = self.value(depth - 1, unbounded)
            node = Seq((Text("["), item, Repeat(Seq((COMMA, item)), 0, self.one_of(None, 1)), Text("]")))
        else:
            name = f"rule{len(self.rules)}"
            self.rules[name] = EPSILON  # the name is taken
            inner = Distinct(Seq((Entry(Ref(name)), Repeat(Seq((COMMA, Entry(Ref(name)))), 0, self.one_of(None, 2)))))
            self.rules[name] = Alt((self.scalar(unbounded), Seq((Text("["), inner, Text("]")))))
            node = Ref(name)
        return self.named(node)

    def entry(self, depth: int, unbounded: bool = True) -> Node:
        gap = self.one_of(*GAPS, EPSILON)
        value = self.value(depth, unbounded)
        return self.named(Entry(value if gap == EPSILON else Seq((gap, value))))

    def member(self, depth: int) -> Node:
        """Usually an entry; sometimes an entry in brackets, or no entry."""
        kind = self.one_of("entry", "entry", "inside", "none")
        if kind == "none":
            return Text(self.one_of("[1]", "{}"))
        return self.entry(depth) if kind == "entry" else Seq((Text("["), self.entry(depth), Text("]")))

    def scope(self, depth: int, unbounded: bool = True) -> Node:
        known = self.draw(st.sampled_from([(), (), ("a",), ("a", "ab", "1")]))
        return self.named(Distinct(self.body(depth, unbounded), known))

    def body(self, depth: int, unbounded: bool) -> Node:
        """Some entries, and the text between them."""
        kind = self.one_of("list", "list", "few", "members", "object", "touching", "either", "pair")
        gap = self.one_of(*GAPS)
        separator = COMMA if gap == EPSILON else Seq((COMMA, gap))
        if kind == "few" and not unbounded:
            kind = "list"
        if kind == "few":
            item = self.entry(depth, unbounded=False)
            rest = Repeat(Seq((COMMA, item)), 0, self.one_of(1, 2, 30, None))
            return Seq((self.entry(depth, unbounded), rest))
        if kind == "members":
            members = tuple(
                Member(self.member(depth), self.draw(st.booleans()), self.one_of(False, False, True))
                for _ in range(self.one_of(1, 2, 3))
            )
            return Permutation(members, separator, 1, self.one_of(None, None, 3))
        if kind == "object":
            key = self.one_of(STRING, STRING, Ref("key"))
            self.rules["key"] = STRING
            member = Seq((Entry(key), Text(":"), self.value(depth, unbounded=False)))
            return Seq((member, Repeat(Seq((separator, member)), 0, self.one_of(None, 3))))
        if kind == "touching":
            return Repeat(self.entry(0), 1, self.one_of(2, None))
        if kind == "either":
            return Alt((self.body(0, unbounded), Seq((self.entry(0), COMMA, self.entry(depth)))))
        if kind == "pair":
            return Seq((self.entry(depth), separator, self.named(Seq((self.entry(depth), separator, self.entry(0))))))
        low = self.one_of(0, 0, 1, 2, 3, 29)
        high = self.one_of(None, low, low + 1, 30)
        return Seq((self.entry(depth), Repeat(Seq((separator, self.entry(depth))), low, high)))

    def start(self) -> Node:
        kind = self.one_of("scope", "scope", "array", "two", "either", "outside", "control", "many")
        if kind == "scope":
            return self.scope(2)
        if kind == "array":
            return Seq((Text("["), self.scope(1), Text("]")))
        if kind == "two":
            return Seq((self.scope(1), Text(";"), self.scope(0)))
        if kind == "either":
            return Alt((self.scope(1), Seq((self.body(0, True), Text(";")))))
        if kind == "outside":
            return Seq((self.body(0, True), Text(";"), self.scope(1)))
        if kind == "control":
            return Distinct(Seq((self.entry(1), Special(CONTROL), self.entry(0), Repeat(Special(CONTROL), 0, 1))))
        return Repeat(Seq((self.scope(1), Text(";"))), 1, self.one_of(None, 30))


def _grammar(draw: st.DrawFn, roomy: bool) -> Grammar:
    drawing = Drawing(draw, roomy)
    start = drawing.start()
    return Grammar({"start": start, **drawing.rules})


grammars = st.composite(_grammar)


def _tokens(draw: st.DrawFn) -> tuple[bytes | None, ...]:
    """Every letter, tokens in which entries end and begin, a control token and an end token at the end."""
    free = st.text(LETTERS, min_size=2, max_size=6)
    values = st.lists(
        st.sampled_from(['"a"', '"b"', "1", "2", r'"\u0061"', "1.0", "[1]", '""']), min_size=2, max_size=4
    )
    joined = st.tuples(values.map(",".join), st.integers(0, 3), st.integers(4, 14)).map(
        lambda drawn: drawn[0][drawn[1] : drawn[2]]
    )
    more = draw(st.lists(st.sampled_from(PIECES) | joined | free, max_size=14))
    return (*(letter.encode() for letter in LETTERS), *(text.encode() for text in more if text), None, None)


tokens = st.composite(_tokens)()


# ---- the walk


def both(grammar: Grammar, drawn: tuple[bytes | None, ...]) -> tuple[GrammarMatcher, ReferenceGrammar] | None:
    """Compile with the core and with the twin. None if both refuse, or if either reaches a limit."""
    control, end = len(drawn) - 2, len(drawn) - 1
    return compile_both(grammar, drawn, {end}, {control: CONTROL}, everything_supported=True)


def answers(matcher: GrammarMatcher) -> tuple[tuple[int, ...], bool, bool, int]:
    return mask_of(matcher), matcher.is_accepting(), matcher.is_terminated(), matcher.steps


def finish(matcher: GrammarMatcher, n: int, rng: random.Random) -> None:
    """Check that any tokens that the budget allows end the output in time."""
    path: list[int] = []
    while not matcher.is_terminated():
        assert n > 0, path
        mask = mask_of(matcher, n)
        assert mask, path
        token = rng.choice(mask)
        path.append(token)
        assert matcher.accept_token(token), path
        n -= 1


def check_budget(matcher: GrammarMatcher, twin: ReferenceGrammar, state: reference.State, rng: random.Random) -> None:
    ours = matcher.min_tokens_to_finish()
    try:
        least = twin.min_tokens(state) or 0
    except LimitExceeded:
        note("the reference gave up on a budget")
        least = 0
    assert least <= ours < NO_WAY
    with pytest.raises(BudgetError):
        mask_of(matcher, ours - 1)
    everything = mask_of(matcher)
    for n in (ours, ours + 1, ours + rng.randint(2, 12)):
        mask = mask_of(matcher, n)
        assert mask and set(mask) <= set(everything)
        finish(matcher.fork(), n, rng)
    assert mask_of(matcher, 10**6) == everything


def walk(grammar: Grammar, drawn: tuple[bytes | None, ...], seed: int, steps: int = 9) -> None:
    pair = both(grammar, drawn)
    if pair is None:
        return
    matcher, twin = pair
    state = twin.initial()
    rng = random.Random(seed)
    path: list[bytes | None] = []
    record: list[tuple[tuple[int, ...], bool, bool, int]] = []
    for _ in range(steps):
        try:
            expected = twin.mask(state)
        except LimitExceeded:
            note("the reference gave up")
            break
        assert set(mask_of(matcher)) == expected, path
        assert set(matcher._walk_mask()) == expected, path
        assert matcher.is_accepting() == twin.is_accepting(state), path
        if not matcher.is_terminated():
            check_budget(matcher, twin, state, rng)
        for token in range(len(drawn)):
            if token not in expected:
                assert not matcher.accept_token(token), (path, drawn[token])
        record.append(answers(matcher))
        if not expected:
            break
        # Tokens in which entries end are especially useful.
        token = rng.choice([*sorted(expected), *(id for id in sorted(expected) if len(drawn[id] or b"") > 1)])
        path.append(drawn[token])
        fork = matcher.fork()
        assert matcher.accept_token(token)
        assert answers(fork) == record[-1], path
        after = twin.accept_token(state, token)
        assert after is not None
        state = after
    while record:  # the matcher has not stepped past the last one
        last = record.pop()
        if matcher.steps > last[3]:
            matcher.rollback(matcher.steps - last[3])
        assert answers(matcher) == last
