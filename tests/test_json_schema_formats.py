"""Formats against independent oracles: calendar, ipaddress, base64, the ABNF as `re`, and checks by hand."""

import base64
import calendar
import ipaddress
import re
from datetime import date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.format_support import ADDRESSES, MAILS, TIMES, URIS, conforms, is_hostname, is_label, near, takes

# --- dates


def test_the_calendar():
    """Days of all years at a stride, and around the ends of all months."""
    for year in [*range(0, 10_000, 37), *range(0, 10_000, 100), 4, 1904, 2000, 2004, 2023, 2024, 9996, 9999]:
        leap = calendar.isleap(year)
        for month in range(14) if year % 5 == 0 else (2,):
            days = (0, 31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 0)[month]
            for day in (0, 1, 9, 10, 28, 29, 30, 31, 32):
                text = f"{year:04}-{month:02}-{day:02}"
                assert conforms("date", text) == (1 <= day <= days), text


@given(st.dates())
def test_every_date_is_a_date(day):
    assert conforms("date", day.isoformat())


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


@given(near(TIMES, "0123456789:+-.zZ "))
def test_time(text):
    assert conforms("time", text) == _time(text)


@given(
    st.integers(0, 23),
    st.integers(0, 59),
    st.sampled_from("+-"),
    st.integers(0, 23),
    st.sampled_from((0, 15, 30, 45, 59)),
)
def test_leap_seconds(hour, minute, sign, ahead, minutes):
    text = f"{hour:02}:{minute:02}:60{sign}{ahead:02}:{minutes:02}"
    assert conforms("time", text) == _time(text)


def test_a_leap_second_at_every_offset():
    for minutes in range(0, 1440, 15):
        for sign in (1, -1):
            local = (datetime(2000, 1, 2, 23, 59) + sign * timedelta(minutes=minutes)).strftime("%H:%M")
            assert conforms("time", f"{local}:60{'+' if sign > 0 else '-'}{minutes // 60:02}:{minutes % 60:02}")


