"""Patterns that the flag u refuses: compared with `RegExp` without flags if node is installed, and with annex B."""

from __future__ import annotations

import random
import re

import pytest

from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.frontends.json_schema import check_json_schema
from guided.frontends.regex import parse_regex, unicode_flag_error
from guided.ir.nodes import Automaton, Chars, Repeat, Seq, Text
from guided.limits import Limits
from tests.effort import every
from tests.json_schema_support import verdicts
from tests.regex_support import NODE, Patterns, ask_node, matches
from tests.test_cli import run

needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed: no RegExp to compare with")

# fmt: off
FRAGMENTS = [
    *"aaabb01789()[]{}?*+|\\^$.-,:=!<>_/cukx\u00e9K\u212a", *["\U0001f600", "\U0001f601"] * 2,
    "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?<a>", "(", ")", ")", ")", "(b)", "(?=a)*", "(?!a)+", "(?=b){0,2}",
    "(?<=a)?", "{1,", "{2}", "{,3}", "{3,1}", "{1}", "{0,2}", "a{1}{2}", "[^", "[a-", "[", "]", "[]", "[^]", "]",
    "[\\w-a]", "[a-\\d]", "[\\d-\\w]", "[^\\s-_]", "[\\b]", "[\\cA]", "[\\c_]", "[\\c1]", "[\\c]", "[\\c*]",
    "[\\1-\\7]", "[\\8]", "[\\p{L}]", "[\U0001f600]", "[^\U0001f600]", "[\\ud83d]", "[^\\ud83d\\ude01]",
    "[\\ude00-\\udfff]", "[^a]", "[^a]{2,3}", ".", ".{3}", "\\_", "\\-", "\\a", "\\e", "\\z", "\\'", "\\\"", "\\@",
    "\\{", "\\}", "\\p", "\\p{L}", "\\P{Lu}", "\\u", "\\u{2}", "\\u004", "\\u0041", "\\x", "\\x4", "\\x41", "\\ud83d",
    "\\ude00", "\\ud83d\\ude00", "\\c", "\\cA", "\\c1", "\\c_", "\\ca*", "\\k", "\\k<a>", "\\k<", "\\0", "\\00",
    "\\07", "\\08", "\\1", "\\2", "\\8", "\\9", "\\18", "\\101", "\\377", "\\400", "\\b", "\\B", "\\w", "\\W", "\\s",
    "\\S", "\\d", "\\D", "^", "$", "|", "+", "*",
]
LETTERS = "ab1_-\\]{}c \x01\x02\x08\n8KpLu{\u00e9\U0001f600\U0001f600\U0001f601"
# fmt: on


def _patterns(seed: int, count: int) -> list[str]:
    """Random patterns that the flag u refuses and that are valid without it."""
    source = random.Random(seed)
    found = ["".join(source.choices(FRAGMENTS, k=source.randint(1, 6))) for _ in range(count)]
    with_u = ask_node([(pattern, "u", []) for pattern in found])
    without = ask_node([(pattern, "", []) for pattern in found])
    for pattern, strict, lenient in zip(found, with_u, without, strict=True):
        if isinstance(strict, str) and isinstance(lenient, str):
            with pytest.raises(SpecError) as caught:
                parse_regex(pattern, dialect="ecma")
            assert caught.value.text == pattern and caught.value.hint
        assert (unicode_flag_error(pattern) is not None) == isinstance(strict, str), pattern
    return [p for p, a, b in zip(found, with_u, without, strict=True) if isinstance(a, str) and not isinstance(b, str)]


