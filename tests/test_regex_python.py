"""The python dialect compared with `re`: the same patterns are valid, and the same texts match."""

from __future__ import annotations

import random
import re
import warnings
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.frontends.regex import parse_regex
from guided.limits import Limits
from tests.effort import draws, every, examples
from tests.growth import assert_linear
from tests.regex_support import EVERY, Patterns, matches, ranges_of, scan

PATIENT = Limits(seconds=1000)


def compiled(pattern: str) -> re.Pattern[str] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # re warns about sets whose meaning may change
        try:
            return re.compile(pattern)
        except (re.error, OverflowError, ValueError):
            return None


def compare(source: random.Random, texts: int = 12) -> int:
    """Compare one random pattern. Returns the number of compared pairs."""
    patterns = Patterns(source, "python")
    pattern = patterns.pattern()
    search = source.random() < 0.3
    theirs = compiled(pattern)
    try:
        ours = parse_regex(pattern, search=search, limits=PATIENT)
    except SpecError:
        assert theirs is None, pattern
        return 0
    except UnsupportedError as error:
        assert theirs is not None, pattern
        assert 0 <= error.span[0] < error.span[1] <= len(pattern)
        assert error.hint
        return 0
    except LimitExceeded as error:
        assert error.limit == "nodes", pattern
        return 0
    assert theirs is not None, pattern
    for text in patterns.texts(ours, texts):
        found = theirs.search(text) if search else theirs.fullmatch(text)
        assert matches(ours, text) == (found is not None), (pattern, text, search)
    return texts


@given(st.randoms(use_true_random=False))
def test_same_texts(source: random.Random) -> None:
    compare(source)


def test_same_texts_of_more_patterns() -> None:
    assert sum(compare(random.Random(seed)) for seed in range(draws(200))) > draws(1500)


@pytest.mark.slow
def test_same_texts_100_000() -> None:
    pairs, seed = 0, 1000
    while pairs < 100_000:
        pairs += compare(random.Random(seed))
        seed += 1


FRAGMENTS = [
    *"ab0179()[]{}?*+|\\^$.-,:=!<>PimsxuaLNUkcdDwWsSbBAZ#&~ \n_\u00e9",
    *[
        "(?",
        "(?P<",
        "(?<",
        "(?:",
        "(?=",
        "(?<=",
        "(?!",
        "(?i",
        "(?P=",
        "(?(",
        "{1,",
        "{2}",
        "{,3}",
        "{3,1}",
        "[^",
        "[a-",
    ],
    *["\\x", "\\u", "\\N{", "\\p{L}", "\\1", "\\2", "\\07", "\\377", "\\400", "(?#", "(?-", "(?>", "(?x)", "a>", "}"],
    *["LATIN SMALL LETTER A}", "\\-", "(a)", "(?P<a>b)", "(?(1)", "(?(a)", "|"],
]


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=9).map("".join))
def test_same_validity(pattern: str) -> None:
    try:
        parse_regex(pattern)
        valid = True
    except UnsupportedError:
        valid = True
    except SpecError as error:
        valid = False
        start, end = error.span
        assert 0 <= start <= end <= len(pattern)
        assert start < end or start == len(pattern)
        assert error.hint
        assert str(error)
    assert valid == (compiled(pattern) is not None)


LETTERS = [c for c in map(chr, range(32, 127)) if c != "N"]


@pytest.mark.parametrize(
    ("flags", "wrap"),
    every(
        2,
        [(flags, wrap) for flags in ("", "(?i)", "(?a)", "(?ia)") for wrap in ("\\{}", "[\\{}]", "[^\\{}]")],
        unpack=True,
    ),
)
def test_every_escape(flags: str, wrap: str) -> None:
    for letter in LETTERS:
        body = wrap.replace("{}", letter)
        pattern = flags + body
        theirs = compiled(pattern)
        try:
            ours = parse_regex(pattern)
        except SpecError:
            assert theirs is None, pattern
            continue
        assert theirs is not None, pattern
        if letter in "AZbB" and "[" not in wrap:
            continue
        assert scan(ours) == ranges_of(flags, body), pattern


@cache
def cased() -> list[int]:
    return [c for c in EVERY if chr(c).lower() != chr(c) or chr(c).upper() != chr(c)]


def one_set(source: random.Random) -> tuple[str, str]:
    def member() -> str:
        kind = source.random()
        if kind < 0.2:
            return source.choice(["\\d", "\\w", "\\W", "\\S", "\\s", "\\D"])
        low = source.choice(
            [source.choice(cased()), source.randrange(128), 0x10400, 0x10428, 0x130, 0x131, 0x17F, 0x212A]
        )
        high = min(low + source.choice([0, 1, 30, 300]), 0x10FFFF)
        return f"\\U{low:08x}" if kind < 0.6 else f"\\U{low:08x}-\\U{high:08x}"

    flags = source.choice(["(?i)", "(?i)", "(?ai)", "", "(?a)"])
    if source.random() < 0.2:
        return flags, f"\\U{source.choice(cased()):08x}"
    return flags, f"[{source.choice(['', '^'])}{''.join(member() for _ in range(source.choice([1, 1, 2, 3])))}]"


