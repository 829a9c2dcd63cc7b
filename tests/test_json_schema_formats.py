"""`format` against independent oracles: calendar, ipaddress, base64, the ABNF as `re`, and checks by hand."""

import base64
import calendar
import ipaddress
import json
import os
import random
import re
import unicodedata
from datetime import date, datetime, timedelta
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import LimitExceeded, SpecError, UnsupportedError
from guided.limits import Limits
from guided.matching.compiler import GrammarCompiler
from guided.matching.matcher import GrammarMatcher
from guided.spec.json_schema import JsonSchemaOptions, check_json_schema, json_schema_to_grammar
from guided.spec.json_schema.formats import FORMATS, format_shape
from guided.spec.json_schema.formats.idn import valid_code_points
from guided.spec.regex import parse_regex
from guided.spec.regex.ecma_chars import property_set
from guided.vocabulary import Vocabulary
from tests.regex_support import NODE, Patterns, ask_node


@cache
def _compiler():
    return GrammarCompiler(Vocabulary([bytes([byte]) for byte in range(256)] + [None], eos_token_ids=[256]))


@cache
def _matcher(schema):
    return GrammarMatcher(_compiler().compile_json_schema(schema))


def _takes(schema, value):
    matcher = _matcher(schema)
    matcher.reset()
    return matcher.accept_string(json.dumps(value, ensure_ascii=False)) and matcher.is_accepting()


def _is(name, text):
    return _takes(f'{{"type": "string", "format": "{name}"}}', text)


def _near(examples, alphabet, changes=3):
    """An example after a few changes: a character put in, taken out or replaced, a piece taken twice, two joined."""

    @st.composite
    def made(draw):
        text = draw(st.sampled_from(examples))
        for _ in range(draw(st.integers(0, changes))):
            at = draw(st.integers(0, len(text)))
            end = draw(st.integers(at, min(len(text), at + 4)))
            char = draw(st.sampled_from(alphabet))
            kind = draw(st.integers(0, 5))
            if kind == 5:
                text = text[:at] + draw(st.sampled_from(examples))[at:]
            else:
                text = text[:at] + ("", char, char, text[at:end] * 2, char * 2)[kind] + text[at if kind == 1 else end :]
        return text

    return made()


# --- dates


def test_the_calendar():
    """Days of all years at a stride, around the ends of all months."""
    for year in [*range(0, 10_000, 37), *range(0, 10_000, 100), 4, 1904, 2000, 2004, 2023, 2024, 9996, 9999]:
        leap = calendar.isleap(year)
        for month in range(14) if year % 5 == 0 else (2,):
            days = (0, 31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 0)[month]
            for day in (0, 1, 9, 10, 28, 29, 30, 31, 32):
                text = f"{year:04}-{month:02}-{day:02}"
                assert _is("date", text) == (1 <= day <= days), text


@given(st.dates())
def test_every_date_is_a_date(day):
    assert _is("date", day.isoformat())


_TIMES = ["23:59:60Z", "23:59:60.5z", "01:29:60+01:30", "15:59:60-08:00", "00:14:60+00:15", "08:30:06.283185-23:59"]


def _time(text):
    found = re.fullmatch(r"(\d\d):(\d\d):(\d\d)(\.\d+)?([zZ]|([+-])(\d\d):(\d\d))", text, re.ASCII)
    if not found:
        return False
    hour, minute, second = (int(found[at]) for at in (1, 2, 3))
    ahead, ahead_minutes = int(found[7] or 0), int(found[8] or 0)
    if hour > 23 or minute > 59 or second > 60 or ahead > 23 or ahead_minutes > 59:
        return False
    if second < 60:
        return True
    offset = timedelta(hours=ahead, minutes=ahead_minutes) * (-1 if found[6] == "-" else 1)
    utc = datetime(2000, 1, 2, hour, minute) - offset
    return (utc.hour, utc.minute) == (23, 59) and ahead_minutes % 15 == 0


@given(_near(_TIMES, "0123456789:+-.zZ "))
def test_time(text):
    assert _is("time", text) == _time(text)


