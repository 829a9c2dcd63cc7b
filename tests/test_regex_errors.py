"""Malformed patterns: the exact error, its location and its hint; and valid patterns that are refused."""

from __future__ import annotations

import re
import warnings

import pytest

import guided
from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.frontends.regex import parse_regex, unicode_flag_error
from guided.limits import Limits

OPEN_GROUP = "close the group, or write \\("
HINT_2 = "write \\) for a parenthesis"
OPEN_SET = "close the set with ], or write \\["
STAR = "put something to repeat before it, or write \\*"
PLUS = "put something to repeat before it, or write \\+"
HINT_6 = "wrap the repeated part: (?:..)"
RANGE = "the ends of a range are single characters, the lower one first; write \\- for a hyphen"
HINT_8 = "\\x takes 2 hexadecimal digits"
NO_GROUP = "there is no such group; write \\0NN for an octal escape"
DEFINE = "define the group before this point"
HINT_11 = "give the group another name"
FLAGS = "write (?flags:..) or, at the start of the pattern, (?flags); the flags are a, i, m, s, u and x"
WIDTH = "give every alternative the same width; dialect='ecma' allows any width"
COUNTS = "write {n}, {n,} or {n,m}; or \\{"
NOT_REPEATED = "lookarounds and anchors cannot be repeated with the u flag: wrap them in (?:..)"
NO_ESCAPE = "there is no such escape with the u flag"
CODE = "write \\u{H..}, at most \\u{10FFFF}"
IDENTIFIER = "a name is an identifier: (?<name>..)"
ECMA_KINDS = "groups are (..), (?:..), (?<name>..), (?=..), (?!..), (?<=..), (?<!..) and (?ims-ims:..)"
PROPERTY = "write \\p{Property} or \\p{Property=Value}"
TOO_MANY_TEXTS = "this back-reference is not supported: its group may match more than 1,024 texts, or very long ones"
REFERENCE = "list the possible texts in the group, such as (a|b|c), or repeat the group's pattern"
ATOMIC = "use an ordinary group or quantifier, or let its parts begin with characters that cannot follow it"

