"""Converts Python types to JSON Schema. In: a type. Out: the schema of its values in JSON, as a dict.

    str int float bool None Any    list[T] tuple[A, B] tuple[T, ...] dict[str, T] set[T] frozenset[T]
    Literal  Enum  Flag (`flag_values`)  Union Optional `A | B`  Annotated (annotated-types bounds)  NewType
    dataclass  TypedDict  NamedTuple  TypeAliasType, all also generic with arguments: `Box[int]`    pydantic models
    datetime date time timedelta UUID Decimal Fraction IPv6Network Path bytes .. (`string_types`)
    functions: their arguments   pydantic's types: EmailStr, HttpUrl, Annotated[int, Field(ge=1)] (`pydantic_types`)

Classes become `$defs`, so they may be recursive. Dataclasses, TypedDicts and arguments are closed, since other keys
could not be read back. Pydantic describes its own types, and is needed only for them. A type without a JSON form, or
whose values cannot be created from JSON (`set[list[int]]`), causes an error that names it. A function is allowed only
by itself, not inside other types. Cost: linear in the types reached. The inverse is `value_readers`.
"""

from __future__ import annotations

import collections.abc
import enum
import types
import typing
from decimal import Decimal
from typing import Any

from guided.errors import SpecError, UnsupportedError, brief
from guided.frontends.python_types.flag_values import flag_schema
from guided.frontends.python_types.pydantic_hashing import HASHABLE_VALUES, UNHASHABLE_HINT
from guided.frontends.python_types.pydantic_types import is_read_by_pydantic, pydantic_schema
from guided.frontends.python_types.string_types import STRING_FORMS, StringConstraint
from guided.frontends.python_types.type_parts import (
    DICT_TYPES,
    LIST_TYPES,
    SET_TYPES,
    alias_target,
    is_alias,
    is_function,
    is_hashable_object,
    is_hashable_type,
    is_qualifier,
    items_of,
    members_of,
    name_of,
    parameters_of,
    suggest_type,
)
from guided.meter import spend

__all__ = ["type_to_schema"]

_SCALARS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    None: {"type": "null"},
    type(None): {"type": "null"},
    Any: {},
    object: {},
    **{tp: form.schema for tp, form in STRING_FORMS.items()},
}
_BOUND_KEYWORDS = {
    "Gt": ("gt", "exclusiveMinimum"),
    "Ge": ("ge", "minimum"),
    "Lt": ("lt", "exclusiveMaximum"),
    "Le": ("le", "maximum"),
    "MultipleOf": ("multiple_of", "multipleOf"),
}
_LENGTH_SUFFIXES = {"string": "Length", "array": "Items", "object": "Properties"}
_MAX_DEPTH = 100


def type_to_schema(tp: Any) -> dict[str, Any]:
    """The JSON Schema (2020-12) of the values of a type, or of the arguments of a function."""
    reader = _SchemaReader()
    schema = reader.convert_members(parameters_of(tp)[1], tp, 0) if is_function(tp) else reader.convert(tp, 0)
    return {**schema, "$defs": reader.definitions} if reader.definitions else schema


