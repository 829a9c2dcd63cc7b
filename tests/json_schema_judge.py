"""An independent judge of JSON texts: the jsonschema library, with exact numbers, sets and patterns.

In: a schema and a text. Out: whether the text is JSON, names no member twice, and satisfies the schema (`format` is not
checked). The library compares floats, finds equal items by sorting, and searches patterns in Python's dialect. Here,
numbers are decimals of any size, items are compared one by one, and patterns are translated from ECMA's dialect to
Python's. The contents of strings are asserted in draft 7. Raises `NoJudge` if this is not possible.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import warnings
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from itertools import combinations
from typing import Any

import jsonschema
from jsonschema import validators
from jsonschema._utils import equal
from jsonschema_specifications import REGISTRY

__all__ = ["Judge", "NoJudge", "exact", "python_pattern"]

_DIGITS = 15  # largest exponent: larger ones do not fit into a decimal, and are beyond every bound
_NUMBER = re.compile(r"([^eE]*)(?:[eE]([+-]?)0*([0-9]*))?")
_DEPTH = (
    8_000  # the library recurses over the value, about ten frames a level; deeper values would overflow a stack of 8 MB
)


class NoJudge(Exception):
    """The judge cannot decide: a pattern that Python cannot search, an unknown reference, or an endless evaluation."""


class Judge:
    """Whether texts satisfy `schema`, in the dialect that it names (by default 2020-12)."""

    def __init__(self, schema: Any) -> None:
        exactly = exact(schema)
        kind = validators.validator_for(exactly, default=jsonschema.Draft202012Validator)
        rewritten = _with_python_patterns(exactly)
        if isinstance(rewritten, dict):
            rewritten.pop("$schema", None)  # otherwise, the library would use its own class for a reference to the root
        # With its own registry, the library never uses the network.
        self._validator = _exact_kind(kind)(rewritten, registry=REGISTRY)

    def __call__(self, text: str | bytes) -> bool:
        """Whether one text is valid."""
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, _DEPTH))
        try:
            return self._verdict(text)
        finally:
            sys.setrecursionlimit(limit)

    def _verdict(self, text: str | bytes) -> bool:
        try:
            value = _parse(text)
        except ValueError:
            return False
        try:
            return self._validator.is_valid(value)
        except RecursionError:
            raise NoJudge(
                "too deep, or a schema that applies to a value what applies it: the verdict hangs on itself"
            ) from None
        except Exception as error:
            if type(error).__name__ in ("_WrappedReferencingError", "Unresolvable", "UnknownType"):
                raise NoJudge(f"{type(error).__name__}: {error}") from None
            raise


def exact(value: Any) -> Any:
    """A JSON value whose floats are decimals: the shortest decimals that read as these floats."""
    return _parse(json.dumps(value))


def _parse(text: str | bytes) -> Any:
    """The value of a JSON text. ValueError if the text is not JSON, or an object has a member twice."""
    if isinstance(text, bytes):
        text = text.decode()
    return json.loads(
        text, parse_float=_decimal, parse_int=_integer, parse_constant=_no_number, object_pairs_hook=_members
    )


def _decimal(text: str) -> Decimal:
    mantissa, sign, digits = _match(_NUMBER, text).groups(default="")
    return Decimal(f"{mantissa}e{sign}{digits if len(digits) <= _DIGITS else '9' * _DIGITS}" if digits else mantissa)


def _match(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    assert found is not None
    return found


class _LongInteger(Decimal):
    """An integer that is too long for `int`."""


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) < 4000 else _LongInteger(text)


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        raise ValueError("a member twice")
    return out


# ---- keywords


@lru_cache
def _exact_kind(kind: Any) -> Any:
    """The library's class for a dialect, with exact numbers and sets."""
    is_integer = _is_written_integer if kind is jsonschema.Draft4Validator else _is_integer
    types = kind.TYPE_CHECKER.redefine("integer", lambda _, value: is_integer(value))
    keywords = {"multipleOf": _multiple_of, "uniqueItems": _unique_items}
    if kind is jsonschema.Draft7Validator:
        keywords |= {"contentEncoding": _content_encoding, "contentMediaType": _content_media_type}
    return validators.extend(kind, keywords, type_checker=types)


def _is_integer(value: Any) -> bool:
    if isinstance(value, Decimal):
        return value == value.to_integral_value()
    return isinstance(value, int) and not isinstance(value, bool)


def _is_written_integer(value: Any) -> bool:
    """As in draft 4: without a fraction and an exponent."""
    return isinstance(value, int | _LongInteger) and not isinstance(value, bool)


def _multiple_of(validator: Any, divisor: Any, value: Any, _: Any) -> Iterator[jsonschema.ValidationError]:
    if validator.is_type(value, "number") and not _divides(Decimal(divisor), Decimal(value)):
        yield jsonschema.ValidationError("not a multiple")


