r"""Describes the strings of pydantic's types. In: a name that pydantic uses for `format`. Out: a JSON Schema.

Pydantic describes most of its types by nonstandard names for `format`, and accepts more or less than these names
suggest. The schemas here allow strings in the form that pydantic writes, and no strings that it refuses:

    uuid1 .. uuid8                    the format uuid, of this version
    email name-email                  addresses that email-validator accepts: ASCII names without quotes, a domain with
                                      a period that is not reserved for special use; name-email: also "Name <address>"
    ipvanyaddress                     the formats ipv4 and ipv6
    ipvanyinterface ipv4interface ..  an address, with or without a prefix length
    ipvanynetwork ipv4network ..      the bits after the prefix are 0 (`ip_patterns`)
    base64, base64url                 with padding; Base64Str: the bytes are ASCII text (`base64_pattern`)
    duration                          ISO 8601 with a sign and a fraction, within the range of a timedelta
    fraction                          3, -1/2
    regex                             syntax common to Python and ECMA: characters, classes, . and * + ?
    path password binary              any string

The host of a URL is a name of ASCII letters, digits and hyphens, or an address. RFC 3986 and the URL standard agree on
such hosts.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from guided.frontends.python_types.ip_patterns import (
    IPV4,
    IPV4_INTERFACE,
    IPV6,
    IPV6_INTERFACE,
    ipv4_networks_pattern,
    ipv6_networks_pattern,
)
from guided.frontends.python_types.string_types import FRACTION

__all__ = [
    "ASCII",
    "BYTE_SIZE",
    "COMPLEX",
    "KEEPS_LENGTH",
    "LOCAL_DATE_TIME",
    "base64_pattern",
    "date_pattern",
    "schemas_by_format",
    "url_pattern",
]

ASCII: Final = r"^[\u0000-\u007f]*$"

_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-]+"
_LABEL: Final = "(?:[A-Za-z0-9]{1,63}|[A-Za-z0-9](?:-?[A-Za-z0-9]){0,31})"  # at most 63 characters
_SPECIAL_USE_DOMAINS: Final = ("arpa", "invalid", "local", "localhost", "onion", "test")


def _any_case(word: str) -> str:
    return "".join(f"[{c.upper()}{c.lower()}]" if c.isalpha() else c for c in word)


_EMAIL: Final = (
    rf"(?![^@]*@[^>]*\.(?:{'|'.join(map(_any_case, _SPECIAL_USE_DOMAINS))})(?:>|$))"
    rf"{_ATOM}(?:\.{_ATOM})*@(?:{_LABEL}\.)+[A-Za-z]{{1,63}}"
)

# Each base64 character encodes six bits; an ASCII byte begins with a 0 bit.
_BASE64_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def base64_pattern(low: int, high: int | None, *, url: bool, ascii: bool, canonical: bool = False) -> str:
    """A pattern for the base64 text of `low` to `high` bytes (None: no upper bound).

    Args:
        url: use the alphabet for URLs.
        ascii: all bytes are ASCII.
        canonical: unused bits are 0, and the padding is optional; otherwise, it is required.
    """
    alphabet = _BASE64_LETTERS + ("-_" if url else "+/")

    def letters(ascii_zeros: int, unused_bits: int = 0) -> str:
        zeros = (ascii_zeros if ascii else 0) | (unused_bits if canonical else 0)
        return "[" + "".join(c.replace("-", r"\-") for n, c in enumerate(alphabet) if not n & zeros) + "]"

    one, two, three, four = letters(0b100000), letters(0b001000), letters(0b000010), letters(0)
    endings = ("", f"{one}{letters(0b001000, 0b001111)}==", f"{one}{two}{letters(0b000010, 0b000011)}=")
    cases = []
    for extra_bytes, end in enumerate(endings):
        if high is None or high >= extra_bytes:
            lower, upper = max(0, -(-(low - extra_bytes) // 3)), "" if high is None else (high - extra_bytes) // 3
            end = f"{end.rstrip('=')}(?:{'=' * end.count('=')})?" if canonical and end else end
            cases.append(f"(?:{one}{two}{three}{four}){{{lower},{upper}}}{end}")
    return f"^(?:{'|'.join(cases)})$"


# At most 999,999,999 days, with years of 365 and months of 30 days; hours, minutes and seconds below 2**32 seconds.
_DURATION: Final = (
    r"^-?P(?!$)(?:\d{1,8}W|(?:\d{1,6}Y)?(?:\d{1,7}M)?(?:\d{1,8}D)?"
    r"(?:T(?=\d)(?:\d{1,6}H)?(?:\d{1,6}M)?(?:\d{1,8}(?:\.\d{1,6})?S)?)?)$"
)
_SIMPLE_REGEX: Final = (
    r"^(?:(?:[A-Za-z0-9 _,:;=@#%&~<>!\"'\-]|\\[dDwWsS.^$|?*+()\[\]{}\\]|\.|\[\^?[A-Za-z0-9 _,:;]+\])[*+?]?)*$"
)
_PREFIX_NAME: Final = "(?:[A-Za-z]+(?: [A-Za-z]+)* )?"


@cache
def schemas_by_format() -> dict[str, dict[str, Any]]:
    """Name of a format -> keywords for the strings that pydantic reads, which are added to the schema."""
    v4, v6 = f"^{IPV4_INTERFACE}$", f"^{IPV6_INTERFACE}$"
    networks_4, networks_6 = f"^{ipv4_networks_pattern()}$", f"^{ipv6_networks_pattern()}$"
    return {
        **{f"uuid{n}": {"format": "uuid", "pattern": f"^.{{14}}{n}.{{4}}[89ABab]"} for n in range(1, 9)},
        "email": {"pattern": f"^{_EMAIL}$", "maxLength": 254},
        "name-email": {"pattern": f"^(?:{_EMAIL}|{_PREFIX_NAME}<{_EMAIL}>)$", "maxLength": 254},
        "ipvanyaddress": {"anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]},
        "ipv4interface": {"pattern": v4},
        "ipv6interface": {"pattern": v6},
        "ipvanyinterface": {"anyOf": [{"pattern": v4}, {"pattern": v6}]},
        "ipv4network": {"pattern": networks_4},
        "ipv6network": {"pattern": networks_6},
        "ipvanynetwork": {"anyOf": [{"pattern": networks_4}, {"pattern": networks_6}]},
        "duration": {"pattern": _DURATION},
        "fraction": {"pattern": FRACTION},
        "regex": {"pattern": _SIMPLE_REGEX},
        "path": {},
    }


_UNITS: Final = ("b", "bit", *(f"{prefix}{unit}" for prefix in "kmgtpe" for unit in ("", "b", "bit", "ib", "ibit")))
BYTE_SIZE: Final = rf"^(?:[0-9]{{1,15}}|[0-9]{{0,15}}\.[0-9]{{1,15}}) ?(?:{'|'.join(map(_any_case, _UNITS))})?$"
COMPLEX: Final = (
    r"^(?:-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,99})?)(?:[+\-](?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,99})?j|j)?$"
)
_LEAP_YEAR: Final = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
LOCAL_DATE_TIME: Final = (
    r"^(?!0000)(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    rf"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
    r"[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?$"
)


def date_pattern(low: str | None, high: str | None) -> str:
    """A pattern for the dates from `low` to `high`, which have the form 2020-01-31; None: no bound."""
    lookaheads = [
        rf"(?={_dates_bounded_by(bound, is_lower_bound)})"
        for bound, is_lower_bound in ((low, True), (high, False))
        if bound is not None
    ]
    return "^" + "".join(lookaheads)


def _dates_bounded_by(bound: str, is_lower_bound: bool) -> str:
    """A pattern for `bound`, and for dates that first differ from it in a greater digit (upper bound: in a smaller
    one).
    """
    cases = [bound]
    for index, digit in enumerate(bound):
        if digit != "-" and digit != ("9" if is_lower_bound else "0"):
            next_digits = f"[{int(digit) + 1}-9]" if is_lower_bound else f"[0-{int(digit) - 1}]"
            cases.append(f"{bound[:index]}{next_digits}")
    return f"(?:{'|'.join(cases)})"


_PORT: Final = (
    "(?::(?:[0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?"  # up to 65535
)
_HOST: Final = rf"(?:(?:{_LABEL}\.)*(?=[A-Za-z]){_LABEL}|{IPV4}|\[{IPV6}\])"
_PERCENT: Final = "%[0-9A-Fa-f]{2}"
_USER_CHARACTER: Final = rf"(?:[A-Za-z0-9._~!$&()*+\-]|{_PERCENT})"  # no comma, which separates hosts
_USER_INFO: Final = f"(?:{_USER_CHARACTER}+(?::{_USER_CHARACTER}*)?@)?"
_PATH: Final = rf"(?:[A-Za-z0-9._~!$&()*+,;=:@/\-]|{_PERCENT})*"
_QUERY_AND_FRAGMENT: Final = (
    rf"(?:\?(?:[A-Za-z0-9._~!$&()*+,;=:@/?\-]|{_PERCENT})*)?(?:#(?:[A-Za-z0-9._~!$&()*+,;=:@/?\-]|{_PERCENT})*)?"
)
_SPECIAL_SCHEMES: Final = ("http", "https", "ws", "wss", "ftp", "file")

KEEPS_LENGTH: Final = rf"^(?:(?!(?:{'|'.join(map(_any_case, _SPECIAL_SCHEMES))}):)[^\[]*|[^/\[]*//[^/?#\[]*/[^\[]*)$"
"""URLs without an address in brackets that are not longer when they are normalized, since no slash is added."""


def url_pattern(schemes: list[str] | None, *, several_hosts: bool = False) -> str:
    """A pattern for URLs with these schemes (None: any), with one host or, if `several_hosts`, one or more."""
    authority = f"{_USER_INFO}{_HOST}{_PORT}" + (f"(?:,{_HOST}{_PORT})*" if several_hosts else "")
    end = f"(?:/{_PATH})?{_QUERY_AND_FRAGMENT}"
    special_schemes = "|".join(map(_any_case, _SPECIAL_SCHEMES))
    if schemes is None:
        name = r"[A-Za-z][A-Za-z0-9+.\-]*"
        cases = [f"(?![Ff][Ii][Ll][Ee]:){name}://{authority}{end}", f"[Ff][Ii][Ll][Ee]:///{_PATH}{_QUERY_AND_FRAGMENT}"]
        cases.append(f"(?!(?:{special_schemes}):){name}:(?!/){_PATH}{_QUERY_AND_FRAGMENT}")
        return f"^(?:{'|'.join(cases)})$"
    cases = [f"{_any_case(scheme)}:///{_PATH}{_QUERY_AND_FRAGMENT}" for scheme in schemes if scheme == "file"]
    names = [_any_case(scheme).replace("+", r"\+").replace(".", r"\.") for scheme in schemes if scheme != "file"]
    if names:
        cases.append(f"(?:{'|'.join(names)})://{authority}{end}")
    return f"^(?:{'|'.join(cases)})$"
