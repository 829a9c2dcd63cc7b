"""The ecma dialect: compared with `RegExp` if node is installed, and with ECMA-262."""

from __future__ import annotations

import random
import re
import subprocess
from importlib.resources import files

import pytest

from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.frontends.regex import parse_regex, unicode_flag_error
from guided.ir.ranges import charset, complement
from guided.limits import Limits
from tests.effort import draws
from tests.regex_support import NODE, Patterns, ask_node, matches, scan

needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed: no RegExp to compare with")
DATA = files("guided.frontends.regex").joinpath("unicode.txt").read_text(encoding="ascii").splitlines()


def compare(seed: int, count: int) -> int:
    """Compare `count` random patterns in one node process. Returns the number of compared pairs."""
    cases, ours, pairs = [], [], 0
    for number in range(count):
        flag = ["", "", "i", "m", "s"][number % 5]
        letters = "aKk\u212a -\n" if flag == "i" else "ab1 -\n"
        patterns = Patterns(random.Random(f"{seed}-{number}"), "ecma", letters=letters)
        plain, search = patterns.pattern(), number % 3 == 0
        pattern = f"(?{flag}:{plain})" if flag else plain
        wrapped = plain if search else f"(?<![^])(?:{plain})(?![^])" if flag == "m" else f"^(?:{plain})$"
        flag += "u"
        try:
            node = parse_regex(pattern, dialect="ecma", search=search, limits=Limits(seconds=1000))
        except (SpecError, UnsupportedError, LimitExceeded) as error:
            if not isinstance(error, LimitExceeded):
                assert 0 <= error.span[0] < error.span[1] <= len(pattern)
                assert error.hint
            cases.append((wrapped, flag, []))
            ours.append(isinstance(error, SpecError))
            continue
        # V8 tests a lookbehind in the middle of a surrogate pair, where ECMA-262 has no position.
        odd = "[\ud800-\udfff\U00010000-\U0010ffff]" if "(?<" in wrapped else "[\ud800-\udfff]"
        texts = [text for text in patterns.texts(node, 12) if not re.search(odd, text)]
        cases.append((wrapped, flag, texts))
        ours.append([matches(node, text) for text in texts])
        pairs += len(texts)
    for (pattern, _, texts), mine, theirs in zip(cases, ours, ask_node(cases), strict=True):
        if isinstance(mine, bool):
            assert mine == isinstance(theirs, str), pattern
        else:
            assert mine == theirs, (pattern, texts)
    return pairs


@needs_node
def test_same_texts() -> None:
    assert compare(0, draws(300)) > draws(2000)


@needs_node
@pytest.mark.slow
def test_same_texts_100_000() -> None:
    pairs, seed = 0, 1
    while pairs < 100_000:
        pairs += compare(seed, 1000)
        seed += 1


FRAGMENTS = [
    *"ab0179()[]{}?*+|\\^$.-,:=!<>PuLkcdDwWsSbB#&~ \n/_\u00e9",
    *[
        "(?:",
        "(?=",
        "(?!",
        "(?<=",
        "(?<!",
        "(?<",
        "{1,",
        "{2}",
        "{,3}",
        "{3,1}",
        "[^",
        "[a-",
        "\\x",
        "\\u",
        "\\u{",
        "\\p{",
    ],
    *[
        "\\P{L",
        "\\k<",
        "\\1",
        "\\2",
        "\\0",
        "\\07",
        "\\uD83D",
        "\\uDE00",
        "\\u0041",
        "\\x41",
        "}",
        "Lu}",
        "Script=Greek}",
    ],
    *["\\c", "\\cA", "\\-", "(a)", "(?<a>b)", "a>", "|", "\\p{scx=Deva}", "\\p{Alpha}", "\\p{IsGreek}"],
]


@needs_node
def test_same_validity() -> None:
    source = random.Random(1)
    patterns = ["".join(source.choices(FRAGMENTS, k=source.randint(1, 8))) for _ in range(5000)]
    ours = []
    for pattern in patterns:
        error = unicode_flag_error(pattern)
        ours.append(error is None)
        if error is not None:
            start, end = error.span
            assert 0 <= start <= end <= len(pattern)
            assert start < end or start == len(pattern)
            assert error.hint
    theirs = ask_node([(pattern, "u", []) for pattern in patterns])
    different = [p for p, mine, found in zip(patterns, ours, theirs, strict=True) if mine == isinstance(found, str)]
    assert different == []