MALFORMED = [
    ("python", "a(b", "missing ), unterminated subpattern", (1, 2), OPEN_GROUP),
    ("python", "a)b", "unbalanced parenthesis", (1, 2), HINT_2),
    ("python", "(", "missing ), unterminated subpattern", (0, 1), OPEN_GROUP),
    ("python", "[a", "unterminated character set", (0, 1), OPEN_SET),
    ("python", "[", "unterminated character set", (0, 1), OPEN_SET),
    ("python", "[]", "unterminated character set", (0, 1), OPEN_SET),
    ("python", "[^", "unterminated character set", (0, 1), OPEN_SET),
    ("python", "a\\", "bad escape (end of pattern)", (1, 2), "write \\\\ for a backslash"),
    ("python", "*a", "nothing to repeat", (0, 1), STAR),
    ("python", "+", "nothing to repeat", (0, 1), PLUS),
    ("python", "?", "nothing to repeat", (0, 1), "put something to repeat before it, or write \\?"),
    ("python", "{2}", "nothing to repeat", (0, 3), "put something to repeat before it, or write \\{"),
    ("python", "(*a)", "nothing to repeat", (1, 2), STAR),
    ("python", "|*", "nothing to repeat", (1, 2), STAR),
    ("python", "^*", "nothing to repeat", (1, 2), STAR),
    ("python", "\\b+", "nothing to repeat", (2, 3), PLUS),
    ("python", "a**", "multiple repeat", (2, 3), HINT_6),
    ("python", "a{2}{3}", "multiple repeat", (4, 7), HINT_6),
    ("python", "a+*", "multiple repeat", (2, 3), HINT_6),
    ("python", "a{3,1}", "min repeat greater than max repeat", (1, 6), "write {1,3}"),
    ("python", "a{5000000000}", "the repetition number is too large", (1, 13), "the largest count is 4294967294"),
    ("python", "[z-a]", "bad character range z-a", (1, 4), RANGE),
    ("python", "[a-\\d]", "bad character range a-\\d", (1, 5), RANGE),
    ("python", "[\\w-z]", "bad character range \\w-z", (1, 5), RANGE),
    (
        "python",
        "\\q",
        "bad escape \\q",
        (0, 2),
        "Python's re has no such escape; for a literal letter leave out the backslash",
    ),
    ("python", "[\\q]", "bad escape \\q", (1, 3), "this escape has no meaning inside a set"),
    (
        "python",
        "\\p{L}",
        "bad escape \\p",
        (0, 2),
        "Python's re has no Unicode properties: spell the set out, or use dialect='ecma'",
    ),
    ("python", "\\x4", "incomplete escape \\x4", (0, 3), HINT_8),
    ("python", "\\u12", "incomplete escape \\u12", (0, 4), "\\u takes 4 hexadecimal digits"),
    ("python", "\\U00110000", "bad escape \\U00110000", (0, 10), "the largest code point is 0010FFFF"),
    ("python", "\\U0001", "incomplete escape \\U0001", (0, 6), "\\U takes 8 hexadecimal digits"),
    ("python", "\\N", "missing {", (0, 2), "write \\N{NAME OF THE CHARACTER}"),
    ("python", "\\N{", "missing character name", (0, 3), "write a character name and }"),
    ("python", "\\N{}", "missing character name", (0, 4), "write a character name before }"),
    (
        "python",
        "\\N{NO SUCH}",
        "undefined character name 'NO SUCH'",
        (0, 11),
        "use a name from the Unicode character database",
    ),
    ("python", "\\400", "octal escape value \\400 outside of range 0-0o377", (0, 4), "write \\xNN or \\uNNNN"),
    ("python", "[\\400]", "octal escape value \\400 outside of range 0-0o377", (1, 5), "write \\xNN or \\uNNNN"),
    ("python", "\\8", "invalid group reference 8", (0, 2), NO_GROUP),
    ("python", "\\1(a)", "invalid group reference 1", (0, 2), NO_GROUP),
    ("python", "(a\\1)", "cannot refer to an open group", (2, 4), "refer to a group after its )"),
    ("python", "(?P<a>.)(?P=b)", "unknown group name 'b'", (8, 14), DEFINE),
    ("python", "(?P<1a>.)", "bad character in group name '1a'", (0, 7), "a group name must be a Python identifier"),
    ("python", "(?P<a", "missing >, unterminated name", (0, 5), "close the name with >"),
    ("python", "(?P<a>.)(?P<a>.)", "redefinition of group name 'a' as group 2; was group 1", (8, 14), HINT_11),
    ("python", "(?P>a)", "unknown extension ?P>", (0, 4), "(?P<name>..) names a group, (?P=name) refers to it"),
    (
        "python",
        "(?<a>.)",
        "unknown extension ?<a",
        (0, 4),
        "a named group is (?P<name>..), a lookbehind (?<=..) or (?<!..)",
    ),
    ("python", "(?", "unexpected end of pattern", (0, 2), "(? begins a special group, such as (?:..)"),
    (
        "python",
        "(?z)",
        "unknown extension ?z",
        (0, 3),
        "groups are (..), (?:..), (?P<name>..), (?=..), (?!..), (?<=..), (?<!..), (?>..), (?flags:..), (?#..)",
    ),
    (
        "python",
        "a(?i)b",
        "global flags not at the start of the expression",
        (1, 5),
        "put the flags first, or write (?flags:..) around the part that they apply to",
    ),
    ("python", "(?i", "missing -, : or )", (0, 3), FLAGS),
    (
        "python",
        "(?L)a",
        "bad inline flags: cannot use 'L' flag with a str pattern",
        (0, 3),
        "leave it out: str patterns do not depend on the locale",
    ),
    ("python", "(?au)b", "bad inline flags: flags 'a', 'u' and 'L' are incompatible", (0, 4), "use one of them"),
    ("python", "(?i-i:a)", "bad inline flags: flag turned on and off", (0, 6), "name each flag once"),
    (
        "python",
        "(?-a:b)",
        "bad inline flags: cannot turn off flags 'a', 'u' and 'L'",
        (0, 4),
        "turn the other one on instead",
    ),
    ("python", "(?i-:a)", "missing flag", (0, 4), FLAGS),
    ("python", "(?#abc", "missing ), unterminated comment", (0, 6), "close the comment with )"),
    ("python", "(?<=a*)b", "look-behind requires fixed-width pattern", (0, 7), WIDTH),
    ("python", "(?<!a|bc)d", "look-behind requires fixed-width pattern", (0, 9), WIDTH),
    ("python", "(?(1)a|b)", "invalid group reference 1", (0, 5), "there is no such group"),
    ("python", "(?(x)a|b)", "unknown group name 'x'", (0, 5), DEFINE),
    ("python", "(?(0)a)", "bad group number", (0, 5), "groups are numbered from 1"),
    (
        "python",
        "(a)(?(1)a|b|c)",
        "conditional backref with more than two branches",
        (11, 12),
        "group the alternatives: (?:..|..)",
    ),
    ("python", "(?(", "missing group name", (0, 3), "write a group name and )"),
    ("python", "[\\b-\\a]", "bad character range \\b-\\a", (1, 6), RANGE),
    ("python", "(?a)(?u)b", "ASCII and UNICODE flags are incompatible", (4, 8), "use either a or u"),
    ("ecma", "a(b", "missing ), unterminated subpattern", (1, 2), OPEN_GROUP),
    ("ecma", "a)b", "unbalanced parenthesis", (1, 2), HINT_2),
    ("ecma", "]", "lone ]", (0, 1), "write \\]"),
    ("ecma", "}", "lone }", (0, 1), "write \\}"),
    ("ecma", "{", "incomplete quantifier", (0, 1), COUNTS),
    ("ecma", "[a", "unterminated character class", (0, 1), "close it with ], or write \\["),
    ("ecma", "a\\", "\\ at end of pattern", (1, 2), "write \\\\ for a backslash"),
    ("ecma", "*", "nothing to repeat", (0, 1), STAR),
    ("ecma", "a**", "nothing to repeat", (2, 3), STAR),
    ("ecma", "(?=a)*", "nothing to repeat", (5, 6), NOT_REPEATED),
    ("ecma", "^*", "nothing to repeat", (1, 2), NOT_REPEATED),
    ("ecma", "\\b?", "nothing to repeat", (2, 3), NOT_REPEATED),
    ("ecma", "a{2", "incomplete quantifier", (1, 3), COUNTS),
    ("ecma", "a{,2}", "incomplete quantifier", (1, 4), COUNTS),
    ("ecma", "a{3,1}", "numbers out of order in quantifier", (1, 6), "write {1,3}"),
    ("ecma", "[z-a]", "range out of order in character class", (1, 4), "write the lower end first"),
    (
        "ecma",
        "[a-\\d]",
        "invalid character class",
        (1, 5),
        "the ends of a range are single characters; write \\- for a hyphen",
    ),
    ("ecma", "\\q", "invalid escape", (0, 2), NO_ESCAPE),
    ("ecma", "\\-", "invalid escape", (0, 2), "write - without the backslash"),
    ("ecma", "[\\q]", "invalid escape", (1, 3), NO_ESCAPE),
    ("ecma", "\\x4", "invalid escape", (0, 3), HINT_8),
    ("ecma", "\\u12", "invalid Unicode escape", (0, 4), "write \\uHHHH or \\u{H..}"),
    ("ecma", "\\u{110000}", "invalid Unicode escape", (0, 10), CODE),
    ("ecma", "\\u{}", "invalid Unicode escape", (0, 3), CODE),
    ("ecma", "\\c1", "invalid control escape", (0, 2), "\\c takes a letter from A to Z"),
    ("ecma", "\\01", "invalid decimal escape", (0, 2), "write \\xNN or \\u{N}"),
    ("ecma", "[\\1]", "invalid decimal escape", (1, 3), "write \\xNN or \\u{N}"),
    ("ecma", "\\1", "invalid reference", (0, 2), "there is no such group"),
    ("ecma", "\\k<a>", "invalid reference", (0, 5), "there is no such group"),
    ("ecma", "\\k", "invalid named reference", (0, 2), "write \\k<name>"),
    ("ecma", "(?<a>.)\\k<b>", "invalid reference", (7, 12), "there is no such group"),
    ("ecma", "(?<1>.)", "invalid capture group name", (0, 4), IDENTIFIER),
    ("ecma", "(?<a", "invalid capture group name", (0, 4), IDENTIFIER),
    ("ecma", "(?<a>.)(?<a>.)", "duplicate group name 'a'", (7, 12), HINT_11),
    ("ecma", "(?P<a>.)", "invalid group", (0, 3), ECMA_KINDS),
    ("ecma", "(?i)a", "invalid group", (0, 4), ECMA_KINDS),
    ("ecma", "(?ii:a)", "repeated modifier", (0, 5), "name each of i, m and s once"),
    ("ecma", "(?-:a)", "invalid group", (0, 5), ECMA_KINDS),
    ("ecma", "(?>a)", "invalid group", (0, 3), ECMA_KINDS),
    (
        "ecma",
        "\\p{Foo}",
        "unknown Unicode property 'Foo'",
        (0, 7),
        "write names exactly, with their capitals and underscores",
    ),
    ("ecma", "\\p{Greek}", "unknown Unicode property 'Greek'", (0, 9), "write \\p{Script=Greek}"),
    (
        "ecma",
        "\\p{Script=Foo}",
        "unknown Unicode property 'Script=Foo'",
        (0, 14),
        "Script has no such value; write names exactly, with their capitals and underscores",
    ),
    ("ecma", "\\p", "invalid property name", (0, 2), PROPERTY),
    ("ecma", "\\pL", "invalid property name", (0, 2), PROPERTY),
    ("ecma", "\\p{L", "invalid property name", (0, 3), PROPERTY),
    (
        "ecma",
        "\\p{Foo=Bar}",
        "unknown Unicode property 'Foo=Bar'",
        (0, 11),
        "only General_Category, Script and Script_Extensions take a value",
    ),
    ("ecma", "\\_", "invalid escape", (0, 2), "write _ without the backslash"),
    ("ecma", "\\A", "invalid escape", (0, 2), "write ^"),
    ("ecma", "a\\Z", "invalid escape", (1, 3), "write $"),
    ("ecma", "[\\B]", "invalid escape", (1, 3), NO_ESCAPE),
]