@given(
    st.integers(0, 23),
    st.integers(0, 59),
    st.sampled_from("+-"),
    st.integers(0, 23),
    st.sampled_from((0, 15, 30, 45, 59)),
)
def test_leap_seconds(hour, minute, sign, ahead, minutes):
    text = f"{hour:02}:{minute:02}:60{sign}{ahead:02}:{minutes:02}"
    assert _is("time", text) == _time(text)


def test_a_leap_second_at_every_offset():
    for minutes in range(0, 1440, 15):
        for sign in (1, -1):
            local = (datetime(2000, 1, 2, 23, 59) + sign * timedelta(minutes=minutes)).strftime("%H:%M")
            assert _is("time", f"{local}:60{'+' if sign > 0 else '-'}{minutes // 60:02}:{minutes % 60:02}")


@given(
    _near(["2024-02-29T23:59:60Z", "1998-12-31t15:59:50.123-08:00", "2023-02-28T00:00:00+00:00"], "0123456789-:TtZ+. ")
)
def test_date_time(text):
    day, _, clock = text[:10], text[10:11], text[11:]
    try:
        valid = (
            bool(re.fullmatch(r"\d{4}-\d\d-\d\d", day, re.ASCII))
            and date.fromisoformat(day.replace("0000", "0400", 1))
            and True
        )
    except ValueError:
        valid = False
    assert _is("date-time", text) == bool(valid and text[10:11] in ("T", "t") and _time(clock))


@given(_near(["P1Y2M3DT4H5M6S", "P4W", "PT36H", "P1M", "PT1M2S", "p1dt2h"], "0123456789PYMDTHSWpymdthsw-."))
def test_duration(text):
    """A run of units without a gap: left out are only the first and the last."""
    found = re.fullmatch(r"P(\d+W|((?:\d+[YMD])*)(?:T((?:\d+[HMS])+))?)", text.upper(), re.ASCII)
    units = "" if not found else re.sub(r"\d", "", found[2] or ""), re.sub(r"\d", "", (found and found[3]) or "")
    runs = all(
        run in whole and run == "".join(dict.fromkeys(run)) for run, whole in zip(units, ("YMD", "HMS"), strict=True)
    )
    assert _is("duration", text) == bool(found and runs and len(text) > 1)


# --- the Internet


@given(_near(["192.168.0.1", "255.249.100.99", "0.0.0.0"], "0123456789. "))
def test_ipv4(text):
    assert _is("ipv4", text) == _valid(ipaddress.IPv4Address, text)


def _valid(make, text):
    try:
        make(text)
    except ValueError:
        return False
    return True


_V6 = [
    "::",
    "::1",
    "1:2:3:4:5:6:7:8",
    "1::d6:192.168.0.1",
    "1:2:3:4:5:6:1.2.3.4",
    "abcd:EF01::",
    "1:2:3:4:5:6:7::",
    "::2:3:4:5:6:7:8",
]


@given(_near(_V6, "012345f9:.g"))
def test_ipv6(text):
    assert _is("ipv6", text) == _valid(ipaddress.IPv6Address, text)
    assert not _is("ipv6", text + "%eth0")


_HOSTS = ["www.example.com", "a--b.c", "xn--a.b", "a" * 63 + ".com", ".".join(["b" * 63] * 3) + "." + "c" * 61, "1.2"]


def _hostname(text):
    labels = text.split(".")
    return len(text) <= 253 and all(_label(one) and one[:4].lower() != "xn--" for one in labels)


def _label(text):
    return 1 <= len(text) <= 63 and bool(re.fullmatch(r"[a-zA-Z0-9-]+", text)) and text[0] != "-" != text[-1]


@given(_near(_HOSTS, "abXxNn01-._"))
def test_hostname(text):
    assert _is("hostname", text) == _hostname(text)


_MAILS = [
    "joe.bloggs@example.com", '"joe @\\"bloggs"@a.b', "a@[127.0.0.1]", "a@[IPv6:::1]", "a@[ipv6:1::1.2.3.4]",
    "a" * 64 + "@" + ".".join(["b" * 63] * 2) + "." + "c" * 61, "a@xn--b", "a@[IPv6:1:2:3:4:5:6:7:8]",
]  # fmt: skip


