"""Bad input for the other libraries' interfaces: it costs linear time, and its errors are those of the library."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from time import process_time
from typing import Any

import pytest

import guided.compat.xgrammar as xgr
from guided.compat.xgrammar.lark_text import RewrittenLark
from guided.frontends.lark.dialect.definitions import split_statements
from guided.frontends.lark.scan import _TOKEN, scan, scan_leniently
from tests.effort import draws

SECONDS = 5.0
"""The bound for one call. If its time grew with the square of the input, it would take more than twice as long."""

CALLS: dict[str, Callable[[], object]] = {
    "names that look like attributes": lambda: xgr.Grammar.from_lark("start: /a/\n" + "stop = 1 " * 5_000),
    "attributes": lambda: xgr.Grammar.from_lark("start[" + "stop = 1, " * 5_000 + "]: /a/"),
    "a long pattern": lambda: RewrittenLark("start: /" + "a" * 500_000 + "/"),
    "copies of a long rule": lambda: RewrittenLark(
        "start[max_tokens=5]: " + "a " * 1_000 + "\na: %lark { start: /" + "a" * 10_000 + "/ }"
    ),
    "rules with comments between them": lambda: split_statements("", scan("a: b\n#\n\n" * 50_000)),
    "JSON values": lambda: scan("start: " + "%json 1 " * 50_000),
    "a string that is not closed": lambda: list(scan_leniently('"' + '\\"' * 50_000)),
    "ids that are not closed": lambda: list(scan_leniently("<[" * 50_000)),
    "copies in copies": lambda: RewrittenLark(_copies(10)),
}


def _copies(depth: int) -> str:
    grammar = 'start: "x"'
    for _ in range(depth):
        grammar = f"start[max_tokens=5]: {'a ' * 20}\na: %lark {{ {grammar} }}"
    return grammar


def test_tokens_in_a_malformed_grammar_are_those_that_a_search_finds() -> None:
    draw = random.Random(7)
    for _ in range(draws(5_000)):
        text = "".join(draw.choices('"/\\<[]>a1,\n #i ', k=draw.randrange(16)))
        tokens = [(token.start, token.end) for token in scan_leniently(text)]
        assert tokens == [
            match.span() for match in _TOKEN.finditer(text) if match.lastgroup not in ("space", "comment")
        ]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_time_is_linear_in_the_input(call: Callable[[], object]) -> None:
    begin = process_time()
    with suppress(RuntimeError, ValueError):
        call()
    assert process_time() - begin < SECONDS


@pytest.mark.parametrize("depth", [100, 2_000])
@pytest.mark.parametrize("atom", ['"a"', 'Regex("a")'])
def test_deep_brackets_in_ebnf(depth: int, atom: str) -> None:
    source = f"root ::= {'(' * depth}{atom}{')' * depth}"
    if depth < 500:
        assert xgr.testing._is_grammar_accept_string(source, "a")
        return
    with pytest.raises(RuntimeError, match=r"line 1, column 51.*raise guided\.Limits"):
        xgr.Grammar.from_ebnf(source)


@pytest.mark.parametrize("depth", [1, 100, 2_000])
def test_a_bound_holds_for_a_long_chain_of_rules(depth: int) -> None:
    chain = "".join(f"a{n}: a{n + 1}\n" for n in range(depth))
    grammar = xgr.Grammar.from_lark(f'start[max_tokens=5]: a0*\n{chain}a{depth}: "x" | "yz"')
    verdicts = [xgr.testing._is_grammar_accept_string(grammar, text) for text in ("", "xyz", "y")]
    assert verdicts == [True, True, False]


@pytest.mark.parametrize("body", ['"y" a{}', '"y" | a{}'])
def test_nested_copies_of_rules_have_an_error_with_a_location(body: Any) -> None:
    chain = "".join(f"a{n}: {body.format(n + 1)}\n" for n in range(2_000))
    with pytest.raises(RuntimeError, match="Lark error at line 1, column 22"):
        xgr.Grammar.from_lark(f'start[max_tokens=5]: a0\n{chain}a2000: "x"')
