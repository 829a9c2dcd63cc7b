"""The strings and numbers that each value of `format` allows. In: a name. Out: a `Shape`; None if the name is unknown.

A format of strings is a regular language over decoded characters, and a format of numbers is a set of numbers. Values
of other types satisfy every format. The same names are valid in every draft. Nodes are built on first use, and cached.

    name                       source                            enforced
    date, date-time, time      RFC 3339                          exactly, except odd offsets at leap seconds (dates.py)
    duration                   RFC 3339, appendix A              exactly
    email                      RFC 5321, Mailbox                 exactly
    idn-email                  RFC 6531                          with the exceptions in idn.py
    hostname                   RFC 1123                          exactly, but no label begins with xn-- (internet.py)
    idn-hostname               RFC 5890 to 5893                  with the exceptions in idn.py
    ipv4, ipv6                 RFC 2673, RFC 4291                exactly
    uri, uri-reference         RFC 3986                          exactly
    iri, iri-reference         RFC 3987                          exactly
    uri-template               RFC 6570                          exactly
    uuid                       RFC 9562                          exactly
    json-pointer               RFC 6901                          exactly
    relative-json-pointer      draft-bhutton-..-pointer-00       exactly
    byte, base64url            RFC 4648                          exactly; unused bits may have any value
    regex                      ECMA-262, with the u flag         only some of the valid ones: see regex.py
    int8 .. int64, double-int  OpenAPI format registry           exactly
    uint8 .. uint64            OpenAPI format registry           exactly
    float, double              OpenAPI format registry           any number
    binary, password           OpenAPI format registry           any string

All other names are unknown. The options decide whether they are reported, refused or ignored. A format that leaves out
some valid values must not be negated directly, since `not` would then allow these values. `superset_if_negated` returns
the language to negate instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from guided.close_names import find_closest_name
from guided.frontends.json_schema.algebra.shape import ANYTHING, Shape, Window
from guided.frontends.regex import parse_regex
from guided.ir.nodes import Node
from guided.ir.serial import serial

from . import dates, idn, internet, pointers_and_encodings, regex, uris
from .numbers import NUMBER_FORMATS

__all__ = ["FORMATS", "format_shape", "why_not_enforced"]

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
    "uuid": pointers_and_encodings.uuid,
    "json-pointer": pointers_and_encodings.json_pointer,
    "relative-json-pointer": pointers_and_encodings.relative_json_pointer,
    "byte": pointers_and_encodings.base64,
    "base64url": pointers_and_encodings.base64url,
    "regex": regex.regex,
}
_MAX_LENGTHS = {"hostname": Window(high=253), "email": Window(high=254)}
"""Lengths are kept separate from the pattern, so that `minLength`, `maxLength` and `not` only handle one window."""
_ANY_STRING = ("binary", "password")

_SUPERSETS = {
    "hostname": r"^[A-Za-z0-9.\-]*$",
    "idn-hostname": r"^[A-Za-z0-9.\-\u0080-\u{10FFFF}]*$",
    "idn-email": "@",
    "time": r"^\d\d:\d\d:",
    "date-time": r"^\d{4}-\d\d-\d\d",
    "regex": r"^(?![*+?){])",
}
"""Formats that leave out some valid values -> a pattern that includes all of them, for `not`."""

_INCOMPLETE_FORMATS: dict[int, str] = {}
"""Serial number of the node of a format in `_SUPERSETS` -> the format's name. Filled as the nodes are built."""

_OTHER_NAMES = {
    **dict.fromkeys(("url", "link", "href"), "uri"),
    **dict.fromkeys(("ip", "ip-address"), "ipv4"),
    **dict.fromkeys(("timestamp", "datetime-local"), "date-time"),
    **dict.fromkeys(("base64", "base-64"), "byte"),
    "guid": "uuid",
    "domain": "hostname",
    "integer": "int64",
}
"""Name that other tools use -> the format that it means."""

FORMATS = (*_STRING_FORMATS, *NUMBER_FORMATS, *_ANY_STRING)
"""The names that are enforced."""


def format_shape(name: str) -> Shape | None:
    """The values that a format allows. None if it is not enforced."""
    return _shape(name) if name in FORMATS else None


@cache
def _shape(name: str) -> Shape:
    if name in _STRING_FORMATS:
        if name in _SUPERSETS:
            _INCOMPLETE_FORMATS[serial(_STRING_FORMATS[name]())] = name
        return Shape(patterns=(_STRING_FORMATS[name](),), length=_MAX_LENGTHS.get(name, Window()))
    return Shape(numbers=NUMBER_FORMATS[name]) if name in NUMBER_FORMATS else ANYTHING


def superset_if_negated(pattern: Node) -> Node:
    """The language to exclude if a pattern is negated. If the pattern is a format that leaves out valid values, this is
    a superset that includes them.
    """
    name = _INCOMPLETE_FORMATS.get(serial(pattern))
    return pattern if name is None else _superset(name)


@cache
def _superset(name: str) -> Node:
    return parse_regex(_SUPERSETS[name], dialect="ecma", search=True)


def _hint(name: str) -> str:
    """A hint for an unknown name: the known name that was probably meant, and an alternative."""
    normalised_name = name.lower().replace("_", "-")
    close = _OTHER_NAMES.get(normalised_name) or find_closest_name(normalised_name, FORMATS, cutoff=0.7)
    return f"did you mean {close!r}? if not, {_PATTERN_HINT}" if close else _PATTERN_HINT


_PATTERN_HINT = "use pattern instead, or pass unknown_format='ignore'"
_INEXPRESSIBLE_FORMATS = {
    **dict.fromkeys(("file-path", "directory-path", "new-path", "socket-path"), "whether a file exists"),
    **{
        f"{tense}-{kind}": "comparison with the current time"
        for tense in ("past", "future")
        for kind in ("date", "date-time")
    },
    **dict.fromkeys(("limited-date-time", "limited-time", "limited-duration"), "a bound on times or durations"),
    "limited-key": "a bound on numbers that are keys",
    "callable-discriminator": "the choice of an alternative by a function",
    "import-string": "whether an object can be imported",
    "json-string": "the type of the JSON value in a string",
}
"""Format name of a pydantic type -> the requirement of this type that is not enforced."""


def why_not_enforced(name: str, *, search: bool = True) -> tuple[str, str]:
    """The reason and a hint for a name that is not enforced. `search`: look for a similar known name."""
    if name in _INEXPRESSIBLE_FORMATS:
        return f"{_INEXPRESSIBLE_FORMATS[name]} is not enforced ({name})", "the value is validated when it is read"
    return f"the format {name[:40]!r} is not known", _hint(name[:40]) if search else _PATTERN_HINT
