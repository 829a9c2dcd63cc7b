"""Types that pydantic reads -> JSON Schema. In: a type. Out: its schema, and what reads its JSON.

A type is pydantic's if it is a model or a dataclass of it, says itself how pydantic reads it (EmailStr, HttpUrl, a
class of yours with `__get_pydantic_core_schema__`), is Annotated with something of pydantic (Field, StringConstraints,
UuidVersion), or is a date, a Decimal or bytes with bounds of annotated-types. pydantic describes such a type, and what
it leaves out of the description is added here, from the schema that it validates by:

    str            strip_whitespace: the ends are no white space; classes of Rust's expressions, written as ECMA's
    bytes          UTF-8 text (ASCII where a length is asked for: it counts bytes); base64 or hex where so configured
    Decimal        as a number or a string; with bounds only as a number
    date           bounds, exactly; datetime: with an offset, or without one if it must be naive
    URLs           the schemes that are allowed; `python_pydantic_texts` says which URLs
    formats        pydantic's own names: `python_pydantic_texts`

What no grammar can decide is warned of by a name for `format` of its own: whether a file exists, whether a date is in
the past, bounds of times with offsets, the schema of JSON within a string. Validators are called when a value is read.

Not covered: a number whose exponent makes it infinite, or an integer that is written with a large exponent, is allowed
by the schema and refused by pydantic (numbers="plain", as generation writes, has no exponents); and a character class
of an expression may hold a few other characters where Python, Rust and this package know different versions of Unicode.
"""

from __future__ import annotations

import datetime
import decimal
import re
import types
import typing
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

from guided.errors import UnsupportedError, brief
from guided.frontends.python_types.pydantic_strings import (
    ASCII,
    BYTE_SIZE,
    COMPLEX,
    LOCAL_DATE_TIME,
    base64_of,
    by_format,
    dates_between,
    decimals,
    urls,
)
from guided.frontends.python_types.string_types import CLOCK_TYPES, TEXTS

__all__ = ["is_read_by_pydantic", "pydantic_reader", "pydantic_schema"]

_BYTES: Final = "x-guided-bytes"  # marks descriptions of bytes until they are finished
_CLOCK: Final = {text.schema["format"]: text.schema["pattern"] for text in map(TEXTS.__getitem__, CLOCK_TYPES)}
_SCHEMAS_BY_NAME: Final = ("properties", "patternProperties", "$defs")
_DATA: Final = ("const", "enum", "default", "examples")
_SIZE: Final = r"^\s*(\d*\.?\d+)\s*(\w+)"  # how ByteSize describes itself; the units are left out
_ORDER: Final = ("Gt", "Ge", "Lt", "Le", "Interval")
_BOUNDS_OF: Final[dict[type, tuple[str, ...]]] = {
    **dict.fromkeys((*CLOCK_TYPES, datetime.timedelta), _ORDER),
    decimal.Decimal: (*_ORDER, "MultipleOf"),
    bytes: ("MinLen", "MaxLen", "Len"),
}
"""Bounds of annotated-types that pydantic enforces on strings."""
_BOUNDS: Final = ("gt", "ge", "lt", "le")


def is_read_by_pydantic(tp: Any) -> bool:
    """Whether a type is one of pydantic's, as the head of this file says."""
    if typing.get_origin(tp) is typing.Annotated:
        if is_read_by_pydantic(tp.__origin__) or any(map(_is_of_pydantic, tp.__metadata__)):
            return True
        bounds = [type(item).__name__ for item in tp.__metadata__ if type(item).__module__ == "annotated_types"]
        known = _BOUNDS_OF.get(tp.__origin__, ()) if isinstance(tp.__origin__, type) else ()
        return bool(bounds) and all(bound in known for bound in bounds) and find_spec("pydantic") is not None
    if isinstance(tp, types.GenericAlias) or (typing.get_origin(tp) is not None and not isinstance(tp, type)):
        tp = typing.get_origin(tp)
    return isinstance(tp, type) and ("__pydantic_core_schema__" in vars(tp) or _says_how(tp))


def _is_of_pydantic(metadata: Any) -> bool:
    module = type(metadata).__module__.partition(".")[0]
    return module in ("pydantic", "pydantic_core") or _says_how(metadata)


def _says_how(thing: Any) -> bool:
    return hasattr(thing, "__get_pydantic_core_schema__")


