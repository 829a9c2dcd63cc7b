"""Options of rules in GBNF, and the macros Substring and Regex with flags: brute force, and written-out samples."""

from __future__ import annotations

import itertools
import re

import pytest

import guided
from guided import GrammarMatcher

TOKENS = [bytes([byte]) for byte in range(256)] + [b"ab"]
COMPILER = guided.GrammarCompiler(guided.Vocabulary(TOKENS, eos_token_ids=[300]))


def accepts(text: str, output: str) -> bool:
    matcher = GrammarMatcher(COMPILER.compile_gbnf(text))
    return matcher.accept_string(output) and matcher.is_accepting()


def outputs(letters: str, most: int) -> list[str]:
    return ["".join(one) for size in range(most + 1) for one in itertools.product(letters, repeat=size)]


@pytest.mark.parametrize("pieces", [[], ["a"], ["ab", "", "a"], ["a", "b", "a", "ab"], ["a", "ab", "b", "b"]])
def test_substrings_are_pieces_that_follow_each_other(pieces: list[str]) -> None:
    ends = range(len(pieces) + 1)
    expected = {"".join(pieces[low:high]) for low in ends for high in ends}
    text = "root ::= Substring(" + ", ".join(f'"{piece}"' for piece in pieces) + ")"
    assert {output for output in outputs("ab", 6) if accepts(text, output)} == expected


@pytest.mark.parametrize(("flags", "python"), [("", 0), ("i", re.I), ("s", re.S), ("is", re.I | re.S), ("u", 0)])
@pytest.mark.parametrize("pattern", ["a.", "(a|B)b?", "[^b]"])
def test_flags_match_regular_expressions(flags: str, python: int, pattern: str) -> None:
    text = f'root ::= Regex("{pattern}", flags="{flags}")'
    for output in outputs("aAbB\n", 2):
        assert accepts(text, output) == bool(re.fullmatch(pattern, output, python)), output


def test_a_flag_at_the_begin_of_a_pattern() -> None:
    assert accepts('root ::= Regex("(?i)ab.")', "aB\n") and not accepts('root ::= Regex("ab")', "aB")


@pytest.mark.parametrize("body", ["[ab]+", '"a"* "b"', '("ab" | "abb") "a"?', '""'])
def test_lazy_rules_end_as_soon_as_they_can(body: str) -> None:
    every = {output for output in outputs("ab", 5) if accepts(f"root ::= {body}", output)}
    shortest = {one for one in every if not any(one.startswith(other) and one != other for other in every)}
    found = {output for output in outputs("ab", 5) if accepts(f"root ::= v\nv[lazy] ::= {body}", output)}
    assert found == shortest


def test_tokens_of_a_rule_are_counted() -> None:
    matcher = GrammarMatcher(COMPILER.compile_gbnf('root ::= "<" v ">"\nv[max_tokens=2] ::= [ab]*'))
    assert all(matcher.accept_token(token) for token in (ord("<"), 256, ord("a")))  # 256 writes two letters
    assert not matcher.accept_token(ord("a")) and matcher.accept_token(ord(">")) and matcher.is_accepting()


def test_captures_and_temperatures() -> None:
    grammar = COMPILER.compile_gbnf(
        'root ::= name ":" value\nname[capture] ::= [a-z]+\nvalue[capture="v", temperature=0.25] ::= [0-9]+'
    )
    matcher = GrammarMatcher(grammar)
    assert matcher.temperature() is None
    assert matcher.accept_string("ab:1") and matcher.temperature() == 0.25 and matcher.accept_string("2")
    assert matcher.captures() == {"name": [b"ab"], "v": [b"12"]}
    assert matcher.captures_by_end() == [("name", b"ab"), ("v", b"12")]


def test_captures_in_the_order_in_which_they_end() -> None:
    grammar = COMPILER.compile_gbnf('root[capture="all"] ::= one two\none[capture] ::= "a"\ntwo[capture] ::= "b"')
    matcher = GrammarMatcher(grammar)
    matcher.accept_string("ab")
    assert matcher.captures_by_end() == [("one", b"a"), ("two", b"b"), ("all", b"ab")]
    assert GrammarMatcher(COMPILER.compile_gbnf('root ::= "a"')).captures_by_end() == []


@pytest.mark.parametrize(("option", "message"), [
    ("temperature=-1", "at least 0"), ("temperature", "at least 0"), ("temperature=1e999", "at least 0"),
    ("max_tokens=x", "number of tokens"), ("max_chars", "number of characters"), ('capture=""', "name of a capture"),
    ("capture=x", "name of a capture"), ("lazy=1", "no value"), ("lazzy", "did you mean 'lazy'"),
])  # fmt: skip
def test_options_with_wrong_values(option: str, message: str) -> None:
    with pytest.raises(guided.SpecError, match=message):
        COMPILER.compile_gbnf(f'root ::= v\nv[{option}] ::= "a"')


@pytest.mark.parametrize("option", ["lazy", "max_tokens=3"])
def test_recursive_rules_are_not_cut(option: str) -> None:
    with pytest.raises(guided.UnsupportedError, match="regular"):
        COMPILER.compile_gbnf(f'root ::= v\nv[{option}] ::= "(" v ")" | "a"')