@examples(25)
@given(st.randoms(use_true_random=False))
def test_same_sets_over_all_characters(source: random.Random) -> None:
    flags, body = one_set(source)
    assert scan(parse_regex(flags + body)) == ranges_of(flags, body), flags + body


CASES = [
    (r"a{,2}", ["", "a", "aa", "aaa"]),
    (r"a{,}", ["", "aaaa"]),
    (r"a{", ["a{", "a"]),
    (r"a{}", ["a{}", "a"]),
    (r"a{1", ["a{1", "a"]),
    (r"{a}", ["{a}"]),
    (r"a{x}", ["a{x}"]),
    (r"[]a]", ["]", "a", "b"]),
    (r"[^]a]", ["]", "a", "b"]),
    (r"[a-]", ["a", "-", "b"]),
    (r"[\]\-]", ["]", "-", "\\"]),
    (r"\101\0\x41\u0041", ["AA\x00AA"[1:], "A\x00AA"]),
    (r"\N{DIGIT ONE}[\N{BULLET}]", ["1\u2022", "1"]),
    ("(?x) a b # comment \\\n c \n \\ d [ #]", ["ab d ", "ab d#", "abc"]),
    (r"(?x)a(?-x: b)", ["a b", "ab"]),
    (r"a(?#comment \) still)b", ["ab"]),
    (r"(?s).(?-s:.)", ["\na", "a\n"]),
    (r"a$\n?", ["a", "a\n", "a\n\n"]),
    (r"(?m)a$\n^b", ["a\nb", "ab"]),
    (r"a\Z\n?", ["a", "a\n"]),
    (r"\B", ["", "a"]),
    (r".\B.", ["aa", "a ", "  "]),
    (r"(?P<x>a)(?:b|c)+?", ["ab", "abcb", "a"]),
    (r"(?:a|ab)(?:c|bcd)", ["abc", "abcd", "ac"]),
    (r"a++a", ["aa", "aaa"]),
    (r"a*+b", ["aab", "b", "aa"]),
    (r"a?+a", ["a", "aa"]),
    (r"a{1,2}+a", ["aa", "aaa", "aaaa"]),
    (r"(?>a|ab)c", ["ac", "abc"]),
    (r"(?>ab|a)bc", ["abbc", "abc"]),
    (r"(?>a+?)a", ["aa", "aaa"]),
    (r'"(?>[^"\\]|\\.)*+"', ['"a"', '"a\\"', '"\\""', '"']),
    (r"(?>\d+\.?\d*)\d", ["11", "1.1", "1.11"]),
    (r"(?:(?!-->).)*-->", ["-->", "a--->", "a-->-->", "-- >-->"]),
    (r"(?:(?!ab)[ab]){2,3}", ["ba", "ab", "bbb", "bbbb", "aa"]),
    (r"(?:\b\w+\b ?){2}", ["a b", "ab", "a  b", "a b "]),
    (r"(?:(?:^|,)\w)*", ["a,b", "a,b,", ",a", "ab", ""]),
    (r"(?=.*\d)(?=.*[a-z])\w{3,}", ["a1b", "abc", "111", "a1"]),
    (r"\w+(?<!ab)c?", ["ab", "abc", "xabc", "xc"]),
    (r"(?i:K)k", ["\u212ak", "kk", "Kk", "KK"]),
    (r"(?i)\u017f\xdf", ["s\u1e9e", "S\xdf", "\u017f\xdf"]),
    (r"(?ai)\u017fk", ["\u017fk", "sK", "\u017fK"]),
    (r"[[a]", ["[", "a"]),
    (r"(?>a*(?:b|c*)(?:d?|e))a?", ["aba", "aa", "acda", "acea", "acd"]),
    (r"(?>a*(?:b|c)?)+d", ["abd", "aacabd", "d", "ab"]),
    (r"(?>ba*b*(?:a|bb)?)a?b*", ["b", "ba", "baab", "baba", "bba", "bbaa", "babb"]),
    (r"(?>a?a*b?(?:a*|b))(?:ab)?", ["", "a", "ab", "aab", "aabab", "abb", "abab"]),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "texts"), CASES, ids=[case[0] for case in CASES])
def test_corners(pattern: str, texts: list[str]) -> None:
    theirs = compiled(pattern)
    assert theirs is not None
    node = parse_regex(pattern)
    searched = parse_regex(pattern, search=True)
    for text in texts:
        assert matches(node, text) == (theirs.fullmatch(text) is not None), text
        assert matches(searched, text) == (theirs.search(text) is not None), text


@pytest.mark.parametrize("quantifier", ["*", "?", "{0,2}"])
def test_an_atomic_group_of_many_parts_is_read_in_linear_time(quantifier: str) -> None:
    def read(size: int) -> None:
        parse_regex(f"(?>{''.join(chr(0x4E00 + number) + quantifier for number in range(size))})")

    assert_linear(read, 40)
