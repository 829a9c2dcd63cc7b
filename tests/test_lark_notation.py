r"""Lark's notation is tokenised in linear time: the expressions match what Lark's own match, without backtracking."""

from __future__ import annotations

import itertools
import re

import pytest

import guided
from benchmarks.bad_inputs.construct import Construct
from benchmarks.bad_inputs.meter import Meter
from benchmarks.bad_inputs.search import Settings, run_once

load_grammar = pytest.importorskip("lark.load_grammar", reason="lark is not installed")

from lark.exceptions import GrammarError, LarkError  # noqa: E402 - needs lark

from guided.frontends.lark.notation import LINEAR_PATTERNS, parse_grammar  # noqa: E402 - needs lark

COMPILER = guided.GrammarCompiler(guided.Vocabulary([bytes([b]) for b in range(256)], eos_token_ids=[256]))
ALPHABETS = {"STRING": '"\\a\ni', "REGEXP": "/\\a\ni", "_NL_OR": "\n\r |a"}


@pytest.mark.parametrize("name", ALPHABETS)
def test_the_same_tokens_as_in_lark(name: str) -> None:
    """For every text of at most seven relevant characters."""
    lark, linear = re.compile(load_grammar.TERMINALS[name]), re.compile(LINEAR_PATTERNS[name])
    found = 0
    for length in range(1, 8):
        for characters in itertools.product(ALPHABETS[name], repeat=length):
            text = "".join(characters)
            wanted, got = lark.match(text), linear.match(text)
            assert (wanted and wanted.end()) == (got and got.end()), text
            found += wanted is not None
    assert found > 100 and set(LINEAR_PATTERNS) == set(ALPHABETS)


@pytest.mark.parametrize(
    "text",
    ['start: "a\\\\" | "b"i\n', "start: /a\\/b/ A\nA: /x/i\n", 'start: "a"\n\n  | "b"\n\r\n | x\nx: "c"\n', "a: b c"],
)
def test_the_same_tree_as_in_lark(text: str) -> None:
    assert parse_grammar(text, "x") == load_grammar._parse_grammar(text, "x")


@pytest.mark.parametrize(
    "text", ['start: "a', "start: (\n", "start: a b:\n", "A.B: /x/\n", "start: ?\n", '%import "a"\n']
)
def test_the_same_errors_as_in_lark(text: str) -> None:
    with pytest.raises((GrammarError, LarkError)) as wanted:
        load_grammar._parse_grammar(text, "x")
    with pytest.raises(type(wanted.value)) as got:
        parse_grammar(text, "x")
    assert str(got.value) == str(wanted.value)


BOMBS = {
    "an open string of backslashes": lambda n: 'start: "' + "\\" * n,
    "an open string of backslashes, and a line": lambda n: 'start: "' + "\\" * n + '\nA: "x"',
    "an open expression of backslashes": lambda n: "start: /" + "\\" * n,
    "empty lines": lambda n: 'start: "a"' + "\n" * n,
    "empty lines of Windows": lambda n: 'start: "a"' + "\r\n" * n,
    "empty lines before a bar": lambda n: 'start: "a"' + "\n" * n + '| "b"',
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_for_python_s_expressions_end(name: str) -> None:
    """The kernel ends the process after ten seconds. Lark's own expressions would take hours, or never end."""

    def measure(construct: Construct, n: int, meter: Meter) -> None:
        meter.call("compile", lambda: COMPILER.compile_lark(construct.build(n)))

    rows, ended = run_once(Construct(name, "lark", BOMBS[name]), 200_000, measure, Settings(cpu=10))
    assert not ended and rows[-1]["refused"] in ("", "SpecError")