REFUSED = [
    ("python", "(a+)\\1", TOO_MANY_TEXTS, (4, 6), REFERENCE),
    ("python", "(?P<a>.)(?P=a)", TOO_MANY_TEXTS, (8, 14), REFERENCE),
    (
        "python",
        "(a)?(?(1)b|c)",
        "conditional groups are not supported",
        (4, 9),
        "write the two cases as alternatives: (?:..|..)",
    ),
    (
        "python",
        "(?:a|ab)*+c",
        "this atomic group or possessive quantifier depends on the order of attempts in a way that is not supported",
        (0, 10),
        ATOMIC,
    ),
    (
        "python",
        "(?>a*b*|c)?+\\b",
        "this atomic group or possessive quantifier depends on the order of attempts in a way that is not supported",
        (0, 12),
        ATOMIC,
    ),
    ("python", "a{2147483648}", "counts above 2147483647 are not supported", (1, 13), "use a smaller count"),
    (
        "python",
        "(?:(?!.{900}a).|bc)*d",
        "the lookarounds, anchors or word boundaries in this part need too many states",
        (3, 14),
        "use shorter lookarounds and smaller counts, or move them out of the repetition",
    ),
    ("ecma", "(a+)\\1", TOO_MANY_TEXTS, (4, 6), REFERENCE),
    (
        "ecma",
        "\\k<a>(?<a>.)",
        "this back-reference is not supported: it precedes the end of its group",
        (0, 5),
        "refer to a group after its )",
    ),
    ("ecma", "a{2147483648,}", "counts above 2147483647 are not supported", (1, 14), "use a smaller count"),
]


