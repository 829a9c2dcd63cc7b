"""Lark's grammars without a lexer: the texts of their languages. The judge is Lark's own Earley parser."""

from __future__ import annotations

import itertools
import random
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from guided import GrammarCompiler, GrammarMatcher, Vocabulary
from guided.automaton.reference.language import accepts
from guided.errors import GuidedError, SpecError, UnsupportedError
from guided.limits import Limits
from tests.effort import draws
from tests.lark_support import lark_to_grammar, lark_to_lexed

lark = pytest.importorskip("lark", reason="lark is not installed")

TERMINALS = [
    '"a"',
    '"b"',
    '"ab"',
    '"aa"',
    "/a+/",
    "/b+/",
    "/[ab]+/",
    "/ab?/",
    "/a*b/",
    "/b[ab]/",
    '"B"i',
    "/a+?/",
    "/a.*?b/",
    "/a|ab/",
]

IGNORED = ['"c"', "/c+/", "/c[ab]*/", "/c(a|ab)/", "/b?c/", "/ca?b?/", "/c[^c]*?c/", '"a"', "/ab*/", "/(ca)+/"]


@st.composite
def grammars(draw):
    """Rules over some terminals: recursive in any way, with empty alternatives, and sometimes an ignored terminal."""
    names = [f"T{number}" for number in range(draw(st.integers(1, 4)))]
    rules = ["start", *(f"r{number}" for number in range(draw(st.integers(0, 2))))]
    lines = [f"{name}: {draw(st.sampled_from(TERMINALS))}" for name in names]
    for rule in rules:
        symbols = st.lists(st.sampled_from([*names, *names, *rules]), max_size=3).map(" ".join)
        lines.append(f"{rule}: {' | '.join(draw(st.lists(symbols, min_size=1, max_size=3)))}")
    lines += [f"%ignore {each}" for each in draw(st.lists(st.sampled_from(IGNORED), max_size=2, unique=True))]
    return "\n".join(lines) + "\n"


def parses(parser, text: str) -> bool:
    try:
        parser.parse(text)
    except lark.exceptions.LarkError:
        return False
    except RuntimeError as error:  # "... Please report this bug": Lark's Earley parser on some cyclic grammars
        assume("report this bug" not in str(error))
        raise
    return True


@given(grammars(), st.lists(st.text("abcB", max_size=6), max_size=12))
def test_the_language_matches_larks_earley_parser(text, samples):
    try:
        parser = lark.Lark(text, parser="earley", lexer="dynamic_complete")
    except lark.exceptions.LarkError:
        assume(False)
    try:
        grammar = lark_to_grammar(text)
    except UnsupportedError as error:
        assert "which is ignored, may extend past the end of" in error.reason
        assume(False)
    except SpecError as error:
        assert "generates nothing" in error.message
        assert not any(parses(parser, "".join(p)) for k in range(5) for p in itertools.product("ab", repeat=k))
        return
    for sample in samples:
        assert accepts(grammar, sample.encode()) == parses(parser, sample), sample


