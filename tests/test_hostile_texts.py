"""Texts on which a backtracking regular expression would run for hours: each is read, or refused, at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("lark", reason="lark is not installed")
pytest.importorskip("jinja2", reason="jinja2 is not installed")

EMPTY_TEXTS = "(?:a?|b?){60}(?=c)"  # 2^60 ways to match the empty text, and then no c
EMPTY_GROUPS = r"(?:(?:(a)?|(b)?)){60}c?\1(?|)"  # for the package regex
START = 'start: A x\nx[capture="q"]: "a"\n'
READ = """
from guided.chat.compiled import _count_parts
from guided.cli.specification import _LARK_RULE
from guided.compat.llguidance.gbnf_to_lark import gbnf_to_lark
from guided.errors import GuidedError
from guided.frontends.gbnf import gbnf_to_grammar
from guided.frontends.json_schema.documents.values import _nesting
from guided.frontends.lark import read_lark

count = 1_000_000
try:
    print(repr({call}))
except GuidedError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (f"read_lark({f'{START}A: /{EMPTY_TEXTS}/'!r})", "a lookahead at the edge"),
        (f"read_lark({f'start: A{chr(10)}A: /{EMPTY_GROUPS}/ | /b+/'!r})", "unknown extension"),
        (f"read_lark({f'start: A{chr(10)}%declare B{chr(10)}A: /{EMPTY_GROUPS}/ | /b+/'!r})", "unknown extension"),
        (r"""read_lark('start: A\nA: "a"\n%ignore A' + ' ' * count)""", "Grammar"),
        (r"""read_lark('start: "a"' + '\n' * count + '%%%')""", "unexpected"),
        (r"""read_lark('start: "a"' + '\r\n' * count + 'x: "unterminated')""", "unexpected"),
        ("""gbnf_to_grammar('root[max_chars=1' + ' ' * count + 'x] ::= "a"')""", "malformed"),
        ("""gbnf_to_grammar('root[a' + ' ' * count + 'x] ::= "a"')""", "malformed"),
        ("""gbnf_to_lark('root ::= "a"{1' + ' ' * count)""", "unexpected character"),
        (r"""_nesting('[' * 3 + '"' + '\\"' * count)""", "3"),
        ("""_LARK_RULE.search('a' + ' ' * count)""", "None"),
        (r"""_LARK_RULE.search('a{\n' * count)""", "None"),
        ("""_count_parts('probedone' * count + 'probedtwo')""", "1"),
    ],
)
def test_it_ends(call: str, message: str) -> None:
    root = Path(__file__).parent.parent
    command = [sys.executable, "-c", READ.replace("{call}", call)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300, check=True)
    assert message in done.stdout
