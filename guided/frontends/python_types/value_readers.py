"""Reads JSON as values of Python types; the inverse of `type_schema`. In: a type. Out: a function that reads JSON.

The reader of a type is created first, so an unsupported type is refused before any JSON is read. The reader accepts the
JSON that the schema of the type allows, with its bounds, required members and unique items. For other JSON it raises
SpecError with a JSON Pointer.

    int float bool str None Any    the value (1.0 is read as the int 1; a float is rounded, and inf if too large)
    list tuple set frozenset dict  this container; abstract types: list, frozenset (Set), set (MutableSet), dict
    Literal Enum Flag              the constant, the member, the combination of members
    A | B                          the value of the first alternative, from the left, that fits; but if a part of the
                                   union belongs to pydantic, and pydantic supports the others, the one that it chooses
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
import types
import typing
from collections.abc import Callable
from functools import partial
from typing import Any

from guided.errors import SpecError, UnsupportedError, brief
from guided.frontends.python_types.pydantic_types import (
    is_read_by_pydantic,
    is_supported_by_pydantic,
    pydantic_reader,
)
from guided.frontends.python_types.reader_parts import (
    MAX_DEPTH,
    SCALARS,
    Location,
    Reader,
    array_reader,
    constants_reader,
    construct,
    flag_reader,
    object_reader,
    pydantic_value_reader,
    read_any,
    read_hashable,
    string_form_reader,
    tuple_reader,
    union_reader,
    with_bounds,
    with_constraints,
)
from guided.frontends.python_types.string_types import STRING_FORMS, StringConstraint
from guided.frontends.python_types.type_parts import (
    DICT_TYPES,
    LIST_TYPES,
    SET_TYPES,
    Members,
    alias_target,
    class_of,
    is_alias,
    is_function,
    is_hashable_object,
    is_qualifier,
    is_typed_dict,
    items_of,
    members_of,
    name_of,
    parameters_of,
    suggest_type,
)
from guided.frontends.python_types.type_schema import type_to_schema

__all__ = ["MAX_DEPTH", "text_reader", "value_of", "value_reader"]


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
            return read(value, Location())
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
        self._classes: dict[Any, Reader] = {}

    def reader_of(self, tp: Any, depth: int) -> Reader:
        if depth > MAX_DEPTH:
            raise SpecError(f"types nest more than {MAX_DEPTH} deep")
        try:
            if tp in SCALARS:
                return SCALARS[tp]
            if tp in STRING_FORMS:
                return string_form_reader(tp)
        except TypeError:  # the type is unhashable, so it is not a scalar
            pass
        if is_alias(tp):
            return self._get_class_reader(tp, depth + 1)
        if is_read_by_pydantic(tp):
            return pydantic_value_reader(tp)
        origin = typing.get_origin(tp)
        if origin is not None:
            return self._generic_reader(tp, origin, typing.get_args(tp), depth + 1)
        if tp in (*LIST_TYPES, *SET_TYPES, tuple):
            return array_reader(read_any if tp not in SET_TYPES else read_hashable, tp)
        if tp in DICT_TYPES:
            return object_reader(read_any, read_any)
        return self._get_class_reader(tp, depth + 1)

    def function_reader(self, function: Any) -> Reader:
        signature, members = parameters_of(function)
        read = self._members_reader(members, name_of(function), 0)
        positional_names = [name for name, p in signature.parameters.items() if p.kind is p.POSITIONAL_ONLY]

        def read_arguments(value: Any, location: Location) -> inspect.BoundArguments:
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

    def _generic_reader(self, tp: Any, origin: Any, args: tuple[Any, ...], depth: int) -> Reader:
        if origin is typing.Literal:
            return constants_reader(args, name_of(tp))
        if origin in (typing.Union, types.UnionType):
            readers = [self.reader_of(arg, depth) for arg in args]
            is_of_pydantic = any(map(_has_part_of_pydantic, args)) and is_supported_by_pydantic(tp)
            first = pydantic_value_reader(tp) if is_of_pydantic else None
            return union_reader(readers, " or ".join(map(name_of, args)), first)
        if origin is typing.Annotated:
            constraints = [item for item in args[1:] if isinstance(item, StringConstraint)]
            return with_constraints(with_bounds(self.reader_of(args[0], depth), type_to_schema(tp)), constraints)
        if is_qualifier(origin):
            return self.reader_of(args[0], depth)
        if origin in LIST_TYPES or origin in SET_TYPES or (origin is tuple and args[1:] == (Ellipsis,)):
            is_free_set = origin in SET_TYPES and args[0] in (Any, object)
            item = read_hashable if is_free_set else self.reader_of(args[0], depth)
            return array_reader(item, origin)
        if origin is tuple:
            return tuple_reader([self.reader_of(arg, depth) for arg in args], tuple)
        if origin in DICT_TYPES:
            return object_reader(self.reader_of(args[0], depth), self.reader_of(args[1], depth))
        return self._get_class_reader(tp, depth)

    def _get_class_reader(self, tp: Any, depth: int) -> Reader:
        if not is_hashable_object(tp):
            return self._new_class_reader(tp, depth)
        if tp not in self._classes:
            self._classes[tp] = lambda value, location: self._classes[tp](value, location)
            self._classes[tp] = self._new_class_reader(tp, depth)
        return self._classes[tp]

    def _new_class_reader(self, tp: Any, depth: int) -> Reader:
        if is_alias(tp):
            return self.reader_of(alias_target(tp), depth)
        if isinstance(tp, type) and issubclass(tp, enum.Flag):
            return flag_reader(tp)
        if isinstance(tp, enum.EnumMeta):
            return constants_reader(tuple(tp), name_of(tp))
        if (members := members_of(tp)) is not None:
            read = self._members_reader(members, name_of(tp), depth)
            if is_typed_dict(tp):
                return read
            return lambda value, location: construct(partial(class_of(tp), **read(value, location)), tp, location)
        if (items := items_of(tp)) is not None:
            return tuple_reader([self.reader_of(item, depth) for item in items], lambda values: class_of(tp)(*values))
        raise UnsupportedError(f"{name_of(tp)} cannot be created from JSON", hint=suggest_type(tp))

    def _members_reader(self, members: Members, name: str, depth: int) -> Reader:
        readers = {key: self.reader_of(hint, depth) for key, (hint, _) in members.items()}
        required_keys = [key for key, (_, is_required) in members.items() if is_required]

        def read(value: Any, location: Location) -> dict[str, Any]:
            if not isinstance(value, dict):
                raise location.mismatch(value, f"an object, which {name} requires")
            if unknown_keys := [key for key in value if key not in readers]:
                raise location.error(f"{name} has no member {brief(unknown_keys[0])}")
            if missing_keys := [key for key in required_keys if key not in value]:
                raise location.error(f"{name}: the member {missing_keys[0]!r} is missing")
            return {key: readers[key](item, location.child(key)) for key, item in value.items()}

        return read


def _has_part_of_pydantic(tp: Any) -> bool:
    """Whether pydantic reads a type or one of its arguments, as in `list[Model]`."""
    return is_read_by_pydantic(tp) or any(map(_has_part_of_pydantic, typing.get_args(tp)))