PUBLIC = {
    "expressions": (
        """
        ?start: sum
        ?sum: product | sum "+" product -> add | sum "-" product -> sub
        ?product: atom | product "*" atom -> mul | product "/" atom -> div
        ?atom: NUMBER -> number | "-" atom -> neg | "(" sum ")"
        %import common.NUMBER
        %ignore " "
        """,
        ["1+2*3", "-(1)", "1.5e3 / 2", " 1 ", "((2))"],
        ["", "1+", "()", "1 2"],
    ),
    "json": (
        """
        ?start: value
        ?value: object | array | ESCAPED_STRING -> string | SIGNED_NUMBER -> number | "true" | "false" | "null"
        array: "[" [value ("," value)*] "]"
        object: "{" [pair ("," pair)*] "}"
        pair: ESCAPED_STRING ":" value
        %import common.ESCAPED_STRING
        %import common.SIGNED_NUMBER
        %import common.WS
        %ignore WS
        """,
        ['{"a": [1, -2.5, null]}', "[]", ' "x\\"y" ', '{"k" : {"l": true}}'],
        ["", "{a: 1}", "[1,]", "nul", '["a" "b"]', '"a"b"'],
    ),
    "templates": (
        """
        start: list{item, ","}
        list{x, sep}: x (sep x)*
        item: /[a-z]+/ | "<" list{item, ";"} ">"
        """,
        ["a", "a,b,c", "<a;b>,c", "<<x>>"],
        ["", "a,", "a;b", "<a,b>"],
    ),
    "repetitions": (
        'start: "a" ~ 2..3 B? ("c" | "d")* ["e"]\nB: "b" ~ 2\n',
        ["aa", "aaabb", "aacdcd", "aabbe"],
        ["a", "aaaa", "aab", "aae e"],
    ),
    "ranges and flags": (
        'start: "a".."f" /x.y/s "SeLecT"i\n',
        ["ax\nyselect", "fx.ySELECT"],
        ["gx.yselect", "ax.yselec"],
    ),
    "extended terminals": (
        'start: NAME\nNAME: /[a-z]+/\n%extend NAME: "42"\n',
        ["abc", "42"],
        ["4", "", "a4"],
    ),
    "a terminal of terminals": (
        'start: HEX\nHEX: "0x" DIGIT+\nDIGIT: "0".."9" | "a".."f"\n',
        ["0x1f", "0x0"],
        ["0x", "1f"],
    ),
}


@pytest.mark.parametrize("name", PUBLIC)
def test_grammars_as_people_write_them(name):
    text, good, bad = PUBLIC[name]
    text = re.sub(r"(?m)^ +", "", text)
    grammar = lark_to_grammar(text)
    parser = lark.Lark(text, parser="earley", lexer="dynamic_complete")
    for sample in good:
        assert accepts(grammar, sample.encode()), sample
        assert parses(parser, sample), sample
    for sample in bad:
        assert not accepts(grammar, sample.encode()), sample
        assert not parses(parser, sample), sample
    rng = random.Random(name)
    for sample in [*good, *bad]:  # and near misses
        for _ in range(draws(6)):
            at = rng.randrange(len(sample) + 1)
            other = sample[:at] + rng.choice([*'a1 ,"(])}', ""]) + sample[at + rng.randrange(2) :]
            assert accepts(grammar, other.encode()) == parses(parser, other), other


def test_ignored_terminals_take_their_longest_match():
    text = "start: WORD+\nWORD: / ?[a-z]+/\n%ignore /#.*/\n%ignore / +/\n"
    grammar = lark_to_grammar(text)
    parser = lark.Lark(text, parser="earley", lexer="dynamic_complete")
    for sample, good in {"a b": True, "  a": True, "#a b": False, "a #!": True, "a # b\n": False, "a\n": False}.items():
        assert accepts(grammar, sample.encode()) == parses(parser, sample) == good, sample
    with pytest.raises(UnsupportedError) as caught:
        lark_to_grammar('start: "a" "\\n"\n%ignore /#(\\n!)?/\n')
    assert "is ignored, may extend past the end" in caught.value.reason
    assert "with a lexer" in caught.value.hint


def test_a_file_is_imported_only_from_the_callers_folders(tmp_path):
    (tmp_path / "words.lark").write_text('WORD: "w"+\nword: WORD\n')
    text = "start: word\n%import words.word\n"
    with pytest.raises(SpecError, match=r"there is no grammar 'words.lark' to import"):
        lark_to_grammar(text)
    assert accepts(lark_to_grammar(text, import_paths=[str(tmp_path)]), b"www")