class _SchemaReader:
    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        self._names: dict[Any, str] = {}
        self._open_aliases: set[Any] = set()

    def convert(self, tp: Any, depth: int) -> dict[str, Any]:
        spend()  # shared parts are read repeatedly, which may take exponential time
        if depth > _MAX_DEPTH:
            raise SpecError(f"types nest more than {_MAX_DEPTH} deep")
        scalar = _SCALARS.get(tp) if is_hashable_object(tp) else None
        if scalar is not None:
            return dict(scalar)
        if is_alias(tp):
            return self._convert_alias(tp, depth + 1)
        if is_read_by_pydantic(tp):
            return self._define_class(tp, depth + 1)
        origin = typing.get_origin(tp)
        if origin is not None:
            return self._convert_generic(tp, origin, typing.get_args(tp), depth + 1)
        if tp in (*LIST_TYPES, *DICT_TYPES, tuple):
            return {"type": "object" if tp in DICT_TYPES else "array"}
        if tp in SET_TYPES:
            return {"type": "array", "items": HASHABLE_VALUES, "uniqueItems": True}
        if isinstance(tp, type):
            return self._define_class(tp, depth + 1)
        raise UnsupportedError(f"{name_of(tp)} has no JSON Schema", hint=suggest_type(tp))

    def _convert_alias(self, tp: Any, depth: int) -> dict[str, Any]:
        """The schema of the type that an alias names. It becomes a definition only if it is recursive."""
        if not is_hashable_object(tp):
            return self.convert(alias_target(tp), depth)
        if tp in self._open_aliases and tp not in self._names:
            self._names[tp] = name = self._new_name(tp)
            self.definitions[name] = {}
        if tp in self._names:
            return {"$ref": f"#/$defs/{self._names[tp]}"}
        self._open_aliases.add(tp)
        schema = self.convert(alias_target(tp), depth)
        self._open_aliases.discard(tp)
        if tp not in self._names:
            return schema
        self.definitions[self._names[tp]] = schema
        return {"$ref": f"#/$defs/{self._names[tp]}"}

    # --- generics

    def _convert_generic(self, tp: Any, origin: Any, args: tuple[Any, ...], depth: int) -> dict[str, Any]:
        if origin is typing.Literal:
            return _enumeration_schema(args, tp)
        if origin in (typing.Union, types.UnionType):
            return {"anyOf": [self.convert(arg, depth) for arg in args]}
        if origin is typing.Annotated:
            return self._convert_annotated(args[0], args[1:], depth)
        if is_qualifier(origin):
            return self.convert(args[0], depth)
        if origin in LIST_TYPES:
            return {"type": "array", "items": self.convert(args[0], depth)}
        if origin in SET_TYPES:
            return {"type": "array", "items": self._convert_set_items(tp, args[0], depth), "uniqueItems": True}
        if origin is tuple:
            if len(args) == 2 and args[1] is Ellipsis:
                return {"type": "array", "items": self.convert(args[0], depth)}
            return self._convert_tuple(args, depth)
        if origin in DICT_TYPES:
            return self._convert_dict(tp, args, depth)
        if isinstance(origin, type):
            return self._define_class(tp, depth)
        raise UnsupportedError(f"{name_of(tp)} has no JSON Schema", hint=suggest_type(tp))

    def _convert_tuple(self, args: typing.Sequence[Any], depth: int) -> dict[str, Any]:
        if not args:
            return {"type": "array", "maxItems": 0}
        if any(getattr(arg, "__unpacked__", False) or typing.get_origin(arg) is typing.Unpack for arg in args):
            raise UnsupportedError("a tuple with *tuple[...] inside has no JSON Schema", hint="write tuple[T, ...]")
        items = [self.convert(arg, depth) for arg in args]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}

    def _convert_set_items(self, tp: Any, item: Any, depth: int) -> dict[str, Any]:
        if item is Any or item is object:
            return dict(HASHABLE_VALUES)
        if not is_hashable_type(item):
            raise UnsupportedError(
                f"{name_of(tp)}: {name_of(item)} is not hashable, so a set cannot contain it", hint=UNHASHABLE_HINT
            )
        return self.convert(item, depth)

    def _convert_dict(self, tp: Any, args: typing.Sequence[Any], depth: int) -> dict[str, Any]:
        """A mapping. Keys must be plain strings, bytes or string constants. With another key type, two names could
        become one key.
        """
        out = {"type": "object", "additionalProperties": self.convert(args[1], depth)}
        if args[0] is str or args[0] is bytes:
            return out
        schema = self.convert(args[0], depth) if isinstance(args[0], collections.abc.Hashable) else {}
        names = self.definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        constants = names.get("enum", [names["const"]] if "const" in names else [None])
        is_any_string = (
            names.get("type") == "string" and not {"format", "pattern"} & names.keys() and args[0] not in STRING_FORMS
        )
        if not is_any_string and not all(isinstance(constant, str) for constant in constants):
            raise UnsupportedError(
                f"{name_of(tp)}: the keys of a JSON object must be strings", hint="write dict[str, ...]"
            )
        return {**out, "propertyNames": schema}

    def _convert_annotated(self, tp: Any, metadata: typing.Sequence[Any], depth: int) -> dict[str, Any]:
        """The bounds of annotated-types become keywords, and a string becomes the description."""
        schema = self.convert(tp, depth)
        todo = list(metadata)
        while todo:
            item = todo.pop(0)
            kind = type(item).__name__
            suffix = _LENGTH_SUFFIXES.get(schema.get("type", ""))
            if item is None:  # pydantic.conint and similar functions use None for missing bounds
                continue
            if isinstance(item, str):
                schema["description"] = item
            elif isinstance(item, StringConstraint):
                if suffix != "Length" or tp in STRING_FORMS:
                    raise item.refusal(name_of(tp))
                schema = item.add_to(schema)
            elif type(item).__module__ != "annotated_types":
                raise UnsupportedError(f"Annotated[{name_of(tp)}, {brief(item)}] is not supported",
                                       hint="use annotated_types bounds, or a pydantic model")  # fmt: skip
            elif kind in _BOUND_KEYWORDS and _is_number(schema):
                attribute, keyword = _BOUND_KEYWORDS[kind]
                _tighten(schema, keyword, getattr(item, attribute))
            elif kind in ("MinLen", "MaxLen") and suffix is not None and tp not in STRING_FORMS:
                is_minimum = kind == "MinLen"
                _tighten(
                    schema,
                    ("min" if is_minimum else "max") + suffix,
                    item.min_length if is_minimum else item.max_length,
                )
            elif kind in ("Interval", "Len"):
                todo = [*item, *todo]
            else:
                raise UnsupportedError(f"Annotated[{name_of(tp)}, {brief(item)}] is not enforced")
        return schema

    # --- classes

    def _define_class(self, tp: Any, depth: int) -> dict[str, Any]:
        """A reference to the definition of a class, which is created at its first use."""
        is_hashable = is_hashable_object(tp)
        if is_hashable and tp in self._names:
            return {"$ref": f"#/$defs/{self._names[tp]}"}
        name = self._new_name(tp)
        if is_hashable:
            self._names[tp] = name
        self.definitions[name] = {}
        self.definitions[name] = self._convert_class(tp, name, depth)
        return {"$ref": f"#/$defs/{name}"}

    def _new_name(self, tp: Any) -> str:
        name = base_name = "".join(c if c.isalnum() and c.isascii() else "_" for c in name_of(tp))
        number = 1
        while name in self.definitions:
            number += 1
            name = f"{base_name}_{number}"
        return name

    def _convert_class(self, tp: Any, name: str, depth: int) -> dict[str, Any]:
        if is_read_by_pydantic(tp):
            return pydantic_schema(tp, f"#/$defs/{name}/$defs/{{model}}")
        if isinstance(tp, enum.EnumMeta):
            return flag_schema(tp) if issubclass(tp, enum.Flag) and tp.__members__ else _enumeration_schema([*tp], tp)
        if (members := members_of(tp)) is not None:
            return self.convert_members(members, tp, depth)
        if (items := items_of(tp)) is not None:
            return {"title": name_of(tp), **self._convert_tuple(items, depth)}
        raise UnsupportedError(
            f"{name_of(tp)} has no JSON Schema", hint="use a dataclass, a TypedDict or a pydantic model"
        )

    def convert_members(self, members: typing.Mapping[str, tuple[Any, bool]], tp: Any, depth: int) -> dict[str, Any]:
        """The schema of objects with these members and no others."""
        return {
            "title": name_of(tp),
            "type": "object",
            "properties": {name: self.convert(hint, depth) for name, (hint, _) in members.items()},
            "required": [name for name, (_, is_required) in members.items() if is_required],
            "additionalProperties": False,
        }


