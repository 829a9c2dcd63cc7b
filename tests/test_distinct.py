"""The native core's `Distinct` and `Entry` against the readable twin: masks, ends, budgets, rollback and forks."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import SpecError, UnsupportedError
from guided.ir import (
    EPSILON,
    Alt,
    And,
    Chars,
    Distinct,
    Entry,
    Grammar,
    Length,
    Node,
    Not,
    Ref,
    Repeat,
    Seq,
    Text,
)
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.distinct_support import (
    COMMA,
    INTEGER,
    LETTERS,
    NUMBER,
    PIECES,
    STRING,
    chars,
    finish,
    grammars,
    texts,
    tokens,
    walk,
)
from tests.effort import draws, examples
from tests.json_schema_support import byte_compiler
from tests.test_reference_distinct import CASES
from tests.twin_support import small_searches


@pytest.fixture(autouse=True, scope="module")
def limits_of_the_twin() -> Iterator[None]:
    with small_searches(100, 4000, ahead=300):
        yield


# ---- properties


@given(st.data())
@examples(25)
def test_roomy_grammars(data: st.DataObject) -> None:
    walk(data.draw(grammars(roomy=True)), data.draw(tokens), data.draw(st.integers(0, 2**32)))


# ---- particular cases

SINGLE = tuple(letter.encode() for letter in LETTERS + "3")
MANY = (*SINGLE, *(piece.encode() for piece in PIECES), None, None)


NOT_ASKED = ("entries in entries", "an entry that is an entry", "a choice leaves no value")
"""What the node's documentation leaves to who writes the grammar."""


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_ASKED])
def test_particular_languages(name: str) -> None:
    """For any earlier values, each entry can find another value."""
    for seed in range(4):
        walk(CASES[name], MANY, seed)


@pytest.mark.parametrize(
    ("entry", "separator", "bounds"),
    [
        (texts("1", "2"), ", ", (0, 1)),
        (texts("1", "2"), ", ", (1, 1)),
        (Chars(((0x31, 0x33),)), ",", (0, 2)),
        *((INTEGER, "][", bounds) for bounds in [(0, None), (0, 2), (1, 1), (1, 30)]),
    ],
)
def test_separators(entry: Node, separator: str, bounds: tuple[int, int | None]) -> None:
    """There are as many entries as values."""
    rest = Repeat(Seq((Text(separator), Entry(entry))), *bounds)
    for seed in range(2):
        walk(Grammar({"start": Distinct(Seq((Entry(entry), rest)))}), MANY, seed)


@pytest.mark.parametrize("entry", [Repeat(chars("123"), 1, 3), INTEGER, STRING])
def test_budgets_of_many_entries(entry: Node) -> None:
    """The short values are soon used up."""
    grammar = Grammar({"start": Distinct(Seq((Entry(entry), Repeat(Seq((COMMA, Entry(entry))), 19, 19))))})
    vocabulary = Vocabulary(MANY, eos_token_ids=[len(MANY) - 1])
    start = GrammarMatcher(GrammarCompiler(vocabulary).compile_grammar(grammar))
    for seed in range(2):
        rng = random.Random(seed)
        finish(start.fork(), start.min_tokens_to_finish() + rng.choice([0, 1, 10, 100]), rng)


ONES = Repeat(Text("1"), 1, None)
SHORT = Chars(((0x31, 0x32),))
SHRUNK = {
    "the last entry ends the output": Grammar({"start": Distinct(Seq((Entry(SHORT), COMMA, Entry(SHORT))))}),
    "another entry takes the short value": Grammar(
        {
            "start": Distinct(Seq((Ref("first"), Entry(ONES)))),
            "first": Entry(Seq((Repeat(Text(" "), 0, 1), SHORT))),
        }
    ),
    "a scope in an entry, the short value is taken": Grammar(
        {"start": Distinct(Entry(Distinct(Seq((Entry(Text("1")), COMMA, Entry(ONES))))))}
    ),
    "a scope in an entry, several values are taken": Grammar(
        {
            "start": Distinct(
                Entry(Seq((Distinct(Seq((Entry(Text("1")), Repeat(Ref("next"), 3, 3)))), Text("]")))),
            ),
            "next": Seq((COMMA, Entry(Seq((Text(" "), Repeat(SHORT, 1, None)))))),
        }
    ),
    "an entry ends and another begins, both in an entry": Grammar(
        {
            "start": Alt(
                (
                    Seq((SHORT, Text(".0"))),
                    Seq((Text("["), Distinct(Seq((Entry(Ref("start")), COMMA, Entry(Ref("start"))))))),
                )
            )
        }
    ),
}
"""What has been wrong."""


@pytest.mark.parametrize("name", SHRUNK)
def test_shrunk_grammars(name: str) -> None:
    for drawn in ((*SINGLE, b",1.", b",1", None, None), MANY):
        for seed in range(draws(4)):
            walk(SHRUNK[name], drawn, seed)


BRACKETS = Seq((Text("["), Distinct(Seq((Entry(INTEGER), Repeat(Seq((COMMA, Entry(INTEGER))), 0, 2)))), Text("]")))