@pytest.mark.parametrize(
    ("text", "message", "hint", "marked"),
    [
        ("start: sum\nsmu: A\nA: /a/\n", "sum", "did you mean smu?", "sum"),
        ("start: (A\nA: /a/\n", "", "", None),
        ("start: A\nA: /(/\n", "", "", None),
        ("start: A\nA: /a(?!b)/\n", "terminal A: a lookahead at the edge", "move the condition", None),
        ("start: A\nA: /\\ba/\n", "terminal A: an anchor or a word boundary at the edge", "", None),
        ("start: A\nA: /(a)\\1/\n", "terminal A: ", "", None),
        ("start: A\n%declare A\n", "the terminal A is declared, but not defined", "define it", None),
        ("begin: A\nA: /a/\n", "there is no start rule 'start'", "", None),
        ("stat: A\nA: /a/\n", "there is no start rule 'start'", "did you mean start='stat'?", None),
    ],
)
def test_error_messages(text, message, hint, marked):
    with pytest.raises(GuidedError) as caught:
        lark_to_grammar(text)
    error = caught.value
    assert message in str(error) and hint in getattr(error, "hint", "")
    if marked is not None:
        start, end = error.span
        assert text[start:end] == marked


def test_bombs_end_soon():
    for text in (
        'start: "a" ~ 1000000000\n',
        'start: "a" ~ 1..999999999999999999999999\n',
        "start: " + "(" * 5000 + '"a"' + ")" * 5000 + "\n",
    ):
        with pytest.raises(GuidedError):
            lark_to_grammar(text, limits=Limits())


def test_a_grammar_is_compiled_and_cached():
    vocabulary = Vocabulary([bytes((byte,)) for byte in range(256)], eos_token_ids=[256])
    compiler = GrammarCompiler(vocabulary)
    text = 'start: "a" start "b" |\n'
    grammar = compiler.compile_lark(text, semantics="scannerless")
    assert grammar.kind == "lark" and compiler.compile_lark(text, semantics="scannerless") is grammar
    matcher = GrammarMatcher(grammar)
    assert matcher.accept_string("aabb") and matcher.is_accepting() and not matcher.accept_string("b")
    text = 'start: A | A "a" "b"\nA: /a+/'
    for semantics, accepted in ("lexer", False), ("scannerless", True):
        matcher = GrammarMatcher(compiler.compile_lark(text, semantics=semantics))
        assert (matcher.accept_string("aab") and matcher.is_accepting()) is accepted  # an A of two, or of one
    with pytest.raises(ValueError, match="semantics must be 'lexer' or 'scannerless', not 'lalr'"):
        compiler.compile_lark(text, semantics="lalr")


def test_a_text_reads_no_file_of_the_current_folder(tmp_path, monkeypatch):
    """A text from a client has no folder, and must not reveal which files exist."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.lark").write_text('X: "x"')
    (tmp_path / "folder.lark").mkdir()
    for name in ("here", ".here", "folder", ".folder", "nowhere"):
        with pytest.raises(SpecError, match=f"there is no grammar '{name.strip('.')}.lark' to import"):
            lark_to_grammar(f"start: X\n%import {name}.X")
    assert lark_to_grammar("start: X\n%import .here.X", import_paths=[str(tmp_path)]) is not None


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ('start: "b"\nstart: "a"', 2, "more than once", ""),
        ('start: A\nA: "a" A', 2, "Recursion in terminal", ""),
        ('start: "a"\n%ignore WS', 2, "not defined", ""),
        ('start: A\nA: "\\x"', 2, "contains an escape", ""),
        ('root ::= "a"', 1, "GBNF", "--gbnf"),
        ('start: A\nA: "abc', 2, "unexpected input", "a string must end with"),
        ('start = "a"', 1, "unexpected input", "name: "),
        ("start: \u201ca\u201d", 1, "unexpected input", "straight quotes"),
        ("start: T0\n" + "".join(f'T{n}: "x" T{n + 1}\n' for n in range(300)) + 'T300: "x"', 0, "depth", "T0"),
    ],
)
def test_slips_are_shown_where_they_are(text, line, message, hint):
    with pytest.raises(GuidedError, match=message) as error:
        lark_to_grammar(text)
    assert hint in str(error.value) and (not line or f"(line {line}, " in str(error.value))


@pytest.mark.parametrize("text", ['start: "\\ud800" "x"', 'start: A\nA: "\\udc00"i', 'start: A | @x\nA: "\\ud800"'])
def test_a_lone_surrogate_is_refused(text):
    with pytest.raises(SpecError, match="a lone surrogate"):
        lark_to_lexed(text, grammars={"x": 'start: "x"'})
