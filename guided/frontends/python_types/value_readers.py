"""JSON -> the values of Python types. This is the inverse of `type_schema`. In: a type. Out: a function that reads
JSON.

The reader of a type is created first, so an unsupported type is refused before any JSON is read. The reader accepts the
JSON that the schema of the type allows, with its bounds, required members and unique items. For other JSON it raises
SpecError with a JSON Pointer.

    int float bool str None Any    themselves (1.0 is the int 1; a float is rounded to the nearest, or inf if too large)
    list tuple set frozenset dict  the same; abstract types: list, frozenset (Set), set (MutableSet), dict
    Literal Enum                   the constant, the member
    A | B                          the value of the first alternative, from the left, that fits
    dataclass NamedTuple TypedDict an instance, an instance, a dict
    pydantic                       an instance; pydantic itself reads it, and is needed only for this
    function                       `inspect.BoundArguments`: call f(*bound.args, **bound.kwargs); defaults are omitted

Items of a set that differ in JSON but are equal in Python (1 and true) become one. Cost: linear in the JSON, times the
alternatives of a union. The result of a union for an object or an array is cached, so nested unions do not multiply the
cost. An int beyond 2**53 that JSON spells as 1e30 is refused, because `json.loads` has rounded it.
"""

from __future__ import annotations

import enum
import inspect
import json
import math
import types
import typing
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from guided.errors import SpecError, UnsupportedError, brief
from guided.frontends.python_types.pydantic_types import is_read_by_pydantic, pydantic_reader
from guided.frontends.python_types.string_types import TEXTS
from guided.frontends.python_types.type_parts import (
    DICTS,
    LISTS,
    SETS,
    Members,
    hint_for,
    hints_of,
    is_function,
    is_qualifier,
    members_of,
    name_of,
    parameters_of,
    supertype,
)
from guided.frontends.python_types.type_schema import type_to_schema
from guided.ir.serial import ByIdentity

__all__ = ["DEEPEST", "text_reader", "value_of", "value_reader"]

DEEPEST: Final = 150
"""The deepest nesting of values, and of types."""

_EXACT = 2**53


class _Place:
    """The position of a value, and the results of unions in this call."""

    __slots__ = ("memo", "path")

    def __init__(self, path: tuple[str | int, ...], memo: dict[Any, ByIdentity[Any, Any]]) -> None:
        self.path, self.memo = path, memo

    def at(self, key: str | int) -> _Place:
        if len(self.path) >= DEEPEST:
            raise self.error(f"the value nests more than {DEEPEST} deep")
        return _Place((*self.path, key), self.memo)

    def error(self, message: str) -> SpecError:
        pointer = "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in self.path)
        return SpecError(message, pointer=pointer)

    def wrong(self, value: Any, wanted: str) -> SpecError:
        return self.error(f"{brief(value)} is not {wanted}")


_Reader = Callable[[Any, _Place], Any]


def value_of(tp: Any, value: Any) -> Any:
    """The value of a type, or the arguments of a function, from parsed JSON.

    Raises:
        SpecError: the JSON is not a value of the type, or nests too deep; with its pointer.
        UnsupportedError: the type has no JSON form.
    """
    return value_reader(tp)(value)


def value_reader(tp: Any) -> Callable[[Any], Any]:
    """Like `value_of`, for many values of one type. UnsupportedError and SpecError about the type itself are raised
    here."""
    type_to_schema(tp)  # a type without a schema is refused with the same message
    read = _Readers().function(tp) if is_function(tp) else _Readers().of(tp, 0)

    def reader(value: Any) -> Any:
        try:
            return read(value, _Place((), {}))
        except RecursionError:
            raise SpecError(f"{name_of(tp)}: the value nests too deep for Python's stack") from None

    return reader


def text_reader(tp: Any) -> Callable[[str], Any]:
    """Like `value_reader`, for JSON text. pydantic reads its own types, and raises its ValidationError."""
    if is_read_by_pydantic(tp):
        return pydantic_reader(tp)
    read = value_reader(tp)
    return lambda text: read(json.loads(text))