def _compare(seed: int, count: int, flags: str = "") -> int:
    """The number of compared pairs of a pattern and a text."""
    cases, ours, refused = [], [], 0
    for number, pattern in enumerate(_patterns(seed, count)):
        search = number % 2 == 0
        written = f"(?{flags}:{pattern})" if flags else pattern
        try:
            node = parse_regex(written, dialect="ecma", search=search, limits=Limits(seconds=1000))
        except UnsupportedError as error:
            assert re.search(r"\\[1-9k]", pattern) or "too many states" in error.reason, pattern
            refused += 1
            continue
        near = Patterns(random.Random(number), "ecma", letters=LETTERS)
        texts = [text for text in near.texts(node, 14) if not re.search("[\ud800-\udfff]", text)]
        cases.append((pattern if search else f"^(?:{pattern})$", flags, texts))
        ours.append([matches(node, text) for text in texts])
    for (pattern, _, texts), mine, theirs in zip(cases, ours, ask_node(cases), strict=True):
        assert mine == theirs, (pattern, [t for t, a, b in zip(texts, mine, theirs, strict=True) if a != b])
    assert refused < len(cases)
    return sum(len(texts) for _, _, texts in cases)


@needs_node
def test_same_texts_as_without_flags() -> None:
    assert _compare(0, 1200) > 2000


@needs_node
def test_same_texts_where_case_is_ignored() -> None:
    assert _compare(-1, 300, "i") > 500


@needs_node
@pytest.mark.slow
def test_same_texts_as_without_flags_100_000() -> None:
    pairs, seed = 0, 1
    while pairs < 100_000:
        pairs += _compare(seed, 5000)
        seed += 1


CASES = [
    (r"\{\{.+}}", ["{{a}}", "{{}}", "{{\U0001f600}}"], [True, False, True]),
    (r"^[[a-z]*]*$", ["", "]", "a]", "[]]", "1"], [True, True, True, True, False]),
    (r"\"\'\_\@", ["\"'_@"], [True]),
    (r"\_.", ["_a", "_\U0001f600", "_"], [True, False, False]),
    (r"\_..", ["_ab", "_\U0001f600", "_a"], [True, True, False]),
    (r"\_[^\ud83d]*", ["_ab", "_\U0001f600"], [True, False]),
    (r"\_[\U0001f600]".replace(r"\U0001f600", "\U0001f600") + "{2}", ["_\U0001f600", "_\U0001f601"], [True, False]),
    ("\U0001f600+\\_", ["\U0001f600_", "\U0001f600\U0001f600_"], [True, False]),
    (r"\p{2}\_", ["pp_", "L_"], [True, False]),
    (r"\u{2}\_", ["uu_", "\x02_"], [True, False]),
    (r"\x4\_", ["x4_"], [True]),
    (r"\c\cA\c1", ["\\c\x01\\c1"], [True]),
    (r"[\c_\c1\c]*\_", ["\x1f\x11\\c_"], [True]),
    (r"\101\18\8\400", ["A\x018" + "8" + "\x200"], [True]),
    (r"[\w-a]*\_", ["a-b_", ".,_"], [True, False]),
    (r"(?=a)*b(?!b){2}\_?", ["b", "b_", "bb"], [True, True, False]),
    (r"\k<a>", ["k<a>"], [True]),
    (r"}{]a{,2}", ["}{]a{,2}"], [True]),
    (r"[a-\ud83d]\_", ["b_", "\ud7ff_", "\uf354_"], [True, True, False]),
]


@pytest.mark.parametrize(("pattern", "texts", "wanted"), CASES, ids=[ascii(case[0]) for case in CASES])
def test_corners(pattern: str, texts: list[str], wanted: list[bool]) -> None:
    assert unicode_flag_error(pattern) is not None
    node = parse_regex(pattern, dialect="ecma")
    assert [matches(node, text) for text in texts] == wanted


@needs_node
def test_corners_match_node() -> None:
    theirs = ask_node([(f"^(?:{pattern})$", "", texts) for pattern, texts, _ in CASES])
    assert theirs == [wanted for _, _, wanted in CASES]


@needs_node
@pytest.mark.parametrize(
    "member", every(3, ["k", "K", "s", "[a-z]", "[^k]", "\\w", "\\W", "\u00e5", "\u03c9", "\u0390", "\u1fb3"])
)
def test_case_is_ignored_by_upper_case(member: str) -> None:
    """Without the flag u, characters are compared by their upper case, if this is one code unit."""
    texts = [chr(code) + "_" for code in range(0x10000) if not 0xD800 <= code < 0xE000]
    node = parse_regex(f"(?i:{member}\\_)", dialect="ecma")
    [theirs] = ask_node([(f"^{member}\\_$", "i", texts)])
    known = [text for text in texts if ask_upper(text[0])]
    mine = {text: matches(node, text) for text in known}
    assert mine == {text: found for text, found in zip(texts, theirs, strict=True) if text in mine}


