"""The keyword `format`: which strings and numbers each name allows. In: a name. Out: a `Shape`, or None if not known.

A string format is a regular language over decoded characters, a number format a set of numbers; values of other
types are not its business. The same names hold in every draft. Each node is made when first asked for, and kept.

    name                       source                            enforced
    date, date-time, time      RFC 3339                          exactly, but for odd offsets at leap seconds (dates)
    duration                   RFC 3339, appendix A              exactly
    email                      RFC 5321, Mailbox                 exactly
    idn-email                  RFC 6531                          but for what is said in idn
    hostname                   RFC 1123                          exactly, but no label begins with xn-- (internet)
    idn-hostname               RFC 5890 to 5893                  but for what is said in idn
    ipv4, ipv6                 RFC 2673, RFC 4291                exactly
    uri, uri-reference         RFC 3986                          exactly
    iri, iri-reference         RFC 3987                          exactly
    uri-template               RFC 6570                          exactly
    uuid                       RFC 9562                          exactly
    json-pointer               RFC 6901                          exactly
    relative-json-pointer      draft-bhutton-..-pointer-00       exactly
    byte, base64url            RFC 4648                          exactly; unused bits need not be zero (texts)
    regex                      ECMA-262, with the flag u         only valid ones; left out: what is said in regex
    int8 .. int64, double-int  OpenAPI format registry           exactly
    uint8 .. uint64            OpenAPI format registry           exactly
    float, double              OpenAPI format registry           any number
    binary, password           OpenAPI format registry           any string

All other names are unknown: warned of, refused or ignored, as the options ask.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import cache, lru_cache

from guided.grammar.ir import Node
from guided.grammar.serial import serial
from guided.spec.json_schema.algebra.shape import ANYTHING, Shape, Window
from guided.spec.regex import parse_regex

from . import dates, idn, internet, regex, texts, uris
from .numbers import NUMBER_FORMATS

__all__ = ["FORMATS", "format_shape", "why_not"]

_STRING_FORMATS: dict[str, Callable[[], Node]] = {
    "date-time": dates.date_time,
    "date": dates.date,
    "time": dates.time,
    "duration": dates.duration,
    "email": internet.email,
    "idn-email": idn.idn_email,
    "hostname": internet.hostname,
    "idn-hostname": idn.idn_hostname,
    "ipv4": internet.ipv4,
    "ipv6": internet.ipv6,
    "uri": uris.uri,
    "uri-reference": uris.uri_reference,
    "iri": uris.iri,
    "iri-reference": uris.iri_reference,
    "uri-template": uris.uri_template,
    "uuid": texts.uuid,
    "json-pointer": texts.json_pointer,
    "relative-json-pointer": texts.relative_json_pointer,
    "byte": texts.base64,
    "base64url": texts.base64url,
    "regex": regex.regex,
}
_LONGEST = {"hostname": Window(high=253), "email": Window(high=254)}
"""Counted beside the pattern, so that other keywords on the length and `not` have one count to deal with."""
_NO_LIMITS = ("binary", "password")

_SUPERSETS = {
    "hostname": r"^[A-Za-z0-9.\-]*$",
    "idn-hostname": r"^[A-Za-z0-9.\-\u0080-\u{10FFFF}]*$",
    "idn-email": "@",
    "time": r"^\d\d:\d\d:",
    "date-time": r"^\d{4}-\d\d-\d\d",
    "regex": r"^(?![*+?){])",
}
"""Formats some values of which are left out -> a pattern of strings that have them all: what `not` takes away."""

_INCOMPLETE: dict[int, str] = {}
"""The nodes of those formats that were asked for, by their serial numbers."""

_OTHER_NAMES = {
    **dict.fromkeys(("url", "link", "href"), "uri"),
    **dict.fromkeys(("ip", "ip-address"), "ipv4"),
    **dict.fromkeys(("timestamp", "datetime-local"), "date-time"),
    **dict.fromkeys(("base64", "base-64"), "byte"),
    "guid": "uuid",
    "domain": "hostname",
    "integer": "int64",
}
"""What others call a format."""

FORMATS = (*_STRING_FORMATS, *NUMBER_FORMATS, *_NO_LIMITS)
"""The names that are enforced."""


def format_shape(name: str) -> Shape | None:
    """The values that a format allows; None: it is not enforced."""
    return _shape(name) if name in FORMATS else None


@cache
def _shape(name: str) -> Shape:
    if name in _STRING_FORMATS:
        if name in _SUPERSETS:
            _INCOMPLETE[serial(_STRING_FORMATS[name]())] = name
        return Shape(patterns=(_STRING_FORMATS[name](),), length=_LONGEST.get(name, Window()))
    return Shape(numbers=NUMBER_FORMATS[name]) if name in NUMBER_FORMATS else ANYTHING


def superset_if_negated(pattern: Node) -> Node:
    """The strings that a pattern must be taken to hold where it is negated: more than it has, if it leaves some out."""
    name = _INCOMPLETE.get(serial(pattern))
    return pattern if name is None else _superset(name)


@cache
def _superset(name: str) -> Node:
    return parse_regex(_SUPERSETS[name], dialect="ecma", search=True)


@lru_cache(maxsize=256)
def _hint(name: str) -> str:
    """What an unknown name may have been meant to be, and what else to do."""
    instead = "say it with pattern, or pass unknown_format='ignore'"
    plain = name.lower().replace("_", "-")
    close = [_OTHER_NAMES[plain]] if plain in _OTHER_NAMES else difflib.get_close_matches(plain, FORMATS, 1, 0.7)
    return f"did you mean {close[0]!r}? else {instead}" if close else instead


_BEYOND_TEXT = {
    **dict.fromkeys(("file-path", "directory-path", "new-path", "socket-path"), "whether a file exists"),
    **{f"{when}-{what}": "the clock" for when in ("past", "future") for what in ("date", "date-time")},
    **dict.fromkeys(("limited-date-time", "limited-time", "limited-duration"), "bounds of times and durations"),
    "json-string": "the type of JSON that stands in a string",
}
"""Names for what types of pydantic ask for beside a text -> what that is."""


def why_not(name: str) -> tuple[str, str]:
    """Reason and hint for a name that is not enforced."""
    if name in _BEYOND_TEXT:
        return f"{_BEYOND_TEXT[name]} is not enforced ({name})", "the value is validated when it is read"
    return f"the format {name[:40]!r} is not known", _hint(name[:40])
