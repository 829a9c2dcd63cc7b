"""Reads JSON values with exact numbers. In: JSON text, or Python objects as returned by `json.loads`. Out: a tree of
None, bool, `Decimal10`, str, list and dict.

The standard library's parser reads the text, since it is fast. Duplicate keys and NaN are refused. Only after an error,
`source_spans.py` scans the text again to locate the error. Cost: linear. `Limits.depth` bounds the nesting; no function
here is recursive.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol, TypeAlias

from guided.errors import BEYOND_LIMITS, LimitExceeded, SpecError
from guided.frontends.json_schema.documents.source_spans import NOT_FINITE, escape, json_error, syntax_error
from guided.ir.ranges import has_surrogate
from guided.limits import Limits
from guided.meter import spend

__all__ = [
    "Decimal10",
    "Json",
    "canonical_key",
    "json_type",
    "load_json",
    "normalise",
    "read_count",
    "read_json",
    "refuse_surrogates",
]

_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)  # a string may be unclosed
_NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?\Z")


@dataclass(frozen=True, slots=True)
class Decimal10:
    """The number `0.digits` times ten to the `exponent`, negated if `negative`. Zero has no digits.

    `digits` neither begins nor ends with a zero, so equal numbers are equal records.
    """

    negative: bool
    digits: str
    exponent: int

    @classmethod
    def parse(cls, text: str) -> Decimal10:
        """The value of a JSON number. Raises SpecError if its exponent has more than 15 digits."""
        spend()
        match = _NUMBER.match(text)
        if match is None:
            raise SpecError(f"{text[:40]!r} is not a JSON number")
        sign, whole, fraction, power = match.groups()
        digits = whole + (fraction or "")
        significant = digits.lstrip("0")
        if not significant:
            return cls(False, "", 0)
        power_digits = "" if power is None else power.lstrip("+-0")
        if len(power_digits) > 15:
            raise SpecError(
                "the exponent of a number has more than 15 digits", hint="write a number with a smaller exponent"
            )
        shift = int(power_digits or 0) * (-1 if power and power[0] == "-" else 1)
        exponent = len(whole) - (len(digits) - len(significant)) + shift
        return cls(sign == "-", significant.rstrip("0"), exponent)

    @property
    def is_integer(self) -> bool:
        """Whether the number has no fraction."""
        return self.exponent >= len(self.digits)

    @property
    def magnitude(self) -> Decimal10:
        """The absolute value."""
        return Decimal10(False, self.digits, self.exponent)

    def small_int(self, max_digits: int = 18) -> int | None:
        """The value as an int if it has at most `max_digits` digits, else None."""
        if not self.digits:
            return 0
        if not self.is_integer or self.exponent > max_digits:
            return None
        value = int(self.digits.ljust(self.exponent, "0"))
        return -value if self.negative else value

    def plain(self) -> str:
        """The shortest spelling without an exponent."""
        if not self.digits:
            return "0"
        if self.exponent <= 0:
            body = "0." + "0" * -self.exponent + self.digits
        elif self.is_integer:
            body = self.digits.ljust(self.exponent, "0")
        else:
            body = self.digits[: self.exponent] + "." + self.digits[self.exponent :]
        return "-" + body if self.negative else body

    def __str__(self) -> str:
        if -8 <= self.exponent <= 24 and len(self.digits) <= 40:
            return self.plain()
        fraction = f".{self.digits[1:20]}" if len(self.digits) > 1 else ""
        return f"{'-' if self.negative else ''}{self.digits[0]}{fraction}e{self.exponent - 1}"

    def _order(self) -> tuple[int, int, str]:
        return (0, 0, "") if not self.digits else (1, self.exponent, self.digits)

    def __lt__(self, other: Decimal10) -> bool:
        if self.negative != other.negative:
            return self.negative
        return other._order() < self._order() if self.negative else self._order() < other._order()

    def __le__(self, other: Decimal10) -> bool:
        return self == other or self < other


Json: TypeAlias = "bool | Decimal10 | str | list[Any] | dict[str, Any] | None"


def read_count(value: Json) -> int | None:
    """The value of a non-negative integer, or `BEYOND_LIMITS` if it has more than 40 digits. None for other values."""
    if not isinstance(value, Decimal10) or value.negative or not value.is_integer:
        return None
    count = value.small_int(40)
    return BEYOND_LIMITS if count is None else count


class _InvalidJson(Exception):
    """Raised by the hooks of a decoder. A second scan then locates the error."""


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    spend()
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _InvalidJson
    return members


def _refuse_constant(_: str) -> None:
    raise _InvalidJson


_BYTE_ORDER_MARK = "\ufeff"
_PLAIN_DECODER = json.JSONDecoder(object_pairs_hook=_refuse_duplicates)
_EXACT_DECODER = json.JSONDecoder(
    object_pairs_hook=_refuse_duplicates,
    parse_constant=_refuse_constant,
    parse_int=Decimal10.parse,
    parse_float=Decimal10.parse,
)


def load_json(text: str, *, exact: bool = False) -> Any:
    """Like `json.loads`, but a repeated key is an error. `exact`: numbers become `Decimal10`, and NaN is refused.

    Raises:
        SpecError: a key is repeated, or a number is refused; with the span. Other exceptions: as `json.loads`.
    """
    if text[:1] == _BYTE_ORDER_MARK:
        return json.loads(text)  # raises an error that names the mark
    try:
        return (_EXACT_DECODER if exact else _PLAIN_DECODER).decode(text)
    except _InvalidJson:
        raise json_error(text) from None


def read_json(text: str, limits: Limits, subject: str = "the schema") -> Json:
    """The value of a JSON text. Raises SpecError with a span if the text is not JSON or repeats a key."""
    if len(text) > limits.spec_length:
        raise LimitExceeded("spec_length", len(text), limits.spec_length)
    try:
        value: Json = load_json(text, exact=True)
    except json.JSONDecodeError as error:
        raise syntax_error(error, subject) from None
    except RecursionError:
        deepest = _nesting(text)
        if deepest > limits.depth:
            raise LimitExceeded("depth", deepest, limits.depth) from None
        raise LimitExceeded(
            "depth", deepest, sys.getrecursionlimit(), fixed=True,
            hint="Python's recursion limit is too low for text with this nesting: pass the value as a dict",
        ) from None  # fmt: skip
    _check_size(value, text, limits)
    return value


def _nesting(text: str) -> int:
    """The nesting depth of the brackets of a JSON text."""
    depth = deepest = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        if match[0][0] != '"':
            depth += 1 if match[0] in "[{" else -1
            deepest = max(deepest, depth)
    return deepest


def _check_size(value: Json, text: str, limits: Limits) -> None:
    """Check the value that a text contains against the limits on depth and nodes."""
    if len(text) <= limits.nodes and text.count("{") + text.count("[") <= limits.depth:
        return  # each node takes a character and each level a bracket, so the limits hold
    level: list[Json] = [value]
    depth = count = 0
    while level:
        count += len(level)
        if depth > limits.depth:
            raise LimitExceeded("depth", depth, limits.depth)
        if count > limits.nodes:
            raise LimitExceeded("nodes", limits.nodes + 1, limits.nodes)
        next_level: list[Json] = []
        for item in level:
            if isinstance(item, dict):
                next_level += item.values()
            elif isinstance(item, list):
                next_level += item
        level, depth = next_level, depth + 1


def normalise(value: object, limits: Limits) -> Json:
    """A copy of a JSON-like Python object with exact numbers. Raises SpecError with a pointer to a value that is not
    JSON.
    """
    result: list[Any] = [None]
    # (value, container to put it in, its key there, path from the root as a linked list, depth)
    work: list[tuple[Any, Any, Any, Any, int]] = [(value, result, 0, None, 0)]
    count = 0
    while work:
        item, target, key, path, depth = work.pop()
        spend()
        count += 1
        if depth > limits.depth:
            raise LimitExceeded("depth", depth, limits.depth)
        if count > limits.nodes:
            raise LimitExceeded("nodes", count, limits.nodes)
        if item is None or isinstance(item, bool | str | Decimal10):
            target[key] = item
        elif isinstance(item, int | float | Decimal):
            target[key] = _number(item, path)
        elif isinstance(item, Mapping):
            target[key] = members = dict(item)
            for name, child in members.items():
                if not isinstance(name, str):
                    hint = "the keys of a JSON object must be strings"
                    raise SpecError(f"the key {name!r} is not a string", pointer=_pointer(path), hint=hint)
                if type(child) is str and depth < limits.depth:  # the most frequent value: kept as it is
                    count += 1
                else:
                    work.append((child, members, name, (path, name), depth + 1))
        elif isinstance(item, list | tuple):
            target[key] = items = [None] * len(item)
            work.extend((child, items, index, (path, index), depth + 1) for index, child in enumerate(item))
        else:
            hint = "decode it" if isinstance(item, bytes) else "JSON has dict, list, str, int, float, bool and None"
            raise SpecError(f"a {type(item).__name__} is not a JSON value", pointer=_pointer(path), hint=hint)
    if count > limits.nodes:
        raise LimitExceeded("nodes", count, limits.nodes)
    root: Json = result[0]
    return root


def _number(item: int | float | Decimal, path: Any) -> Decimal10:
    if isinstance(item, int):
        if item.bit_length() > 14_000:  # Python refuses to convert integers above 4,300 digits to text
            hint = "pass the schema as text"
            raise SpecError("an integer has more than 4,000 digits", pointer=_pointer(path), hint=hint)
        return Decimal10.parse(str(int(item)))
    if not math.isfinite(item):
        raise SpecError(f"{item} is not a JSON number", pointer=_pointer(path), hint=NOT_FINITE)
    # A float stands for the shortest decimal that parses to it, as in json.dumps.
    return Decimal10.parse(float.__repr__(item) if isinstance(item, float) else str(item))


def _pointer(path: Any) -> str:
    keys = []
    while path is not None:
        path, key = path
        keys.append(escape(str(key)))
    return "".join("/" + key for key in reversed(keys))


def canonical_key(value: Json, *, in_order: bool = False) -> tuple[object, ...]:
    """A hashable key for a JSON value. Keys are equal only for equal values. A key lists the value and its parts in
    prefix order, with members sorted by name.

    `in_order`: do not sort members, so that their order counts.
    """
    if isinstance(value, str):
        return (value,)
    out: list[object] = []
    stack: list[Json] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            out.append(("[", len(item)))
            stack.extend(reversed(item))
        elif isinstance(item, dict):
            names = list(item) if in_order else sorted(item)
            out.append(("{", *names))
            stack.extend(item[name] for name in reversed(names))
        else:
            out.append(("bool", item) if isinstance(item, bool) else item)
    return tuple(out)


def json_type(value: Json) -> str:
    """The JSON type of a value. Integers are numbers."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object" if isinstance(value, dict) else "number"


class _Location(Protocol):
    def location_of(self, *keys: str | int) -> str: ...


def refuse_surrogates(value: Json, location: _Location, *keys: str | int) -> None:
    """Refuse a value that contains a string with a lone surrogate. The value is at `location.location_of(*keys)`."""
    if isinstance(value, str) and value.isascii():
        return
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            if has_surrogate(item):
                raise SpecError("a lone surrogate cannot be written", pointer=location.location_of(*keys),
                                hint="write characters above U+FFFF as a pair of escapes")  # fmt: skip
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, dict):
            stack.extend(item)
            stack.extend(item.values())
