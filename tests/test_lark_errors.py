"""Errors in texts of Lark's own notation, and in imported files: their location, in terms of the author's text.
test_lark_dialect_errors.py tests texts with extensions.
"""

from __future__ import annotations

import os
import sys
import threading

import pytest

import guided
from guided.errors import GuidedError, LimitExceeded, SpecError

pytest.importorskip("lark", reason="lark is not installed")

COMPILER = guided.GrammarCompiler(guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256]))
DEEP = 100_000
DEEP_TEMPLATES = "start: " + "t{" * 450 + '"a"' + "}" * 450 + "\nt{x}: x"

# text, a part of the error, the marked line, and the marked text in it
MALFORMED = [
    ('start: "x" /a(/', "terminal /a(/: missing ), unterminated subpattern", 1, "("),
    ('start: "x"\n  | /b/ /a{3,1}/', "terminal /a{3,1}/: min repeat greater than max repeat", 2, "3"),
    (r'start: "x" /(a)\1/', r"terminal /(a)\1/: back-references are not supported", 1, r"\1"),
    ('start: "x" /a(?!b)/', "terminal /a(?!b)/: a lookahead at the edge", 1, "/a(?!b)/"),
    (r'start: "x" /\bz/', r"terminal /\bz/: an anchor or a word boundary", 1, r"/\bz/"),
    ('start: "y" /((a{0,300}b){0,300}c){1,300}/', "more than 200000 states", 1, "/((a{0,300}b){0,300}c){1,300}/"),
    ("start: A\nA: /(ab){20001,}/", "A: its shortest text has more than 20000 characters", 2, "/(ab){20001,}/"),
    ("start: A\nA: /(a{1000}){1000}/", "terminal A: the pattern needs more than 200000 states", 2, "/(a{1000}){1000}/"),
    (
        "start: A\nA: /(a|b)*a(a|b){18}/",
        "terminal A: the pattern needs more than 20120 states",
        2,
        "/(a|b)*a(a|b){18}/",
    ),
    ('start: "y" /a?/', "terminal /a?/ matches the empty string", 1, "/a?/"),
    ("start: A\nA: /[ab]/\n | /c?/", "terminal A matches the empty string", 2, "A"),
    ('start: A\nA: "b" /a(/ | /x/', "the regular expression '/a(/': missing )", 2, "("),
    ('start: A\nA: "b" /a(/', "terminal A: missing )", 2, "("),
    ('start: "a"\n%ignore "b" | /c(/', "the regular expression '/c(/': missing )", 2, "("),
    ('start: "a"\n%ignore /c(?!a)/', "terminal /c(?!a)/: a lookahead", 2, "/c(?!a)/"),
    ('start: x{"a"}\nx{y}: y /b(/', "terminal /b(/: missing )", 2, "("),
    ('start: "b"\nfoo: "a"~1..1000000', "limit 'nodes' exceeded: 1,000,000 > 10,000", 2, "1..1000000"),
    ('start: "a" "b"~5..2', "the upper bound, 2, is less than the lower bound, 5", 1, "5..2"),
    ('start: "aa".."z"', "the ends of a range must be strings of one character", 1, '"aa"'),
    ('start: "a".."zz"', "the ends of a range must be strings of one character", 1, '"zz"'),
    ('start: "z".."a"', "the range ends before it begins", 1, '"z".."a"'),
    ('start: A\nA: "z".."a"', "the range ends before it begins", 2, '"z".."a"'),
    (r'start: "x" "\ud800"', "contains a lone surrogate", 1, r'"\ud800"'),
    ('start: "x"\n | B', "Terminal 'B' used but not defined", 2, "B"),
    ("start: a\na: A\n%declare A", "the terminal A is declared, but not defined", 2, "A"),
    ('start: b "c"\n%declare b', "the rule b is declared, but not defined", 1, "b"),
    ('start: t{"a"}\nt{x,y}: x y', "Wrong number of template arguments", 1, "t"),
    ('start: "a"\n%ignore WSX', "'WSX'", 2, "WSX"),
    ('start: "a"\n%ignore "b" c\nc: "d"', "inside terminals (c in %ignore)", 3, "c"),
    ("start: NOPE\n%import common.NOPE", "Terminal 'NOPE' used but not defined", 1, "NOPE"),
    ("start: x\n%import nowhere.x", "there is no grammar 'nowhere.lark' to import", 2, "nowhere"),
    ('start: "x\x0b"\na: b', "Rule 'b' used but not defined", 2, "b"),  # only a line feed ends a line
    ("start: " + "(" * DEEP + '"a"' + ")" * DEEP, "limit 'depth' exceeded: 501 > 500", 1, "("),
    ("start: " + "(" * DEEP, "limit 'depth' exceeded: 501 > 500", 1, "("),
    ("start: A\nA: " + "[" * DEEP + '"a"' + "]" * DEEP, "limit 'depth' exceeded: 501 > 500", 2, "["),
    ("start: A\nA: " + "(" * DEEP + '"a" & "b"' + ")" * DEEP, "limit 'depth' exceeded: 501 > 500", 2, "("),
]


