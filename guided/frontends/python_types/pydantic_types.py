"""Converts types that pydantic reads to JSON Schema. In: a type. Out: its schema, and a reader of its JSON.

A type belongs to pydantic if it is a pydantic model or dataclass, has a configuration for pydantic
(`__pydantic_config__`), defines how pydantic reads it (EmailStr, HttpUrl, or any class with
`__get_pydantic_core_schema__`), is Annotated with pydantic metadata (Field, StringConstraints, UuidVersion), or is a
date, a Decimal or bytes with annotated-types bounds. Pydantic's own JSON Schema for such a type is incomplete. This
module adds what is missing, from the core schema that pydantic validates with:

    str            strip_whitespace: no whitespace at the ends; patterns: Rust's in ECMA's notation, Python's unchanged
    bytes          UTF-8 text (ASCII if it has a length, which counts bytes); base64 or hex if so configured
    Decimal        a number or a string: `pydantic_decimals`
    date           exact bounds; datetime: with an offset, or without one if it must be naive
    URLs           the allowed schemes; `pydantic_strings` lists which URLs
    formats        pydantic's own names: `pydantic_strings`
    dict           the names from which pydantic reads the keys: `pydantic_keys`
    others         `pydantic_corrections`

Conditions that no grammar can check get their own name for `format`, which causes a warning: whether a file exists,
whether a date is in the past, bounds of times with offsets, the schema of JSON within a string. Validators run when a
value is read.

Limitations: the schema allows numbers whose exponent makes them infinite, and integers with large exponents, which
pydantic refuses (numbers="plain", the default for generation, has no exponents). A character class may differ in a few
characters if Python, Rust and this package have different versions of Unicode.
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

from guided.errors import SpecError, UnsupportedError, brief
from guided.frontends.json_schema.documents.source_spans import pointer_of
from guided.frontends.python_types.pydantic_constraints import (
    LENGTH_TYPES,
    NONSTANDARD_KEYWORDS,
    chained_constraint,
    constraint_of,
    is_not_text,
    lacks_length,
)
from guided.frontends.python_types.pydantic_corrections import REFUSED, conjunction, corrected_methods
from guided.frontends.python_types.pydantic_decimals import decimal_schema
from guided.frontends.python_types.pydantic_keys import NAMES, key_names
from guided.frontends.python_types.pydantic_strings import (
    ASCII,
    BYTE_SIZE,
    COMPLEX,
    KEEPS_LENGTH,
    LOCAL_DATE_TIME,
    base64_pattern,
    date_pattern,
    schemas_by_format,
    url_pattern,
)
from guided.frontends.python_types.string_types import CLOCK_TYPES, STRING_FORMS, StringConstraint
from guided.frontends.regex.rust_to_ecma import rust_to_ecma
from guided.limits import Limits

__all__ = ["is_read_by_pydantic", "is_supported_by_pydantic", "pydantic_reader", "pydantic_schema"]

_BYTES: Final = "x-guided-bytes"  # marks schemas of bytes until `_finish_schema` has run
_URL: Final = "x-guided-url"  # marks schemas of URLs, likewise
_HAS_CONSTRAINT: Final = "x-guided-constrained"  # marks schemas in which pydantic repeats constraints as keywords
_CLOCK_PATTERNS: Final = {
    text.schema["format"]: text.schema["pattern"] for text in map(STRING_FORMS.__getitem__, CLOCK_TYPES)
}
_NO_NAMES: Final = [
    "dict: the keys of a JSON object must be strings, and pydantic reads none of them as a key of this type",
    "write dict[str, ...]",
]
_NO_LENGTH: Final = [
    "pydantic cannot apply min_length or max_length, since the value has no length",
    "give the length to str, as in Annotated[str, Field(max_length=...)]",
]
_NOT_A_STRING: Final = [
    "pydantic cannot apply pattern, since the value is not a string",
    "give the pattern to str, as in Annotated[str, Field(pattern=...)]",
]
_RUST_PATTERN: Final = "x-guided-rust-pattern"  # a pattern that `_finish_schema` rewrites as ECMA-262's
_RE_FLAGS: Final = {"a": re.A, "i": re.I, "m": re.M, "s": re.S, "x": re.X}
_SETS_FLAGS: Final = re.compile(r"\A(?:\(\?[aimsux]+\))*")
_SCHEMA_MAP_KEYWORDS: Final = ("properties", "patternProperties", "$defs")
_DATA_KEYWORDS: Final = ("const", "enum", "default", "examples", "x-guided-quote")
_BYTE_SIZE_PREFIX: Final = r"^\s*(\d*\.?\d+)\s*(\w+)"  # the beginning of ByteSize's own pattern, up to the units
_ORDER_BOUNDS: Final = ("Gt", "Ge", "Lt", "Le", "Interval")
_BOUNDS_OF: Final[dict[type, tuple[str, ...]]] = {
    **dict.fromkeys((*CLOCK_TYPES, datetime.timedelta), _ORDER_BOUNDS),
    decimal.Decimal: (*_ORDER_BOUNDS, "MultipleOf"),
    bytes: ("MinLen", "MaxLen", "Len"),
}
"""The annotated-types bounds that pydantic enforces on types that are strings in JSON."""
_BOUND_KEYS: Final = ("gt", "ge", "lt", "le")
_LIMITS: Final = Limits()


def is_read_by_pydantic(tp: Any) -> bool:
    """Whether a type belongs to pydantic, as defined in the module docstring."""
    if typing.get_origin(tp) is typing.Annotated:
        if is_read_by_pydantic(tp.__origin__) or any(map(_is_pydantic_metadata, tp.__metadata__)):
            return True
        bounds = [type(item).__name__ for item in tp.__metadata__ if type(item).__module__ == "annotated_types"]
        enforced_bounds = _BOUNDS_OF.get(tp.__origin__, ()) if isinstance(tp.__origin__, type) else ()
        return bool(bounds) and set(bounds) <= set(enforced_bounds) and find_spec("pydantic") is not None
    if isinstance(tp, types.GenericAlias) or (typing.get_origin(tp) is not None and not isinstance(tp, type)):
        tp = typing.get_origin(tp)
    if not isinstance(tp, type):
        return False
    return "__pydantic_core_schema__" in vars(tp) or _defines_core_schema(tp) or _has_configuration(tp)


def _has_configuration(tp: Any) -> bool:
    """Whether a class, or a TypedDict from which it inherits, has a configuration for pydantic."""
    return hasattr(tp, "__pydantic_config__") or any(map(_has_configuration, getattr(tp, "__orig_bases__", ())))


def _is_pydantic_metadata(metadata: Any) -> bool:
    module = type(metadata).__module__.partition(".")[0]
    if isinstance(metadata, StringConstraint):  # pydantic is needed for it only in pydantic's own types
        return False
    return module in ("pydantic", "pydantic_core") or _defines_core_schema(metadata)


def _defines_core_schema(value: Any) -> bool:
    return hasattr(value, "__get_pydantic_core_schema__")


def pydantic_schema(tp: Any, ref_template: str) -> dict[str, Any]:
    """The schema of a type that pydantic reads. `ref_template`: as in pydantic."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError
    from pydantic_core import SchemaError

    try:
        schema: dict[str, Any] = TypeAdapter(tp).json_schema(
            ref_template=ref_template, schema_generator=_generator_class()
        )
    except (PydanticUserError, SchemaError, TypeError) as error:  # TypeError: a bound that the type does not have
        lines = str(error).splitlines()
        reason = " ".join(lines).strip() if isinstance(error, SchemaError) else lines[0]
        raise UnsupportedError(f"{brief(tp)} is not supported, since pydantic cannot describe it: {reason}") from None
    result: dict[str, Any] = _finish_schema(schema, (*ref_template.split("/")[1:-2],))
    return result