class _Readers:
    """Creates the readers of types. The reader of a class is created once, so classes may be recursive."""

    def __init__(self) -> None:
        self._classes: dict[Any, _Reader] = {}

    def of(self, tp: Any, depth: int) -> _Reader:
        if depth > DEEPEST:
            raise SpecError(f"types nest more than {DEEPEST} deep")
        try:
            if tp in _SCALARS:
                return _SCALARS[tp]
            if tp in TEXTS:
                return _text(tp)
        except TypeError:  # unhashable, so not a scalar
            pass
        if (named := supertype(tp)) is not None:
            return self.of(named, depth + 1)
        if is_read_by_pydantic(tp):
            validate = pydantic_reader(tp)
            return lambda value, place: _construct(lambda: validate(json.dumps(value)), tp, place)
        origin = typing.get_origin(tp)
        if origin is not None:
            return self._generic(tp, origin, typing.get_args(tp), depth + 1)
        if tp in (*LISTS, *SETS, tuple):
            return _array(_any if tp not in SETS else _hashable, tp)
        if tp in DICTS:
            return _object(_any, _any)
        return self._class(tp, depth + 1)

    def function(self, function: Any) -> _Reader:
        signature, members = parameters_of(function)
        read = self._members(members, name_of(function), 0)
        by_position = [name for name, p in signature.parameters.items() if p.kind is p.POSITIONAL_ONLY]

        def arguments(value: Any, place: _Place) -> inspect.BoundArguments:
            found = read(value, place)
            positional = []
            for name in by_position:
                if name not in found:
                    break
                positional.append(found.pop(name))
            try:
                return signature.bind(*positional, **found)
            except TypeError as error:  # a later argument without an earlier one that has a default
                raise place.error(f"{name_of(function)}: {error}") from None

        return arguments

    def _generic(self, tp: Any, origin: Any, args: tuple[Any, ...], depth: int) -> _Reader:
        if origin is typing.Literal:
            return _constants(args, name_of(tp))
        if origin in (typing.Union, types.UnionType):
            return _union([self.of(arg, depth) for arg in args], " or ".join(map(name_of, args)))
        if origin is typing.Annotated:
            return _bounded(self.of(args[0], depth), type_to_schema(tp))
        if is_qualifier(origin):
            return self.of(args[0], depth)
        if origin in LISTS or origin in SETS or (origin is tuple and args[1:] == (Ellipsis,)):
            item = _hashable if origin in SETS and args[0] in (Any, object) else self.of(args[0], depth)
            return _array(item, origin)
        if origin is tuple:
            return _tuple([self.of(arg, depth) for arg in args], tuple)
        if origin in DICTS:
            return _object(self.of(args[0], depth), self.of(args[1], depth))
        return self._class(tp, depth)

    def _class(self, tp: Any, depth: int) -> _Reader:
        if tp not in self._classes:
            self._classes[tp] = lambda value, place: self._classes[tp](value, place)
            self._classes[tp] = self._class_reader(tp, depth)
        return self._classes[tp]

    def _class_reader(self, tp: Any, depth: int) -> _Reader:
        if isinstance(tp, enum.EnumMeta):
            return _constants(tuple(tp), name_of(tp))
        if (members := members_of(tp)) is not None:
            read = self._members(members, name_of(tp), depth)
            if typing.is_typeddict(tp):
                return read
            return lambda value, place: _instance(tp, read(value, place), place)
        if isinstance(tp, type) and issubclass(tp, tuple) and hasattr(tp, "_fields"):
            hints = hints_of(tp)
            items = [self.of(hints.get(field, Any), depth) for field in tp._fields]
            return _tuple(items, lambda values: tp(*values))
        raise UnsupportedError(f"{name_of(tp)} cannot be made of JSON", hint=hint_for(tp))

    def _members(self, members: Members, name: str, depth: int) -> _Reader:
        readers = {key: self.of(hint, depth) for key, (hint, _) in members.items()}
        required = [key for key, (_, needed) in members.items() if needed]

        def read(value: Any, place: _Place) -> dict[str, Any]:
            if not isinstance(value, dict):
                raise place.wrong(value, f"an object, as {name} is")
            if unknown := [key for key in value if key not in readers]:
                raise place.error(f"{name} has no member {brief(unknown[0])}")
            if missing := [key for key in required if key not in value]:
                raise place.error(f"{name}: the member {missing[0]!r} is missing")
            return {key: readers[key](item, place.at(key)) for key, item in value.items()}

        return read


# --- readers


def _any(value: Any, place: _Place) -> Any:
    return value


def _hashable(value: Any, place: _Place) -> Any:
    if isinstance(value, dict | list):
        raise place.wrong(value, "something that a set can hold")
    return value


def _of_type(kind: type, wanted: str) -> _Reader:
    def read(value: Any, place: _Place) -> Any:
        if not isinstance(value, kind):
            raise place.wrong(value, wanted)
        return value

    return read


def _int(value: Any, place: _Place) -> int:
    if isinstance(value, float) and value.is_integer():
        if abs(value) > _EXACT:
            raise place.error(f"{value!r} was read as a float, which does not hold all digits of the integer")
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise place.wrong(value, "an integer")
    return value


def _float(value: Any, place: _Place) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise place.wrong(value, "a number")
    try:
        return float(value)
    except OverflowError:  # as json.loads does for 1e999
        return math.inf if value > 0 else -math.inf


_SCALARS: Final[dict[Any, _Reader]] = {
    str: _of_type(str, "a string"),
    int: _int,
    float: _float,
    bool: _of_type(bool, "true or false"),
    None: _of_type(type(None), "null"),
    type(None): _of_type(type(None), "null"),
    Any: _any,
    object: _any,
}


def _text(tp: Any) -> _Reader:
    parse = TEXTS[tp].parse

    def read(value: Any, place: _Place) -> Any:
        if not isinstance(value, str):
            raise place.wrong(value, f"a {name_of(tp)} as a string")
        try:
            return parse(value)
        except ValueError as error:
            raise place.error(f"{brief(value)} is not a {name_of(tp)}: {error}") from None

    return read


