"""The states of an LALR(1) table, and the contexts that a lexer derives from them. The judges are Lark's own tables."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from guided import GrammarMatcher
from guided.automaton.reference.lexer import LexedLanguage
from guided.errors import LimitExceeded, SpecError
from guided.frontends.lark import _lark
from guided.frontends.lark.lalr import FIRST, find_lr0_kernels, find_terminal_states
from guided.frontends.lark.loader import load
from guided.limits import Limits
from tests.effort import draws
from tests.lark_support import lark_to_lexed

lark = pytest.importorskip("lark", reason="lark is not installed")

from lark.common import ParserConf  # noqa: E402 - needs lark
from lark.parsers.lalr_analysis import LALR_Analyzer  # noqa: E402

from tests import lalr_twin  # noqa: E402
from tests.lark_judge import lalr, parses, parses_in_exact_contexts  # noqa: E402
from tests.lark_public import PUBLIC  # noqa: E402
from tests.lexer_support import mask_of, random_blocks, random_grammar  # noqa: E402
from tests.test_lexer_masks import Pair  # noqa: E402


def rows_of_lark(text, start):
    """Kernel, as (rule, symbols, read) -> terminals, of the states after a terminal. None: Lark finds a conflict."""
    grammar, _ = lark.load_grammar.load_grammar(text, "<grammar>", [], False)
    _, rules, _ = grammar.compile([start], "*")
    analyzer = LALR_Analyzer(ParserConf(rules, {}, [start]))
    try:
        analyzer.compute_lalr()
    except lark.exceptions.GrammarError:
        return None
    out = {}
    for state in analyzer.lr0_itemsets:
        places = [(str(at.rule.origin.name), tuple(s.name for s in at.rule.expansion), at.index) for at in state.kernel]
        read = next(iter(state.kernel))
        if read.index and read.rule.expansion[read.index - 1].is_term:
            row = {symbol.name for symbol in (*state.transitions, *state.lookaheads) if symbol.is_term}
            out[frozenset(places)] = row - {"$END"}
    return out


def rows(text, start):
    """The same for the states that are computed here."""
    rules = loaded_rules(text)
    table = find_terminal_states(rules, start)
    if table is None:
        return None
    out = {}
    for state in table.states:
        assert state.doubtful <= state.terminals
        if FIRST not in state.kernel:
            places = [
                (at.rule, tuple(name for name, _ in rules[at.rule][at.alternative]), at.read) for at in state.kernel
            ]
            out[frozenset(places)] = state.terminals
    return out


@pytest.mark.parametrize("name", PUBLIC)
def test_tables_of_grammars_as_people_write_them(name):
    text = PUBLIC[name][0]
    assert rows(text, "start") == rows_of_lark(text, "start")


def test_tables_of_random_grammars():
    rng, conflicts = random.Random(0), 0
    for _ in range(300):
        text = random_grammar(rng)
        found = rows(text, "start")
        assert found == rows_of_lark(text, "start"), text
        conflicts += found is None
    for _ in range(60):
        text = random_blocks(rng)
        try:
            found = rows(text, "start")
        except SpecError:  # symbols were removed that Lark's notation needs
            continue
        assert found == rows_of_lark(text, "start"), text
    assert 0 < conflicts < 100


def random_rules(rng):
    """Rules that no text can have: without alternatives, empty, equal to themselves, or generating nothing."""
    names, terminals = [f"r{i}" for i in range(rng.randint(1, 5))], "ABCD"[: rng.randint(1, 4)]

    def symbol():
        return (rng.choice(terminals), True) if rng.random() < 0.5 else (rng.choice(names), False)

    return {
        name: [tuple(symbol() for _ in range(rng.choice((0, 1, 1, 2, 2, 3)))) for _ in range(rng.randint(0, 3))]
        for name in names
    }


def random_recursion(rng):
    """Rules that end with each other in many cycles. No two alternatives begin alike, so few have conflicts."""
    names, terminals = [f"r{i}" for i in range(rng.randint(3, 9))], iter(f"T{i}" for i in range(1000))

    def alternative():
        after = [(rng.choice(names), False) for _ in range(rng.choice((0, 1, 1, 2)))]
        return ((next(terminals), True), *after)

    return {name: [alternative() for _ in range(rng.randint(1, 4))] + [()] * (rng.random() < 0.1) for name in names}


def test_tables_match_the_twin():
    """Including the doubtful terminals, which Lark does not compute."""
    rng = random.Random(2)
    several = [each for text, *_ in PUBLIC.values() for each in [loaded_rules(text)]]
    several += [make(rng) for make in (random_rules, random_recursion) for _ in range(draws(1500))]
    counts = {"conflicts": 0, "shift conflicts": 0, "doubtful": 0, "certain": 0}
    for rules in several:
        start = "start" if "start" in rules else "r0"
        found, expected = find_terminal_states(rules, start), lalr_twin.find_terminal_states(rules, start)
        automaton = lalr_twin.Lr0({"": [[(start, False)]], **rules})
        assert set(find_lr0_kernels(rules, start)) == set(automaton.kernels)
        if expected is None or found is None:
            assert found is expected, rules
            counts["conflicts"] += 1
            continue
        assert len(found.states) == len(expected.states)
        assert {each.kernel: each for each in found.states} == {each.kernel: each for each in expected.states}, rules
        assert found.is_deterministic == expected.is_deterministic, rules
        counts["shift conflicts"] += not found.is_deterministic
        counts["doubtful" if any(each.doubtful for each in found.states) else "certain"] += 1
    assert min(counts.values()) > draws(100), counts


def loaded_rules(text):
    return load(text, "start", (), Limits(), frozenset({"_INDENT", "_DEDENT"})).rules


def test_a_table_that_is_too_large_is_not_built():
    names = [f"A{i}" for i in range(20)]  # the states are the sets of omitted names
    lines = ["start: " + " | ".join(f"r{i}" for i in range(20))]
    lines += [
        f"r{i}: " + " | ".join(f"{name} r{i}" for name in names if name != names[i]) + f" | B{i}" for i in range(20)
    ]
    lines += [f"{name}: /{chr(97 + i)}/" for i, name in enumerate(names)] + [f"B{i}: /{i}/" for i in range(20)]
    text = "\n".join(lines) + "\n"
    assert rows(text, "start") is None
    twin = LexedLanguage(*lark_to_lexed(text))
    assert twin.accepts(b"bbb0") and not twin.accepts(b"aa0")


MERGED = """
start: element
element: "<" NAME ">" content* "</" NAME ">"
content: element | TEXT
NAME: /[a-z]+/
TEXT: /[^<]+/
%ignore /\\s+/
"""
IDLE = """
start: "a" | idle
idle: LONG idle
LONG.2: /a[ab]/
"""


@pytest.mark.parametrize(
    ("text", "good", "bad", "refused_by_lark_alone"),
    [(MERGED, ["<a></a>", " <a> x <b></b> </a>"], ["<a>"], ["<a></a> "]), (IDLE, ["a"], ["b", "aa"], [])],
)
def test_contexts_match_the_table(text, good, bad, refused_by_lark_alone):
    parser = lalr(text)
    grammar, lexer = lark_to_lexed(text)
    assert lexer.contexts
    twin = LexedLanguage(grammar, lexer)
    for sample in [*good, *bad, *refused_by_lark_alone]:
        assert twin.accepts(sample.encode()) == parses(parser, sample) == (sample in good), sample
    for sample in refused_by_lark_alone:
        assert parses_in_exact_contexts(parser, sample)


@pytest.mark.parametrize("seed", range(2))
def test_masks_in_contexts_match_the_twin(seed):
    rng, found = random.Random(seed), 0
    while found < draws(15):
        text = random_grammar(rng)
        try:
            if not lark_to_lexed(text)[1].contexts:
                continue
            pair = Pair(text)
        except (SpecError, LimitExceeded):  # nothing can be generated, or this is unknown
            continue
        found += 1
        with suppress(LimitExceeded):
            for _ in range(4):
                compare_along_a_walk(rng, pair)


def test_states_that_differ_only_in_rules_without_texts_are_merged():
    # States after A differ by positions in `idle`, which an exact parser omits.
    text = """
    start: A pair | idle A B
    idle: A A idle | idle idle pair | B idle
    pair: A A
    A: /a.*?b/
    B.-1: "aB"i
    """
    pair, rng = Pair(text), random.Random(0)
    for _ in range(4):
        compare_along_a_walk(rng, pair)
    parser = lark.Lark(text, parser="lalr")
    for sample in ("abaabab", "ab", "ababab", "abababab"):
        assert pair.language.accepts(sample.encode()) == parses(parser, sample), sample


def compare_along_a_walk(rng, pair):
    matcher, state = GrammarMatcher(pair.grammar), pair.language.start
    for _ in range(8):
        allowed = mask_of(matcher)
        assert allowed == pair.allowed(state), pair.text
        tokens = sorted(allowed - {len(pair.tokens)})
        if not tokens:
            return
        token = rng.choice(tokens)
        assert matcher.accept_token(token)
        for byte in pair.tokens[token]:
            state = pair.language.read(state, byte)


def test_contexts_are_left_out_where_they_do_not_matter():
    for name in ("json", "calculator", "ini"):
        assert not lark_to_lexed(PUBLIC[name][0])[1].contexts


RESERVED = r"""
start: (statement ";")+
statement: IF name | name "=" name | name "(" ")"
name: NAME | reserved NEVER
reserved: IF | ELSE
IF: "if"
ELSE: "else"
NAME: /[a-z]+/
NEVER: /[^\s\S]/
%ignore " "
"""


# At the beginning of a text, `word` leads nowhere, but in Lark's table it leads to the state after IF.
RESERVED_IN_THE_BEGINNING = r"""
start: IF bound ";" | word NEVER | "=" word ";"
bound: NAME | word NEVER
word: IF | ELSE
IF: "if"
ELSE: "else"
NAME: /[a-z]+/
NEVER: /[^\s\S]/
%ignore " "
"""


@pytest.mark.parametrize("grammar", [RESERVED, RESERVED_IN_THE_BEGINNING])
def test_reserved_words_by_a_terminal_without_texts(grammar: str) -> None:
    """Lark's table has them at positions of names, so they are not names there."""
    rules, lexer = lark_to_lexed(grammar)
    twin = LexedLanguage(rules, lexer)
    judge = lark.Lark(grammar, parser="lalr")
    rng, accepted = random.Random(1), 0
    pieces = ["if", "else", "x", "iff", "=", ";", " ", "()"]
    for _ in range(draws(3000)):
        text = "".join(rng.choice(pieces) for _ in range(rng.randint(2, 7)))
        expected = parses(judge, text)
        accepted += expected
        assert twin.accepts(text.encode()) == expected, text
    assert accepted > draws(10)


