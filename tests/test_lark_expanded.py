"""Rules without operators, and terminals that are strings. The judges are Lark's own loader, and regular
expressions.
"""

from __future__ import annotations

import random
import re

import pytest

from guided.frontends.lark import _lark
from guided.frontends.lark.loader import LoadedTerminal
from guided.frontends.lark.terminals import build_terminal_node
from guided.limits import Limits

lark = pytest.importorskip("lark", reason="lark is not installed")

from lark.load_grammar import load_grammar  # noqa: E402 - needs lark

from guided.frontends.lark.ebnf_expansion import compile_grammar  # noqa: E402
from guided.frontends.lark.grammar_builder import build_grammar  # noqa: E402
from tests.lark_public import PUBLIC  # noqa: E402

CHARACTERS = "ab_Kks()*+ \n#\xdf\u017f\u212a\xe9\xc9\u0130\u0131\U0001f600\u01c5-"
ERRORS = (lark.exceptions.LarkError, AssertionError)


def found_by_lark(grammar):
    terminals, found, _ = grammar.compile(["start"], "*")
    rules = {}
    for rule in found:
        rules.setdefault(str(rule.origin.name), []).append(
            tuple((str(symbol.name), bool(symbol.is_term)) for symbol in rule.expansion)
        )
    return terminals, rules


def outcome(read):
    """Terminals and rules in their order, or the kind of the error."""
    try:
        terminals, rules = read()
    except ERRORS as error:
        return type(error)
    return [(each.name, each.pattern, each.priority) for each in terminals], list(rules.items())


def compare(text):
    """Whether rules are returned. If so, they must equal Lark's."""
    grammar, _ = load_grammar(text, "<grammar>", [], False)
    expected = outcome(lambda: found_by_lark(grammar))
    assert outcome(lambda: compile_grammar(build_grammar(text, (), Limits())[0], "start")) == expected, text
    return isinstance(expected, tuple)


@pytest.mark.parametrize("name", PUBLIC)
def test_rules_of_grammars_as_people_write_them(name):
    assert compare(PUBLIC[name][0])


def random_text(rng):
    names = ["start", "_b", "c", "d"]

    def atom(depth):
        kind = rng.randrange(9 if depth else 6)
        if kind < 2:
            return rng.choice(names)
        if kind < 6:
            return rng.choice(["A", "_B", '"x"', '"y"i', '"+"', "/[xy]+/", "/z/i", '"a".."c"', '"else"'])
        return ("[{}]" if kind == 8 else "({})").format(choice(depth - 1))

    def item(depth):
        return atom(depth) + rng.choice(["", "", "", "", "?", "*", "+", "~2", "~0..1", "~60" * (rng.random() < 0.05)])

    def choice(depth, aliases=False):
        several = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            items = " ".join(item(depth) for _ in range(rng.choice((0, 1, 1, 2))))
            several.append(items + " -> name" * (aliases and rng.random() < 0.1))
        return " | ".join(several)

    lines = [
        f"{rng.choice(['', '', '!', '?' * (name != '_b')])}{name}: {choice(rng.choice((1, 1, 2)), True)}"
        for name in names
    ]
    return "\n".join([*lines, 'A: "a" | /b+/', '_B.2: "b"', '%ignore " "'])


def test_rules_of_random_grammars(monkeypatch):
    """Of any shape: grammars that are refused here are refused by Lark, too."""
    done, native = {True: 0, False: 0}, _lark.expanded
    left = []

    def counted(*arguments):
        out = native(*arguments)
        left.append(out is None)
        return out

    monkeypatch.setattr(_lark, "expanded", counted)
    rng = random.Random(0)
    for _ in range(400):
        done[compare(random_text(rng))] += 1
    assert min(done.values()) > 50
    assert left.count(False) > 100


def test_every_statement_means_what_it_means_in_lark():
    assert compare("""
    %import common (INT, WS)
    %import common.CNAME -> NAME
    %import lark.rule
    %import python (file_input, test)
    %declare _INDENT _DEDENT
    start: NAME+ | rule | test | file_input
    A: "a" | INT
    %extend A: "b"
    %override test: A "c"
    %extend test: "d"
    %ignore WS
    %ignore /#.*/
    """)


def test_deep_grammars_and_graphs_are_left_to_lark():
    assert compare("start: " + "(" * 150 + '"a"' + ")" * 150)
    assert compare('start: pair{"a"}\npair{x}: x x')


def test_strings_are_read_as_expressions_are():
    rng = random.Random(1)
    for _ in range(1000):
        value = "".join(rng.choice(CHARACTERS) for _ in range(rng.randint(1, 6)))
        for flags in ("", "i"):
            source = f"(?i:{re.escape(value)})" if flags else re.escape(value)
            texts, expressions = (
                LoadedTerminal("A", source, is_string, 0, value, frozenset(flags), "") for is_string in (True, False)
            )
            one, other = (build_terminal_node(each, Limits()) for each in (texts, expressions))
            assert one == other, (value, flags)
