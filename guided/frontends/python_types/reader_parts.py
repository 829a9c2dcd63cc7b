"""Readers of single kinds of JSON values, from which `value_readers` builds the reader of a type.

A reader is a function of a JSON value and its location. It returns the Python value. For other JSON it raises SpecError
with a JSON Pointer. Pydantic reads its own types, and converts values of other types: "7" is an int to it. So a union
tries its alternatives twice: first without conversions (`Location.is_strict`), then with them.
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from guided.errors import SpecError, brief
from guided.frontends.json_schema.documents.source_spans import pointer_of
from guided.frontends.python_types.flag_values import flag_values
from guided.frontends.python_types.pydantic_types import pydantic_reader
from guided.frontends.python_types.string_types import STRING_FORMS, StringConstraint
from guided.frontends.python_types.type_parts import SET_TYPES, name_of
from guided.ir.serial import ByIdentity

__all__ = [
    "MAX_DEPTH",
    "SCALARS",
    "Location",
    "Reader",
    "array_reader",
    "constants_reader",
    "construct",
    "flag_reader",
    "object_reader",
    "pydantic_value_reader",
    "read_any",
    "read_hashable",
    "string_form_reader",
    "tuple_reader",
    "union_reader",
    "with_bounds",
    "with_constraints",
]

MAX_DEPTH: Final = 150
"""The maximum nesting depth of values and of types."""
_MAX_EXACT_FLOAT = 2**53


class Location:
    """The location of a value, and the cached results of unions in this call.

    Attributes:
        is_strict: whether pydantic must not convert values of other types.
    """

    __slots__ = ("is_strict", "memo", "path")

    def __init__(
        self, path: tuple[str | int, ...] = (), memo: dict[Any, ByIdentity[Any, Any]] | None = None,
        is_strict: bool = False,
    ) -> None:  # fmt: skip
        self.path, self.memo, self.is_strict = path, {} if memo is None else memo, is_strict

    def child(self, key: str | int) -> Location:
        """The location of a member or an item. Raises SpecError if it nests too deeply."""
        if len(self.path) >= MAX_DEPTH:
            raise self.error(f"the value nests more than {MAX_DEPTH} deep")
        return Location((*self.path, key), self.memo, self.is_strict)

    def strict(self) -> Location:
        """The same location, where pydantic must not convert values."""
        return Location(self.path, self.memo, True)

    def error(self, message: str) -> SpecError:
        """An error at this location."""
        return SpecError(message, pointer=pointer_of(self.path))

    def mismatch(self, value: Any, expected: str) -> SpecError:
        """The error for a value of another kind. `expected`: a noun phrase."""
        return self.error(f"{brief(value)} is not {expected}")


Reader = Callable[[Any, Location], Any]


def read_any(value: Any, location: Location) -> Any:
    """The value itself."""
    return value


def read_hashable(value: Any, location: Location) -> Any:
    """The value itself, if a set can contain it."""
    if isinstance(value, dict | list):
        raise location.mismatch(value, "a value that a set can contain")
    return value


def _type_reader(kind: type, expected: str) -> Reader:
    def read(value: Any, location: Location) -> Any:
        if not isinstance(value, kind):
            raise location.mismatch(value, expected)
        return value

    return read


def _read_int(value: Any, location: Location) -> int:
    if isinstance(value, float) and value.is_integer():
        if abs(value) > _MAX_EXACT_FLOAT:
            raise location.error(f"{value!r} was read as a float, which cannot represent all digits of the integer")
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise location.mismatch(value, "an integer")
    return value


def _read_float(value: Any, location: Location) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise location.mismatch(value, "a number")
    try:
        return float(value)
    except OverflowError:  # as json.loads does for 1e999
        return math.inf if value > 0 else -math.inf


SCALARS: Final[dict[Any, Reader]] = {
    str: _type_reader(str, "a string"),
    int: _read_int,
    float: _read_float,
    bool: _type_reader(bool, "true or false"),
    None: _type_reader(type(None), "null"),
    type(None): _type_reader(type(None), "null"),
    Any: read_any,
    object: read_any,
}


def string_form_reader(tp: Any) -> Reader:
    """The reader of a type in `STRING_FORMS`."""
    parse = STRING_FORMS[tp].parse

    def read(value: Any, location: Location) -> Any:
        if not isinstance(value, str):
            raise location.mismatch(value, f"a {name_of(tp)} as a string")
        try:
            return parse(value)
        except ValueError as error:
            raise location.error(f"{brief(value)} is not a {name_of(tp)}: {error}") from None

    return read


def constants_reader(constants: tuple[Any, ...], name: str) -> Reader:
    """The reader of constants. They are compared as in JSON: 1 equals 1.0 and differs from true."""
    json_values = [constant.value if isinstance(constant, enum.Enum) else constant for constant in constants]

    def read(value: Any, location: Location) -> Any:
        for constant, json_value in zip(constants, json_values, strict=True):
            if isinstance(value, bool) == isinstance(json_value, bool) and value == json_value:
                return constant
        raise location.mismatch(value, f"one of {name}")

    return read


def flag_reader(tp: type[enum.Flag]) -> Reader:
    """The reader of combinations of the members of a Flag."""
    values = flag_values(tp)

    def read(value: Any, location: Location) -> Any:
        number = _read_int(value, location)
        if number not in values:
            raise location.mismatch(value, f"a combination of the members of {name_of(tp)}")
        return tp(number)

    return read


def pydantic_value_reader(tp: Any) -> Reader:
    """The reader of a type that pydantic reads."""
    validate = pydantic_reader(tp)
    return lambda value, location: construct(
        lambda: validate(json.dumps(value), strict=location.is_strict or None), tp, location
    )


def union_reader(alternatives: list[Reader], names: str, first: Reader | None = None) -> Reader:
    """The reader of a union: `first`, if it fits, or the first alternative that fits. `names`: for errors."""

    def read(value: Any, location: Location) -> Any:
        memo = location.memo.setdefault((read, location.is_strict), ByIdentity())
        if value not in memo:
            memo[value] = find_alternative(value, location)
        fits, result = memo[value]
        if not fits:
            raise location.mismatch(value, names) from result
        return result

    def find_alternative(value: Any, location: Location) -> tuple[bool, Any]:
        failure = None
        places = [location] if location.is_strict else [location.strict(), location]
        attempts = [(alternative, place) for place in places for alternative in alternatives]
        for alternative, place in attempts if first is None else [(first, location), *attempts]:
            try:
                return True, alternative(value, place)
            except SpecError as error:
                failure = error
        return False, failure

    return read


def array_reader(read_item: Reader, origin: Any) -> Reader:
    """The reader of arrays of any length: lists, sets, and tuples with `...`."""
    is_set = origin in SET_TYPES
    make: Callable[[list[Any]], Any] = tuple if origin is tuple else list
    if is_set:
        make = set if name_of(origin) in ("set", "MutableSet") else frozenset

    def read(value: Any, location: Location) -> Any:
        if not isinstance(value, list):
            raise location.mismatch(value, "an array")
        if is_set and len({_canonical(item) for item in value}) < len(value):
            raise location.error("an item of the set occurs twice")
        items = [read_item(item, location.child(i)) for i, item in enumerate(value)]
        return construct(lambda: make(items), make, location)

    return read


def tuple_reader(readers: list[Reader], make: Callable[[list[Any]], Any]) -> Reader:
    """The reader of arrays with one reader for each item."""

    def read(value: Any, location: Location) -> Any:
        if not isinstance(value, list) or len(value) != len(readers):
            raise location.mismatch(value, f"an array of {len(readers)} items")
        items = [reader(value[i], location.child(i)) for i, reader in enumerate(readers)]
        return construct(lambda: make(items), make, location)

    return read


def object_reader(read_key: Reader, read_item: Reader) -> Reader:
    """The reader of objects with any names."""

    def read(value: Any, location: Location) -> Any:
        if not isinstance(value, dict):
            raise location.mismatch(value, "an object")
        return {read_key(k, location.child(k)): read_item(v, location.child(k)) for k, v in value.items()}

    return read


def construct(make: Callable[[], Any], tp: Any, location: Location) -> Any:
    """Create a value with the code of a type. Errors of this code become SpecErrors with a JSON Pointer."""
    try:
        return make()
    except (ValueError, TypeError) as error:
        raise location.error(f"{name_of(tp)}: {error}") from error


# --- bounds


def _is_multiple(value: Any, divisor: Any) -> bool:
    if isinstance(value, float) and not math.isfinite(value):
        return False
    dividend, step = (Fraction(float.__repr__(n) if isinstance(n, float) else n) for n in (value, divisor))
    return (dividend / step).denominator == 1  # a float is the number that JSON spells: 0.1 is a tenth


_NUMBER, _SIZES = (int, float), {"Length": str, "Items": list, "Properties": dict}
_CHECKS: Final[dict[str, tuple[Any, Callable[[Any, Any], bool]]]] = {
    "minimum": (_NUMBER, lambda value, bound: value >= bound),
    "maximum": (_NUMBER, lambda value, bound: value <= bound),
    "exclusiveMinimum": (_NUMBER, lambda value, bound: value > bound),
    "exclusiveMaximum": (_NUMBER, lambda value, bound: value < bound),
    "multipleOf": (_NUMBER, _is_multiple),
    **{"min" + what: (kind, lambda value, bound: len(value) >= bound) for what, kind in _SIZES.items()},
    **{"max" + what: (kind, lambda value, bound: len(value) <= bound) for what, kind in _SIZES.items()},
}


def with_bounds(read: Reader, schema: dict[str, Any]) -> Reader:
    """Check the bounds of a schema before the value is read."""
    checks = [(keyword, schema[keyword], *_CHECKS[keyword]) for keyword in _CHECKS if keyword in schema]

    def read_checked(value: Any, location: Location) -> Any:
        for keyword, bound, kinds, holds in checks:
            if isinstance(value, kinds) and not isinstance(value, bool) and not holds(value, bound):
                raise location.error(f"{brief(value)} violates {keyword} {brief(bound)}")
        return read(value, location)

    return read_checked if checks else read


def with_constraints(read: Reader, constraints: list[StringConstraint]) -> Reader:
    """Check constraints of strings before the value is read."""

    def read_checked(value: Any, location: Location) -> Any:
        for problem in filter(None, [each.problem(value) for each in constraints if isinstance(value, str)]):
            raise location.error(f"{brief(value)} {problem}")
        return read(value, location)

    return read_checked if constraints else read


def _canonical(value: Any) -> Any:
    """A hashable object that is equal for two values if they are equal in JSON."""
    if isinstance(value, list):
        return ("array", *map(_canonical, value))
    if isinstance(value, dict):
        return frozenset((key, _canonical(item)) for key, item in value.items())
    return (bool, value) if isinstance(value, bool) else value