# After `match`, a `+` begins an operand, or `match` is a name. Lark's table chooses the former, so no state has both
# positions.
SOFT_KEYWORD = r"""
start: (MATCH sum ":" | sum) ";"
sum: name | "+" name | sum "+" name
name: NAME | MATCH | reserved NEVER
reserved: "if" | "else"
MATCH: "match"
NAME: /[a-z]+/
NEVER: /[^\s\S]/
%ignore " "
"""


def test_reserved_words_where_the_table_has_a_conflict():
    letters = tuple(bytes([byte]) for byte in b"matchifelsx+:; ")
    pair = Pair(SOFT_KEYWORD, tokens=(*dict.fromkeys(letters), b"match", b" if", b"+else"))
    exact = SOFT_KEYWORD.replace('MATCH: "match"', "MATCH: /(?<![a-z])match(?![a-z])/").replace(
        "NAME: /[a-z]+/", r"NAME: /(?<![a-z])(?!(if|else|match)(?![a-z]))[a-z]+(?![a-z])/"
    )
    judge = lark.Lark(exact, parser="earley", lexer="dynamic_complete")
    rng, accepted = random.Random(2), 0
    pieces = ["match", "match", "if", "else", "x", "iff", "+", "+", ":", " ", " "]
    for _ in range(draws(1500)):
        text = "".join(rng.choice(pieces) for _ in range(rng.randint(1, 7))) + ";"
        expected = parses(judge, text)
        accepted += expected
        assert pair.language.accepts(text.encode()) == GrammarMatcher(pair.grammar).accept_string(text) == expected, (
            text
        )
    assert accepted > draws(50)
    for _ in range(20):
        compare_along_a_walk(rng, pair)


@pytest.mark.parametrize("alternative", [-1, 2, 2**31 - 1, -(2**31)])
def test_alternatives_that_a_rule_lacks(alternative: int) -> None:
    rules = {"a": [[("T", True)], [("b", False)]], "b": [[("U", True)], [("T", True), ("U", True)]]}
    assert _lark.lalr_states(rules, "a", 1000, {"a": [1], "b": [0]})
    with pytest.raises(IndexError, match="no such alternative"):
        _lark.lalr_states(rules, "a", 1000, {"a": [alternative]})
