"""Indentation as in Lark's indenter: programs, and refused values of `postlex`."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from guided.automaton.reference.lexer import LexedLanguage
from guided.errors import SpecError, UnsupportedError
from guided.ir.indentation import Indentation
from tests.lark_support import lark_to_lexed

lark = pytest.importorskip("lark", reason="lark is not installed")

from lark.indenter import Indenter, PythonIndenter  # noqa: E402 - needs lark

from tests.lark_judge import lalr, parses  # noqa: E402
from tests.lexer_support import Blocks, near  # noqa: E402

TREE = r"""
?start: _NL* tree
tree: NAME _NL [_INDENT tree+ _DEDENT]
%import common.CNAME -> NAME
%import common.WS_INLINE
%declare _INDENT _DEDENT
%ignore WS_INLINE
_NL: /(\r?\n[\t ]*)+/
"""
PROGRAM = r"""
start: (_NEWLINE | statement)*
?statement: simple _NEWLINE | "if" test ":" suite ["else" ":" suite] | "def" NAME "(" [NAME ("," NAME)*] ")" ":" suite
simple: NAME "=" test | "pass" | "return" [test] | test
suite: simple _NEWLINE | _NEWLINE _INDENT statement+ _DEDENT
?test: NAME | NUMBER | "[" [test ("," test)* ","?] "]" | NAME "(" [test ("," test)*] ")" | "(" test ")" | STRING
NAME: /[^\W\d]\w*/
NUMBER: /\d+/
STRING: /'[^'\n]*'/
COMMENT: /#[^\n]*/
_NEWLINE: ( /\r?\n[\t ]*/ | COMMENT )+
LPAR: "("
RPAR: ")"
LSQB: "["
RSQB: "]"
%ignore /[\t \f]+/
%ignore /\\[\t \f]*\r?\n/
%ignore COMMENT
%declare _INDENT _DEDENT
"""
EXAMPLES = {
    "a tree": (
        TREE,
        Blocks,
        [
            "a\n",
            "\n\na\n    b\n    c\n        d\n        e\n    f\n        g\n",
            "a\n\tb\n  c\n",
            "a\n b\n\n \n c \n",
            " a\n",
        ],
        ["", "a", "a\nb\n", "a\n  b\n c\n", "a\n  b\n   c\n  d\n e\n", "a b\n"],
    ),
    "a program": (
        PROGRAM,
        PythonIndenter,
        [
            "",
            "# nothing\n",
            "  x\n",
            "x = 1\n",
            "def f(a, b):\n    if a:\n        return [b,\n  a]\n    # said\n\n    else:\n        pass\nf(x, y)\n",
            "if x: y\nelse:\n\tz\n        z\n",
            "if x:\n  # a note\n  y # another\n  \\\n  z(1\n)\n",
            "if a:\n if b:\n  c\n",
            "x = (1\n\n#\n)\n",
        ],
        [
            "if x:\ny\n",
            "if x:\n  y\n z\n",
            "x = (1\n",
            "x = 1)\n",
            "x",
            "x # not a line",
            "if x:\n  y\n   z\n",
            "if x: if y: z\n",
            "ifx: y\n",
            "else:\n  x\n",
        ],
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_texts_are_indented_as_lark_indents_them(name):
    text, indenter, good, bad = EXAMPLES[name]
    parser, rng = lalr(text, postlex=indenter()), random.Random(name)
    twin = LexedLanguage(*lark_to_lexed(text, postlex=indenter()))
    for sample in [*good, *bad]:
        assert twin.accepts(sample.encode()) == parses(parser, sample) == (sample in good), sample
        for _ in range(12):
            other = near(rng, sample, "\n \t()#a:", 1)
            assert twin.accepts(other.encode()) == parses(parser, other), other


def test_programs_of_larks_own_grammar_of_python():
    text = (Path(lark.__file__).parent / "grammars" / "python.lark").read_text()
    # Its numbers and strings look beyond their borders. These are the same, but strings of one line are tried last.
    text = text.replace(" /(?![1-9])/", "")
    text = re.sub(r"(?m)^STRING:.*$", lambda _: r"""STRING: /[rubf]?("(\\.|[^"\\\n])*"|'(\\.|[^'\\\n])*')/i""", text)
    text = re.sub(r"(?m)^LONG_STRING:.*$", lambda _: r'''LONG_STRING.1: /[rubf]?"""(\\.|[^\\])*?"""/is''', text)
    parser = lark.Lark(text, parser="lalr", start="file_input", postlex=PythonIndenter())
    twin = LexedLanguage(*lark_to_lexed(text, start="file_input", postlex=PythonIndenter()))
    good = ['x = """a\nb""" "c" # d\n', "ina\nin\n", "while a: pass\n", "def f(a):\n  return [a,\n a]\n"]
    for sample in [*good, "if x:\ny\n", "(1\n", ")\n", "if a:\n  b\n c\n"]:
        assert twin.accepts(sample.encode()) == parses(parser, sample) == (sample in good), sample


def test_an_indenter_is_described():
    _, lexer = lark_to_lexed(PROGRAM, postlex=PythonIndenter())
    brackets = [frozenset(names) for names in (PythonIndenter.OPEN_PAREN_types, PythonIndenter.CLOSE_PAREN_types)]
    assert lexer.indentation == Indentation("_NEWLINE", "_INDENT", "_DEDENT", *brackets, 8)
    assert not {"_INDENT", "_DEDENT"} & {terminal.name for terminal in lexer.terminals}


class Handled(Blocks):
    def handle_NL(self, token):
        yield token


class Nameless(Blocks):
    NL_type = None


class Listless(Blocks):
    OPEN_PAREN_types = "LPAR"


class Tabless(Blocks):
    tab_len = 1.5


@pytest.mark.parametrize(
    ("postlex", "error", "message"),
    [
        (lambda stream: stream, UnsupportedError, 'postlex must be "python" or an instance of lark.indenter'),
        ("pyton", UnsupportedError, 'postlex must be "python" or an instance of lark.indenter.Indenter, not'),
        (Blocks, UnsupportedError, "create an instance of it"),
        (Indenter, UnsupportedError, "create an instance of it"),
        (Handled(), UnsupportedError, "Handled overrides handle_NL of lark.indenter.Indenter"),
        (Nameless(), SpecError, "NL_type of postlex must be the name of a terminal, not None"),
        (Listless(), SpecError, "OPEN_PAREN_types of postlex must be a list of terminal names, not 'LPAR'"),
        (Tabless(), SpecError, "tab_len of postlex must be a positive number of spaces, not 1.5"),
    ],
)
def test_objects_that_are_not_indenters_are_refused(postlex, error, message):
    with pytest.raises(error, match=re.escape(message)):
        lark_to_lexed(TREE, postlex=postlex)


def test_terminals_without_texts_need_an_indenter():
    with pytest.raises(UnsupportedError, match="the terminal _INDENT is declared, but not defined"):
        lark_to_lexed(TREE)


def test_a_terminal_has_a_text():
    with pytest.raises(SpecError, match="terminal A matches the empty string") as caught:
        lark_to_lexed('start: A "b"\nA: /a*/\n')
    assert "optional in the rules" in caught.value.hint
    lark_to_lexed('start: "b"\nA: /a*/\n')  # an unused one is not read