@pytest.mark.parametrize(
    "start",
    [
        Distinct(Seq((Entry(INTEGER), COMMA, Entry(BRACKETS)))),
        Distinct(Seq((Entry(BRACKETS), Repeat(Seq((COMMA, Entry(BRACKETS))), 0, 2)))),
        Seq((BRACKETS, COMMA, BRACKETS)),
    ],
)
def test_a_token_opens_a_scope_with_a_value_of_another(start: Node) -> None:
    """A scope that begins inside the token has seen nothing, even at the position of a scope that ends there."""
    drawn = (*SINGLE, b",[1]", b",[1,", b"],[1]", b"],[1", b"1],[1]", b"],[1,1", b"],[2,1]", b",1],[1", None, None)
    for seed in range(8):
        walk(Grammar({"start": start}), drawn, seed)


def test_scopes_in_entries_with_something_to_come() -> None:
    """The rest of an outer entry contains scopes that need values of their own."""
    item = Entry(Alt((STRING, INTEGER)))
    number = Entry(Seq((Repeat(Text(" "), 0, 1), NUMBER)))
    gap = Repeat(Text(" "), 0, None)
    inner = Seq(
        (Text("["), Distinct(Seq((Ref("number"), Repeat(Seq((COMMA, gap, item)), 2, None))), ("a",)), Text("]"))
    )
    outer = Seq((Text("["), inner, Repeat(Seq((COMMA, inner)), 0, None), Text("]")))
    walk(Grammar({"start": Distinct(Entry(outer), ("a",)), "number": number}), MANY, 262)


@pytest.mark.parametrize("item", [EPSILON, Repeat(Text("1"), 0, 1), Ref("maybe")])
@pytest.mark.parametrize("wrap", [Distinct, Entry])
def test_items_that_may_be_empty_are_refused(item: Node, wrap: type[Distinct] | type[Entry]) -> None:
    compiler = GrammarCompiler(Vocabulary([b"1", None], eos_token_ids=[1]))
    with pytest.raises(UnsupportedError):
        compiler.compile_grammar(Grammar({"start": wrap(item), "maybe": Repeat(Text("1"), 0, 2)}))


@pytest.mark.parametrize("wrap", [Not, lambda item: And((item,)), lambda item: Length(item, 0, 1)])
@pytest.mark.parametrize("inner", [Distinct, Entry])
def test_scopes_in_boolean_nodes_are_refused(wrap: Callable[[Node], Node], inner: Callable[[Node], Node]) -> None:
    compiler = GrammarCompiler(Vocabulary([b"1", None], eos_token_ids=[1]))
    for item in (inner(Text("1")), Ref("rule")):
        with pytest.raises((SpecError, UnsupportedError)):
            compiler.compile_grammar(Grammar({"start": wrap(item), "rule": inner(Text("1"))}))


DIGITS = Seq((Chars(((0x32, 0x39),)), Repeat(Chars(((0x30, 0x39),)), 0, None)))
REST = Alt((Entry(Text("1")), Seq((Entry(DIGITS), Text(","), Ref("rest")))))
"""Its own end is a value that was there; without it there is always one more."""


@pytest.mark.parametrize(
    "twice",
    [
        Seq((Entry(Text("1")), Text(","), Entry(Text("1.0")))),
        Repeat(Seq((Entry(Alt((Text("1"), Text("2")))), Text(","))), 3, None),
        Seq((Entry(Text("1")), Alt((Entry(Text("1")), Seq((Entry(DIGITS), Text(","), Ref("rest"))))))),
    ],
)
def test_outputs_that_cannot_end_are_refused_at_once(twice: Node) -> None:
    """Even if only the values show that there is no end."""
    with pytest.raises(UnsupportedError, match="no way to an end is found"):
        byte_compiler().compile_grammar(Grammar({"start": Distinct(twice), "rest": REST}))


def test_left_recursive_rules_have_the_scopes_of_all_of_them():
    """The rewritten rules contain edges of each other, and both have scopes with their own known strings."""

    def names(*known: str) -> Node:
        name = Entry(Seq((Text('"'), Chars(((0x61, 0x63),)), Text('"'))))
        return Seq((Text("{"), Distinct(Seq((name, Repeat(Seq((Text(","), name)), 0, None))), known), Text("}")))

    one = Alt((names("a"), Seq((Ref("start"), Text("!")))))
    for start in (Alt((Seq((Ref("start"), Text(";"), names("b"))), Ref("one"))), Ref("one")):
        grammar = byte_compiler().compile_grammar(Grammar({"start": start, "one": one}))
        accepted = {
            text: (matcher := GrammarMatcher(grammar)).accept_string(text) and matcher.is_accepting()
            for text in ('{"a"}', '{"b"}', '{"c","b"}!!', '{"b"};{"a"}', '{"b"};{"b"}', '{"b"}!;{"a","a"}', '{"b","b"}')
        }
        lists = isinstance(start, Alt)
        assert accepted == dict(zip(accepted, (False, True, True, lists, False, False, False), strict=True))
