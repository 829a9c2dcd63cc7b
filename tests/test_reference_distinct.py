"""The reference's `Distinct` and `Entry` compared with brute force: all complete texts of finite languages.

The brute force follows the IR's docstrings literally. A node is a set of texts, each with the values of the entries
that belong to the surrounding scope. `Distinct` keeps the texts whose values differ.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping
from fractions import Fraction
from typing import TypeAlias

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from guided.automaton.reference import language as reference_language
from guided.automaton.reference.language import Language
from guided.automaton.reference.token_masks import ReferenceGrammar, accepts, viable
from guided.automaton.reference.uniqueness import json_value
from guided.errors import LimitExceeded, SpecError
from guided.ir.encodings import UTF8
from guided.ir.nodes import (
    EPSILON,
    Alt,
    And,
    Chars,
    Distinct,
    Encoded,
    Entry,
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
    Text,
)
from tests.brute_force import fewest_tokens
from tests.effort import examples

Written: TypeAlias = set[tuple[str, tuple[Hashable, ...]]]
"""Texts, each with the values of its entries that no `Distinct` inside has looked at."""

MAX_STATES = 1500
"""Texts of one language."""


# ---- brute force


class TooManyError(Exception):
    """A language has too many texts."""


def value_of(text: str) -> Hashable:
    def plain(value: object) -> Hashable:
        if isinstance(value, list):
            return ("array", *map(plain, value))
        if isinstance(value, dict):
            return ("object", frozenset((name, plain(inner)) for name, inner in value.items()))
        return (type(value).__name__, value)

    try:
        return plain(json.loads(text, parse_int=Fraction, parse_float=Fraction))
    except ValueError:
        return ("no JSON", text)


def times(a: Written, b: Written) -> Written:
    if len(a) * len(b) > 20 * MAX_STATES:
        raise TooManyError
    return {(x + y, (*first, *second)) for x, first in a for y, second in b}


def written(node: Node, rules: Mapping[str, Node]) -> Written:
    """Every text of a finite language without recursion."""
    match node:
        case Text(text):
            return {(text, ())}
        case Chars(ranges):
            return {(chr(point), ()) for low, high in ranges for point in range(low, high + 1)}
        case Ref(name):
            return written(rules[name], rules)
        case Seq(items):
            found: Written = {("", ())}
            for item in items:
                found = times(found, written(item, rules))
            return found
        case Alt(items):
            return set().union(*(written(item, rules) for item in items))
        case Repeat(item, low, high):
            assert high is not None
            one, total = written(item, rules), set()
            power: Written = {("", ())}
            for count in range(high + 1):
                total |= power if count >= low else set()
                power = times(power, one) if count < high else power
            return total
        case Permutation(members, separator, low, high):
            return orders(members, written(separator, rules), low, high, rules)
        case Entry(item):
            return {(text, (*values, value_of(text))) for text, values in written(item, rules)}
        case Distinct(item, known):
            taken = tuple(value_of(json.dumps(name)) for name in known)
            return {
                (text, ())
                for text, values in written(item, rules)
                if len({*values, *taken}) == len(values) + len(set(taken))
            }
    raise AssertionError(node)


def orders(
    members: tuple[Member, ...], separator: Written, low: int, high: int | None, rules: Mapping[str, Node]
) -> Written:
    """Every order of members, none of which is repeatable."""
    items, total = [written(member.item, rules) for member in members], set()
    todo: list[tuple[tuple[int, ...], Written]] = [((), {("", ())})]
    while todo:
        order, texts = todo.pop()
        asked = {i for i, member in enumerate(members) if member.required}
        if asked <= set(order) and low <= len(order) and (high is None or len(order) <= high):
            total |= texts
        for i, item in enumerate(items):
            if i not in order:
                todo.append(((*order, i), times(times(texts, separator if order else {("", ())}), item)))
    return total


def outputs(grammar: Grammar) -> set[bytes]:
    found = {text.encode() for text, _ in written(grammar.rules[grammar.start], grammar.rules)}
    if len(found) > MAX_STATES:
        raise TooManyError
    return found


# ---- strategies

SPELLINGS = (
    ('"a"', r'"\u0061"', '"b"', '""', '"a b"'),
    ("1", "1.0", "10e-1", "2", "12", '"1"'),
    ("true", "false", '"true"', "1", "null"),
    ('{"a":1,"b":2}', '{"b":2,"a":1}', '{"b":2, "a":1.0}', '{"a":2,"b":1}', "{}"),
    ("[1]", "[ 1.0 ]", "[[1]]", "[1,2]", "[2,1]", "[]"),
    ("0", "-0", "0.0", "0e7", "-1"),
)
"""Spellings of a few values, most values in more than one."""


def join(items: Iterable[Node], separator: Node) -> Node:
    parts = [part for item in items for part in (separator, item)]
    return Seq(tuple(parts[1:]))


def _items(draw: st.DrawFn, depth: int, rules: dict[str, Node]) -> Node:
    """The texts of one value: a few spellings, and rarely a scope inside."""
    if depth and draw(st.integers(0, 3)) == 0:
        item: Node = Seq((Text("["), draw(lists(depth - 1, rules)), Text("]")))
    else:
        pool = draw(st.sampled_from(SPELLINGS))
        item = Alt(tuple(map(Text, draw(st.lists(st.sampled_from(pool), min_size=1, max_size=4, unique=True)))))
    if draw(st.integers(0, 2)) == 0:
        item = Seq((Repeat(Text(" "), 0, 1), item))
    if draw(st.booleans()):
        name = f"rule{len(rules)}"
        rules[name] = item
        item = Ref(name)
    return item


def _lists(draw: st.DrawFn, depth: int, rules: dict[str, Node]) -> Node:
    """Some values separated by commas. It is random which of them are entries."""

    def entry() -> Node:
        item = draw(items(depth, rules))
        return item if draw(st.integers(0, 5)) == 0 else Entry(item)

    comma = Text(",")
    kind = draw(st.sampled_from(["repeat", "sequence", "sequence", "members", "either", "alike"]))
    if kind == "repeat":
        first, low = entry(), draw(st.integers(0, 2))
        rest = draw(st.sampled_from([first, entry()]))
        found: Node = Seq((first, Repeat(Seq((comma, rest)), low, min(low + draw(st.integers(0, 2)), 2))))
    elif kind == "members":
        members = tuple(Member(entry(), draw(st.booleans())) for _ in range(draw(st.integers(1, 3))))
        found = Permutation(members, comma, draw(st.integers(1, 2)))
    elif kind == "alike":
        again = entry()
        found = join([again] * draw(st.integers(2, 3)), comma)
    else:
        found = join([entry() for _ in range(draw(st.integers(1, 3)))], comma)
    if kind == "either":
        found = Alt((found, Distinct(join([entry(), entry()], comma))))
    known = tuple(draw(st.lists(st.sampled_from(["a", "b", "true", "a b"]), max_size=2)))
    return found if draw(st.integers(0, 2)) == 0 else Distinct(found, known)


items = st.composite(_items)
lists = st.composite(_lists)


def _finite(draw: st.DrawFn) -> Grammar:
    rules: dict[str, Node] = {}
    inner = draw(lists(1, rules))
    start = draw(st.sampled_from([inner, Distinct(inner), Seq((Text("["), inner, Text("]")))]))
    if draw(st.integers(0, 3)) == 0:  # two scopes in sequence, and the same scope twice
        start = Seq((start, Text(":"), draw(st.sampled_from([start, draw(lists(0, rules))]))))
    return Grammar({"start": start, **rules})


finite = st.composite(_finite)()


def _tokens(draw: st.DrawFn, texts: set[bytes]) -> tuple[bytes, ...]:
    """Every byte that occurs, and pieces of the texts."""
    pieces = {bytes([byte]) for text in texts for byte in text}
    some = sorted(texts)
    for _ in range(draw(st.integers(0, 8))):
        text = draw(st.sampled_from(some))
        at = draw(st.integers(0, len(text)))
        pieces.add(text[at : at + draw(st.integers(2, 9))])
    return tuple(sorted(pieces - {b""}))


tokens_of = st.composite(_tokens)


# ---- properties


def check(grammar: Grammar, tokens: tuple[bytes, ...], texts: set[bytes], most: int = 80) -> None:
    """Every state that tokens lead to, up to a limit."""
    end = len(tokens)
    reference = ReferenceGrammar(grammar, tokens, {end})
    seen: set[bytes] = set()
    todo = [(b"", reference.initial())]
    while todo and len(seen) < most:
        prefix, state = todo.pop()
        if prefix in seen:
            continue
        seen.add(prefix)
        rests = [text[len(prefix) :] for text in texts if text.startswith(prefix)]
        allowed = {id for id, token in enumerate(tokens) if any(rest.startswith(token) for rest in rests)}
        assert reference.is_accepting(state) == (prefix in texts), prefix
        assert reference.mask(state) == (allowed | {end} if prefix in texts else allowed), prefix
        if len(seen) % 4 == 1:
            fewest = 1 + min(fewest_tokens(tuple(rest), tokens) for rest in rests)
            assert reference.min_tokens(state) == fewest, prefix
            assert not reference.budget_mask(state, fewest - 1) and reference.budget_mask(state, fewest)
        todo += [(prefix + tokens[id], reference.accept_token(state, id)) for id in sorted(allowed)]


@given(st.data())
@examples(25)
def test_masks_are_the_tokens_that_continue_some_text(data):
    grammar = data.draw(finite)
    try:
        texts = outputs(grammar)
    except TooManyError:
        reject()
    if not texts:
        with pytest.raises(SpecError):
            ReferenceGrammar(grammar, (b"1",), {1})
        return
    check(grammar, data.draw(tokens_of(texts)), texts)


# ---- particular cases

COMMA = Text(",")
A_ONE = Alt(tuple(map(Text, ('"a"', r'"\u0061"', '"b"'))))
ONES = Alt(tuple(map(Text, ("1", "1.0", "10e-1", "true", '"1"'))))
PAIRS = Alt(tuple(map(Text, ('{"a":1,"b":2}', '{ "b":2.0, "a":1 }', '{"a":2,"b":1}'))))
LISTS = Alt(tuple(map(Text, ("[1,2]", "[1.0, 2]", "[2,1]", "[[1,2]]", "[[1, 2.0]]"))))
SMALL = Chars(((0x31, 0x33),))


def some(item: Node, low: int, high: int) -> Node:
    """A number of entries."""
    return Seq((Entry(item), Repeat(Seq((COMMA, Entry(item))), low - 1, high - 1)))


def nested(item: Node) -> Node:
    return Seq((Text("["), Distinct(some(item, 1, 2)), Text("]")))


CASES: dict[str, Grammar] = {
    "strings": Grammar({"start": Distinct(some(A_ONE, 1, 3))}),
    "all values are needed": Grammar({"start": Distinct(some(SMALL, 3, 3))}),
    "numbers": Grammar({"start": Distinct(some(ONES, 2, 3))}),
    "objects": Grammar({"start": Distinct(some(PAIRS, 1, 2))}),
    "arrays": Grammar({"start": Distinct(some(LISTS, 1, 3))}),
    "known": Grammar({"start": Distinct(some(A_ONE, 1, 3), ("a", "z"))}),
    "scopes in entries": Grammar({"start": Distinct(some(nested(Chars(((0x31, 0x32),))), 1, 3))}),
    "entries in entries": Grammar(
        {"start": Distinct(some(Alt((Text("1"), Seq((Text("["), Entry(SMALL), Text("]"))))), 1, 3))}
    ),
    "an entry that is an entry": Grammar({"start": Distinct(Alt((Entry(Entry(Text("1"))), Entry(Text("2")))))}),
    "one of two alternatives": Grammar(
        {"start": Alt((Distinct(some(ONES, 2, 2)), Seq((some(Text("1"), 2, 2), Text(";")))))}
    ),
    "different rules": Grammar(
        {
            "start": Distinct(Seq((Ref("first"), COMMA, Ref("second")))),
            "first": Seq((Entry(Alt((Text("1"), Text("2")))), COMMA, Ref("third"))),
            "second": Entry(SMALL),
            "third": Entry(Alt((Text("1"), Text("3")))),
        }
    ),
    "a choice leaves no value": Grammar(
        {"start": Distinct(Seq((Entry(Alt((Text("1"), Text("2")))), COMMA, Entry(Text("1.0")))))}
    ),
    "one callee, two memories": Grammar(
        {
            "start": Distinct(Seq((Alt((Entry(Text("1")), Text("1"))), Ref("rest")))),
            "rest": Repeat(Seq((COMMA, Entry(Alt((Text("1"), Text("2")))))), 1, 2),
        }
    ),
    "members": Grammar(
        {
            "start": Distinct(
                Permutation(
                    (Member(Entry(SMALL), True), Member(Seq((Text("["), Entry(SMALL), Text("]")))), Member(Text("1"))),
                    COMMA,
                    1,
                    3,
                )
            )
        }
    ),
    "entries that touch": Grammar({"start": Distinct(Repeat(Entry(Repeat(Text("1"), 1, 3)), 1, 3))}),
    "outside": Grammar({"start": some(ONES, 1, 2)}),
    "after a scope": Grammar(
        {"start": Seq((Distinct(some(SMALL, 2, 2)), Text(";"), Distinct(some(SMALL, 1, 2)), COMMA, Entry(SMALL)))}
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_particular_languages(name):
    grammar = CASES[name]
    texts = outputs(grammar)
    singles = {bytes([byte]) for text in texts for byte in text}
    more = (b'","', b"1,1", b'"a","a"', b"],[", b"1,2", b',"', b"1.0", b"11", b",1", b"[1],[1", b"2]", b"1;", b"3,")
    check(grammar, (*sorted(singles), *more), texts, most=150)


def test_values():
    equal = [
        (b'"a"', rb'"\u0061"'),
        (b"1", b"1.0", b"10e-1", b"0.1e1", b"1E0"),
        (b"0", b"-0", b"0.00", b"0e9"),
        (b'{"a":1,"b":[2]}', b'{"b":[2.0],"a":1}'),
        (rb'"\ud83d\ude00"', '"😀"'.encode()),
    ]
    others = [b"true", b"false", b"null", b'"1"', b'"true"', b"[1]", b"[[1]]", b"{}", b"[]", b'""', b"-1", b"1e1000000"]
    others += [b"01", b"1.", b".1", b"NaN", b"tru", b"[1,]", b"1e1000001", b'{"a":2,"b":[1]}', b"10", b'[["a",1]]']
    groups = [*equal, *((text,) for text in others)]
    for group in groups:
        assert len({json_value(text) for text in group}) == 1, group
    assert len({json_value(group[0]) for group in groups}) == len(groups)


def test_white_space():
    gap = Repeat(Chars(((0x09, 0x0A), (0x0D, 0x0D), (0x20, 0x20))), 0, None)
    item = Seq((gap, Alt((Text("1"), Text('"a b"'), Text('"ab"'))), gap))
    grammar = Grammar({"start": Distinct(some(item, 1, 3))})
    assert accepts(grammar, b' "a b",\t"ab"\r,\n1') and accepts(grammar, b"1 \n")
    assert not viable(grammar, b"1 , \t1") and not viable(grammar, b'"ab" , "ab"') and viable(grammar, b"1 , ")


def test_recursive_values():
    value = Alt((Text("1"), Text("1.0"), Seq((Text("["), Distinct(Repeat(Ref("item"), 1, None)), Text("]")))))
    grammar = Grammar({"start": value, "item": Seq((Entry(Ref("start")), Repeat(COMMA, 0, 1)))})
    assert accepts(grammar, b"[1,[1],[[1]],[[1],1]]") and accepts(grammar, b"[[1][1,[1.0]]1.0]")
    for data in (b"[1,1.", b"[1,[1,1]", b"[[1],[1.0]]", b"[[[1]],[[1]]", b"[1,[1],[[1],1],[[1.0],1.0]]"):
        assert not accepts(grammar, data)
    assert not viable(grammar, b"[[1],1,[1]]") and viable(grammar, b"[[1],1,[1"), "[1, [1]] may follow"


def test_more_values_than_there_are():
    digit = Chars(((0x30, 0x39),))
    assert not viable(Grammar({"start": Distinct(some(SMALL, 4, 4))}), b"")
    assert viable(Grammar({"start": Distinct(some(digit, 10, 10))}), b"")
    grammar = Grammar({"start": Distinct(some(digit, 1, 30))})
    assert accepts(grammar, b"0,1,2,3,4,5,6,7,8,9") and not viable(grammar, b"0,1,2,3,4,5,6,7,8,9,")
    grammar = Grammar({"start": Distinct(some(Repeat(digit, 1, None), 30, 30))})
    assert viable(grammar, b"1,2,3,4,5,6,7,8,9,0,") and not viable(grammar, b"1,2,1,")


def test_no_guess(monkeypatch):
    """One value with infinitely many spellings."""
    one = Seq((Text("1."), Repeat(Text("0"), 1, None)))
    monkeypatch.setattr(reference_language, "MAX_AHEAD", 300)
    with pytest.raises(LimitExceeded):
        viable(Grammar({"start": Distinct(some(one, 2, 2))}), b"1.0,")
    growing = Grammar({"start": Distinct(Ref("a")), "a": Alt((Entry(Seq((Ref("a"), Text("x")))), Text("1")))})
    with pytest.raises(LimitExceeded):
        viable(growing, b"")


def test_control_tokens():
    grammar = Grammar({"start": Distinct(Seq((Entry(SMALL), Special("<s>"), Entry(SMALL))))})
    reference = ReferenceGrammar(grammar, [b"1", b"2", b"3", b"1.0"], {9}, {4: "<s>"})
    state = reference.accept_token(reference.initial(), 1)
    assert reference.mask(state) == {4} and reference.min_tokens(state) == 3
    assert reference.mask(reference.accept_token(state, 4)) == {0, 2}


def test_states_meet_again():
    loop = Grammar({"start": Repeat(Seq((Distinct(some(SMALL, 1, 2)), Text(";"))), 1, None)})
    language = Language(loop)
    states, state = set(), language.start
    for byte in b"1,2;" * 20:
        state = language.step(state, byte)
        states.add(state)
    assert len(states) <= 8


@pytest.mark.parametrize("item", [EPSILON, Repeat(Text("1"), 0, 1), Ref("maybe"), Alt((Text("1"), EPSILON))])
@pytest.mark.parametrize("wrap", [Distinct, Entry, lambda item: Seq((Text("["), Distinct(Entry(item)), Text("]")))])
def test_items_that_may_be_empty_are_refused(item, wrap):
    with pytest.raises(SpecError, match="may be empty"):
        Language(Grammar({"start": wrap(item), "maybe": Repeat(Text("1"), 0, 2)}))


@pytest.mark.parametrize("wrap", [Not, lambda item: And((item,)), lambda item: Length(item, 0, 1)])
@pytest.mark.parametrize("inner", [Distinct, Entry])
def test_scopes_in_boolean_nodes_are_refused(wrap, inner):
    for item in (inner(Text("1")), inner(EPSILON), Ref("rule")):
        with pytest.raises(SpecError):
            Language(Grammar({"start": wrap(item), "rule": inner(Text("1"))}))
    with pytest.raises(SpecError):
        Language(Grammar({"start": Encoded(inner(Text("1")), UTF8)}))