def ident(case: tuple[str, str, str, tuple[int, int], str]) -> str:
    return f"{case[0]}-{case[1]}"


@pytest.mark.parametrize("case", MALFORMED, ids=ident)
def test_malformed(case: tuple[str, str, str, tuple[int, int], str]) -> None:
    """For `ecma`, with the flag u. Patterns that it refuses may be valid without it (test_regex_annex_b.py)."""
    dialect, pattern, message, span, hint = case
    if dialect == "ecma":
        error = unicode_flag_error(pattern)
        assert error is not None
    else:
        with pytest.raises(SpecError) as caught:
            parse_regex(pattern)
        error = caught.value
    assert (error.message, error.span, error.hint) == (message, span, hint)
    assert error.text == pattern
    assert "^" in str(error)


@pytest.mark.parametrize("case", REFUSED, ids=ident)
def test_refused(case: tuple[str, str, str, tuple[int, int], str]) -> None:
    dialect, pattern, reason, span, hint = case
    with pytest.raises(UnsupportedError) as caught:
        parse_regex(pattern, dialect=dialect)  # type: ignore[arg-type]
    error = caught.value
    assert (error.reason, error.span, error.hint) == (reason, span, hint)
    assert error.pointer == f"offset {span[0]}"
    assert error.text == pattern


def test_an_error_comes_before_a_refusal() -> None:
    with pytest.raises(SpecError):
        parse_regex(r"(a)\1(")