def _divides(divisor: Decimal, value: Decimal) -> bool:
    """Whether value / divisor is an integer, for exponents of any size."""
    (_, over, shift), (_, under, less) = value.as_tuple(), divisor.as_tuple()
    assert isinstance(shift, int) and isinstance(less, int)
    numerator, denominator = int("".join(map(str, over))), int("".join(map(str, under)))
    shift -= less
    if shift >= 0:
        return numerator * pow(10, shift, denominator) % denominator == 0
    return numerator == 0 or (-shift <= len(over) and numerator % (denominator * 10**-shift) == 0)


def _unique_items(validator: Any, unique: Any, value: Any, _: Any) -> Iterator[jsonschema.ValidationError]:
    if unique and validator.is_type(value, "array") and any(equal(one, two) for one, two in combinations(value, 2)):
        yield jsonschema.ValidationError("two equal items")


def _content_encoding(validator: Any, name: Any, value: Any, _: Any) -> Iterator[jsonschema.ValidationError]:
    if name == "base64" and validator.is_type(value, "string") and _decoded(value) is None:
        yield jsonschema.ValidationError("not base 64")


def _content_media_type(validator: Any, name: Any, value: Any, schema: Any) -> Iterator[jsonschema.ValidationError]:
    if name != "application/json" or not validator.is_type(value, "string"):
        return
    data = value.encode("utf-8", "surrogatepass") if schema.get("contentEncoding") is None else _decoded(value)
    try:  # UTF-8, as RFC 8259 requires; the library would guess the encoding of bytes
        text = (data or b"").decode("utf-8", "strict" if schema.get("contentEncoding") else "surrogatepass")
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_no_number)
    except ValueError:
        yield jsonschema.ValidationError("not a JSON text")


def _decoded(text: str) -> bytes | None:
    """The base64 content of a text; None if it is not base64."""
    try:
        return base64.b64decode(text, validate=True) if len(text) % 4 == 0 else None
    except ValueError:
        return None


# ---- patterns

_DATA = ("const", "enum", "default", "examples", "example")
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")


def _with_python_patterns(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_with_python_patterns(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {}
    for name, item in schema.items():
        if name in _MAPS and isinstance(item, dict):
            out[name] = {key: _with_python_patterns(inner) for key, inner in item.items()}
        else:
            out[name] = item if name in _DATA else _with_python_patterns(item)
    if isinstance(out.get("pattern"), str):
        out["pattern"] = python_pattern(out["pattern"])
    if isinstance(out.get("patternProperties"), dict):
        out["patternProperties"] = {python_pattern(name): item for name, item in out["patternProperties"].items()}
    return out


_SPACES = r"\t\n\x0b\x0c\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_OTHERS = r"\x00-\x08\x0e-\x1f!-\x9f\xa1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff"
_OTHERS += r"\u3001-\ufefe\uff00-\U0010ffff"
_TOKEN = re.compile(
    r"\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)|\[\^?\]?|\(\?<(?![=!])|\{(?:\d+(?:,\d*)?\})?|.", re.DOTALL
)
_SAME = frozenset("dDwWbBfnrtv0ux")


def python_pattern(pattern: str) -> str:
    """An ECMA pattern (flag u) in the dialect of Python's `re`."""
    out, inside = [], False
    for part in _TOKEN.findall(pattern):
        if part in ("[]", "[^]") and not inside:
            out.append("(?!)" if part == "[]" else r"[\s\S]")
            continue
        out.append(_part(part, inside))
        if part[0] == "[" and not inside:
            inside = True
        elif part[0] != "\\" and part[-1] == "]":
            inside = False
    return _checked("(?a:" + "".join(out) + ")", pattern)


def _part(part: str, inside: bool) -> str:
    if part in (r"\s", r"\S"):
        ranges = _SPACES if part == r"\s" else _OTHERS
        return ranges if inside else f"[{ranges}]"
    if part[0] == "\\":
        if part[1].isalnum() and part[1] not in _SAME:
            raise NoJudge(f"the escape {part}")
        if part[1] == "u" and (len(part) < 6 or 0xD800 <= int(part[2:], 16) < 0xE000):
            raise NoJudge(f"the escape {part}")
        return part
    if inside:
        return "".join("\\" + char if char in "[&~|" else char for char in part)
    simple: dict[str, str] = {".": r"[^\n\r\u2028\u2029]", "$": r"\Z", "{": r"\{", "(?<": "(?P<"}
    return simple.get(part, part)


def _checked(translated: str, pattern: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            re.compile(translated)
        except (re.error, Warning, OverflowError) as error:
            raise NoJudge(f"the pattern {pattern!r}: {error}") from None
    return translated