def _email(text):
    local, at, domain = text.rpartition("@")
    if not at or len(text) > 254 or not 1 <= len(local) <= 64:
        return False
    dots = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
    if not re.fullmatch(rf'{dots}(\.{dots})*|"([ !#-\[\]-~]|\\[ -~])*"', local):
        return False
    if domain.startswith("["):
        inner = domain[1:-1]
        if not domain.endswith("]"):
            return False
        if inner[:5].lower() == "ipv6:":
            return _mail_v6(inner[5:])
        return _mail_v4(inner)
    return all(_label(one) for one in domain.split("."))


def _mail_v4(text):
    return bool(re.fullmatch(r"\d{1,3}(\.\d{1,3}){3}", text, re.ASCII)) and all(int(n) < 256 for n in text.split("."))


def _mail_v6(text):
    head, colon, tail = text.rpartition(":")
    if "." in tail and not _mail_v4(tail):
        return False
    plain = f"{head}{colon}1.2.3.4" if "." in tail else text
    groups = [one for one in text.split(":") if one]
    gap = "::" not in text or len(groups) + ("." in tail) <= 6
    return gap and _valid(ipaddress.IPv6Address, plain) and "%" not in text


@given(_near(_MAILS, 'ab1.@"\\ -[]:é'))
def test_email(text):
    assert _is("email", text) == _email(text)


def test_the_length_of_a_mailbox():
    domain = ".".join(["b" * 63] * 3)
    assert _is("email", "a" * 62 + "@" + domain)
    assert not _is("email", "a" * 63 + "@" + domain)
    assert not _is("email", "a" * 65 + "@b")


# --- URIs

_URIS = [
    "http://u:p@foo.bar:80/a;b/%C3/?q=1/?#f", "urn:a:b", "//h/p", "a/b:c", "./a:b", "?q", "#", "", "http://[::1]:8/",
    "a:", "ldap://[v1.fe:d]/c", "/a//b", "http://[1::1.2.3.4]", "mailto:J@b.c", "x://",
]  # fmt: skip
_UCS = (
    "[\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"
    + "".join(f"{chr(p << 16)}-{chr((p << 16) + 0xFFFD)}" for p in range(1, 14))
    + "\U000e1000-\U000efffd]"
)
_PRIVATE = "[\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd]"


def _uri(text, relative=False, international=False):
    """Split as appendix B of RFC 3986 does, and each part by itself."""
    scheme, authority, path, query, fragment = re.fullmatch(
        r"(?s)(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", text
    ).groups()
    more, private = (f"|{_UCS}", f"|{_PRIVATE}") if international else ("", "")

    def only(part, also="", extra=""):
        return re.fullmatch(rf"(?:[A-Za-z0-9._~!$&'()*+,;={also}-]|%[0-9A-Fa-f]{{2}}{more}{extra})*", part) is not None

    if scheme is None:
        if not relative or (authority is None and ":" in path.split("/")[0]):
            return False
    elif not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme):
        return False
    if authority is not None:
        user, at, host = authority.rpartition("@")
        if at and not only(user, ":"):
            return False
        literal = re.fullmatch(r"\[(.*)\](:[0-9]*)?", host)
        if literal:
            future = re.fullmatch(r"[vV][0-9A-Fa-f]+\.[A-Za-z0-9._~!$&'()*+,;=:-]+", literal[1])
            if not future and ("%" in literal[1] or not _valid(ipaddress.IPv6Address, literal[1])):
                return False
        elif not only(re.sub(r":[0-9]*\Z", "", host)):
            return False
    return only(path, "/:@") and only(query or "", "/?:@", private) and only(fragment or "", "/?:@")


@given(_near(_URIS, "a1:/?#[]@%.é\\{ \ue000"))
def test_uris(text):
    for name, relative, international in (
        ("uri", False, False), ("uri-reference", True, False), ("iri", False, True), ("iri-reference", True, True),
    ):  # fmt: skip
        assert _is(name, text) == _uri(text, relative, international), name


