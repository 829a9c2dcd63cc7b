"""The C++ reader of Lark's notation and of patterns. The judges are Lark's loader and the Python code."""

from __future__ import annotations

import random
import re
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from guided.errors import GuidedError
from guided.frontends.common.regular_texts import MAX_UNROLLED_POSITIONS, TextAutomaton
from guided.frontends.lark import _lark
from guided.frontends.lark.alphabet import get_alphabet
from guided.frontends.lark.terminal_texts import _share_a_text, make_texts, share_a_text
from guided.frontends.regex.budget import Budget
from guided.frontends.regex.leftmost_match import leftmost_match
from guided.frontends.regex.python_syntax import PythonReader
from guided.ir.nodes import Automaton
from guided.limits import Limits
from tests.effort import draws

lark = pytest.importorskip("lark", reason="lark is not installed")

from lark.utils import get_regexp_width  # noqa: E402 - needs lark

from guided.frontends.lark.dialect import rewrite_extensions  # noqa: E402
from guided.frontends.lark.loader import convert_native, load  # noqa: E402
from guided.frontends.lark.native_grammar import LARGEST_WIDTH, read_grammar  # noqa: E402
from tests.lark_public import PUBLIC  # noqa: E402

LIMITS = Limits()
ROOT = Path(__file__).parent.parent
FILES = sorted([*ROOT.glob("grammars/*.lark"), *ROOT.glob("benchmarks/grammars/*.lark")])
ATOMS = ["A", "_B", "WS", '"x"', '"y"i', '"+"', '"\u00e9"', "/[xy]+/", "/z/i", '"a".."c"', '"else"']
CORRUPTIONS = ["", *'aA_1"/\\|?*+~.:,(){}[]<>!%#\n\r\t\f =-i', "\u00e9", "\x0b", "\u2028"]
PIECES = [
    *"abcik01.|*+?()", "[ab]", "[^a]", "[^\\s\\S]", "[a-c]", "[\\w-]", "[]a]", "[a\\]b]", "[^\\W\\d]", "[\\101]",
    "\\d", "\\w", "\\S", "\\.", "\\n", "\\x41", "\\u212a", "\\07", "\\_", "(?:", "(?i:", "(?s:", "(?is:", "*?", "+?",
    "??", "{2}", "{0}", "{1}", "{0,2}", "{,2}", "{1,}", "{1,2}?", "{", "}", "{}", "{,", "\u00e9", "\u03a3", "\u017f",
    "[k-s]", "\\ud7ff", "[\\ud7ff-\\ue000]", "\\b", "^", "$", "(?=a)", "\\1", "[[a]", "[a--b]", "-", "]",
]  # fmt: skip


def random_text(rng: random.Random) -> str:
    """A text with all statements of Lark's notation, most of them correct."""
    names = ["start", "_b", "c", "t{c}", 't{"x"}', "t{A}", "two{A, t{c}}", "two{/q/, WS}"]

    def atom(depth: int) -> str:
        kind = rng.randrange(9 if depth else 6)
        if kind < 2:
            return rng.choice(names)
        if kind < 6:
            return rng.choice(ATOMS)
        return ("[{}]" if kind == 8 else "({})").format(choice(depth - 1))

    def item(depth: int) -> str:
        return atom(depth) + rng.choice(["", "", "", "", "?", "*", "+", "~2", "~0..1"])

    def choice(depth: int) -> str:
        bar = rng.choice([" | ", "\n  | ", " // comment\n\n  | "] if depth == 2 else [" | "])
        return bar.join(
            " ".join(item(depth) for _ in range(rng.choice((0, 1, 1, 2)))) for _ in range(rng.choice((1, 1, 2)))
        )

    lines = [f"{rng.choice(['', '', '!'])}{name}: {choice(rng.choice((1, 2)))}" for name in ("start", "_b", "c.2")]
    lines += ["t{x}: x | x x" + rng.choice(["", "?", " t{x}"]), "two{x, y}: (x y)* " + rng.choice(["", "two{y, x}"])]
    lines += [rng.choice(['A: "a" | /b+/', 'A.-1: ("ab" | "a".."c" /x?/ | _B)~2', r'A: /\\"\d/ | "\"" "\n" [_B]'])]
    lines.append(rng.choice(['_B.2: "b"', "_B: /b/i?", '_B: "x"']))
    lines.append(rng.choice(['%ignore " "', "%ignore WS", "%ignore /#.*/ A"]))
    imports = ["%import common.WS", "%import common (WS, INT)", "%import common.WS_INLINE -> WS", 'WS: " "']
    lines.append(rng.choice(imports))
    lines += rng.choice([[], [], ["%declare _X"], ["%import lark.rule"], ['%extend A: "q"'], ["%override c: A"]])
    rng.shuffle(lines)
    return "\n".join(lines)


