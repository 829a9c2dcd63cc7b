r"""Describes the decimals that pydantic reads. In: the core schema of a Decimal. Out: JSON Schema.

A Decimal is a number or a string; with bounds or a divisor, it is only a number. Pydantic checks the number of digits
as follows:

    max_digits       the digits before and after the point; of 0.05, only the two after the point
    decimal_places   the digits after the point
    both             also at most max_digits - decimal_places digits before the point, and 0 has such a digit

Pydantic ignores zeros at the end of a fraction, and it shortens the fraction of a number, but not of a string, before
it counts: if no digit is allowed before the point, "0.0" is read, but neither "0" nor the number 0.0.

The strings are in plain notation, without unnecessary zeros at the beginning and without exponents. As keys of a dict,
they also have no zeros at the end of the fraction and no minus before 0, so no two names become one key.
Source: pydantic-core, `validators/decimal.rs`. Cost: `max_digits` alternatives.
"""

from __future__ import annotations

import decimal
from typing import Any, Final

from guided.errors import SpecError, UnsupportedError, brief
from guided.frontends.json_schema.documents.source_spans import NOT_FINITE
from guided.frontends.python_types.pydantic_keys import BOUNDED, NAMES

__all__ = ["decimal_schema"]

_BOUND_KEYWORDS: Final = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
}
_MAX_EXPONENT: Final = 4_000  # as in a JSON Schema that is a dict
_MAX_FRACTION: Final = 342  # more digits than a number with a fraction has, which pydantic reads as a float


def decimal_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The values of a Decimal. `schema`: its core schema."""
    digits, places = schema.get("max_digits"), schema.get("decimal_places")
    if digits == 0:
        return {"not": {}}
    bounds = {
        keyword: _exact_number(schema[key]) for key, keyword in _BOUND_KEYWORDS.items() if schema.get(key) is not None
    }
    number = {"type": "number", **bounds, **_digit_limits(digits, places)}
    text = {"type": "string", "pattern": _text_pattern(digits, places)}
    names = {"type": "string", "pattern": _text_pattern(digits, places, is_key=True)}
    if bounds:
        return {**number, NAMES: {"allOf": [names, BOUNDED]}}
    return {"anyOf": [number, text], NAMES: names}


def _digit_limits(digits: int | None, places: int | None) -> dict[str, Any]:
    """Keywords for the numbers with at most `digits` digits, and at most `places` of them after the point."""
    if digits is None:
        return {} if places is None else {"allOf": [{"multipleOf": _step(places)}]}
    if places is None:
        if digits > _MAX_FRACTION:
            return _numbers(digits, None)
        return {"anyOf": [_numbers(count, digits - count) for count in range(digits + 1)]}
    integer_digits = max(0, digits - places)
    limits = {"allOf": [_numbers(integer_digits, min(places, digits))]}
    return limits if integer_digits else {**limits, "not": {"const": 0}}


def _numbers(integer_digits: int, places: int | None) -> dict[str, Any]:
    """Keywords for numbers with so many digits before and after the point at most."""
    limit = 10**integer_digits
    step = {} if places is None else {"multipleOf": _step(places)}
    return {**step, "exclusiveMinimum": -limit, "exclusiveMaximum": limit}


def _step(places: int) -> int | float:
    return _exact_number(decimal.Decimal((0, (1,), -places)))


def _exact_number(value: Any) -> int | float:
    """A Decimal as a number that `json.dumps` writes exactly."""
    number = decimal.Decimal(value)
    if not number.is_finite():
        raise SpecError(f"{number} is not a JSON number", hint=NOT_FINITE)
    if number.adjusted() > _MAX_EXPONENT:
        raise SpecError(f"a number has more than {_MAX_EXPONENT:,} digits", hint="write a smaller number")
    if number == number.to_integral_value():
        return int(number)
    if decimal.Decimal(repr(float(number))) != number:
        message = f"{brief(number)} cannot be stored as a float without rounding"
        raise UnsupportedError(message, hint="write a number with at most 15 digits")
    return float(number)


def _text_pattern(digits: int | None, places: int | None, *, is_key: bool = False) -> str:
    """A pattern for texts of decimals with at most `digits` digits, and at most `places` of them after the point."""
    sign = "(?!-0(?:\\.0)?$)-?" if is_key else "-?"
    if digits is None:
        return f"^{sign}(?:0|[1-9][0-9]*){_fraction('' if places is None else places, is_key)}$"
    max_places = digits if places is None else min(places, digits)
    integer_digits = digits - (places or 0)
    zero = _fraction(max_places, is_key)
    cases = [f"0{zero}" if integer_digits > 0 else rf"0(?:\.0|{zero.removesuffix('?')})"]
    for count in range(1, integer_digits + 1):
        cases.append(f"[1-9][0-9]{{{count - 1}}}{_fraction(min(max_places, digits - count), is_key)}")
    return f"^{sign}(?:{'|'.join(cases)})$"


def _fraction(max_places: int | str, is_key: bool) -> str:
    """A pattern for an optional fraction. `max_places`: "" means any number."""
    if max_places == 0:
        return ""
    if not is_key:
        return rf"(?:\.[0-9]{{1,{max_places}}})?"
    return rf"(?:\.[0-9]{{0,{max_places - 1 if isinstance(max_places, int) else ''}}}[1-9])?"