_NAME = r"(?:\w|%[0-9A-Fa-f]{2})(?:\.?(?:\w|%[0-9A-Fa-f]{2}))*"
_VARIABLE = rf"{_NAME}(?:\*|:[1-9]\d{{0,3}})?"
_TEMPLATE = re.compile(
    rf"(?a:(?:[^\x00- \x7f-\x9f\"%<>\\^`{{|}}\ufdd0-\ufdef\ufff0-\uffff]|%[0-9A-Fa-f]{{2}}"
    rf"|\{{[+#./;?&]?{_VARIABLE}(?:,{_VARIABLE})*\}})*)"
)


@given(_near(["http://a/{x:1}/{+y*,z.a}{?q}", "{%41}", "a'b%41", "{#v:1000}"], "a1{}:,.*%+=é '|"))
def test_uri_template(text):
    assert _is("uri-template", text) == (_TEMPLATE.fullmatch(text) is not None)


# --- pointers, identifiers, bytes, numbers


@given(_near(["/foo/~0~1/%a", "", "/", "/a~1b//\U0001f60e"], "/~01a#\x00"))
def test_pointers(text):
    def pointer(text):
        return (not text or text[0] == "/") and not re.search("~(?![01])", text)

    assert _is("json-pointer", text) == pointer(text)
    for prefix in ("0", "10", "01", "", "2+1", "2-0", "2+", "-1"):
        valid = bool(re.fullmatch(r"(0|[1-9]\d*)([+-](0|[1-9]\d*))?", prefix))
        assert _is("relative-json-pointer", prefix + "/" + text) == (valid and pointer("/" + text))
        assert _is("relative-json-pointer", prefix + "#") == valid
    assert not _is("relative-json-pointer", "0#" + (text or "#"))


