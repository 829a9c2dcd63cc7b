"""Reads JSON as values of Python types; the inverse of `type_schema`. In: a type. Out: a function that reads JSON.

The reader of a type is created first, so an unsupported type is refused before any JSON is read. The reader accepts the
JSON that the schema of the type allows, with its bounds, required members and unique items. For other JSON it raises
SpecError with a JSON Pointer.

    int float bool str None Any    the value (1.0 is read as the int 1; a float is rounded, and inf if too large)
    list tuple set frozenset dict  this container; abstract types: list, frozenset (Set), set (MutableSet), dict
    Literal Enum                   the constant, the member
    A | B                          the value of the first alternative, from the left, that fits
    dataclass NamedTuple pydantic  an instance (TypedDict: a dict); pydantic is needed only to read its own types
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
from functools import partial
from typing import Any, Final

from guided.errors import SpecError, UnsupportedError, brief
from guided.frontends.json_schema.documents.source_spans import pointer_of
from guided.frontends.python_types.pydantic_types import is_read_by_pydantic, pydantic_reader
from guided.frontends.python_types.string_types import STRING_FORMS, StringConstraint
from guided.frontends.python_types.type_parts import (
    DICT_TYPES,
    LIST_TYPES,
    SET_TYPES,
    Members,
    alias_target,
    hints_of,
    is_alias,
    is_function,
    is_qualifier,
    is_typed_dict,
    members_of,
    name_of,
    parameters_of,
    suggest_type,
)
from guided.frontends.python_types.type_schema import type_to_schema
from guided.ir.serial import ByIdentity

__all__ = ["MAX_DEPTH", "text_reader", "value_of", "value_reader"]

MAX_DEPTH: Final = 150
"""The maximum nesting depth of values and of types."""
_MAX_EXACT_FLOAT = 2**53


class _Location:
    """The location of a value, and the cached results of unions in this call."""

    __slots__ = ("memo", "path")

    def __init__(self, path: tuple[str | int, ...], memo: dict[Any, ByIdentity[Any, Any]]) -> None:
        self.path, self.memo = path, memo

    def child(self, key: str | int) -> _Location:
        if len(self.path) >= MAX_DEPTH:
            raise self.error(f"the value nests more than {MAX_DEPTH} deep")
        return _Location((*self.path, key), self.memo)

    def error(self, message: str) -> SpecError:
        return SpecError(message, pointer=pointer_of(self.path))

    def mismatch(self, value: Any, expected: str) -> SpecError:
        return self.error(f"{brief(value)} is not {expected}")


_Reader = Callable[[Any, _Location], Any]


def value_of(tp: Any, value: Any) -> Any:
    """The value of a type, or the arguments of a function, from parsed JSON.

    Raises:
        SpecError: the JSON is not a value of the type, or nests too deeply. The error has a JSON Pointer.
        UnsupportedError: the type has no JSON form.
    """
    return value_reader(tp)(value)


def value_reader(tp: Any) -> Callable[[Any], Any]:
    """Like `value_of`, for many values of one type. Errors about the type itself are raised here."""
    type_to_schema(tp)  # refuses a type without a schema, with the same message
    read = _Readers().function_reader(tp) if is_function(tp) else _Readers().reader_of(tp, 0)

    def reader(value: Any) -> Any:
        try:
            return read(value, _Location((), {}))
        except RecursionError:
            raise SpecError(f"{name_of(tp)}: the value nests too deeply for Python's stack") from None

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

    def reader_of(self, tp: Any, depth: int) -> _Reader:
        if depth > MAX_DEPTH:
            raise SpecError(f"types nest more than {MAX_DEPTH} deep")
        try:
            if tp in _SCALARS:
                return _SCALARS[tp]
            if tp in STRING_FORMS:
                return _string_form_reader(tp)
        except TypeError:  # the type is unhashable, so it is not a scalar
            pass
        if is_alias(tp):
            return self._get_class_reader(tp, depth + 1)
        if is_read_by_pydantic(tp):
            validate = pydantic_reader(tp)
            return lambda value, location: _construct(lambda: validate(json.dumps(value)), tp, location)
        origin = typing.get_origin(tp)
        if origin is not None:
            return self._generic_reader(tp, origin, typing.get_args(tp), depth + 1)
        if tp in (*LIST_TYPES, *SET_TYPES, tuple):
            return _array_reader(_read_any if tp not in SET_TYPES else _read_hashable, tp)
        if tp in DICT_TYPES:
            return _object_reader(_read_any, _read_any)
        return self._get_class_reader(tp, depth + 1)

    def function_reader(self, function: Any) -> _Reader:
        signature, members = parameters_of(function)
        read = self._members_reader(members, name_of(function), 0)
        positional_names = [name for name, p in signature.parameters.items() if p.kind is p.POSITIONAL_ONLY]

        def read_arguments(value: Any, location: _Location) -> inspect.BoundArguments:
            arguments = read(value, location)
            positional = []
            for name in positional_names:
                if name not in arguments:
                    break
                positional.append(arguments.pop(name))
            try:
                return signature.bind(*positional, **arguments)
            except TypeError as error:  # a positional argument follows one that was omitted
                raise location.error(f"{name_of(function)}: {error}") from None

        return read_arguments

    def _generic_reader(self, tp: Any, origin: Any, args: tuple[Any, ...], depth: int) -> _Reader:
        if origin is typing.Literal:
            return _constants_reader(args, name_of(tp))
        if origin in (typing.Union, types.UnionType):
            return _union_reader([self.reader_of(arg, depth) for arg in args], " or ".join(map(name_of, args)))
        if origin is typing.Annotated:
            constraints = [item for item in args[1:] if isinstance(item, StringConstraint)]
            return _with_constraints(_with_bounds(self.reader_of(args[0], depth), type_to_schema(tp)), constraints)
        if is_qualifier(origin):
            return self.reader_of(args[0], depth)
        if origin in LIST_TYPES or origin in SET_TYPES or (origin is tuple and args[1:] == (Ellipsis,)):
            is_free_set = origin in SET_TYPES and args[0] in (Any, object)
            item = _read_hashable if is_free_set else self.reader_of(args[0], depth)
            return _array_reader(item, origin)
        if origin is tuple:
            return _tuple_reader([self.reader_of(arg, depth) for arg in args], tuple)
        if origin in DICT_TYPES:
            return _object_reader(self.reader_of(args[0], depth), self.reader_of(args[1], depth))
        return self._get_class_reader(tp, depth)

    def _get_class_reader(self, tp: Any, depth: int) -> _Reader:
        if tp not in self._classes:
            self._classes[tp] = lambda value, location: self._classes[tp](value, location)
            self._classes[tp] = self._new_class_reader(tp, depth)
        return self._classes[tp]

    def _new_class_reader(self, tp: Any, depth: int) -> _Reader:
        if is_alias(tp):
            return self.reader_of(alias_target(tp), depth)
        if isinstance(tp, enum.EnumMeta):
            return _constants_reader(tuple(tp), name_of(tp))
        if (members := members_of(tp)) is not None:
            read = self._members_reader(members, name_of(tp), depth)
            if is_typed_dict(tp):
                return read
            return lambda value, location: _construct(partial(tp, **read(value, location)), tp, location)
        if isinstance(tp, type) and issubclass(tp, tuple) and hasattr(tp, "_fields"):
            hints = hints_of(tp)
            items = [self.reader_of(hints.get(field, Any), depth) for field in tp._fields]
            return _tuple_reader(items, lambda values: tp(*values))
        raise UnsupportedError(f"{name_of(tp)} cannot be created from JSON", hint=suggest_type(tp))

    def _members_reader(self, members: Members, name: str, depth: int) -> _Reader:
        readers = {key: self.reader_of(hint, depth) for key, (hint, _) in members.items()}
        required_keys = [key for key, (_, is_required) in members.items() if is_required]

        def read(value: Any, location: _Location) -> dict[str, Any]:
            if not isinstance(value, dict):
                raise location.mismatch(value, f"an object, which {name} requires")
            if unknown_keys := [key for key in value if key not in readers]:
                raise location.error(f"{name} has no member {brief(unknown_keys[0])}")
            if missing_keys := [key for key in required_keys if key not in value]:
                raise location.error(f"{name}: the member {missing_keys[0]!r} is missing")
            return {key: readers[key](item, location.child(key)) for key, item in value.items()}

        return read


# --- readers


def _read_any(value: Any, location: _Location) -> Any:
    return value


def _read_hashable(value: Any, location: _Location) -> Any:
    if isinstance(value, dict | list):
        raise location.mismatch(value, "a value that a set can contain")
    return value


def _type_reader(kind: type, expected: str) -> _Reader:
    def read(value: Any, location: _Location) -> Any:
        if not isinstance(value, kind):
            raise location.mismatch(value, expected)
        return value

    return read


def _read_int(value: Any, location: _Location) -> int:
    if isinstance(value, float) and value.is_integer():
        if abs(value) > _MAX_EXACT_FLOAT:
            raise location.error(f"{value!r} was read as a float, which cannot represent all digits of the integer")
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise location.mismatch(value, "an integer")
    return value


def _read_float(value: Any, location: _Location) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise location.mismatch(value, "a number")
    try:
        return float(value)
    except OverflowError:  # as json.loads does for 1e999
        return math.inf if value > 0 else -math.inf


_SCALARS: Final[dict[Any, _Reader]] = {
    str: _type_reader(str, "a string"),
    int: _read_int,
    float: _read_float,
    bool: _type_reader(bool, "true or false"),
    None: _type_reader(type(None), "null"),
    type(None): _type_reader(type(None), "null"),
    Any: _read_any,
    object: _read_any,
}


def _string_form_reader(tp: Any) -> _Reader:
    parse = STRING_FORMS[tp].parse

    def read(value: Any, location: _Location) -> Any:
        if not isinstance(value, str):
            raise location.mismatch(value, f"a {name_of(tp)} as a string")
        try:
            return parse(value)
        except ValueError as error:
            raise location.error(f"{brief(value)} is not a {name_of(tp)}: {error}") from None

    return read


def _constants_reader(constants: tuple[Any, ...], name: str) -> _Reader:
    """The reader of constants. They are compared as in JSON: 1 equals 1.0 and differs from true."""
    json_values = [constant.value if isinstance(constant, enum.Enum) else constant for constant in constants]

    def read(value: Any, location: _Location) -> Any:
        for constant, json_value in zip(constants, json_values, strict=True):
            if isinstance(value, bool) == isinstance(json_value, bool) and value == json_value:
                return constant
        raise location.mismatch(value, f"one of {name}")

    return read


def _union_reader(alternatives: list[_Reader], names: str) -> _Reader:
    def read(value: Any, location: _Location) -> Any:
        memo = location.memo.setdefault(read, ByIdentity())
        if value not in memo:
            memo[value] = find_alternative(value, location)
        fits, result = memo[value]
        if not fits:
            raise location.mismatch(value, names) from result
        return result

    def find_alternative(value: Any, location: _Location) -> tuple[bool, Any]:
        failure = None
        for alternative in alternatives:
            try:
                return True, alternative(value, location)
            except SpecError as error:
                failure = error
        return False, failure

    return read


def _array_reader(read_item: _Reader, origin: Any) -> _Reader:
    """The reader of arrays of any length: lists, sets, and tuples with `...`."""
    is_set = origin in SET_TYPES
    make: Callable[[list[Any]], Any] = tuple if origin is tuple else list
    if is_set:
        make = set if name_of(origin) in ("set", "MutableSet") else frozenset

    def read(value: Any, location: _Location) -> Any:
        if not isinstance(value, list):
            raise location.mismatch(value, "an array")
        if is_set and len({_canonical(item) for item in value}) < len(value):
            raise location.error("an item of the set occurs twice")
        items = [read_item(item, location.child(i)) for i, item in enumerate(value)]
        return _construct(lambda: make(items), make, location)

    return read


def _tuple_reader(readers: list[_Reader], make: Callable[[list[Any]], Any]) -> _Reader:
    def read(value: Any, location: _Location) -> Any:
        if not isinstance(value, list) or len(value) != len(readers):
            raise location.mismatch(value, f"an array of {len(readers)} items")
        items = [reader(value[i], location.child(i)) for i, reader in enumerate(readers)]
        return _construct(lambda: make(items), make, location)

    return read


def _object_reader(read_key: _Reader, read_item: _Reader) -> _Reader:
    def read(value: Any, location: _Location) -> Any:
        if not isinstance(value, dict):
            raise location.mismatch(value, "an object")
        return {read_key(k, location.child(k)): read_item(v, location.child(k)) for k, v in value.items()}

    return read


def _construct(make: Callable[[], Any], tp: Any, location: _Location) -> Any:
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


def _with_bounds(read: _Reader, schema: dict[str, Any]) -> _Reader:
    checks = [(keyword, schema[keyword], *_CHECKS[keyword]) for keyword in _CHECKS if keyword in schema]

    def read_checked(value: Any, location: _Location) -> Any:
        for keyword, bound, kinds, holds in checks:
            if isinstance(value, kinds) and not isinstance(value, bool) and not holds(value, bound):
                raise location.error(f"{brief(value)} violates {keyword} {brief(bound)}")
        return read(value, location)

    return read_checked if checks else read


def _with_constraints(read: _Reader, constraints: list[StringConstraint]) -> _Reader:
    def read_checked(value: Any, location: _Location) -> Any:
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
