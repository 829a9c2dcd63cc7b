"""Back-references: compared with Python's `re`, with `RegExp` if node is installed, and with common patterns."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Literal

import pytest

import guided
from guided.errors import GuidedError, LimitExceeded, SpecError, UnsupportedError
from guided.frontends.json_schema import check_json_schema
from guided.frontends.regex import parse_regex, unicode_flag_error
from guided.frontends.regex.back_references import MAX_TEXTS
from guided.limits import Limits
from tests.effort import draws
from tests.json_schema_support import verdicts
from tests.regex_support import NODE, ask_node, matches

REPEAT = "repeat the group's pattern, or list the possible strings as alternatives"


class Drawing:
    """Draws patterns in which many back-references come after their group."""

    def __init__(self, source: random.Random, letters: str, dialect: Literal["python", "ecma"]) -> None:
        self.source, self.letters, self.dialect = source, letters, dialect
        self.groups = 0
        self.closed_groups: list[int] = []

    def pattern(self, depth: int) -> str:
        """A pattern with at most `depth` levels of groups."""
        return "|".join(self._sequence(depth) for _ in range(self.source.choice([1, 1, 1, 2])))

    def _sequence(self, depth: int) -> str:
        return "".join(self._piece(depth) for _ in range(self.source.randint(1, 4)))

    def _piece(self, depth: int) -> str:
        atom = self._atom(depth)
        if atom in ("", "^", "$", "\\b") or atom.startswith(("(?=", "(?!", "(?<")) or self.source.random() > 0.2:
            return atom
        return atom + self.source.choice(["*", "+", "?", "{2}", "{1,2}", "*?", "??", "{1}"])

    def _atom(self, depth: int) -> str:
        source, kind = self.source, self.source.random()
        if kind < 0.3 or depth <= 0:
            if self.closed_groups and source.random() < 0.4:
                return f"(?:\\{source.choice(self.closed_groups)})"
            if self.groups and source.random() < 0.05:
                return f"(?:\\{source.randint(1, self.groups)})"  # perhaps inside its own group
            letters = self.letters
            return source.choice([*letters, *letters, f"[{letters[:2]}]", ".", "", source.choice(["\\b", "^", "$"])])
        if kind < 0.65:
            self.groups += 1
            number = self.groups
            letters = self.letters
            texts = "|".join(source.choice([*letters, "", letters[:2], letters[0] * 2]) for _ in range(2))
            group = f"({self.pattern(depth - 1) if source.random() < 0.5 else texts})"
            self.closed_groups.append(number)
            return group
        if kind < 0.8:
            return f"(?:{self.pattern(depth - 1)})"
        if kind < 0.92:
            return f"{source.choice(['(?=', '(?!'])}{self.pattern(depth - 1)})"
        if self.dialect == "python":  # `re` knows only lookbehinds of fixed width
            inner = source.choice([*self.letters, "\\1" if 1 in self.closed_groups else self.letters[:2]])
        else:
            inner = self.pattern(depth - 1)
        return f"{source.choice(['(?<=', '(?<!'])}{inner})"


def _draw(seed: int, count: int, letters: str, dialect: Literal["python", "ecma"]) -> Iterator[str]:
    """Yield `count` different patterns with back-references. Those of "python" are valid."""
    source, seen = random.Random(seed), set[str]()
    while len(seen) < count:
        pattern = Drawing(source, letters, dialect).pattern(3)
        if not re.search(r"\\[1-9]", pattern) or pattern in seen:
            continue
        if dialect == "python":
            try:
                re.compile(pattern)
            except re.error:
                continue
        seen.add(pattern)
        yield pattern


def _texts(letters: str, longest: int) -> list[str]:
    return ["".join(text) for length in range(longest + 1) for text in product(letters, repeat=length)]


@pytest.mark.parametrize(
    ("letters", "longest", "flags"),
    [
        ("ab", 6, ""),
        ("abA", 4, "(?i)"),
        ("sS\u017f", 4, "(?i)"),
        ("i\u0130\u0131", 4, "(?i)"),
        ("kK\u212a", 4, "(?ai)"),
    ],
)
def test_same_texts_as_re(letters: str, longest: int, flags: str) -> None:
    texts = _texts(letters, longest)
    accepted = varied = 0
    count = draws(400)
    for drawn in _draw(1, count, letters, "python"):
        pattern = flags + drawn
        try:
            node = parse_regex(pattern, limits=Limits(seconds=1000))
        except (UnsupportedError, LimitExceeded):
            continue
        expected = [re.fullmatch(pattern, text) is not None for text in texts]
        assert [matches(node, text) for text in texts] == expected, pattern
        accepted += 1
        varied += 1 < sum(expected) < len(texts)
    assert accepted > count // 8 and varied > count // 40


@pytest.mark.skipif(NODE is None, reason="node is not installed: no RegExp to compare with")
@pytest.mark.parametrize(
    ("letters", "longest", "flags"),
    [("ab", 5, "u"), ("sS\u017f", 4, "iu"), ("sS\u017f", 4, "i"), ("a\U0001f600", 5, ""), ("a\U0001f600", 5, "u")],
)
def test_same_texts_as_regexp(letters: str, longest: int, flags: str) -> None:
    texts = _texts(letters, longest)
    cases, ours = [], []
    count = draws(600)
    for drawn in _draw(2, count, letters, "ecma"):
        pattern = drawn if "u" in flags else f"\\_?(?:{drawn})"  # \_ is invalid with the flag u
        try:
            written = f"(?i:{pattern})" if "i" in flags else pattern
            node = parse_regex(written, dialect="ecma", limits=Limits(seconds=1000))
        except (UnsupportedError, LimitExceeded):
            continue
        except SpecError:
            assert isinstance(ask_node([(pattern, flags, [])])[0], str), pattern
            continue
        cases.append((f"^(?:{pattern})$", flags, texts))
        ours.append([matches(node, text) for text in texts])
    for (pattern, _, _), mine, theirs in zip(cases, ours, ask_node(cases), strict=True):
        assert mine == theirs, pattern
    assert len(cases) > count // 12 and sum(any(verdict) for verdict in ours) > count // 30


# fmt: off
DATE = (
    r"^(?:(?:31(\/|-|\.)(?:0?[13578]|1[02]))\1|(?:(?:29|30)(\/|-|\.)(?:0?[13-9]|1[0-2])\2))"
    r"(?:(?:1[6-9]|[2-9]\d)?\d{2})$"
)
PATTERNS = [
    (r"""^(["'])[^"']*\1$""", ["''", '"a b"'], ["\"a'", "'a", "'a'b'"]),
    (r"^\d{4}([-/.])\d\d\1\d\d$", ["2024-01-02", "2024/01/02"], ["2024-01/02", "2024.0102"]),
    (r"^[a-f0-9]{2}([:-])[a-f0-9]{2}(\1[a-f0-9]{2}){4}$", ["00:1a:2b:3c:4d:5e"], ["00:1a:2b:3c:4d-5e"]),
    (r"^(?!.*([_-])\1)[a-z_-]+$", ["a_b-c", "_-_"], ["a__b", "a-_--"]),
    (r"^<(b|i|em)>[^<]*</\1>$", ["<b>x</b>", "<em></em>"], ["<b>x</i>", "<em>x</m>"]),
    (r"""(?P<q>['"]).*?(?P=q)""", ["'a'", "'a'b'", '""'], ["'a\"", "a'"]),
    (DATE, ["31/12/1999", "30-4-24", "29.03.2000"], ["31/12-1999", "31/4/1999", "30-2-24"]),
    (r"""^(["'])(?:\\.|(?!\1).)*\1$""", [r'"a\"b"', "'\"'"], ['"a"b"', "'a"]),
    (r"^(\w)\w*\1$", ["abca", "__"], ["a", "abc"]),
    (r"^(?!.*(.)\1)[ab]+$", None, None),
    (r"^(?!.*([ -~])\1{2}).{3,8}$", ["aabb", "112"], ["aaab", "  !!!", "ab"]),
    (r"^([-. ]?)\d{3}\1\d{3}$", ["123456", "-123-456"], ["-123456", "123-456"]),
    (r"^(a|ab)(c|bc)-\1\2$", ["abc-abc", "abbc-abbc"], ["abc-ac", "abbc-abc"]),
    (r"^((a|b)x)\2\1$", ["axaax", "bxbbx"], ["axbax", "axabx"]),
    (r"^(?:(a|b)\1)+$", ["aabb", "bb"], ["ab", "aab"]),
    (r"^(?:\+|(a)-\1)?$", ["", "+", "a-a"], ["a-", "a-b"]),
    (r"^(?=(a|b).*\1$)\w+$", ["aba", "aa"], ["a", "ab"]),
    (r"^(a|b)(?<=\1)c$", ["ac", "bc"], ["c"]),
]
# fmt: on


@pytest.mark.parametrize("dialect", ["python", "ecma"])
@pytest.mark.parametrize(("pattern", "accepted", "refused"), PATTERNS)
def test_patterns_in_use(
    pattern: str, accepted: list[str] | None, refused: list[str] | None, dialect: Literal["python", "ecma"]
) -> None:
    if dialect == "ecma":
        pattern = pattern.replace("(?P<", "(?<").replace("(?P=q)", r"\k<q>")
    if accepted is None or refused is None or (dialect == "python" and r"(\w)" in pattern):
        with pytest.raises(UnsupportedError, match="more than 1,024 texts"):
            parse_regex(pattern, dialect=dialect)
        return
    node = parse_regex(pattern, dialect=dialect)
    assert [text for text in accepted if not matches(node, text)] == []
    assert [text for text in refused if matches(node, text)] == []


def test_case_is_ignored_as_in_re() -> None:
    node = parse_regex(r"(?i)<(script|style|blockquote)>\1")
    for text in (
        "<script>SCRIPT",
        "<STYLE>style",
        "<BlockQuote>bLOCKqUOTE",
        "<s>s",
        "<\u017fcript>script",
        "<script>style",
    ):
        assert matches(node, text) == (re.fullmatch(r"(?i)<(script|style|blockquote)>\1", text) is not None)
    mixed = r"(?i:(a|b))\1(?i:\1)(?ai:\1)"
    node = parse_regex(mixed)
    for text in _texts("aAb", 4):
        assert matches(node, text) == (re.fullmatch(mixed, text) is not None), text


def test_groups_of_verbose_patterns() -> None:
    node = parse_regex("(?x) ( [-/] )  # the separator\n \\d{2} \\1 # again\n")
    assert matches(node, "-12-") and not matches(node, "-12/")


@pytest.mark.parametrize("letters", ["\u0663", "\u0663a"])
def test_narrow_classes_are_a_subset(letters: str) -> None:
    """Also inside negations, where the narrow classes must not be used."""
    texts = _texts("1" + letters, 5 - len(letters))
    patterns = [
        r"(\d)\1", r"(\d)(?!\1).", r"(?!(\d)\1).*", r"(?!(\d)(?!\1)).*", r"(\D|\d)\1", r"(?!.*(\d).*\1).*",
        r"(?=(\d))..", r"([^\d\x00-\u0600\u0670-\U0010ffff]|\d)\1", r"(?:(\d)\1)*", r"(?!(?!(\d)\1).*).*",
    ]  # fmt: skip
    accepted = 0
    for pattern in patterns:
        try:
            narrow = parse_regex(pattern, classes="plain")
        except UnsupportedError:
            continue
        accepted += 1
        for text in texts:
            assert not matches(narrow, text) or re.fullmatch(pattern, text), (pattern, text)
    assert accepted >= 8
    narrow = parse_regex(r"(\d)\1", classes="plain")
    assert matches(narrow, "11") and not matches(narrow, "\u0663\u0663")


@pytest.mark.skipif(NODE is None, reason="node is not installed: no RegExp to compare with")
@pytest.mark.parametrize(
    "pattern",
    [
        r"^\_?([\ud83d])[^]\1[^]$",
        r"^\_?(?:([\ud83d\ud83c])[^]\1[^])*$",
        r"^\_?(\ud83d\ude00|a)\1$",
        r"^\_?(😀|😁|\ud83d)\1?.$",
    ],
)
def test_half_a_pair_of_surrogates(pattern: str) -> None:
    node = parse_regex(pattern, dialect="ecma")
    texts = _texts("a\U0001f600\U0001f601\U0001f3ff", 4)
    assert [[matches(node, text) for text in texts]] == ask_node([(pattern, "", texts)])


REFUSED: list[tuple[Literal["python", "ecma"], str, str, str]] = [
    ("python", r"(a+)\1", r"\1", "more than 1,024 texts"),
    ("python", r"(?P<word>\w+) (?P=word)", "(?P=word)", "more than 1,024 texts"),
    ("python", r"(.)\1", r"\1", "more than 1,024 texts"),
    ("ecma", r"(a{300})\1", r"\1", "very long"),
    ("python", r"(a)|\1", r"\1", "ends before it"),
    ("python", r"(?:(a)|b)\1", r"\1", "ends before it"),
    ("ecma", r"(a)?\1", r"\1", "ends before it"),
    ("python", r"(?:(a)b)*\1", r"\1", "ends before it"),
    ("python", r"(?=(a|aa))\1b", r"\1", "ends before it"),
    ("ecma", r"\1(a)", r"\1", "precedes the end"),
    ("ecma", r"(a\1)", r"\1", "precedes the end"),
    ("ecma", r"(\2(a))\1\2", r"\2", "precedes the end"),
    ("ecma", r"\k<n>(?<n>a)", r"\k<n>", "precedes the end"),
    ("ecma", r"(?:(?<n>a)|(?<n>b))\k<n>", r"\k<n>", "several groups have the name 'n'"),
    ("ecma", r"(?<=(a)b\1)", r"\1", "in the same lookbehind"),
    ("python", r"(a\b)\1", r"\1", "contains a lookaround, an anchor or a word boundary"),
    ("ecma", r"(^|,)a\1", r"\1", "contains a lookaround, an anchor or a word boundary"),
    ("python", r"((?:(a)|b)c)\1\2", r"\2", "ends before it"),
    ("python", r"(a){0}\1", r"\1", "never matches"),
    ("ecma", r"([ab]){2}(c)\1\2", r"\1", "ends before it"),
    ("ecma", r"(\d\d\d)(\d\d\d)\1\2", r"\2", "too many copies"),
]


@pytest.mark.parametrize(("dialect", "pattern", "place", "reason"), REFUSED)
def test_refused(dialect: Literal["python", "ecma"], pattern: str, place: str, reason: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        parse_regex(pattern, dialect=dialect)
    error = caught.value
    assert error.hint and error.reason.startswith("this back-reference is not supported: ") and reason in error.reason
    assert pattern[slice(*error.span)] == place
    assert error.pointer == f"offset {error.span[0]}"


@pytest.mark.parametrize("pattern", [r"(a)\1(?>b)", r"(?>b)(a)\1", r"(a)\1b*+"])
def test_refused_with_atomic_groups(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error:
        pytest.skip("this Python knows no atomic groups")
    with pytest.raises(UnsupportedError, match="order of attempts matters") as caught:
        parse_regex(pattern)
    assert caught.value.text[slice(*caught.value.span)] == r"\1" and caught.value.hint == REPEAT


def test_limit_on_the_texts_of_a_group() -> None:
    letters = "".join(map(chr, range(0x4E00, 0x4E00 + MAX_TEXTS)))
    node = parse_regex(rf"([{letters}])\1")
    assert matches(node, letters[-1] * 2) and not matches(node, letters[:2])
    with pytest.raises(UnsupportedError, match="more than 1,024 texts"):
        parse_regex(rf"([{letters}a])\1")


def test_conditional_groups_are_still_refused() -> None:
    with pytest.raises(UnsupportedError, match="conditional groups"):
        parse_regex(r"(a)\1(b)?(?(2)c|d)")


@pytest.mark.parametrize(
    "pattern",
    [
        "".join(rf"(?:(a|b)x\{number})" for number in range(1, 99)),
        "".join(rf"(?:(?<n{number}>a|b)x\k<n{number}>)" for number in range(1, 1000)),
        "(a|b)" * 1000 + "".join(rf"(?:\{number})" for number in range(1, 1001)),
        "(" * 90 + "a|b" + ")" * 90 + "".join(rf"(?:\{number})" for number in range(1, 91)),
        r"((\d)(\d)(\d)(\d)(\d))\1\2\3\4\5",
    ],
)
def test_many_groups(pattern: str) -> None:
    """The work is bounded long before the limit on time."""
    try:
        parse_regex(pattern, dialect="ecma", limits=Limits(seconds=60))
    except UnsupportedError as error:
        assert "too many copies" in error.reason


def test_unicode_flag_error() -> None:
    assert unicode_flag_error(r"(a)\1") is None and unicode_flag_error(r"(a+)\1") is None
    assert unicode_flag_error(r"(a)\2") is not None


def test_patterns_of_schemas() -> None:
    schema = {
        "type": "object",
        "properties": {"date": {"type": "string", "pattern": r"^\d{4}([-/])\d\d\1\d\d$"}},
        "patternProperties": {r"^(x|y)-\1$": {"type": "integer"}},
        "additionalProperties": False,
    }
    check_json_schema(schema)
    values = [{"date": "2024-01-02"}, {"date": "2024-01/02"}, {"x-x": 1}, {"x-y": 1}, {"x-x": "a"}]
    assert verdicts(schema, *values) == [True, False, True, False, False]


def test_terminals_with_back_references_are_refused() -> None:
    compiler = guided.GrammarCompiler(guided.Vocabulary([bytes([byte]) for byte in range(256)], eos_token_ids=[256]))
    with pytest.raises(UnsupportedError, match="back-references are not supported where the order of attempts matters"):
        compiler.compile_lark("start: TEXT\nTEXT: /(['\"])[^'\"]*\\1/")


def test_patterns_without_back_references_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("guided.frontends.regex.resolve_references", lambda *_: pytest.fail("not needed"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse_regex(r"(a|b)(?P<c>c)(?=d)*")
        parse_regex(r"\1", dialect="ecma")
    with pytest.raises(GuidedError):
        parse_regex(r"(a)\2")
