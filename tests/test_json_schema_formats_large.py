"""The formats with the largest languages: names by Unicode's tables, regular expressions."""

import random
import re
import unicodedata
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.frontends.json_schema.formats.idn import valid_code_points
from guided.frontends.regex import parse_regex
from guided.frontends.regex.ecma_chars import property_set
from guided.limits import Limits
from tests.format_support import conforms, is_hostname, near
from tests.regex_support import NODE, Patterns, ask_node

# --- internationalized names


def _derived(char):
    """RFC 5892, section 3, with the Unicode tables of the running Python."""
    if char in "\u00df\u03c2\u06fd\u06fe\u0f0b\u3007\u00b7\u0375\u05f3\u05f4\u30fb\u200c\u200d-":
        return True
    code, fold = ord(char), unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", char).casefold())
    if (
        char in "\u0640\u07fa\u302e\u302f\u303b"
        or 0x3031 <= code <= 0x3035
        or unicodedata.normalize("NFKC", fold) != char
    ):
        return False
    jamo = 0x1100 <= code <= 0x11FF or 0xA960 <= code <= 0xA97F or 0xD7B0 <= code <= 0xD7FF
    ignorable = code in (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5) or 0x180B <= code <= 0x180F or 0xFE00 <= code <= 0xFE0F
    ignorable |= 0xE0000 <= code <= 0xE0FFF
    blocks = 0x20D0 <= code <= 0x20FF or 0x1D100 <= code <= 0x1D24F
    letter = unicodedata.category(char) in ("Ll", "Lu", "Lo", "Nd", "Lm", "Mn", "Mc")
    return letter and not (jamo or ignorable or blocks)


def test_the_code_points_of_labels():
    known = {code for low, high in valid_code_points() for code in range(low, high + 1)}
    later = {code for low, high in property_set("Cn") for code in range(low, high + 1)}  # newer than the tables
    there = [code for code in range(0x30000) if unicodedata.category(chr(code)) not in ("Cn", "Cs")]
    asked = [code for code in there if code not in later]
    assert len(asked) > 100_000
    for code in asked:
        assert (code in known) == _derived(chr(code)), hex(code)


_POOLS = ("al0-\u00b7\u0375\u03b1\u03b2", "\u05d0\u05d1\u05f3\u05f40-\u05b0a", "\u0628\u064a\u0660\u06f0\u064b0",
          "\u30fb\u3041\u30a1\u4e08a-", "a\u05d0.0-\u0660\u06f1\u0300", "\u07c1a\u07ca.\u07eb", "\xe9\u0301\u02b9a.0-",
          "\u0915\u094d\u200d\u0937a")  # fmt: skip


def _idn(text):
    labels = text.split(".")
    mixed = any(unicodedata.bidirectional(char) in ("R", "AL", "AN") for char in text)
    return all(_idn_label(one) and (not mixed or _bidi(one)) for one in labels)


def _idn_label(text):
    if not text or text[0] == "-" or text[-1] == "-" or text[2:4] == "--" or unicodedata.category(text[0])[0] == "M":
        return False
    if text.isascii():
        return is_hostname(text)
    scripts = [unicodedata.name(char, "?").split()[0] for char in text] + [""]
    kana = {"HIRAGANA", "KATAKANA", "CJK"}
    for at, char in enumerate(text):
        before = scripts[at - 1] if at else ""
        if not _derived(char) or (char == "\u0375" and scripts[at + 1] != "GREEK"):
            return False
        if char == "\u00b7" and (text[max(at - 1, 0)], text[at + 1 : at + 2]) != ("l", "l"):
            return False
        if (char in "\u05f3\u05f4" and before != "HEBREW") or (
            char == "\u200d" and (not at or unicodedata.combining(text[at - 1]) != 9)
        ):
            return False
        if char == "\u30fb" and not any(
            one in kana for one, other in zip(scripts, text, strict=False) if other != char
        ):
            return False
    return True


def _bidi(text):
    kinds = [unicodedata.bidirectional(char) for char in text]
    right = kinds[0] in ("R", "AL")
    while kinds and kinds[-1] == "NSM":
        kinds.pop()
    if not kinds or (not right and kinds[0] != "L") or {"EN", "AN"} <= set(kinds):
        return False
    if right:
        return kinds[-1] in ("R", "AL", "EN", "AN") and "L" not in kinds
    return kinds[-1] in ("L", "EN") and not {"R", "AL", "AN"} & set(kinds)


@given(st.sampled_from(_POOLS).flatmap(lambda pool: st.text(st.sampled_from(pool), min_size=1, max_size=7)))
def test_idn_hostname(text):
    assert conforms("idn-hostname", text) == _idn(text)