def corrupted(text: str, rng: random.Random) -> str:
    """The text with a few characters removed, replaced or inserted."""
    out = list(text)
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        at = rng.randrange(len(out))
        out[at : at + rng.randrange(3)] = rng.choice(CORRUPTIONS)
    return "".join(out)


def is_native(text: str, folders: tuple[str, ...] = ()) -> bool:
    """Whether the C++ code reads the text. If so, the result must equal Lark's."""
    read = read_grammar(text, "start", folders, LIMITS)
    if read is None:
        return False
    assert rewrite_extensions(text, LIMITS) is None, text
    try:
        found = convert_native(text, "start", read, LIMITS)
    except GuidedError as error:
        with pytest.raises(type(error), match=re.escape(str(error))):
            load(text, "start", folders, LIMITS)
        return True
    expected = load(text, "start", folders, LIMITS)
    for each in found.terminals.values():
        assert each.width is None or [*each.width] == get_regexp_width(each.source), each
    assert [replace(each, width=None) for each in found.terminals.values()] == [*expected.terminals.values()], text
    assert list(found.rules.items()) == list(expected.rules.items()), text
    assert (found.ignored_terminals, found.lines) == (expected.ignored_terminals, expected.lines), text
    definitions = [each.sources.definitions.items() for each in (found, expected)]
    places = [{name: (at.name, at.source.text, at.source.file, at.span) for name, at in each} for each in definitions]
    assert places[0] == places[1], text
    return True


def test_grammars_as_people_write_them() -> None:
    read = [is_native(text) for text in (PUBLIC[name][0] for name in PUBLIC)]
    assert sum(read) > 0.8 * len(read)
    assert sum(is_native(file.read_text(encoding="utf-8")) for file in FILES) >= len(FILES) - 1


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_random_and_corrupted_grammars() -> None:
    rng = random.Random(0)
    read = [is_native(corrupted(random_text(rng), rng)) for _ in range(draws(1000))]
    assert 0.2 < sum(read) / len(read) < 0.9


def test_imported_files(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "words.lark").write_text(
        '%import .inner.letters (LETTER, _mark)\n%import common.INT\n%ignore "-"\n'
        'word: _mark? LETTER+ pair{word}*\npair{x}: "(" [x] ")" | INT\nunused: "u" | UNUSED\nUNUSED: LETTER "u"'
    )
    (tmp_path / "inner" / "letters.lark").write_text("%import .more.X\nLETTER.2: /[a-z]/ | X\n_mark: X | LETTER")
    (tmp_path / "inner" / "more.lark").write_text('X: "x" _Y\n_Y: "y"i')
    (tmp_path / "circle.lark").write_text("%import .circle.a\na: a")
    folders = (str(tmp_path),)
    assert is_native('%import words (word, pair)\nstart: word pair{"a"} "y"', folders)
    assert is_native("%import .words.word -> start\nLETTER: /q/", folders)
    assert is_native("%import words.word\n%import words.pair -> two\nstart: two{word} _words__mark?", folders)
    assert is_native("%import .inner.letters.LETTER -> _LETTER\nstart: [_LETTER] _LETTER\n%ignore _LETTER", folders)
    assert is_native("%import words.word -> WORD\nstart: WORD", folders)  # an error, which both raise
    missing, circle = "%import words.nothing\nstart: nothing", "%import .circle.a\nstart: a"
    for text in (missing, circle, "%import no.file\nstart: file", "%import words.word\nstart: word\nword: start"):
        assert not is_native(text, folders), text