@given(_near(["2EB8AA08-AA98-11EA-B4AA-73B441d16380"], "0aG-"))
def test_uuid(text):
    assert _is("uuid", text) == bool(re.fullmatch(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", text))


@given(st.binary(max_size=12), _near(["AAAA", "QUI=", "QQ==", "-_+/"], "AQgB=/-_ "))
def test_base64(data, text):
    assert _is("byte", base64.b64encode(data).decode())
    assert _is("base64url", base64.urlsafe_b64encode(data).decode())
    assert _is("base64url", base64.urlsafe_b64encode(data).decode().rstrip("="))

    def canonical(text, alphabet):
        try:
            return base64.b64encode(base64.b64decode(text, alphabet, validate=True), alphabet).decode() == text
        except ValueError:
            return False

    assert _is("byte", text) == canonical(text, b"+/")
    full = text if "=" in text else text + "=" * (-len(text) % 4)
    assert _is("base64url", text) == (canonical(full, b"-_") and not re.search("[+/]", text))


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_integers(bits):
    for name, low, high in ((f"int{bits}", -(2 ** (bits - 1)), 2 ** (bits - 1) - 1), (f"uint{bits}", 0, 2**bits - 1)):
        schema = f'{{"format": "{name}"}}'
        for value in (low - 1, low, low + 1, 0, high - 1, high, high + 1):
            assert _takes(schema, value) == (low <= value <= high), (name, value)
        assert not _takes(schema, 1.5)
        assert _takes(schema, "text")
        assert _takes(schema, None)
        assert not _takes(f'{{"not": {schema}}}', high)
        assert _takes(f'{{"not": {schema}}}', 1.5)
        assert not _takes(f'{{"not": {schema}}}', "text")


def test_formats_without_a_limit():
    for name in ("float", "double", "binary", "password"):
        for value in (1.5, "any text", None, [], {}):
            assert _takes(f'{{"format": "{name}"}}', value)


# --- internationalized names


def _derived(char):
    """RFC 5892, section 3, by the running Python's Unicode."""
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
    later = {code for low, high in property_set("Cn") for code in range(low, high + 1)}  # than the tables
    for code in range(0x30000):
        char = chr(code)
        if unicodedata.category(char) not in ("Cn", "Cs") and code not in later:
            assert (code in known) == _derived(char), hex(code)


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
        return _hostname(text)
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
    assert _is("idn-hostname", text) == _idn(text)


@given(
    st.text(st.characters(exclude_categories=("Cn", "Cs")), min_size=1, max_size=3).filter(lambda t: "\u3002" not in t)
)
def test_idn_hostname_of_any_characters(text):
    if not re.search("[.\u3002\uff0e\uff61\u200c]", text):
        assert _is("idn-hostname", text) == _idn(text)


def test_idn_names_by_example():
    for text in (
        "\u0628\u064a\u200c\u0628\u064a",
        "\u0915\u094d\u200c\u0937",
        "a\u3002b\uff0e\u4e08\uff61c",
        "\u3053" * 57,
    ):
        assert _is("idn-hostname", text)
    for text in ("x\u200cy", "\u3053" * 58, "xn--4gbwdl", "ab--c", "a\u3002", "\xfc" * 60):
        assert not _is("idn-hostname", text)
    for text in ("\u5b9f@\u5b9f.jp", '"\u5b9f a"@b', "\x85@xn--a", "\U0001d54f@[IPv6:::1]", "\xe9" * 64 + "@b"):
        assert _is("idn-email", text)
    for text in ("\u5b9f@\u5b9f\u3002jp", "@a", "a@\u0300a", "\u5b9f b@c", "a@\u05d0.1", "\xe9" * 65 + "@b"):
        assert not _is("idn-email", text)


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
    """Which of them `new RegExp(pattern, "u")` takes: of node where it is installed, else of the front end."""
    if NODE is not None:
        return [not isinstance(answer, str) for answer in ask_node([(pattern, "u", []) for pattern in patterns])]
    return [_is_expression(pattern) for pattern in patterns]


def _is_expression(pattern):
    try:
        parse_regex(pattern, dialect="ecma", limits=Limits(states=20_000))
    except SpecError:
        return False
    except (UnsupportedError, LimitExceeded):  # of what is found to be valid
        return True
    return True


def test_ordinary_expressions():
    judged = zip(_EXPRESSIONS, _valid_expressions(_EXPRESSIONS), strict=True)
    assert [text for text, right in judged if not right] == []
    assert [text for text in _EXPRESSIONS if not _is("regex", text)] == []


@given(st.lists(st.sampled_from(_PIECES), max_size=8).map("".join) | _near(_EXPRESSIONS, _PIECES))
def test_no_invalid_expression(text):
    if _is("regex", text):
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
    accepted = [_is("regex", text) for text in texts]
    assert [text for text, right, ours in zip(texts, valid, accepted, strict=True) if ours and not right] == []
    assert sum(accepted) > 0.8 * sum(valid)


def test_random_expressions():
    """Valid by construction, and without what is left out: lookarounds in lookarounds, names, references."""
    patterns = (Patterns(random.Random(seed), "ecma").pattern() for seed in range(2000))
    plain = [text for text in patterns if not re.search(r"\(\?[=!<]|\\[0-9k]", text)]
    assert len(plain) > 500
    assert [text for text in plain if not _is("regex", text)] == []


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
    """As documented: what is refused is valid all the same."""
    assert _is_expression(outside)
    assert _is("regex", inside)
    assert not _is("regex", outside)


def test_ranges_of_letters_and_digits():
    """In the upper two levels each range of two different letters or digits, and only those in order."""
    for pool in ("0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"):
        for low in pool:
            for high in pool:
                if low != high:
                    assert _is("regex", f"([{low}-{high}])") == (low < high), (low, high)


def test_counts_up_to_99():
    for low in range(100):
        for high in range(100):
            assert _is("regex", f"a{{{low},{high}}}") == (low <= high), (low, high)


# --- the keyword


@pytest.mark.parametrize("name", FORMATS)
def test_only_one_type_is_touched(name):
    shape = format_shape(name)
    assert shape is format_shape(name)  # the node is one object
    others = [None, True, [], {}, *([1, 1.5] if shape.patterns else ["text", ""])]
    for value in others:
        assert _takes(f'{{"format": "{name}"}}', value)
        if name not in ("idn-hostname", "idn-email", "float", "double", "binary", "password"):
            assert not _takes(f'{{"not": {{"format": "{name}"}}}}', value)


@given(
    st.sampled_from(("date-time", "ipv6", "uri", "email", "uuid")), _near([*_URIS, *_MAILS, *_V6, *_TIMES], "a1:.@-")
)
def test_negation(name, text):
    assert _takes(f'{{"not": {{"format": "{name}"}}}}', text) != _is(name, text)


def test_names_of_members():
    schema = '{"type": "object", "propertyNames": {"format": "hostname"}, "additionalProperties": {"format": "ipv4"}}'
    assert _takes(schema, {"a.b": "1.2.3.4", "b": 1})
    assert not _takes(schema, {"a.": "1.2.3.4"})
    assert not _takes(schema, {"a": "1.2.3"})
    assert not _takes(schema, {".".join(["b" * 63] * 4): 1})


def test_format_with_other_keywords():
    both = '{"type": "string", "format": "date", "pattern": "^2024-02-2", "maxLength": 10}'
    assert _takes(both, "2024-02-29")
    assert not _takes(both, "2023-02-28")
    assert _takes('{"enum": ["1.2.3.4", "a", 3], "format": "ipv4"}', "1.2.3.4")
    assert not _takes('{"enum": ["1.2.3.4", "a", 3], "format": "ipv4"}', "a")
    assert _takes('{"enum": ["1.2.3.4", "a", 3], "format": "ipv4"}', 3)
    short = '{"format": "hostname", "maxLength": 4, "minLength": 3}'
    assert [_takes(short, text) for text in ("ab", "a.b", "a.bc", "a.bcd")] == [False, True, True, False]


@pytest.mark.parametrize(
    ("name", "reason", "hint"),
    [
        ("datetime", "the format 'datetime' is not known", "did you mean 'date-time'? else say it with pattern"),
        ("UUID", "the format 'UUID' is not known", "did you mean 'uuid'?"),
        ("color", "the format 'color' is not known", "say it with pattern, or pass unknown_format='ignore'"),
        ("regexp", "the format 'regexp' is not known", "did you mean 'regex'?"),
    ],
)
def test_names_that_are_not_enforced(name, reason, hint):
    schema = {"properties": {"a": {"format": name}}}
    with pytest.raises(UnsupportedError) as caught:
        json_schema_to_grammar(schema, JsonSchemaOptions())
    assert caught.value.pointer == "/properties/a/format"
    assert caught.value.reason.startswith(reason)
    assert caught.value.hint.startswith(hint)
    report = check_json_schema(schema, JsonSchemaOptions(unknown_format="ignore"))
    assert report.ok
    assert ("/properties/a/format", "ignored") in {(entry.pointer, entry.status) for entry in report.entries}
    json_schema_to_grammar(schema, JsonSchemaOptions(format="annotate"))


# --- the public suite

_DRAFTS = {"draft4": 6, "draft6": 9, "draft7": 25, "draft2019-09": 27, "draft2020-12": 27}
"""Draft -> the least number of groups that must compile."""


@pytest.mark.parametrize("draft", _DRAFTS)
def test_format_suite(draft):
    """No wrong verdict, but for names in Punycode and expressions with names, which are all refused."""
    roots = [Path(os.environ["GUIDED_ASSETS"])] if "GUIDED_ASSETS" in os.environ else []
    roots.append(Path(__file__).resolve().parents[2] / "shared")
    found = [
        folder
        for root in roots
        for part in ("", "data")
        if (folder := root / part / "json-schema-test-suite" / draft).is_dir()
    ]
    if not found:
        pytest.skip(
            "json-schema-test-suite is neither below $GUIDED_ASSETS nor in a folder `shared` beside the repository"
        )
    compiled, wrong = 0, []
    for path in sorted((found[0] / "optional" / "format").glob("*.json")):
        for group in json.loads(path.read_text("utf-8")):
            try:
                grammar = _compiler().compile_json_schema(group["schema"], draft=draft.replace("draft2", "2"))
            except UnsupportedError:
                continue
            compiled += 1
            for test in group["tests"]:
                matcher, text = GrammarMatcher(grammar), json.dumps(test["data"])
                verdict = matcher.accept_string(text) and matcher.is_accepting()
                if verdict != test["valid"] and (verdict or not re.search(r"xn--|\(\?<n", text)):
                    wrong.append((path.name, test["description"], text))
    assert not wrong
    assert compiled >= _DRAFTS[draft]