def is_supported_by_pydantic(tp: Any) -> bool:
    """Whether pydantic can read a type, whose parts it need not read by itself. For example, it cannot read a TypedDict
    of `typing` in Python 3.11.
    """
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
    from pydantic_core import SchemaError

    try:
        return bool(getattr(TypeAdapter(tp), "pydantic_complete", True))
    except (PydanticUndefinedAnnotation, PydanticUserError, SchemaError, TypeError):
        return False


def pydantic_reader(tp: Any) -> Callable[..., Any]:
    """A function that reads a value from JSON text, as `TypeAdapter.validate_json`. It raises pydantic's
    ValidationError.
    """
    from pydantic import TypeAdapter

    validate: Callable[..., Any] = TypeAdapter(tp).validate_json
    return validate


# --- additions to pydantic's schemas


@cache
def _generator_class() -> Any:
    """A schema generator that extends pydantic's."""
    from pydantic.json_schema import GenerateJsonSchema

    def string_schema(self: Any, schema: dict[str, Any]) -> dict[str, Any]:
        out: dict[str, Any] = GenerateJsonSchema.str_schema(self, typing.cast(Any, schema))
        if out.get("pattern", "").startswith(_BYTE_SIZE_PREFIX):
            return {**out, "pattern": BYTE_SIZE}
        if (pattern := schema.get("pattern")) is not None:
            del out["pattern"]
            out |= _pattern_keywords(pattern, schema.get("regex_engine") or self._config.regex_engine)
        if schema.get("strip_whitespace", self._config.str_strip_whitespace) and len(out) > 1:
            out = {"allOf": [out, {"pattern": r"^(?!\p{White_Space})[^]*(?<!\p{White_Space})$"}], "type": "string"}
        return out

    def url_schema(self: Any, schema: dict[str, Any], several_hosts: bool = False) -> dict[str, Any]:
        max_length = schema.get("max_length")  # of the text itself
        return {
            "type": "string",
            "pattern": url_pattern(schema.get("allowed_schemes"), several_hosts=several_hosts),
            **({} if max_length is None else {"allOf": [{"maxLength": max_length}]}),
            _URL: True,
        }

    mappings = "_common_dict_schema" if hasattr(GenerateJsonSchema, "_common_dict_schema") else "dict_schema"
    methods = {
        **corrected_methods(GenerateJsonSchema),
        "str_schema": string_schema,
        "bytes_schema": lambda self, schema: _bytes_schema(schema, self._config.val_json_bytes),
        "decimal_schema": lambda self, schema: decimal_schema(schema),
        "complex_schema": lambda self, schema: {"type": "string", "pattern": COMPLEX},
        "date_schema": lambda self, schema: _date_schema(schema),
        "datetime_schema": lambda self, schema: _date_time_schema("date-time", schema),
        "time_schema": lambda self, schema: _date_time_schema("time", schema),
        "timedelta_schema": lambda self, schema: _date_time_schema("duration", schema),
        "url_schema": url_schema,
        "multi_host_url_schema": lambda self, schema: url_schema(self, schema, several_hosts=True),
        "function_plain_schema": _with_path_kind(GenerateJsonSchema.function_plain_schema),
        "function_after_schema": _with_constraint(_with_path_kind(GenerateJsonSchema.function_after_schema)),
        "chain_schema": _chain_schema,
        "json_schema": lambda self, schema: _json_text_schema(self, schema),
        mappings: _with_key_names(getattr(GenerateJsonSchema, mappings)),
        "is_subclass_schema": lambda self, schema: self.handle_invalid_for_json_schema(schema, "a class"),
    }
    return type("Described", (GenerateJsonSchema,), methods)