def ask_upper(c: str) -> bool:
    """Whether Python's Unicode has the character, so that any version of node agrees about it."""
    import unicodedata

    return unicodedata.category(c) != "Cn" and not 0x1C89 <= ord(c) <= 0x1C8A and not 0xA7CB <= ord(c) <= 0xA7DC


@pytest.mark.parametrize(
    "pattern", ["a{1}{2}", "{1}", "(?<=a)*\\_", "[b-a\\_]", "(?<a>a)\\k", "(\\_", "\\_)", "\\_\\", "**", "[\\_"]
)
def test_patterns_refused_without_the_flag_too(pattern: str) -> None:
    """The error is that of reading the pattern with u."""
    with pytest.raises(SpecError) as caught:
        parse_regex(pattern, dialect="ecma")
    assert str(caught.value) == str(unicode_flag_error(pattern))


def test_references_are_refused_in_their_place() -> None:
    with pytest.raises(UnsupportedError, match="back-reference") as caught:
        parse_regex("\U0001f600(a+)\\_\\1", dialect="ecma")
    assert caught.value.text[slice(*caught.value.span)] == "\\1"
    assert matches(parse_regex("(a)\\_\\2", dialect="ecma"), "a_\x02")


def test_code_units_are_examined_only_if_necessary() -> None:
    assert parse_regex(r"[a-z\_]{2,1000}", dialect="ecma") == Repeat(Chars(((0x5F, 0x5F), (0x61, 0x7A))), 2, 1000)
    assert parse_regex(r"a\_b", dialect="ecma") == Seq((Text("a"), Text("_"), Text("b"))) or matches(
        parse_regex(r"a\_b", dialect="ecma"), "a_b"
    )
    assert isinstance(parse_regex(r"\_.", dialect="ecma"), Automaton)


def test_the_error_of_too_many_states_has_advice() -> None:
    with pytest.raises((UnsupportedError, LimitExceeded)) as caught:
        parse_regex(r"(?:a.{1,200}b|.{3}\_){1,200}", dialect="ecma")
    assert "too many states" in str(caught.value) and "write _ without the backslash" in str(caught.value)


# --- in schemas, and in reports


def test_patterns_of_schemas() -> None:
    schema = {"pattern": r"^\{\{.+}}$", "patternProperties": {r"^\_": {"type": "integer"}}}
    assert verdicts(schema, "{{a}}", "{{\U0001f600}}", "{a}", {"_a": 1}, {"_a": ""}) == [True, True, False, True, False]
    assert verdicts({"not": {"pattern": r"^\_.$"}}, "_a", "_\U0001f600") == [False, True]
    overlapping = {r"^\_.*a": {"type": "integer"}, r"b\_?$": {"minimum": 3}, "^.*": {"maximum": 5}}
    assert verdicts({"patternProperties": overlapping}, {"_ab": 4}, {"_ab": 2}, {"_ab": 6}) == [True, False, False]


def test_the_report_has_a_row() -> None:
    report = check_json_schema(
        {"pattern": r"\_", "patternProperties": {"a]": {}, "b": {}}, "properties": {"pattern": {}}}
    )
    rows = [(row.pointer, row.keyword, row.hint) for row in report.with_status("note")]
    assert rows == [
        ("/pattern", "pattern", "write _ without the backslash"),
        ("/patternProperties/a]", "patternProperties", "write \\]"),
    ]
    assert report.with_status("note")[0].reason.startswith("valid only without ECMA-262's u flag: ")
    _, out, _ = run("check", "--schema", r'{"pattern": "\\_"}')
    assert "note        /pattern  valid only without ECMA-262's u flag" in out
    _, out, _ = run("check", "--regex", r"\_", "--dialect", "ecma")
    assert "note        (root)  valid only without ECMA-262's u flag" in out
    assert "ECMA-262's u flag" not in run("check", "--regex", r"\.", "--dialect", "ecma")[1]