_RANGES = """
const [expressions, flags] = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const out = expressions.map((expression) => {
  const regex = new RegExp(expression, flags), ranges = [];
  for (let c = 0; c <= 0x10FFFF; c++) {
    if (c >= 0xD800 && c <= 0xDFFF || !regex.test(String.fromCodePoint(c))) continue;
    if (ranges.length && ranges.at(-1)[1] === c - 1) ranges.at(-1)[1] = c; else ranges.push([c, c]);
  }
  return ranges;
});
process.stdout.write(JSON.stringify([process.versions.unicode, out]));
"""


def node_ranges(expressions: list[str], flags: str) -> tuple[str, list[list[tuple[int, int]]]]:
    import json

    assert NODE is not None
    done = subprocess.run(
        [NODE, "-e", _RANGES], input=json.dumps([expressions, flags]), capture_output=True, text=True, check=True
    )
    version, found = json.loads(done.stdout)
    return version, [[(low, high) for low, high in ranges] for ranges in found]


def check_sets(expressions: list[str], flags: str = "u") -> None:
    version, theirs = node_ranges(expressions, flags)
    if f"# Unicode {version};" not in DATA[0]:
        pytest.skip(f"node has Unicode {version}, the table another version")
    for expression, ranges in zip(expressions, theirs, strict=True):
        wrapped = f"(?i:{expression})" if "i" in flags else expression
        assert scan(parse_regex(wrapped, dialect="ecma")) == ranges, expression


@needs_node
def test_classes_over_all_characters() -> None:
    check_sets(["\\d", "\\D", "\\s", "\\S", "\\w", "\\W", ".", "[^]", "[]", "[^\\d\\p{L}]", "[\\u{1F600}-\\u{1F64F}]"])


@needs_node
def test_ignoring_case_over_all_characters() -> None:
    check_sets(
        ["\\w", "\\W", "[^\\W]", "[a-z]", "[^k]", "\\p{Lu}", "\\P{Lu}", "[^\\P{Ll}]", "\\u00df", "\\u{10400}"], "iu"
    )


@needs_node
@pytest.mark.parametrize(
    "pattern", ["k", "[^k]", "[Σk-s]", r"\w", r"\W", r"[^\w]", "[À-Ö@-C]", r"\u{6B}", "İ|ı|I", "ſ"]
)
def test_ignoring_case_of_the_letters_of_ascii(pattern: str) -> None:
    """As in Python's re with the flags a and i."""
    texts = [
        "k",
        "K",
        "\u212a",
        "s",
        "S",
        "ſ",
        "σ",
        "Σ",
        "à",
        "À",
        "@",
        "[",
        "`",
        "c",
        "C",
        "_",
        "i",
        "I",
        "İ",
        "ı",
        "é",
    ]
    python = re.compile(pattern.replace(r"\u{6B}", "k"), re.A | re.I)
    node = parse_regex(f"(?i:{pattern})", dialect="ecma", ascii_case=True)
    assert [matches(node, text) for text in texts] == [bool(python.fullmatch(text)) for text in texts]
    plain = parse_regex(pattern, dialect="ecma", ascii_case=True)
    assert plain == parse_regex(pattern, dialect="ecma")


def test_the_case_of_ascii_at_word_boundaries_and_in_annex_b() -> None:
    for pattern in (r"(?i:ſ\bk)", r"(?i:ſ]\bk)"):  # the flag u refuses the second one
        node = parse_regex(pattern, dialect="ecma", ascii_case=True)
        text = pattern[4:-1].replace("\\b", "")
        assert matches(node, text) and matches(node, text.replace("k", "K"))
        assert not matches(node, text.replace("ſ", "s")) and not matches(node, text.replace("k", "\u212a"))
    with pytest.raises(ValueError, match="ascii_case"):
        parse_regex("a", ascii_case=True)