@given(
    st.text(st.characters(exclude_categories=("Cn", "Cs")), min_size=1, max_size=3).filter(lambda t: "\u3002" not in t)
)
def test_idn_hostname_of_any_characters(text):
    if not re.search("[.\u3002\uff0e\uff61\u200c]", text):
        assert conforms("idn-hostname", text) == _idn(text)


def test_idn_names_by_example():
    for text in (
        "\u0628\u064a\u200c\u0628\u064a",
        "\u0915\u094d\u200c\u0937",
        "a\u3002b\uff0e\u4e08\uff61c",
        "\u3053" * 57,
    ):
        assert conforms("idn-hostname", text)
    for text in ("x\u200cy", "\u3053" * 58, "xn--4gbwdl", "ab--c", "a\u3002", "\xfc" * 60):
        assert not conforms("idn-hostname", text)
    for text in ("\u5b9f@\u5b9f.jp", '"\u5b9f a"@b', "\x85@xn--a", "\U0001d54f@[IPv6:::1]", "\xe9" * 64 + "@b"):
        assert conforms("idn-email", text)
    for text in ("\u5b9f@\u5b9f\u3002jp", "@a", "a@\u0300a", "\u5b9f b@c", "a@\u05d0.1", "\xe9" * 65 + "@b"):
        assert not conforms("idn-email", text)


# --- regular expressions

