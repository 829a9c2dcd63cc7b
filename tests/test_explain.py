"""Explanations of each kind of specification: rule, alternative and position, lexemes, the longest match.

The expected texts are written out. The terminals that may follow are compared with those that Lark's own parser
accepts.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

import pytest

import guided
from guided.cli import main
from guided.frontends.json_schema import json_schema_to_grammar
from guided.ir import Alt, And, Grammar, Length, Node, Text
from guided.matching.explain import lexing, positions
from guided.matching.explain.positions import Position
from guided.matching.regions.annotated_grammar import automaton_of_rules
from tests.lark_programs import PROGRAMS

COMPILER = guided.GrammarCompiler(
    guided.Vocabulary(
        [*(bytes([byte]) for byte in range(256)), None, None], eos_token_ids=[256], special_tokens={257: "<call>"}
    )
)
PAIRS = 'root ::= "{" pair ("," pair)* "}" | "[]"\npair ::= [a-z]+ ":" [0-9]'
WORDS = """start: IF NAME ";" | NAME "=" NAME ";"
IF: "if"
NAME: /[a-z]+/
%ignore " "
"""
LIST = """start: "[" item ("," item)* "]"
item: NUMBER | start
NUMBER: /[0-9]+/
%ignore " "
"""
NESTED = guided.rules(guided.rule("v"), v=guided.choice("x", "[" + guided.rule("v") + "]"))
PERSON = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}


@dataclass
class Point:
    x: int


TRIGGERED = {
    "type": "triggered_tags",
    "triggers": ["<"],
    "tags": [{"begin": "<t>", "content": {"type": "regex", "pattern": "[0-9]+"}, "end": "</t>"}],
}


def grammar_of(kind: str) -> guided.CompiledGrammar:
    tag = {
        "type": "sequence",
        "elements": [{"type": "const_string", "value": "<a>"}, {"type": "regex", "pattern": "[0-9]"}],
    }
    made = {
        "regex": lambda: COMPILER.compile_regex("[0-9]{4}-(a|b)+"),
        "lookahead": lambda: COMPILER.compile_regex("(?=ab)[a-z]{3}-"),
        "choice": lambda: COMPILER.compile_choice(["yes", "no", "yeah"]),
        "pattern": lambda: COMPILER.compile_pattern([("U", "+"), (":", "1")], {"U": "AB", ":": ":"}),
        "json_schema": lambda: COMPILER.compile_json_schema(PERSON, whitespace="compact"),
        "type": lambda: COMPILER.compile_type(Point, whitespace="compact"),
        "gbnf": lambda: COMPILER.compile_gbnf(PAIRS),
        "left recursion": lambda: COMPILER.compile_gbnf('root ::= root "+" digit | digit\ndigit ::= [0-9]'),
        "lark": lambda: COMPILER.compile_lark(WORDS),
        "repetition": lambda: COMPILER.compile_lark(LIST),
        "basic": lambda: COMPILER.compile_lark(WORDS, lexer="basic"),
        "scannerless": lambda: COMPILER.compile_lark(LIST, semantics="scannerless"),
        "composed": lambda: COMPILER.compile("It is " + NESTED + guided.json_schema(PERSON) + guided.special("<call>")),
        "triggered": lambda: COMPILER.compile_structural_tag({"type": "structural_tag", "format": TRIGGERED}),
        "tag": lambda: COMPILER.compile_structural_tag({"type": "structural_tag", "format": tag}),
    }
    return made[kind]()


@pytest.mark.parametrize(
    ("kind", "prefix", "asked", "said"),
    [
        ("regex", "", "x", "'x' is not allowed: expected a digit"),
        ("regex", "20", "x", "'x' is not allowed: expected a digit (inside of [0-9]{4})"),
        ("regex", "2025", "x", "'x' is not allowed: expected '-' (after [0-9]{4})"),
        ("regex", "2025-a", None, "expected 'a', 'b' or the end (inside of [ab]+)"),
        ("lookahead", "a", "a", "'a' is not allowed: expected 'b'"),
        ("choice", "ye", "z", "'z' is not allowed: expected 'a' or 's' "
            '(alternative 1 of 3, inside of "yes"; alternative 3 of 3, inside of "yeah")'),
        ("choice", "yes", None, "expected the end"),
        ("pattern", "AB", None, "expected ':', 'A' or 'B' (after [AB]+)"),
        ("json_schema", '{"age":', "x", "'x' is not allowed: expected a digit or '-' (at /properties/age)"),
        ("json_schema", '{"age":', '"', "a quotation mark is not allowed: expected a digit or '-' "
            "(at /properties/age; refused by /properties/age/type)"),
        ("type", '{"x":', "x", "'x' is not allowed: expected a digit or '-' (at /$defs/Point/properties/x)"),
        ("gbnf", "", None, "expected '[' or '{' (at root (line 1))"),
        ("gbnf", "[", None, "expected ']' (in root (line 1), alternative 2 of 2, inside of \"[]\")"),
        ("gbnf", "{a", "}", "'}' is not allowed: expected a lowercase letter or ':' (in pair (line 2), after [a-z]+)"),
        ("gbnf", "{a:1", ";", "';' is not allowed: expected ',' or '}' (in root (line 1), alternative 1 of 2, after pair)"),
        ("gbnf", "{a:1,", ";", "';' is not allowed: expected a lowercase letter (in root (line 1), alternative 1 of 2, after \",\")"),
        ("gbnf", "{a:1,b:2", ";", "';' is not allowed: expected ',' or '}' "
            '(in root (line 1), alternative 1 of 2, after ("," pair)*)'),
        ("left recursion", "1+2", "x", "'x' is not allowed: expected '+' or the end (in root (line 1), alternative 1 of 2, after root)"),
        ("lark", "if x", None, "expected a lowercase letter, a space or ';' (in start (line 1), alternative 1 of 2, after NAME; "
            "in start (line 1), alternative 1 of 2, after IF); the lexeme 'x' may be NAME, and \";\" may follow"),
        ("lark", "ifx", ";", "';' is not allowed: expected a lowercase letter, a space or '=' (in start (line 1), alternative 2 of 2, "
            "after NAME); the lexeme 'ifx' may be NAME, and \"=\" may follow; the lexer takes the longest match, and 'ifx' is one NAME"),
        ("lark", "if ", "=", "'=' is not allowed: expected a lowercase letter or a space (in start (line 1), alternative 1 of 2, after IF); NAME may follow"),
        ("repetition", "[1", "x", "'x' is not allowed: expected a digit, a space, ',' or ']' (in start (line 1), alternatives 1 and 2 of 2, "
            "after item; in start (line 1), alternatives 1 and 2 of 2, after \"[\"); the lexeme '1' may be NUMBER, and \",\" or \"]\" may follow"),
        ("repetition", "[1,2 ", "3", "'3' is not allowed: expected a space, ',' or ']' (in start (line 1), alternative 1 of 2, "
            'after ("," item)+); "," or "]" may follow'),
        ("scannerless", "[1, ", "x", "'x' is not allowed: expected a digit, a space or '[' (in start (line 1), after \",\")"),
        ("scannerless", "[12", "x", "'x' is not allowed: expected a digit, a space, ',' or ']' (in item (line 2), alternative 1 of 2, "
            "inside of NUMBER; in start (line 1), alternatives 1 and 2 of 2, after item)"),
        ("composed", "It is [[", "y", "'y' is not allowed: expected '[' or 'x' (in v, alternative 2 of 2, after \"[\")"),
        ("composed", "It is x", "y", "'y' is not allowed: expected '{' (after v)"),
        ("composed", 'It is x{"age": 1}', "y", "'y' is not allowed: expected <call> (after another specification)"),
        ("tag", "<a", None, "expected '>' (inside of \"<a>\"; at /format)"),
        ("tag", "<a>", None, "expected a digit (after \"<a>\"; at /format)"),
        ("triggered", "a <", "x", "'x' is not allowed: expected 't' (inside of some text \"t>\" /format/tags/0*; at /format)"),
        ("triggered", "<t>", "x", "'x' is not allowed: expected a digit (inside of some text \"t>\" /format/tags/0*; at /format/tags/0)"),
    ],
)  # fmt: skip
def test_texts(kind: str, prefix: str, asked: str | None, said: str) -> None:
    matcher = guided.GrammarMatcher(grammar_of(kind))
    assert matcher.accept_string(prefix)
    assert str(matcher.explain(asked)) == said


def test_a_token_is_refused_by_the_longest_match() -> None:
    """However the text was accepted: byte by byte, as tokens, or after a rollback."""
    tokens = [*(bytes([byte]) for byte in range(256)), b"fx", b"x;", None]
    compiler = guided.GrammarCompiler(guided.Vocabulary(tokens, eos_token_ids=[258]))
    matcher = guided.GrammarMatcher(compiler.compile_lark(WORDS))
    assert matcher.accept_string("z") and matcher.accept_string(" ")
    matcher.rollback(2)
    assert matcher.accept_token(ord("i")) and matcher.accept_token(256)
    explanation = matcher.fork().explain(ord(";"))
    assert explanation.lexing is not None
    assert explanation.lexing.refusal == "the lexer takes the longest match, and 'ifx' is one NAME"
    assert (explanation.lexing.lexeme, explanation.lexing.may_be) == ("ifx", ("NAME",))
    assert explanation.lexing.following == ('"="',)
    matcher.rollback(1)
    assert not matcher.accept_token(257)
    assert matcher.explain(257).read == 1
    assert matcher.explain(257).lexing.refusal == ""  # "ix" is a NAME in any case
    assert explanation.positions == (Position("start (line 1)", 2, 2, "NAME", ""),)


def test_grammars_without_positions() -> None:
    """Control tokens are read as well. A text that is too long gets the open rules instead."""
    matcher = guided.GrammarMatcher(COMPILER.compile(guided.special("<call>") + "ab"))
    assert matcher.accept_token(257) and matcher.accept_string("a")
    assert str(matcher.explain()) == "expected 'b' (inside of \"ab\")"
    assert matcher.accept_string("b") and matcher.accept_token(256)
    assert str(matcher.explain("a")) == "the output has ended: nothing may follow"
    long = guided.GrammarMatcher(COMPILER.compile_gbnf("root ::= item+\nitem ::= [0-9] [a-z]"))
    assert long.accept_string("1a" * 1999 + "1")
    assert long.explain().positions == (Position("item (line 2)", 1, 1, "[0-9]", ""),)
    assert long.accept_string("a1a1")
    assert long.explain().positions == ()
    assert str(long.explain()) == "expected a lowercase letter (at item (line 2))"


def test_the_command_names_positions(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["explain", "--lark", WORDS, "--prefix", "ifx", "--text", ";"]
    assert main(asked) == 1
    assert capsys.readouterr().out.splitlines()[:5] == [
        "not allowed",
        "    ifx;",
        "       ^",
        "line 1, column 4: not allowed here; expected a lowercase letter, a space or '='",
        "in start (line 1), alternative 2 of 2, after NAME",
    ]
    assert main([*asked, "--json"]) == 1
    place = json.loads(capsys.readouterr().out)["place"]
    assert place["positions"] == [
        {"rule": "start (line 1)", "alternative": 2, "alternatives": 2, "after": "NAME", "inside": ""}
    ]
    assert place["lexing"] == {
        "lexeme": "ifx",
        "may_be": ["NAME"],
        "following": ['"="'],
        "refusal": "the lexer takes the longest match, and 'ifx' is one NAME",
    }


def accepted_by_lark(parser: Any, text: str) -> set[str]:
    """The terminals that Lark's parser accepts after the lexemes of a text."""
    interactive = parser.parse_interactive(text)
    list(interactive.iter_parse())
    return set(interactive.accepts()) - {"$END"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_terminals_that_may_follow_match_lark(name: str) -> None:
    """At positions after an ignored space, where Lark's lexer ends a lexeme, too."""
    lark = pytest.importorskip("lark")
    text, good, _ = PROGRAMS[name]
    try:
        parser = lark.Lark(text, parser="lalr")
    except lark.exceptions.GrammarError:
        pytest.skip("no LALR grammar")
    grammar = COMPILER.compile_lark(text)
    lexer = grammar.grammar.lexer
    assert lexer is not None
    spelled = {
        terminal.name: terminal.origin.rpartition(" (line")[0] or terminal.origin for terminal in lexer.terminals
    }
    rng, judged = random.Random(name), 0
    for sample in good:
        spaces = [at + 1 for at, char in enumerate(sample) if char == " "]
        for at in rng.sample(spaces, min(4, len(spaces))):
            try:
                wanted = accepted_by_lark(parser, sample[:at])
            except lark.exceptions.LarkError:  # inside of a string or a comment
                continue
            matcher = guided.GrammarMatcher(grammar)
            assert matcher.accept_string(sample[:at])
            cut = matcher.explain().lexing
            assert cut is not None
            if not cut.lexeme:
                assert set(cut.following) == {spelled[it] for it in wanted if it not in lexer.ignored}
                judged += 1
    assert judged


MANY_TAGS = [f'("<t{i}>", c)' for i in range(60)]


@pytest.mark.parametrize(
    ("kind", "text", "prefix"),
    [
        ("lark", "start: A\nA: /(.*a.{6})/ & /(.*b.{7})/ & ~/.*c.{5}/", "abab"),
        ("gbnf", 'root ::= root root | "a"', "a" * 60),
        ("gbnf", f"root ::= TagDispatch({', '.join(MANY_TAGS)})\nc ::= [0-9]", "qqqqq"),
    ],
)
def test_positions_that_take_too_long_are_left_out(
    kind: str, text: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(positions, "SECONDS", 0.0)
    monkeypatch.setattr(lexing, "SECONDS", 0.0)
    matcher = guided.GrammarMatcher(getattr(COMPILER, f"compile_{kind}")(text))
    assert matcher.accept_string(prefix)
    explanation = matcher.explain("z")
    assert explanation.positions == () and explanation.reason


@pytest.mark.parametrize(
    ("text", "whole"), [(b'{"a":1,"b":[2]}', True), (b'{"a":1,"b":', False), (b'{"a":1,"a"', None), (b"", False)]
)
def test_a_text_is_judged_without_a_state_for_each_byte(text, whole):
    """Each state would have a matcher with its history, which takes n * n bytes for a text of n bytes."""
    automaton = automaton_of_rules(json_schema_to_grammar({"type": "object"}), guided.Limits())
    known = len(automaton._states)
    assert automaton.accepts(text) is whole
    assert len(automaton._states) == known
    state = automaton.start
    for byte in text:
        state = state and automaton.read_byte(state, byte)
    assert (None if state is None else state.is_accepting) is whole


@pytest.mark.parametrize("kind", ["intersections", "lengths"])
def test_parts_that_are_shared(kind: str) -> None:
    """Sixty levels that contain the next one twice: an explanation must not walk all 2^60 paths."""
    node: Node = Text("a")
    for _ in range(60):
        node = And((Alt((node, Text("q"))), Alt((node, Text("z"))))) if kind == "intersections" else node
        node = Alt((Length(node, 0, 50), Length(node, 1, 60))) if kind == "lengths" else node
    matcher = guided.GrammarMatcher(COMPILER.compile_grammar(Grammar({"start": node})))
    assert matcher.explain(b"b").reason