@given(
    near(["2024-02-29T23:59:60Z", "1998-12-31t15:59:50.123-08:00", "2023-02-28T00:00:00+00:00"], "0123456789-:TtZ+. ")
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
    assert conforms("date-time", text) == bool(valid and text[10:11] in ("T", "t") and _time(clock))


@given(near(["P1Y2M3DT4H5M6S", "P4W", "PT36H", "P1M", "PT1M2S", "p1dt2h"], "0123456789PYMDTHSWpymdthsw-."))
def test_duration(text):
    """Consecutive units without a gap: only the first and the last ones may be omitted."""
    found = re.fullmatch(r"P(\d+W|((?:\d+[YMD])*)(?:T((?:\d+[HMS])+))?)", text.upper(), re.ASCII)
    units = "" if not found else re.sub(r"\d", "", found[2] or ""), re.sub(r"\d", "", (found and found[3]) or "")
    runs = all(
        run in whole and run == "".join(dict.fromkeys(run)) for run, whole in zip(units, ("YMD", "HMS"), strict=True)
    )
    assert conforms("duration", text) == bool(found and runs and len(text) > 1)


# --- the Internet


@given(near(["192.168.0.1", "255.249.100.99", "0.0.0.0"], "0123456789. "))
def test_ipv4(text):
    assert conforms("ipv4", text) == _valid(ipaddress.IPv4Address, text)


def _valid(make, text):
    try:
        make(text)
    except ValueError:
        return False
    return True


@given(near(ADDRESSES, "012345f9:.g"))
def test_ipv6(text):
    assert conforms("ipv6", text) == _valid(ipaddress.IPv6Address, text)
    assert not conforms("ipv6", text + "%eth0")


_HOSTS = ["www.example.com", "a--b.c", "xn--a.b", "a" * 63 + ".com", ".".join(["b" * 63] * 3) + "." + "c" * 61, "1.2"]


@given(near(_HOSTS, "abXxNn01-._"))
def test_hostname(text):
    assert conforms("hostname", text) == is_hostname(text)


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
    return all(is_label(one) for one in domain.split("."))


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


@given(near(MAILS, 'ab1.@"\\ -[]:é'))
def test_email(text):
    assert conforms("email", text) == _email(text)


def test_the_length_of_a_mailbox():
    domain = ".".join(["b" * 63] * 3)
    assert conforms("email", "a" * 62 + "@" + domain)
    assert not conforms("email", "a" * 63 + "@" + domain)
    assert not conforms("email", "a" * 65 + "@b")


# --- URIs

_UCS = (
    "[\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"
    + "".join(f"{chr(p << 16)}-{chr((p << 16) + 0xFFFD)}" for p in range(1, 14))
    + "\U000e1000-\U000efffd]"
)
_PRIVATE = "[\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd]"


def _uri(text, relative=False, international=False):
    """Split as in appendix B of RFC 3986, and each part checked by itself."""
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


@given(near(URIS, "a1:/?#[]@%.é\\{ \ue000"))
def test_uris(text):
    for name, relative, international in (
        ("uri", False, False), ("uri-reference", True, False), ("iri", False, True), ("iri-reference", True, True),
    ):  # fmt: skip
        assert conforms(name, text) == _uri(text, relative, international), name


_NAME = r"(?:\w|%[0-9A-Fa-f]{2})(?:\.?(?:\w|%[0-9A-Fa-f]{2}))*"
_VARIABLE = rf"{_NAME}(?:\*|:[1-9]\d{{0,3}})?"
_TEMPLATE = re.compile(
    rf"(?a:(?:[^\x00- \x7f-\x9f\"%<>\\^`{{|}}\ufdd0-\ufdef\ufff0-\uffff]|%[0-9A-Fa-f]{{2}}"
    rf"|\{{[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*\}})*)"
)


@given(
    near(["http://a/{x:1}/{+y*,z.a}{?q}", "{%41}", "a'b%41", "{#v:1000}", "{=a}{!b}{@c}{|d}{,e}"], "a1{}:,.*%+=é '|!@")
)
def test_uri_template(text):
    assert conforms("uri-template", text) == (_TEMPLATE.fullmatch(text) is not None)


# --- pointers, identifiers, bytes, numbers


@given(near(["/foo/~0~1/%a", "", "/", "/a~1b//\U0001f60e"], "/~01a#\x00"))
def test_pointers(text):
    def pointer(text):
        return (not text or text[0] == "/") and not re.search("~(?![01])", text)

    assert conforms("json-pointer", text) == pointer(text)
    for prefix in ("0", "10", "01", "", "2+1", "2-0", "2+", "-1"):
        valid = bool(re.fullmatch(r"(0|[1-9]\d*)([+-](0|[1-9]\d*))?", prefix))
        assert conforms("relative-json-pointer", prefix + "/" + text) == (valid and pointer("/" + text))
        assert conforms("relative-json-pointer", prefix + "#") == valid
    assert not conforms("relative-json-pointer", "0#" + (text or "#"))


@given(near(["2EB8AA08-AA98-11EA-B4AA-73B441d16380"], "0aG-"))
def test_uuid(text):
    assert conforms("uuid", text) == bool(re.fullmatch(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", text))


@given(st.binary(max_size=12), near(["AAAA", "QUI=", "QQ==", "QR==", "-_+/"], "AQgB=/-_ "))
def test_base64(data, text):
    assert conforms("byte", base64.b64encode(data).decode())
    assert conforms("base64url", base64.urlsafe_b64encode(data).decode())
    assert conforms("base64url", base64.urlsafe_b64encode(data).decode().rstrip("="))

    def decodes(text, alphabet):
        try:
            return len(text) % 4 == 0 and base64.b64decode(text, alphabet, validate=True) is not None
        except ValueError:
            return False

    assert conforms("byte", text) == decodes(text, b"+/")
    full = text if "=" in text else text + "=" * (-len(text) % 4)
    assert conforms("base64url", text) == (decodes(full, b"-_") and not re.search("[+/]", text))


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_integers(bits):
    for name, low, high in ((f"int{bits}", -(2 ** (bits - 1)), 2 ** (bits - 1) - 1), (f"uint{bits}", 0, 2**bits - 1)):
        schema = f'{{"format": "{name}"}}'
        for value in (low - 1, low, low + 1, 0, high - 1, high, high + 1):
            assert takes(schema, value) == (low <= value <= high), (name, value)
        assert not takes(schema, 1.5)
        assert takes(schema, "text")
        assert takes(schema, None)
        assert not takes(f'{{"not": {schema}}}', high)
        assert takes(f'{{"not": {schema}}}', 1.5)
        assert not takes(f'{{"not": {schema}}}', "text")


def test_formats_without_a_limit():
    for name in ("float", "double", "binary", "password"):
        for value in (1.5, "any text", None, [], {}):
            assert takes(f'{{"format": "{name}"}}', value)
