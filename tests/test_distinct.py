"""The native core's `Distinct` and `Entry` against the readable twin: masks, ends, budgets, rollback and forks.

Grammars are drawn at random. In *roomy* ones every value that has to be written is out of endlessly many, so that a new
one can always be found; the others may run out of values between two entries.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import currently_in_test_context, event, given
from hypothesis import strategies as st

from guided.automaton import reference, reference_language, reference_regular
from guided.automaton.reference import ReferenceGrammar
from guided.errors import BudgetError, LimitExceeded, SpecError, UnsupportedError
from guided.grammar import (
    EPSILON,
    Alt,
    And,
    Chars,
    Distinct,
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
from guided.matching import GrammarCompiler, GrammarMatcher
from guided.vocabulary import Vocabulary
from tests.core_support import mask_of
from tests.effort import examples
from tests.json_schema_support import byte_compiler
from tests.test_reference_distinct import CASES

LETTERS = '"ab\\u06120.e-,;:[]{} tr'
PIECES = (
    *('","', "1,1", '"a","a"', "],[", '"a"', '",', ',"', "1,2", ",1", "],[1", "[1],[1", "1],", "a,", ", ", "1,2,1"),
    *(r'"\u0061', r"\u00", '"a":1', '{"a":', ',"a":', '","b', "11", "1.0", "]]", "]];", "1;", '"]', "},{", "1,11,2"),
)
CONTROL = "<s>"
NO_WAY = 2**40  # more tokens than any completion has


@pytest.fixture(autouse=True, scope="module")
def small_searches() -> Iterator[None]:
    """The reference gives up early: a few large examples are not worth the time of many small ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "MAX_SEARCH", 100)
        patch.setattr(reference_language, "MAX_STATES", 4000)
        patch.setattr(reference_language, "MAX_AHEAD", 300)
        patch.setattr(reference_regular, "MAX_STATES", 1500)
        yield


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
ENDLESS = (STRING, INTEGER, NUMBER, Alt((STRING, INTEGER)))
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
    """Draws one grammar. `roomy`: what must be written has endlessly many values."""

    draw: st.DrawFn
    roomy: bool
    rules: dict[str, Node] = field(default_factory=dict)

    def one_of(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def named(self, node: Node) -> Node:
        """Seldom as a rule."""
        if self.one_of(0, 0, 1):
            name = f"rule{len(self.rules)}"
            self.rules[name] = node
            return Ref(name)
        return node

    def scalar(self, endless: bool) -> Node:
        return self.draw(st.sampled_from(ENDLESS if endless and self.roomy else (*ENDLESS, *FEW)))

    def value(self, depth: int, endless: bool) -> Node:
        """JSON values. Entries inside are in scopes of their own."""
        kind = self.one_of("scalar", "scalar", "scope", "list", "recursive") if depth else "scalar"
        if kind == "scalar":
            node = self.scalar(endless)
        elif kind == "scope":
            node = Seq((Text("["), self.scope(depth - 1, endless), Text("]")))
        elif kind == "list":
            item = self.value(depth - 1, endless)
            node = Seq((Text("["), item, Repeat(Seq((COMMA, item)), 0, self.one_of(None, 1)), Text("]")))
        else:
            name = f"rule{len(self.rules)}"
            self.rules[name] = EPSILON  # the name is taken
            inner = Distinct(Seq((Entry(Ref(name)), Repeat(Seq((COMMA, Entry(Ref(name)))), 0, self.one_of(None, 2)))))
            self.rules[name] = Alt((self.scalar(endless), Seq((Text("["), inner, Text("]")))))
            node = Ref(name)
        return self.named(node)

    def entry(self, depth: int, endless: bool = True) -> Node:
        gap = self.one_of(*GAPS, EPSILON)
        value = self.value(depth, endless)
        return self.named(Entry(value if gap == EPSILON else Seq((gap, value))))

    def member(self, depth: int) -> Node:
        """Mostly an entry; seldom one in brackets, or none."""
        kind = self.one_of("entry", "entry", "inside", "none")
        if kind == "none":
            return Text(self.one_of("[1]", "{}"))
        return self.entry(depth) if kind == "entry" else Seq((Text("["), self.entry(depth), Text("]")))

    def scope(self, depth: int, endless: bool = True) -> Node:
        known = self.draw(st.sampled_from([(), (), ("a",), ("a", "ab", "1")]))
        return self.named(Distinct(self.body(depth, endless), known))

    def body(self, depth: int, endless: bool) -> Node:
        """Some entries and what stands between them."""
        kind = self.one_of("list", "list", "few", "members", "object", "touching", "either", "pair")
        gap = self.one_of(*GAPS)
        separator = COMMA if gap == EPSILON else Seq((COMMA, gap))
        if kind == "few" and not endless:
            kind = "list"
        if kind == "few":
            item = self.entry(depth, endless=False)
            rest = Repeat(Seq((COMMA, item)), 0, self.one_of(1, 2, 30, None))
            return Seq((self.entry(depth, endless), rest))
        if kind == "members":
            members = tuple(
                Member(self.member(depth), self.draw(st.booleans()), self.one_of(False, False, True))
                for _ in range(self.one_of(1, 2, 3))
            )
            return Permutation(members, separator, 1, self.one_of(None, None, 3))
        if kind == "object":
            key = self.one_of(STRING, STRING, Ref("key"))
            self.rules["key"] = STRING
            member = Seq((Entry(key), Text(":"), self.value(depth, endless=False)))
            return Seq((member, Repeat(Seq((separator, member)), 0, self.one_of(None, 3))))
        if kind == "touching":
            return Repeat(self.entry(0), 1, self.one_of(2, None))
        if kind == "either":
            return Alt((self.body(0, endless), Seq((self.entry(0), COMMA, self.entry(depth)))))
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
    """Compile twice; None where both refuse, or one gives up."""
    control, end = len(drawn) - 2, len(drawn) - 1
    twin: ReferenceGrammar | None = None
    try:
        twin = ReferenceGrammar(grammar, drawn, {end}, {control: CONTROL})
    except SpecError:
        pass
    except LimitExceeded:
        gave_up("the reference gave up at the start")
        return None
    vocabulary = Vocabulary(drawn, eos_token_ids=[end], special_tokens={control: CONTROL})
    try:
        compiled = GrammarCompiler(vocabulary).compile_grammar(grammar)
    except SpecError:
        assert twin is None, "only the core refuses"
        return None
    except LimitExceeded as error:
        gave_up(f"the core gave up: {error.limit}")
        return None
    assert twin is not None, "only the reference refuses"
    return GrammarMatcher(compiled), twin


def gave_up(what: str) -> None:
    if currently_in_test_context():
        event(what)


def answers(matcher: GrammarMatcher) -> tuple[tuple[int, ...], bool, bool, int]:
    return mask_of(matcher), matcher.is_accepting(), matcher.is_terminated(), matcher.steps


def finish(matcher: GrammarMatcher, n: int, rng: random.Random) -> None:
    """Any tokens that the budget allows end the output in time."""
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
        gave_up("the reference gave up on a budget")
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
            gave_up("the reference gave up")
            break
        assert set(mask_of(matcher)) == expected, path
        assert set(matcher._walk_mask()) == expected, path
        assert matcher.is_accepting() == twin.accepting(state), path
        if not matcher.is_terminated():
            check_budget(matcher, twin, state, rng)
        for token in range(len(drawn)):
            if token not in expected:
                assert not matcher.accept_token(token), (path, drawn[token])
        record.append(answers(matcher))
        if not expected:
            break
        # Tokens in which entries end are worth more than others.
        token = rng.choice([*sorted(expected), *(id for id in sorted(expected) if len(drawn[id] or b"") > 1)])
        path.append(drawn[token])
        fork = matcher.fork()
        assert matcher.accept_token(token)
        assert answers(fork) == record[-1], path
        after = twin.accept_token(state, token)
        assert after is not None
        state = after
    while record:  # the last one was not stepped past
        last = record.pop()
        if matcher.steps > last[3]:
            matcher.rollback(matcher.steps - last[3])
        assert answers(matcher) == last


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
    """Whatever the values that were written, each entry finds another."""
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
    """As many entries as there are values."""
    rest = Repeat(Seq((Text(separator), Entry(entry))), *bounds)
    for seed in range(2):
        walk(Grammar({"start": Distinct(Seq((Entry(entry), rest)))}), MANY, seed)


@pytest.mark.parametrize("entry", [Repeat(chars("123"), 1, 3), INTEGER, STRING])
def test_budgets_of_many_entries(entry: Node) -> None:
    """The short values are soon taken."""
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
    for tokens in ((*SINGLE, b",1.", b",1", None, None), MANY):
        for seed in range(4):
            walk(SHRUNK[name], tokens, seed)


def test_scopes_in_entries_with_something_to_come() -> None:
    """What is left of an outer entry holds scopes that have to find values of their own."""
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
def test_what_cannot_end_is_refused_at_once(twice: Node) -> None:
    """Also where nothing but the values tells that there is no end."""
    with pytest.raises(UnsupportedError, match="no way to an end is found"):
        byte_compiler().compile_grammar(Grammar({"start": Distinct(twice), "rest": REST}))


TWO = {"type": "array", "minItems": 2, "maxItems": 2}
SCARCE = [
    {"items": {"enum": [1, "\u00e9", "\u00ef", "\u12ab"]}},
    {"items": TWO | {"uniqueItems": True, "items": {"enum": ["a", "b", "c"]}}},
    {"items": TWO | {"items": {"enum": ["a", "b"]}}},
    {"items": {"anyOf": [{"enum": ["a", 1]}, TWO | {"items": {"const": "a"}}]}},
    {"items": {"type": "boolean"}, "maxItems": 3, "contains": {"type": "boolean"}, "maxContains": 3},
    {"items": {"enum": [1, "a", None]}, "contains": {"type": ["string", "null"]}, "minContains": 0, "maxContains": 3},
    {
        "items": {
            "type": "object",
            "properties": {"a": {"const": 1}, "b": {"enum": [1, 2]}},
            "required": ["a", "b"],
            "additionalProperties": False,
        }
    },
]


@pytest.mark.parametrize("order", ["declared", "any"])
@pytest.mark.parametrize("schema", SCARCE, ids=range(len(SCARCE)))
def test_an_array_never_comes_to_where_no_value_is_left(schema: dict[str, Any], order: str) -> None:
    """Random walks that go on as long as they can, however each character is spelled: some way on is always left."""
    grammar = byte_compiler().compile_json_schema(
        {"type": "array", "uniqueItems": True, **schema}, property_order=order, whitespace=" ?"
    )
    rng = random.Random(7)
    for _ in range(60):
        matcher = GrammarMatcher(grammar)
        for _ in range(400):
            allowed = mask_of(matcher)
            assert allowed
            if matcher.is_accepting():
                break
            going_on = [t for t in allowed if t != ord("]")] or allowed
            assert matcher.accept_token(rng.choice(going_on if rng.random() < 0.9 else allowed))


FEW = {
    "shared beginnings": (["ab", "abc", "abd", "b"], []),
    "another string before": (["a", "ab"], ["zz", "a", "c"]),
    "what must be escaped": (["a", 'a"', "a\\b", "a\n"], ["a"]),
    "past ASCII": (["\u00e9", "\u00e8a", "e", ""], ["\u00e9"]),
    "a surrogate pair": (["\U0001f600", "\U0001f601", "a"], []),
}


@pytest.mark.parametrize("name", FEW)
def test_the_last_of_few_strings(name: str) -> None:
    """Masks are what all arrays say, written down; other spellings allow what that one allows, and have an end."""
    words, before = FEW[name]
    few = {"enum": words}
    schema = {"type": "array", "uniqueItems": True, "items": few, "prefixItems": [{"const": word} for word in before]}
    arrays = [[*before[:n]] for n in range(len(before) + 1)]
    rest = [word for word in words if word not in before]
    arrays += [[*before, *some] for n in range(1, len(rest) + 1) for some in itertools.permutations(rest, n)]
    texts = [json.dumps(array, separators=(",", ":"), ensure_ascii=False).encode() for array in arrays]
    tokens = sorted({text[at : at + n] for text in texts for at in range(len(text)) for n in (2, 3)})
    vocabulary = Vocabulary([*(bytes([byte]) for byte in range(256)), *tokens, None], eos_token_ids=[256 + len(tokens)])
    compiler = GrammarCompiler(vocabulary, cache_bytes=0)
    plain = compiler.compile_json_schema(schema, whitespace="compact", escapes="minimal")
    free = compiler.compile_json_schema(schema, whitespace="compact")
    rng = random.Random(name)
    for _ in range(12):
        narrow, wide, written = GrammarMatcher(plain), GrammarMatcher(free), b""
        while not narrow.is_terminated():
            rests = [text[len(written) :] for text in texts if text.startswith(written)]
            allowed = {
                id for id, token in enumerate(vocabulary.tokens) if token and any(r.startswith(token) for r in rests)
            }
            allowed |= set(vocabulary.eos_token_ids) if b"" in rests else set()
            assert set(mask_of(narrow)) == allowed
            assert allowed <= set(mask_of(wide))
            going_on = sorted(id for id in allowed if not (vocabulary.tokens[id] or b"]").endswith(b"]"))
            token = rng.choice(going_on or sorted(allowed))
            assert narrow.accept_token(token) and wide.accept_token(token)
            written += vocabulary.tokens[token] or b""
        spelled = GrammarMatcher(free)
        while not spelled.is_terminated():
            allowed = set(mask_of(spelled))
            assert allowed
            assert spelled.accept_token(rng.choice(sorted(allowed - {ord("]")} or allowed)))


INTEGERS = {"items": {"type": "integer"}}
OBJECTS = {
    "items": {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
        "required": ["id", "name"],
        "additionalProperties": False,
    }
}


@pytest.mark.parametrize("items", [INTEGERS, {"items": {"type": "string"}}, OBJECTS, {}], ids=range(4))
def test_a_budget_that_was_plenty_runs_out_well(items: dict[str, Any]) -> None:
    """While plenty is left the plain mask is taken: it never leads to where what is left does not suffice."""
    grammar = byte_compiler().compile_json_schema(
        {"type": "array", "uniqueItems": True, **items}, whitespace="compact", numbers="plain", escapes="minimal"
    )
    rng = random.Random(3)
    letters = [*b'0123456789ab"[]{},:-.', 256]
    for budget in (30, 60, 120, 200):
        matcher = GrammarMatcher(grammar)
        assert matcher.accept_string(b"[")
        for left in range(budget, 0, -1):
            mask = mask_of(matcher, left)
            assert mask
            going_on = [token for token in mask if token in letters and token != ord("]")]
            assert matcher.accept_token(rng.choice(going_on or list(mask)))
            if matcher.is_terminated():
                break
        assert matcher.is_terminated()