def marked(error: GuidedError) -> tuple[int, str]:
    return error.text.count("\n", 0, error.span[0]) + 1, error.text[slice(*error.span)]


@pytest.mark.parametrize(("text", "message", "line", "place"), MALFORMED, ids=[row[1][:40] for row in MALFORMED])
def test_errors_show_the_malformed_place(text: str, message: str, line: int, place: str) -> None:
    with pytest.raises(GuidedError) as caught:
        COMPILER.compile_lark(text)
    error = caught.value
    assert message in str(error)
    assert (error.text, error.file, *marked(error)) == (text, "", line, place), str(error)
    assert f"(line {line}, column " in str(error) and "__" not in str(error) and "Error" not in str(error)


@pytest.mark.parametrize("text", ["start: " + "[" * 450 + '"a"' + "]" * 450, DEEP_TEMPLATES])
def test_the_end_of_the_stack_is_reported(text: str) -> None:
    """Lark reads brackets by recursion. The limit is Python's own, which other code may have raised."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    try:
        with pytest.raises(GuidedError, match="nest too deeply for Python's stack") as caught:
            COMPILER.compile_lark(text)
    finally:
        sys.setrecursionlimit(limit)
    assert marked(caught.value)[1] in "[{"


def test_the_brackets_of_strings_and_comments_do_not_nest() -> None:
    many = "(" * 600
    text = f'start: "{many}" | /[({many}]/ // {many}\n'
    matcher = guided.GrammarMatcher(COMPILER.compile_lark(text))
    assert matcher.accept_string(many) and matcher.is_accepting()
    matcher = guided.GrammarMatcher(COMPILER.compile_lark('start: "~99999999"'))
    assert matcher.accept_string("~99999999") and matcher.is_accepting()


# text, a part of the error, a part of the hint, the marked line, and the marked text in it
EMPTY = [
    ("start: x\nx[max_tokens=0]: /a+/", "the terminal /a+/ matches no text", "max_tokens=0 leaves", 2, "/a+/"),
    ("start: x\nx[max_chars=2]: /aaa/", "the terminal /aaa/ matches no text", "max_chars=2 is less", 2, "/aaa/"),
    ("start: A\nA: /a/ & /b/", "the terminal /a/ & /b/ matches no text", "no text in common", 2, "/a/ & /b/"),
    (r'start: "x" A' + "\n" + r"A: /[^\s\S]/", "the terminal A matches no text", "empty sets", 2, r"/[^\s\S]/"),
    ('start: "x" (a|A)\na: "b" a\nA: /[^\\s\\S]/', "the terminal A matches no text", "empty sets", 3, "/[^\\s\\S]/"),
    ('start: a\na: "x" a', "the rule a always needs itself", "add an alternative that does not", 2, "a"),
    ('start: "q" a\na: b c\nc: "x"\nb: "z" a | a', "the rule a always needs itself", "", 2, "a"),
    ('start: "x" a <[1]>\na: <[5]> a', "the rule a always needs itself", "add an alternative that does not", 2, "a"),
    (
        'start: A "b"\nA: /[ab]+/', """A takes all of 'ab', where the rules need A and then "b\"""",
        'let A exclude the text that follows, or use semantics="scannerless"', 2, "/[ab]+/",
    ),
    ("start: w w\nw: WORD\nWORD: /[a-z]+/", "takes all of 'aa', where the rules need WORD and then WORD", "let WORD", 3,
     "/[a-z]+/"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message", "hint", "line", "place"), EMPTY, ids=[row[1] for row in EMPTY])
def test_why_nothing_is_generated(text: str, message: str, hint: str, line: int, place: str) -> None:
    with pytest.raises(guided.SpecError) as caught:
        COMPILER.compile_lark(text, allow_special_tokens=True)
    error = caught.value
    assert error.message.endswith(message) and hint in error.hint, str(error)
    assert (error.text, *marked(error)) == (text, line, place), str(error)


def test_a_basic_lexer_tries_terminals_that_the_rules_do_not_have_there() -> None:
    text = 'start: IF NAME\nIF: "if"\nNAME: /[a-z]+/'
    with pytest.raises(guided.SpecError, match="NAME takes all of 'ifa', where the rules need IF and then NAME"):
        COMPILER.compile_lark(text, lexer="basic")
    assert COMPILER.compile_lark(text) is not None


# kind, text, token, a part of the hint, the marked text
TOKENS = [
    ("lark", 'start: "<|nope|>" <|nope|>', "<|nope|>", "or the id", 'start: "<|nope|>" ', "<|nope|>"),
    ("lark", 'start: "a" <tol> // <tol>', "<tol>", "did you mean <tool>?", 'start: "a" ', "<tol>"),
    ("lark", 'start: "a"\n | <[1,300-305]>', 300, "name the token", 'start: "a"\n | ', "<[1,300-305]>"),
    ("lark", 'start: %lark { start: "a" <nope> }', "<nope>", "or the id", 'start: %lark { start: "a" ', "<nope>"),
    ("gbnf", 'root ::= "a" # <tol>\n | <tol>', "<tol>", "did you mean <tool>?", 'root ::= "a" # <tol>\n | ', "<tol>"),
    ("gbnf", "root ::= <[300]>", 300, "name the token", "root ::= ", "<[300]>"),
    (
        "structural_tag", '{"type": "structural_tag", "format": {"type": "token", "token": "<tol>"}}', "<tol>",
        "did you mean <tool>?", '{"type": "structural_tag", "format": {"type": "token", "token": "', "<tol>",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "token", "hint", "before", "place"), TOKENS)
def test_tokens_that_the_vocabulary_lacks_are_shown_in_the_text(
    kind: str, text: str, token: int | str, hint: str, before: str, place: str
) -> None:
    tokens = [*(bytes([byte]) for byte in range(256)), None, None]
    vocabulary = guided.Vocabulary(tokens, eos_token_ids=[256], special_tokens={257: "<tool>"})
    compiler = guided.GrammarCompiler(vocabulary)
    with pytest.raises(guided.VocabularyError) as caught:
        getattr(compiler, f"compile_{kind}")(text, allow_special_tokens=True)
    error = caught.value
    assert error.token == token and hint in error.hint
    assert (error.text, error.span) == (text, (len(before), len(before) + len(place))), str(error)
    assert "^" * len(place) in str(error)


FILES = {
    "open": 'X: "a\n',
    "lacks": '// a comment\nx: y "z"\n',
    "pattern": 'x: "b" | X\nX: /a(/\n',
    "nameless": '\nx: "x" /a(?!b)/\n',
    "reference": "x: INNER\nINNER: /(a)\\1/\n",
    "empty": 'A: "b"\nX: /a?/\n',
    "twice": 'x: "x"\nx: "y"\n',
    "long": '\nx: "x"~1..100000\n',
    "range": 'x: "x".."yy"\n',
    "recursive": 'X: B\nB: "x" X\n',
    "rule": 'X: b\nb: "x"\n',
    "many": "\nx: " + '("a"|"b") ' * 40 + "\n",
    "deep": "x: " + "(" * 600 + "\n",
    "nowhere": "%import .missing.x\ny: x\n",
    "folder/outer": "%import .inner.z\nx: z\n",
    "folder/inner": "z: q\n",
    "itself": '%import .itself.x\nx: "x" x\n',
    "one": '%import .two.y\nx: y "x"\n',
    "two": '%import .one.x\ny: x "y"\n',
    "common_user": "%import common.NOPE\nx: NOPE\n",
}

# the import, a part of the error, its file, the marked line, and the marked text in it
IMPORTED = [
    ("open.X", "unexpected input", "open", 1, '"'),
    (".open.X", "unexpected input", "open", 1, '"'),
    ("lacks.x", "Rule 'y' used but not defined (in rule x)", "lacks", 2, "y"),
    ("pattern.x", "terminal X: missing )", "pattern", 2, "("),
    ("nameless.x", "terminal /a(?!b)/: a lookahead at the edge", "nameless", 2, "/a(?!b)/"),
    ("reference.x", "terminal INNER: back-references are not supported", "reference", 2, r"\1"),
    ("empty.X", "terminal X matches the empty string", "empty", 2, "/a?/"),
    ("twice.x", "Rule 'x' defined more than once", "twice", 2, "x"),
    ("long.x", "limit 'nodes' exceeded: 100,000 > 10,000", "long", 2, "1..100000"),
    ("range.x", "the ends of a range must be strings of one character", "range", 1, '"yy"'),
    ("recursive.X", "Recursion in terminal 'X'", "recursive", 1, "X"),
    ("rule.X", "Rules aren't allowed inside terminals (b in X)", "rule", 2, "b"),
    ("many.x", "rule x: move its choices", "many", 2, "x"),
    ("deep.x", "limit 'depth' exceeded: 501 > 500", "deep", 1, "("),
    ("nowhere.y", "there is no grammar 'missing.lark' to import", "nowhere", 1, "missing"),
    ("folder.outer.x", "Rule 'q' used but not defined (in rule z)", "folder/inner", 1, "q"),
    ("itself.x", "a file imports itself: {0}/itself.lark -> {0}/itself.lark", "itself", 1, "itself"),
    ("one.x", "a file imports itself: {0}/one.lark -> {0}/two.lark -> {0}/one.lark", "two", 1, "one"),
    ("common_user.x", "Terminal 'NOPE' used but not defined (in rule x)", "common_user", 2, "NOPE"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("grammars")
    (out / "folder").mkdir()
    for name, text in FILES.items():
        (out / f"{name}.lark").write_text(text)
    (out / "latin.lark").write_bytes(b'x: "\xff"\n')
    return str(out)


@pytest.mark.parametrize("has_extension", [False, True])
@pytest.mark.parametrize(("name", "message", "file", "line", "place"), IMPORTED, ids=[row[0] for row in IMPORTED])
def test_an_error_in_an_imported_file_is_shown_in_that_file(
    folder: str, name: str, message: str, file: str, line: int, place: str, has_extension: bool
) -> None:
    if name == "empty.X" and has_extension:
        return  # the text is then read without a lexer, so such a terminal is allowed
    text = f"start: {name.split('.')[-1]}{' <[5]>' * has_extension}\n%import {name}"
    with pytest.raises(GuidedError) as caught:
        COMPILER.compile_lark(text, import_paths=[folder], allow_special_tokens=True)
    error = caught.value
    assert message.format(folder) in str(error)
    assert (error.file, error.text, *marked(error)) == (f"{folder}/{file}.lark", FILES[file], line, place), str(error)
    assert f"({folder}/{file}.lark, line {line}, column " in str(error) and "__" not in str(error).replace(folder, "")


def test_an_import_that_cannot_be_read_is_shown_in_the_text(folder: str) -> None:
    for name, message in (("latin", "latin.lark is not UTF-8 text"), ("folder", "there is no grammar 'folder.lark'")):
        with pytest.raises(guided.SpecError, match=message) as caught:
            COMPILER.compile_lark(f"start: x\n%import {name}.x", import_paths=[folder])
        assert (caught.value.file, *marked(caught.value)) == ("", 2, name)


def test_an_import_that_a_file_does_not_define_is_an_error_where_it_is_used(folder: str) -> None:
    with pytest.raises(guided.SpecError, match="used but not defined") as caught:
        COMPILER.compile_lark("start: w\n%import empty.w", import_paths=[folder])
    assert caught.value.hint == f"it is imported from {folder}/empty.lark, which does not define it"
    assert COMPILER.compile_lark('start: "a"\n%import empty.w', import_paths=[folder]) is not None


def test_limits_of_the_caller_hold_for_imported_files(folder: str) -> None:
    """No more of a file is read than they allow."""
    small = guided.GrammarCompiler(COMPILER.vocabulary, limits=guided.Limits(spec_length=100))
    with pytest.raises(LimitExceeded, match=r"limit 'spec_length' exceeded: 101 > 100 .*many.lark"):
        small.compile_lark("start: x\n%import many.x", import_paths=[folder])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_in_a_folder_of_imports_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "parts.lark")
    errors = []

    def compile_import():
        with pytest.raises(SpecError, match=r"there is no grammar 'parts\.lark' to import") as caught:
            COMPILER.compile_lark("start: A\n%import parts.A", import_paths=[tmp_path])
        errors.append(caught.value)

    thread = threading.Thread(target=compile_import, daemon=True)
    thread.start()
    thread.join(timeout=60)
    assert len(errors) == 1