def _is_number(schema: typing.Mapping[str, Any]) -> bool:
    kinds = [alternative.get("type") for alternative in schema.get("anyOf", [schema])]
    return all(kind in ("integer", "number", "null") for kind in kinds)


def _tighten(schema: dict[str, Any], keyword: str, bound: Any) -> None:
    """Add a bound to a schema, in addition to any existing one."""
    if bound is None:  # annotated_types.Len without an upper bound
        return
    if keyword == "multipleOf":
        if not isinstance(bound, int | float | Decimal) or not Decimal(bound).is_finite() or bound <= 0:
            raise SpecError(
                f"multipleOf must be a finite number above 0, not {brief(bound)}", hint="give another divisor"
            )
        if schema.get(keyword, bound) != bound:
            raise UnsupportedError(
                f"multiples of both {brief(schema[keyword])} and {brief(bound)} are not supported",
                hint="give one divisor",
            )
    stricter = max if keyword.startswith(("min", "exclusiveMin")) else min
    schema[keyword] = stricter(schema.get(keyword, bound), bound)


def _enumeration_schema(values: typing.Sequence[Any], tp: Any) -> dict[str, Any]:
    if not values:
        raise SpecError(f"{name_of(tp)} has no members, so no value satisfies it")
    constants = [value.value if isinstance(value, enum.Enum) else value for value in values]
    for value in constants:
        if value is not None and not isinstance(value, str | int | float):
            raise UnsupportedError(
                f"{name_of(tp)}: the value {brief(value)} is not a JSON scalar",
                hint="use strings, numbers, True, False and None",
            )
    return {"const": constants[0]} if len(constants) == 1 else {"enum": constants}