def test_some_properties_over_all_characters() -> None:
    check_sets(["\\p{L}", "\\P{LC}", "\\p{gc=Cn}", "\\p{Assigned}", "\\p{scx=Deva}", "\\p{sc=Zyyy}", "\\p{Emoji}"])


@needs_node
@pytest.mark.slow
def test_all_properties_over_all_characters() -> None:
    expressions = []
    for line in DATA[1:-1]:
        key, names = line.split(" ")[:2]
        expressions.append(f"\\p{{{names.split('=')[0] if key == 'bin' else key + '=' + names.split('=')[0]}}}")
    check_sets(
        [*expressions, *(f"\\p{{{name}}}" for name in ["L", "LC", "M", "N", "P", "S", "Z", "C", "Any", "ASCII"])]
    )


@needs_node
@pytest.mark.slow
def test_the_table_is_what_its_script_writes() -> None:
    assert NODE is not None
    script = str(files("guided.frontends.regex").joinpath("make_unicode.mjs"))
    written = subprocess.run([NODE, script], capture_output=True, text=True, check=True).stdout.splitlines()
    if written[0] != DATA[0]:
        pytest.skip(f"node has another Unicode version: {written[0]}")
    assert written == DATA


def test_property_names_agree() -> None:
    scripts = [line.split(" ")[:2] for line in DATA[1:-1] if line.startswith(("sc ", "scx "))]
    assert len(scripts) > 200
    for key, names in scripts:
        first, *others = (parse_regex(f"\\p{{{key}={name}}}", dialect="ecma") for name in names.split("="))
        assert all(other == first for other in others), names


def test_general_categories_partition_all_characters() -> None:
    parts = [scan(parse_regex(f"\\p{{{line.split(' ')[1].split('=')[0]}}}", dialect="ecma")) for line in DATA[1:31]]
    assert charset(r for part in parts for r in part) == complement(())
    assert sum(high - low + 1 for part in parts for low, high in part) == 0x110000 - 0x800


CASES = [
    (r"[^]", ["\n", "", "a"], [True, False, True]),
    (r"[]", ["", "a"], [False, False]),
    (r"\cJ\0", ["\n\0"], [True]),
    (r"\uD83D\uDE00", ["\U0001f600"], [True]),
    (r"[\uD83D\uDE00-\uD83D\uDE02]", ["\U0001f601", "\U0001f603"], [True, False]),
    ("\ud83d\ude00", ["\U0001f600"], [True]),
    (r"\uD83D", ["a", ""], [False, False]),
    (r"a$", ["a", "a\n"], [True, False]),
    (r"(?<year>\d{4})-(?<m>\d\d)", ["2024-01", "\u0664\u0660\u0660\u0660-01"], [True, False]),
    (r"(?:(?<a>x)|(?<a>y))", ["x", "y"], [True, True]),
    (r"(?<=^a*)b?", ["b", ""], [True, True]),
    (r"a+(?<=aa|ab)b", ["ab", "aab"], [False, True]),
    (r"(?i:k)", ["\u212a", "K", "k"], [True, True, True]),
    (r"(?i:a(?-i:b))", ["Ab", "AB"], [True, False]),
    (r"(?m:^a$\n)(?s:.)", ["a\n\n"], [True]),
    (r"(?-s:.)(?s-m:.)", ["a\n", "\na"], [True, False]),
    (r"\w\b\u017f", ["a\u017f"], [True]),
    (r"(?i:\w\b\u017f)", ["a\u017f"], [False]),
    (r"\s", ["\ufeff", "\x85", "\u2028"], [True, False, True]),
    (r".", ["\u2028", "\x85", "\r"], [False, True, False]),
]


@pytest.mark.parametrize(("pattern", "texts", "wanted"), CASES, ids=[ascii(case[0]) for case in CASES])
def test_corners(pattern: str, texts: list[str], wanted: list[bool]) -> None:
    node = parse_regex(pattern, dialect="ecma")
    assert [matches(node, text) for text in texts] == wanted


def test_search_is_between_any_texts() -> None:
    node = parse_regex("^a|b$", dialect="ecma", search=True)
    assert [matches(node, text) for text in ["ax", "xb", "xa", "bx", "b", "a"]] == [
        True,
        True,
        False,
        False,
        True,
        True,
    ]