def _bytes_schema(schema: dict[str, Any], mode: str) -> dict[str, Any]:
    low, high = schema.get("min_length", 0), schema.get("max_length")
    out: dict[str, Any] = {"type": "string", _BYTES: True}
    if mode == "hex":
        return {**out, "pattern": f"^(?:[0-9A-Fa-f]{{2}}){{{low},{'' if high is None else high}}}$"}
    if mode == "base64":
        return {**out, "pattern": base64_pattern(low, high, url=True, ascii=False, canonical=True)}
    return {**out, **_length_keywords(low, high)}


def _length_keywords(low: int, high: int | None) -> dict[str, Any]:
    """Keywords for a number of bytes, which is the number of characters in ASCII."""
    if not low and high is None:
        return {}
    return {"pattern": ASCII, "minLength": low} | ({} if high is None else {"maxLength": high})


def _date_schema(schema: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {"type": "string", "format": "date"}
    day = datetime.timedelta(days=1)
    try:
        low = max((b for b in (schema.get("ge"), schema.get("gt") and schema["gt"] + day) if b), default=None)
        high = min((b for b in (schema.get("le"), schema.get("lt") and schema["lt"] - day) if b), default=None)
    except OverflowError:  # no date is after the last one or before the first one
        return {"not": {}}
    if low is not None or high is not None:
        out["pattern"] = date_pattern(low and low.isoformat(), high and high.isoformat())
    return _with_now_condition(out, "date", schema)


def _date_time_schema(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {"type": "string", "format": name}
    if name == "date-time" and schema.get("tz_constraint") == "naive":
        out = {"type": "string", "pattern": LOCAL_DATE_TIME}
    elif any(schema.get(bound) is not None for bound in _BOUND_KEYS) or isinstance(schema.get("tz_constraint"), int):
        return {"allOf": [out, {"format": f"limited-{name}"}]}
    return _with_now_condition(out, name, schema)


def _with_now_condition(out: dict[str, Any], name: str, schema: dict[str, Any]) -> dict[str, Any]:
    now = schema.get("now_op")
    return out if now is None else {"allOf": [out, {"format": f"{now}-{name}"}]}


def _with_constraint(describe: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Add the constraint that a pydantic validator checks; see pydantic_constraints.py."""

    def method(self: Any, schema: dict[str, Any]) -> Any:
        out, constraint = describe(self, schema), constraint_of(schema["function"].get("function"))
        if constraint is not None and constraint.get("type") == LENGTH_TYPES and lacks_length(schema["schema"]):
            return {**out, REFUSED: _NO_LENGTH}
        if constraint is None or (out.get("type") == "string" and constraint.get("type") == LENGTH_TYPES):
            return out  # pydantic adds string lengths itself, and `_finish_schema` makes the lengths of bytes exact
        return {"allOf": [out, constraint], _HAS_CONSTRAINT: True}

    return method


def _chain_schema(self: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a chain: its first step, which reads the value, and the constraints among the other steps."""
    first_step, *other_steps = schema["steps"]
    steps = [first_step, *filter(None, map(chained_constraint, other_steps))]
    out: list[dict[str, Any]] = [self.generate_inner(step) for step in steps]
    if len(steps) > 1 and is_not_text(first_step):
        return {**out[0], REFUSED: _NOT_A_STRING}
    return out[0] if len(out) == 1 else {"allOf": out}


def _with_path_kind(describe: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Recognize new paths and sockets by their validators, since pydantic describes them like other paths."""

    def method(self: Any, schema: dict[str, Any]) -> Any:
        out = describe(self, schema)
        name = getattr(schema["function"].get("function"), "__qualname__", "")
        path_format = {"PathType.validate_new": "new-path", "PathType.validate_socket": "socket-path"}.get(name)
        return {**out, "allOf": [{"format": path_format}]} if path_format else out

    return method


def _json_text_schema(self: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """JSON text in a string, as in draft 7."""
    inner = self.generate_inner(schema["schema"]) if "schema" in schema else {}
    out = {"type": "string", "contentMediaType": "application/json"}
    draft = {"$schema": "http://json-schema.org/draft-07/schema#", "$id": "tag:guided,2025:json-in-a-string"}
    return {"allOf": [{**draft, **out}, *([{"format": "json-string"}] if inner else [])]}


def _with_key_names(describe: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Add a schema for the names that pydantic reads as the keys of a dict."""

    def method(self: Any, schema: dict[str, Any]) -> Any:
        out = describe(self, {key: value for key, value in schema.items() if key != "keys_schema"})
        keys = self.generate_inner(schema["keys_schema"]) if "keys_schema" in schema else {}
        names = key_names(keys, self.get_schema_from_definitions)
        if names is None:
            return {**out, REFUSED: _NO_NAMES}
        return {**out, "propertyNames": names} if names.keys() - {"type", "title"} else out

    return method


def _pattern_keywords(pattern: str | re.Pattern[str], engine: str | None) -> dict[str, str]:
    """The keyword for a pattern of pydantic: `_finish_schema` rewrites those that Rust's crate `regex` matches."""
    if isinstance(pattern, str):
        return {"x-guided-python-pattern" if engine == "python-re" else _RUST_PATTERN: pattern}
    flags = "".join(letter for letter, flag in _RE_FLAGS.items() if pattern.flags & flag)
    source = _SETS_FLAGS.sub("", pattern.pattern)
    return {"x-guided-python-pattern": f"(?{flags}){source}" if flags else source}


# --- the final schemas


def _finish_schema(schema: Any, path: tuple[str | int, ...]) -> Any:
    """Replace pydantic's names for `format`, and its patterns, by standard keywords. `path`: where the schema is."""
    if isinstance(schema, list):
        return [_finish_schema(child, (*path, index)) for index, child in enumerate(schema)]
    if not isinstance(schema, dict):
        return schema
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _SCHEMA_MAP_KEYWORDS:
            out[key] = {name: _finish_schema(child, (*path, key, name)) for name, child in value.items()}
        elif key == _RUST_PATTERN:
            out["pattern"] = _rewrite_pattern(value, (*path, "pattern"))
        else:
            out[key] = value if key in _DATA_KEYWORDS else _finish_schema(value, (*path, key))
    out.pop(NAMES, None)
    if REFUSED in out:
        reason, hint = out[REFUSED]
        raise UnsupportedError(reason, pointer=pointer_of(path), hint=hint)
    if out.pop(_URL, False):
        return _with_url_lengths(out)
    is_bytes = out.pop(_BYTES, False)
    if out.pop(_HAS_CONSTRAINT, False):
        for keyword in NONSTANDARD_KEYWORDS:
            out.pop(keyword, None)
    format_name = out.get("format")
    if isinstance(format_name, str):
        schemas = schemas_by_format()
        if format_name in ("base64", "base64url"):
            low, high = out.pop("minLength", 0), out.pop("maxLength", None)
            pattern = base64_pattern(low, high, url=format_name == "base64url", ascii=not is_bytes)
            return conjunction({key: value for key, value in out.items() if key != "format"}, {"pattern": pattern})
        if format_name in _CLOCK_PATTERNS:
            return conjunction(out, {"pattern": _CLOCK_PATTERNS[format_name]})
        if format_name in schemas:
            del out["format"]
            return conjunction(out, schemas[format_name])
    if is_bytes and "pattern" not in out:
        out |= _length_keywords(out.get("minLength", 0), out.get("maxLength"))
    return out


def _with_url_lengths(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of URLs with keywords for the lengths of `Field`, which pydantic compares with the normalized URL.
    It may have another slash at the end, and a 0 that `::` stands for in the text. It may also be shorter.
    """
    low, high = schema.pop("minLength", 0), schema.pop("maxLength", None)
    if high is not None:
        cases = [(KEEPS_LENGTH, high), ("^[^\\[]*$", high - 1)]
        cases.append(("", (high - 1) * 6 // 7))  # an address in brackets has at least six characters
        choices = [{"pattern": pattern, "maxLength": length} for pattern, length in cases if length >= 0]
        schema = conjunction(schema, {"anyOf": choices})
    return conjunction(schema, {"allOf": [{"format": "limited-by-min-length"}]}) if low else schema


def _rewrite_pattern(pattern: str, path: tuple[str | int, ...]) -> str:
    try:
        return rust_to_ecma(pattern, _LIMITS)
    except (SpecError, UnsupportedError) as error:
        error.pointer = pointer_of(path)
        raise
