"""Readers of specifications take linear time: a text of eight times the length takes about eight times as long."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.frontends.common.line_table import LineTable
from guided.frontends.gbnf import gbnf_to_grammar
from guided.frontends.lark.dialect.plain import rewrite_extensions
from guided.frontends.lark.scan import scan
from guided.frontends.regex import parse_regex
from guided.ir.ranges import charset, contains, select
from guided.limits import Limits
from tests.lark_support import lark_to_grammar
from tests.work_support import lines_run

READERS: dict[str, tuple[Callable[[str], object], Callable[[int], str], int]] = {
    # name: (reader, text of n parts, n)
    "rules with options": (
        gbnf_to_grammar,
        lambda n: (
            "root ::= r0\n" + "".join(f'r{at}[max_chars=9] ::= "a" r{at + 1}\n' for at in range(n)) + f'r{n} ::= "b"'
        ),
        500,
    ),
    "assertions": (
        gbnf_to_grammar,
        lambda n: 'root ::= "a"\n' + "".join(f'r{at} ::= "a" (= "b")\n' for at in range(n)),
        1_250,
    ),
    "rules next to a token": (
        lambda text: rewrite_extensions(text, Limits()),
        lambda n: "start: <think> r0\n" + "".join(f'r{at}: "a"\n' for at in range(n)),
        1_250,
    ),
    "line ends": (scan, lambda n: "start: <think>" + " \n\n# c\n" * n, 5_000),
    "schemas": (scan, lambda n: "start: r\nr: " + "%json {}" * n, 5_000),
    "gaps": (
        lark_to_grammar,
        lambda n: f"start: A\nA: /a{{{n}}}b/\n%ignore /#(a{{{n}}}c)?/",
        1_250,  # counts above 1,000 are not unrolled
    ),
    "a long group name": (
        lambda text: parse_regex(text, dialect="ecma"),
        lambda n: f"(?<{'a' * n}>x)",
        5_000,
    ),
    "one group name in many alternatives": (
        lambda text: parse_regex(text, dialect="ecma"),
        lambda n: "|".join(["(?<a>x)"] * n),
        500,
    ),
    "group names in nested alternatives": (
        lambda text: parse_regex(text, dialect="ecma"),
        lambda n: "(" * 20 + "|".join(f"(?<a{at}>x)(?<b>y)" for at in range(n)) + "|)" * 20,
        200,
    ),
}


def cpu_seconds(act: Callable[[], object]) -> float:
    begin = time.process_time()
    act()
    return time.process_time() - begin


@pytest.mark.parametrize("name", READERS)
def test_reading_is_linear(name: str) -> None:
    read, write, count = READERS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of assertions, which have no effect
        small, large = ([write(each + at) for at in range(3)] for each in (count, 8 * count))  # texts may be cached
        seconds = min(cpu_seconds(lambda text=text: read(text)) for text in small)
        assert any(cpu_seconds(lambda text=text: read(text)) < 18 * seconds for text in large)


@pytest.mark.parametrize("dialect", ["python", "ecma"])
def test_a_set_that_ignores_case_does_not_read_all_characters(dialect: str) -> None:
    def read(start: int, count: int) -> None:
        sets = "".join(f"[{chr(start + at)}a]" for at in range(count))
        parse_regex(f"(?i:{sets})", dialect=dialect)  # type: ignore[arg-type]

    read(0x4E00, 1)  # loads the tables
    assert lines_run(lambda: read(0x4E01, 100)) < 50_000


@given(st.lists(st.integers(0, 300)), st.lists(st.tuples(st.integers(0, 300), st.integers(0, 40))))
def test_selected_characters_are_in_the_ranges(codes: list[int], pairs: list[tuple[int, int]]) -> None:
    codes.sort()
    ranges = charset((low, low + width) for low, width in pairs)
    assert select(codes, ranges) == [code for code in codes if contains(ranges, code)]


@given(st.text(st.sampled_from("ab\n\r\u2028")))
def test_lines_and_columns(text: str) -> None:
    table = LineTable(text)
    for offset in range(len(text) + 1):
        lines = text[:offset].split("\n")
        assert (table.line(offset), table.column(offset)) == (len(lines), len(lines[-1]) + 1)