def test_deep_and_large_grammars_are_left_to_lark() -> None:
    for text in (
        "start: " + "(" * 101 + '"a"' + ")" * 101,
        'start: "a"~60',
        "start: " + " ".join(["(A | B)"] * 16) + '\nA: "a"\nB: "b"',
        "start: A40\nA0: /a/\n" + "\n".join(f"A{n + 1}: A{n}" for n in range(40)),
        'start: a{"a"}\na{x}: a{a{x}}',
        "start: A\n" + "\n".join(f"A{'' if n == 0 else n}: A{n + 1} A{n + 1}" for n in range(20)) + '\nA20: "a"',
    ):
        assert not is_native(text), text


def python_states(pattern: str) -> tuple[object, tuple[int, int] | list[int]]:
    budget = Budget(LIMITS)
    tree = PythonReader(pattern, budget, classes="full", ordered=True).read()
    return leftmost_match(tree, budget).states, get_regexp_width(pattern)


def test_patterns_have_the_automata_and_widths_of_the_python_code() -> None:
    rng, count = random.Random(0), 0
    bounds = LIMITS.depth, LIMITS.nodes, MAX_UNROLLED_POSITIONS
    for _ in range(draws(8000)):
        pattern = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 8)))
        pattern += ")" * max(0, pattern.count("(") - pattern.count(")"))
        states = _lark.terminal_states(pattern, get_alphabet(), bounds)
        if states is None:
            continue
        count += 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Python reads expressions that cause a warning
            expected, width = python_states(pattern)
        assert states == expected, pattern
        read = read_grammar(f"start: A\nA: /{pattern}/", "start", (), LIMITS) if pattern[0] not in "*+?" else None
        if read is not None and "\\" not in pattern:
            least, greatest = read.terminals[0][8] or (0, 0)
            assert [least, LARGEST_WIDTH if greatest is None else greatest] == [*width], pattern
    assert count > draws(2000)


def test_ascii_characters_match_what_the_python_code_matches() -> None:
    for code in range(128):
        pattern = f"(?i:{re.escape(chr(code))})"
        expected, _ = python_states(pattern)
        assert _lark.string_states(chr(code), True, get_alphabet()) == expected, pattern


def test_large_patterns_are_left_to_the_python_code() -> None:
    bounds = LIMITS.depth, LIMITS.nodes, MAX_UNROLLED_POSITIONS
    for pattern in ("(ab){2,900}", "(a|b)*a(a|b){14}", "(" * 101 + "a" + ")" * 101, "a{1000}"):
        assert _lark.terminal_states(pattern, get_alphabet(), bounds) is None
    assert _lark.terminal_states("((a))", get_alphabet(), (1, LIMITS.nodes, 0)) is None
    assert _lark.terminal_states("abc", get_alphabet(), (1, 2, 0)) is None


def test_texts_in_common_match_the_python_code() -> None:
    rng, found = random.Random(0), []
    nodes = [
        Automaton(states)
        for pattern in ("a", "ab", "a|ab", "b+", "[ab]*c", "[^\\s\\S]", ".", "(ab)+", "\\w+", "(a|b)*abb", "a[^\\s\\S]")
        if (states := _lark.terminal_states(pattern, get_alphabet(), (9, 99_999, 99))) is not None
    ]
    for first in nodes:
        for second in nodes:
            one = share_a_text(first, second, (make_texts(first), make_texts(second)))
            assert one == _share_a_text(TextAutomaton(first), TextAutomaton(second))
            assert one == share_a_text(first, second, (TextAutomaton(first), make_texts(second)))
            found.append(one)
        for _ in range(50):
            text = "".join(rng.choice("abc") for _ in range(rng.randrange(5)))
            assert make_texts(first).longest_match(text) == TextAutomaton(first).longest_match(text)
    assert 20 < sum(found) < 100
    with pytest.raises(IndexError):
        _lark.Texts(((True, ((1, 2, 5),)),), 0)


def test_ranges_in_unused_templates_are_checked() -> None:
    for ends in ('"ab".."c"', '"z".."a"'):
        assert not is_native(f'start: "a"\nt{{x}}: x {ends}')
    assert is_native('start: "a"\nt{x}: x "a".."z"')