def pydantic_schema(tp: Any, ref_template: str) -> dict[str, Any]:
    """The schema of such a type; `ref_template`: as pydantic has it."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        schema: dict[str, Any] = TypeAdapter(tp).json_schema(ref_template=ref_template, schema_generator=_generator())
    except (PydanticUserError, TypeError) as error:  # TypeError: a bound that the type does not have
        reason = str(error).splitlines()[0]
        raise UnsupportedError(f"{brief(tp)} is not enforced, since pydantic does not describe it: {reason}") from None
    finished: dict[str, Any] = _finished(schema)
    return finished


def pydantic_reader(tp: Any) -> Callable[[str], Any]:
    """Makes the value of JSON text; raises pydantic's ValidationError."""
    from pydantic import TypeAdapter

    validate: Callable[[str], Any] = TypeAdapter(tp).validate_json
    return validate


# --- what is added to descriptions


@cache
def _generator() -> Any:
    """A class that describes types as pydantic does, and says more."""
    from pydantic.json_schema import GenerateJsonSchema

    def strings(self: Any, schema: dict[str, Any]) -> dict[str, Any]:
        out: dict[str, Any] = GenerateJsonSchema.str_schema(self, typing.cast(Any, schema))
        if out.get("pattern", "").startswith(_SIZE):
            return {**out, "pattern": BYTE_SIZE}
        if "pattern" in out and not isinstance(schema.get("pattern"), re.Pattern):
            out["pattern"] = _as_ecma(out["pattern"])
        if schema.get("strip_whitespace", self._config.str_strip_whitespace) and len(out) > 1:
            out = {"allOf": [out, {"pattern": r"^(?!\p{White_Space})[^]*(?<!\p{White_Space})$"}], "type": "string"}
        return out

    def urls_of(self: Any, schema: dict[str, Any], hosts: bool = False) -> dict[str, Any]:
        most = schema.get("max_length")
        longest = {} if most is None else {"maxLength": most - 1}  # a slash may be added
        return {"type": "string", "pattern": urls(schema.get("allowed_schemes"), hosts=hosts), **longest}

    methods = {
        "str_schema": strings,
        "bytes_schema": lambda self, schema: _bytes(schema, self._config.val_json_bytes),
        "decimal_schema": lambda self, schema: _decimal(schema),
        "complex_schema": lambda self, schema: {"type": "string", "pattern": COMPLEX},
        "date_schema": lambda self, schema: _date(schema),
        "datetime_schema": lambda self, schema: _moment("date-time", schema),
        "time_schema": lambda self, schema: _moment("time", schema),
        "timedelta_schema": lambda self, schema: _moment("duration", schema),
        "url_schema": urls_of,
        "multi_host_url_schema": lambda self, schema: urls_of(self, schema, hosts=True),
        "function_plain_schema": _path_or(GenerateJsonSchema.function_plain_schema),
        "function_after_schema": _path_or(GenerateJsonSchema.function_after_schema),
        "json_schema": lambda self, schema: _json(self, schema),
    }
    return type("Described", (GenerateJsonSchema,), methods)


def _bytes(schema: dict[str, Any], mode: str) -> dict[str, Any]:
    low, high = schema.get("min_length", 0), schema.get("max_length")
    out: dict[str, Any] = {"type": "string", _BYTES: True}
    if mode == "hex":
        return {**out, "pattern": f"^(?:[0-9A-Fa-f]{{2}}){{{low},{'' if high is None else high}}}$"}
    if mode == "base64":
        return {**out, "pattern": base64_of(low, high, url=True, ascii=False, canonical=True)}
    return {**out, **_lengths(low, high)}


def _lengths(low: int, high: int | None) -> dict[str, Any]:
    """Numbers of bytes, which are numbers of characters in ASCII."""
    if not low and high is None:
        return {}
    return {"pattern": ASCII, "minLength": low} | ({} if high is None else {"maxLength": high})


def _decimal(schema: dict[str, Any]) -> dict[str, Any]:
    digits, places = schema.get("max_digits"), schema.get("decimal_places")
    number: dict[str, Any] = {"type": "number"}
    for key, keyword in zip(_BOUNDS, ("exclusiveMinimum", "minimum", "exclusiveMaximum", "maximum"), strict=True):
        if schema.get(key) is not None:
            number[keyword] = float(schema[key])
    if schema.get("multiple_of") is not None:
        number["multipleOf"] = float(schema["multiple_of"])
    bounded = len(number) > 1
    if digits is not None or places is not None:
        step = 10.0 ** -(places or 0)
        parts: list[dict[str, Any]] = [{"multipleOf": step if places else 1}]
        if digits is not None:
            limit = 10 ** max(0, digits - (places or 0))
            parts.append({"exclusiveMinimum": -limit, "exclusiveMaximum": limit})
        number["allOf"] = parts
    text = {"type": "string", "pattern": decimals(digits, places)}
    return number if bounded else {"anyOf": [number, text]}