def _constants(constants: tuple[Any, ...], name: str) -> _Reader:
    """Constants are compared as JSON compares them: 1 equals 1.0 and differs from true."""
    plain = [constant.value if isinstance(constant, enum.Enum) else constant for constant in constants]

    def read(value: Any, place: _Place) -> Any:
        for constant, spelled in zip(constants, plain, strict=True):
            if isinstance(value, bool) == isinstance(spelled, bool) and value == spelled:
                return constant
        raise place.wrong(value, f"one of {name}")

    return read


def _union(alternatives: list[_Reader], names: str) -> _Reader:
    def read(value: Any, place: _Place) -> Any:
        memo = place.memo.setdefault(read, ByIdentity())
        if value not in memo:
            memo[value] = first(value, place)
        fits, found = memo[value]
        if not fits:
            raise place.wrong(value, names) from found
        return found

    def first(value: Any, place: _Place) -> tuple[bool, Any]:
        failure = None
        for alternative in alternatives:
            try:
                return True, alternative(value, place)
            except SpecError as error:
                failure = error
        return False, failure

    return read


def _array(item: _Reader, origin: Any) -> _Reader:
    """The reader of arrays of any length: lists, sets, and tuples with `...`."""
    is_set = origin in SETS
    make: Callable[[list[Any]], Any] = list
    if is_set:
        make = set if name_of(origin) in ("set", "MutableSet") else frozenset
    elif origin is tuple:
        make = tuple

    def read(value: Any, place: _Place) -> Any:
        if not isinstance(value, list):
            raise place.wrong(value, "an array")
        if is_set and len({_canonical(part) for part in value}) < len(value):
            raise place.error("an item of the set occurs twice")
        items = [item(part, place.at(i)) for i, part in enumerate(value)]
        return _construct(lambda: make(items), make, place)

    return read


def _tuple(items: list[_Reader], make: Callable[[list[Any]], Any]) -> _Reader:
    def read(value: Any, place: _Place) -> Any:
        if not isinstance(value, list) or len(value) != len(items):
            raise place.wrong(value, f"an array of {len(items)} items")
        parts = [item(part, place.at(i)) for i, (item, part) in enumerate(zip(items, value, strict=True))]
        return _construct(lambda: make(parts), make, place)

    return read


def _object(key: _Reader, item: _Reader) -> _Reader:
    def read(value: Any, place: _Place) -> Any:
        if not isinstance(value, dict):
            raise place.wrong(value, "an object")
        return {key(name, place.at(name)): item(part, place.at(name)) for name, part in value.items()}

    return read


def _instance(tp: Any, members: dict[str, Any], place: _Place) -> Any:
    return _construct(lambda: tp(**members), tp, place)


def _construct(make: Callable[[], Any], tp: Any, place: _Place) -> Any:
    """Call the code of a type (`__post_init__`, validators). Its errors become SpecErrors with a JSON Pointer."""
    try:
        return make()
    except (ValueError, TypeError) as error:
        raise place.error(f"{name_of(tp)}: {error}") from error


# --- bounds


def _multiple(value: Any, divisor: Any) -> bool:
    return math.isfinite(value) and (Fraction(repr(value)) / Fraction(repr(divisor))).denominator == 1


_NUMBER, _SIZES = (int, float), {"Length": str, "Items": list, "Properties": dict}
_CHECKS: Final[dict[str, tuple[Any, Callable[[Any, Any], bool]]]] = {
    "minimum": (_NUMBER, lambda value, bound: value >= bound),
    "maximum": (_NUMBER, lambda value, bound: value <= bound),
    "exclusiveMinimum": (_NUMBER, lambda value, bound: value > bound),
    "exclusiveMaximum": (_NUMBER, lambda value, bound: value < bound),
    "multipleOf": (_NUMBER, _multiple),
    **{"min" + what: (kind, lambda value, bound: len(value) >= bound) for what, kind in _SIZES.items()},
    **{"max" + what: (kind, lambda value, bound: len(value) <= bound) for what, kind in _SIZES.items()},
}


def _bounded(read: _Reader, schema: dict[str, Any]) -> _Reader:
    checks = [(keyword, schema[keyword], *_CHECKS[keyword]) for keyword in _CHECKS if keyword in schema]

    def checked(value: Any, place: _Place) -> Any:
        for keyword, bound, kinds, holds in checks:
            if isinstance(value, kinds) and not isinstance(value, bool) and not holds(value, bound):
                raise place.error(f"{brief(value)} violates {keyword} {bound!r}")
        return read(value, place)

    return checked if checks else read


def _canonical(value: Any) -> Any:
    """A hashable object that is equal for two values if they are equal in JSON."""
    if isinstance(value, list):
        return ("array", *map(_canonical, value))
    if isinstance(value, dict):
        return frozenset((key, _canonical(item)) for key, item in value.items())
    return (bool, value) if isinstance(value, bool) else value