_EXPRESSIONS = [
    r"^[a-z0-9_-]{3,16}$", r"\d+", r"^\d{5}(?:[-\s]\d{4})?$", r"^[\w.+-]+@[\w-]+\.[\w.-]+$", r"^\S+@\S+\.\S+$",
    r"^[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)*$",
    r"^[!#-'*+\-/-9=?A-Z^-~]+(\.[!#-'*+/-9=?A-Z^-~-]+)*$", r"^https?:\/\/[\w\-]+(\.[\w\-]+)+[/#?]?.*$",
    r"^(https?://)?([\da-z.-]+)\.([a-z.]{2,6})([/\w .-]*)*/?$", r"^\d{4}-\d{2}-\d{2}$",
    r"^#?([a-f0-9]{6}|[a-f0-9]{3})$", r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$",
    r"^([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$",
    r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
    r"(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$",
    r"^(?:(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)\.){3}(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)$",
    r"^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)(?=.*[@$!%*?&])[A-Za-z\d@$!%*?&]{8,}$", r"^((?!foo|bar).)*$", r"(?<=\$)\d+(?!\.)",
    r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-5][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$", r"^\/$", r"(?<!a)b",
    r"^<([a-z]+)([^<]+)*(?:>(.*)<\/[a-z]+>|\s+\/>)$", r"^[a-z0-9]+(?:-[a-z0-9]+)*$", r"[^\x00-\x1f\x7f]", r"[\s\S]*?",
    r"^\+?[1-9]\d{1,14}$", r"^(?:\+?1[-. ]?)?\(?([0-9]{3})\)?[-. ]?([0-9]{3})[-. ]?([0-9]{4})$", r"^\p{Lu}\p{Ll}+$",
    r"^4[0-9]{12}(?:[0-9]{3})?$|^5[1-5][0-9]{14}$|^3[47][0-9]{13}$", r"^\$?\d{1,3}(,\d{3})*(\.\d{2})?$",
    r"^-?\d*\.?\d+$", r"^[A-Z]{2}\d{2}[A-Z0-9]{10,30}$", r"^\d{10,15}$", r"^.{1,255}$", r"^[\u4e00-\u9fa5]{2,4}$",
    "^[\u4e00-\u9fa5]+$", "[à-ÿ]", r"[\u0400-\u04FF]+", r"[\u{1F600}\u{1F64F}]", r"\bword\b", r"\Bx\B", r"a|b|", "",
    r"()", r"(?:)", r"[]", r"[^]", r"[-]", r"[^-]", r"[a-]", r"[\]\[\\]", r"[[]", r"[^\0]", r"a{0,}?", r"x*?y+?z??",
    r"\cA\t\n\v\f\r", r"\u{10FFFF}\u{0000041}", r"^(([a-zA-Z]:)|(\\{2}\w+)\$?)(\\(\w[\w ]*))+\.(txt|pdf)$",
    r'^[^\\/:*?"<>|]+$', r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]" r"{2}==|[A-Za-z0-9+/]{3}=)?$",
    r"^M{0,4}(CM|CD|D?C{0,3})(XC|XL|L?X{0,3})(IX|IV|V?I{0,3})$", r"^[!-/:-@\[-`{-~]+$", r"^[ -~]*$",
    r"((((((((a)*)+)?){2})){3,4}|b)c)", r"^[\w-]+(\/[\w-]+)*$", r"^(?!\s*$).+",
    r"^(?!.*\.\.)(?!.*\.$)[^\W][\w.]{0,29}$",
]  # fmt: skip
_PIECES = [
    *"ab0179()[]{}?*+|\\^$.-,:=!<>PuLkcdDwWsSbB#~ \n/é中\U0001f600", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?<", "(?i:",
    "{1,", "{2}", "{,3}", "{3,1}", "{1,3}", "{10,12}", "{12,10}", "{9,10}", "{99,100}", "{100,99}", "{0,0}", "{1,01}",
    "[^", "[a-", "-z]", "z-a", "b-B", "[\\x20-", "-\\x7e]", "\\u4e00-", "-\\u9fa5", "\\uD83D", "\\uDE00", "-\\uDE00",
    "\\x", "\\u", "\\u{", "\\u{10FFFF}", "\\u{110000}", "\\p{", "\\P{L", "\\k<", "\\1", "\\0", "[\\0", "\\u0041",
    "\\x41", "}", "Lu}", "\\c", "\\cA", "\\-", "\\p{L}", "\\d-", "--", "-]", "[-", "а-я", "-я", "(?<a>", "\\k<a>",
]  # fmt: skip


def _valid_expressions(patterns):
    """The expressions that `new RegExp(pattern, "u")` accepts: according to node if it is installed, otherwise to the
    front end.
    """
    if NODE is not None:
        return [not isinstance(answer, str) for answer in ask_node([(pattern, "u", []) for pattern in patterns])]
    return [_is_expression(pattern) for pattern in patterns]


def _is_expression(pattern):
    try:
        parse_regex(pattern, dialect="ecma", limits=Limits(states=20_000))
    except SpecError:
        return False
    except (UnsupportedError, LimitExceeded):  # of the expressions that are found to be valid
        return True
    return True


def test_ordinary_expressions():
    judged = zip(_EXPRESSIONS, _valid_expressions(_EXPRESSIONS), strict=True)
    assert [text for text, right in judged if not right] == []
    assert [text for text in _EXPRESSIONS if not conforms("regex", text)] == []


@given(st.lists(st.sampled_from(_PIECES), max_size=8).map("".join) | near(_EXPRESSIONS, _PIECES))
def test_no_invalid_expression(text):
    if conforms("regex", text):
        assert _is_expression(text)


def test_no_invalid_expression_among_many():
    source, texts = random.Random(5), []
    for _ in range(6000):
        text = source.choice(_EXPRESSIONS)
        for _ in range(source.randint(1, 3)):
            at = source.randint(0, len(text))
            text = text[:at] + source.choice(_PIECES) + text[at + source.randint(0, 2) :]
        members = "".join(source.choices([*_PIECES, *"-^\\]"], k=5))
        texts += ["".join(source.choices(_PIECES, k=source.randint(1, 7))), text, f"[{members}]"]
    valid = _valid_expressions(texts)
    accepted = [conforms("regex", text) for text in texts]
    assert [text for text, right, ours in zip(texts, valid, accepted, strict=True) if ours and not right] == []
    assert sum(accepted) > 0.8 * sum(valid)


def test_random_expressions():
    """Valid by construction, and without the unsupported parts: lookarounds in lookarounds, names, references."""
    patterns = (Patterns(random.Random(seed), "ecma").pattern() for seed in range(2000))
    plain = [text for text in patterns if not re.search(r"\(\?[=!<]|\\[0-9k]", text)]
    assert len(plain) > 500
    assert [text for text in plain if not conforms("regex", text)] == []


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ("(" * 8 + ")" * 8, "(" * 9 + ")" * 9),
        ("(?=(a))((?!b))", "((?=((a))))"),
        ("a{12,34}(a{12,21})a{0,999}a{7,12}", "((a{12,34}))"),
        ("[b-y](([b-y]))", "(([c-l]))"),
        ("[\\x20-\\u00ff]", "[\\x30-\\x39]"),
        ("[\\0]", "\\0"),
        ("\\p{L}(\\p{Nd})", "\\p{Letter}"),
        ("a", "(?<n>a)"),
        ("a", "(a)\\1"),
    ],
)
def test_expressions_that_are_left_out(inside, outside):
    """As documented: these expressions are refused although they are valid."""
    assert _is_expression(outside)
    assert conforms("regex", inside)
    assert not conforms("regex", outside)


def test_ranges_of_letters_and_digits():
    """In the upper two levels: each range of two different letters or digits, and only ranges in order."""
    for pool in ("0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"):
        for low, high in permutations(pool, 2):
            assert conforms("regex", f"([{low}-{high}])") == (low < high), (low, high)


def test_counts_up_to_99():
    for low in range(100):
        for high in range(100):
            assert conforms("regex", f"a{{{low},{high}}}") == (low <= high), (low, high)