def _date(schema: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {"type": "string", "format": "date"}
    day = datetime.timedelta(days=1)
    low = max((b for b in (schema.get("ge"), schema.get("gt") and schema["gt"] + day) if b), default=None)
    high = min((b for b in (schema.get("le"), schema.get("lt") and schema["lt"] - day) if b), default=None)
    if low is not None or high is not None:
        out["pattern"] = dates_between(low and low.isoformat(), high and high.isoformat())
    return _by_the_clock(out, "date", schema)


def _moment(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {"type": "string", "format": name}
    if name == "date-time" and schema.get("tz_constraint") == "naive":
        out = {"type": "string", "pattern": LOCAL_DATE_TIME}
    elif any(schema.get(bound) is not None for bound in _BOUNDS) or isinstance(schema.get("tz_constraint"), int):
        return {"allOf": [out, {"format": f"limited-{name}"}]}
    return _by_the_clock(out, name, schema)


def _by_the_clock(out: dict[str, Any], name: str, schema: dict[str, Any]) -> dict[str, Any]:
    now = schema.get("now_op")
    return out if now is None else {"allOf": [out, {"format": f"{now}-{name}"}]}


def _path_or(described: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Paths that must not exist yet are described as any other; they are told by what validates them."""

    def method(self: Any, schema: dict[str, Any]) -> Any:
        out = described(self, schema)
        name = getattr(schema["function"].get("function"), "__qualname__", "")
        found = {"PathType.validate_new": "new-path", "PathType.validate_socket": "socket-path"}.get(name)
        return {**out, "allOf": [{"format": found}]} if found else out

    return method


def _json(self: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """JSON text in a string, as draft 7 has it."""
    inner = self.generate_inner(schema["schema"]) if "schema" in schema else {}
    out = {"type": "string", "contentMediaType": "application/json"}
    draft = {"$schema": "http://json-schema.org/draft-07/schema#", "$id": "tag:guided,2025:json-in-a-string"}
    return {"allOf": [{**draft, **out}, *([{"format": "json-string"}] if inner else [])]}


def _as_ecma(pattern: str) -> str:
    r"""An expression of Rust's as ECMA's: \d \w \s and their complements are of all scripts, and . is all but \n."""
    out, at, in_set = "", 0, False
    outside = {"d": r"\p{Nd}", "D": r"\P{Nd}", "s": r"\p{White_Space}", "S": r"\P{White_Space}", "w": f"[{_WORD}]",
               "W": f"[^{_WORD}]", "A": "^", "z": "$"}  # fmt: skip
    inside = {**{c: outside[c] for c in "dDsS"}, "w": _WORD}
    while at < len(pattern):
        c = pattern[at]
        if c == "\\" and at + 1 < len(pattern):
            escaped = pattern[at + 1]
            known = (inside if in_set else outside).get(escaped)
            plain = escaped.isascii() and not escaped.isalnum() and escaped not in "^$\\.*+?()[]{}|/-"
            out += known or (escaped if plain else c + escaped)
            at += 2
            continue
        if c == "." and not in_set:
            c = r"[^\n]"
        in_set = c == "[" or (in_set and c != "]")
        out += c
        at += 1
    return out.replace("(?P<", "(?<")


_WORD: Final = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}"


# --- descriptions as they are enforced


def _finished(schema: Any) -> Any:
    """A description with pydantic's own names for `format` put into keywords."""
    if isinstance(schema, list):
        return [_finished(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _SCHEMAS_BY_NAME:
            out[key] = {name: _finished(part) for name, part in value.items()}
        else:
            out[key] = value if key in _DATA else _finished(value)
    of_bytes = out.pop(_BYTES, False)
    name = out.get("format")
    if isinstance(name, str):
        texts = by_format()
        if name in ("base64", "base64url"):
            low, high = out.pop("minLength", 0), out.pop("maxLength", None)
            pattern = base64_of(low, high, url=name == "base64url", ascii=not of_bytes)
            return _with({key: value for key, value in out.items() if key != "format"}, {"pattern": pattern})
        if name in _CLOCK:
            return _with(out, {"pattern": _CLOCK[name]})
        if name in texts:
            del out["format"]
            return _with(out, texts[name])
    if of_bytes and "pattern" not in out:
        out |= _lengths(out.get("minLength", 0), out.get("maxLength"))
    return out


def _with(schema: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Both at once."""
    if not more.keys() & schema.keys():
        return {**schema, **more}
    return {**schema, "allOf": [*schema.get("allOf", ()), more]}