def test_unknown_dialect() -> None:
    with pytest.raises(ValueError, match="dialect"):
        parse_regex("a", dialect="pcre")  # type: ignore[arg-type]


def test_sets_that_re_warns_of_are_read_without_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parse_regex("[[a&&b]") == parse_regex(r"[\[a&b]")


@pytest.mark.parametrize("dialect", ["python", "ecma"])
@pytest.mark.parametrize(
    ("pattern", "limits", "limit"),
    [
        ("a" * 11, Limits(spec_length=10), "spec_length"),
        ("(" * 10_000 + ")" * 10_000, Limits(), "depth"),
        ("(?:" * 501 + ")" * 501, Limits(), "depth"),
        ("(?=" * 10_000 + ")" * 10_000, Limits(), "depth"),
        ("a*" * 2_000, Limits(nodes=1_000), "nodes"),
        ("[^a]" * 1_000 + "[^b]" * 1_000, Limits(nodes=1_000), "nodes"),
        ("(?=ab)a?" * 2_000, Limits(), "depth"),
        ("a*" * 300_000, Limits(seconds=0.05), "seconds"),
        ("(?:a(?=ab)|b)" * 30, Limits(nodes=5_000), "nodes"),
    ],
    ids=["length", "depth", "depth-501", "depth-looks", "nodes", "sets", "chain", "seconds", "copies"],
)
def test_limits(pattern: str, limits: Limits, limit: str, dialect: str) -> None:
    with pytest.raises(LimitExceeded) as caught:
        parse_regex(pattern, dialect=dialect, limits=limits)  # type: ignore[arg-type]
    assert caught.value.limit == limit
    assert caught.value.given > caught.value.allowed


@pytest.mark.parametrize("search", [False, True])
@pytest.mark.parametrize(
    "pattern",
    [
        "(?:" * 499 + "a|bc" + ")*" * 499,
        "(?:" * 250 + r"\b|a" + ")*" * 250,
        "(?:(?=" * 100 + "a" + "))*" * 100,
        "(?>" * 100 + "a*" + ")" * 100,
        "a" * 1_000_000,
        r"\W" * 20_000,
        "ab|" * 20_000,
        r"\b" * 1_000,
        r"(?:a\b)?" * 200,
        r"(?:\b\w{1,300}\b,){0,5000}",
        "[" * 50_000,
        "a{1," * 20_000,
        "(?P<" + "a" * 100_000,
        r"(a)" + r"\1" * 20_000,
        "(?:(?:(?:(?:a{0,1000}){0,1000}){0,1000}){0,1000}){0,1000}",
        "(?:(?!" + "ab" * 50 + ").)*",
        "(?:(?=.{12}a).)*b",
        "".join(f"a(?<=[^{chr(0x4E00 + i)}])" for i in range(100)),
        r"(?:(?:ba*|b\s)(?:(?<=b[ab]{7}|a\sb{2}[^a]{5})\w|[^a]{3})b*)+",
        "(?>" + "|".join("a" * i for i in range(1, 100)) + ")",
        "(?>a*(?:" + "b?" * 6_000 + ")?)",
        "(?>a*(?:" + "b?" * 20_000 + ")?)",
        "(?>(?:a|ab)(?:" + "c" * 12_000 + "|d)?)x",
        "(?>a*(?:(?:bc){3000})?)",
        "(?i)" + "".join(f"[{chr(0x100 + i)}-{chr(0x1000 + i)}]" for i in range(50)),
    ],
    ids=range(25),
)
def test_hostile_patterns_end_soon(pattern: str, search: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        limit = ""
        try:
            parse_regex(pattern, search=search, limits=Limits(seconds=60))
        except (LimitExceeded, SpecError, UnsupportedError) as error:
            limit = getattr(error, "limit", "")
    assert limit != "seconds"


def test_an_atomic_group_may_end_with_a_long_text() -> None:
    pattern, text = f"(?>a*(?:{'b' * 20_000})?)", "aa" + "b" * 20_000
    grammar = guided.GrammarCompiler(guided.Vocabulary([b"a", b"b"], eos_token_ids=[2])).compile_regex(pattern)
    for each in (text, "aa", text + "b", text[:-1]):
        matcher = guided.GrammarMatcher(grammar)
        is_match = re.fullmatch(f"a*(?:{'b' * 20_000})?", each) is not None
        assert (matcher.accept_string(each) and matcher.is_accepting()) == is_match
