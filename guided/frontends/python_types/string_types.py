r"""Defines how types are written as JSON strings. In: a type, such as `datetime.date`. Out: its schema and its parser.

    datetime time    RFC 3339, with an offset              date    RFC 3339
    timedelta        [-]PnW or [-]PnDTnHnMnS (ISO 8601)    UUID IPv4Address IPv6Address    formats uuid, ipv4, ipv6
    IPv4Network ..   networks and interfaces of both versions: `ip_patterns`
    Fraction         3, -1/2
    Decimal          a plain number, such as "-12.50"      Path PurePath ..   any text
    bytes            any text, encoded as UTF-8, as in pydantic; for base64 use pydantic's Base64Bytes

The schemas allow less than the formats of the same names, because the types have fewer values: there is no year 0 and
no leap second, and seconds have at most six decimals. Unlike the format `duration`, a `timedelta` may have a sign and a
fraction, but neither months nor years, whose lengths vary. Its counts have at most eight digits, so every sum fits into
a `timedelta`. A `Decimal` is a string, because JSON readers turn a number into a float. The parsers accept exactly what
the schemas allow.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import ipaddress
import os
import pathlib
import re
import uuid
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from guided.errors import UnsupportedError, brief
from guided.frontends.python_types.ip_patterns import (
    IPV4_INTERFACE,
    IPV6_INTERFACE,
    ipv4_networks_pattern,
    ipv6_networks_pattern,
)

__all__ = ["CLOCK_TYPES", "FRACTION", "STRING_FORMS", "StringConstraint", "StringForm"]

_DAY, _MINUTE = "[0-9]{4}-[0-9]{2}-[0-9]{2}", "[0-9]{2}:[0-9]{2}"
_SECOND = r":[0-5][0-9](?:\.[0-9]{1,6})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})$"
_NUMBER = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$"
_PREFIX_LENGTH = "(?:/(?:0|[1-9][0-9]*))?$"
_NO_DOTTED_NETWORK = r"(?!.*\..*/(?:[0-9]|[1-8][0-9]|9[0-6])$)"
FRACTION: Final = "^-?[0-9]{1,300}(?:/[1-9][0-9]{0,300})?$"
_DURATION = (
    r"^-?P(?!$)(?:[0-9]{1,8}W|(?:[0-9]{1,8}D)?"
    r"(?:T(?=[0-9])(?:[0-9]{1,8}H)?(?:[0-9]{1,8}M)?(?:[0-9]{1,8}(?:\.[0-9]{1,6})?S)?)?)$"
)
_DURATION_PARTS = re.compile(
    r"(?P<sign>-?)P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"T?(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)(?:\.(?P<fraction>\d+))?S)?"
)


class StringConstraint:
    """The base of guided's own metadata for strings: `Annotated[str, constraint]`."""

    __slots__ = ()

    def keywords(self) -> dict[str, Any]:
        """The keywords of JSON Schema for this constraint."""
        raise NotImplementedError

    def problem(self, text: str) -> str:
        """What is wrong with a string; "" if it satisfies the constraint."""
        raise NotImplementedError

    def add_to(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema with the keywords of this constraint added to its own."""
        keywords = self.keywords()
        if keywords.keys() & schema.keys():
            return {**schema, "allOf": [*schema.get("allOf", ()), keywords]}
        return {**schema, **keywords}

    def refusal(self, name: str) -> UnsupportedError:
        """The error for a type that is not `str`. `name`: the type's name."""
        reason = f"Annotated[{name}, {brief(self)}] is not supported: it applies to str only"
        return UnsupportedError(reason, hint="as in Annotated[str, ...] | None or list[Annotated[str, ...]]")


class StringForm(NamedTuple):
    """How the values of a type are written in JSON.

    Attributes:
        schema: the schema of the strings.
        parse: converts such a string to a value; raises ValueError for other strings.
    """

    schema: dict[str, Any]
    parse: Callable[[str], Any]


def _make_form(parse: Callable[[str], Any], pattern: str, /, **schema: str) -> StringForm:
    """The form that passes only strings that match `pattern` to `parse`, which might accept more than the schema."""
    regex = re.compile(pattern)

    def parse_checked(text: str) -> Any:
        if not regex.search(text) or text.endswith("\n"):
            raise ValueError(f"it does not match {pattern}")
        return parse(text)

    return StringForm({"type": "string", **schema}, parse_checked)


def _parse_duration(text: str) -> datetime.timedelta:
    match = _DURATION_PARTS.fullmatch(text)
    assert match is not None
    units = ("weeks", "days", "hours", "minutes", "seconds")
    value = datetime.timedelta(
        **{unit: int(match[unit] or 0) for unit in units}, microseconds=int((match["fraction"] or "").ljust(6, "0"))
    )
    return -value if match["sign"] else value


def _parse_date_time(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.upper())


def _parse_time(text: str) -> datetime.time:
    return datetime.time.fromisoformat(text.upper())


_PATHS: Final = (
    *(pathlib.PurePath, pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.Path),
    pathlib.WindowsPath if os.name == "nt" else pathlib.PosixPath,
)

STRING_FORMS: Final[dict[Any, StringForm]] = {
    datetime.datetime: _make_form(
        _parse_date_time,
        f"^{_DAY}[Tt]{_MINUTE}{_SECOND}",
        format="date-time",
        pattern=f"^(?!0000).*{_SECOND}",
    ),
    datetime.date: _make_form(datetime.date.fromisoformat, f"^{_DAY}$", format="date", pattern="^(?!0000)"),
    datetime.time: _make_form(_parse_time, f"^{_MINUTE}{_SECOND}", format="time", pattern=_SECOND),
    datetime.timedelta: _make_form(_parse_duration, _DURATION, pattern=_DURATION),
    uuid.UUID: _make_form(uuid.UUID, "^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$", format="uuid"),
    decimal.Decimal: _make_form(decimal.Decimal, _NUMBER, pattern=_NUMBER),
    ipaddress.IPv4Address: _make_form(ipaddress.IPv4Address, "", format="ipv4"),
    ipaddress.IPv6Address: _make_form(ipaddress.IPv6Address, "^[^%]*$", format="ipv6"),
    **{
        tp: _make_form(tp, f"^{condition}[^%/]*{_PREFIX_LENGTH}", pattern=f"^{pattern}$")
        for tp, condition, pattern in (
            (ipaddress.IPv4Interface, "", IPV4_INTERFACE),
            (ipaddress.IPv6Interface, "", IPV6_INTERFACE),
            (ipaddress.IPv4Network, "", ipv4_networks_pattern()),
            (ipaddress.IPv6Network, _NO_DOTTED_NETWORK, ipv6_networks_pattern()),
        )
    },
    fractions.Fraction: _make_form(fractions.Fraction, FRACTION, pattern=FRACTION),
    bytes: StringForm({"type": "string"}, str.encode),
    **{path: StringForm({"type": "string"}, path) for path in _PATHS},
}

CLOCK_TYPES: Final = (datetime.datetime, datetime.date, datetime.time)
"""The types with fewer values than their formats."""
