"""Python types -> JSON Schema. In: a type as a program writes it. Out: the schema of its JSON form, as a dict.

    str int float bool None Any    list[T] tuple[A, B] tuple[T, ...] dict[str, T] set[T]    Literal Enum
    Union Optional `A | B`  Annotated (annotated-types bounds)  NewType  dataclass  TypedDict  NamedTuple  pydantic

Classes become `$defs`, so they may be recursive. Dataclasses, TypedDicts are closed: other keys could not be read back.
pydantic models describe themselves (`model_json_schema`); pydantic is not needed for anything else. What has no JSON
form is refused with its name. Cost: linear in the types reached.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import enum
import types
import typing
import uuid
from typing import Any

from guided.errors import SpecError, UnsupportedError

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
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    uuid.UUID: {"type": "string", "format": "uuid"},
}
_LISTS = (list, collections.abc.Sequence, collections.abc.MutableSequence, collections.abc.Iterable)
_SETS = (set, frozenset, collections.abc.Set, collections.abc.MutableSet)
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_BOUNDS = {
    "Gt": ("gt", "exclusiveMinimum"),
    "Ge": ("ge", "minimum"),
    "Lt": ("lt", "exclusiveMaximum"),
    "Le": ("le", "maximum"),
    "MultipleOf": ("multiple_of", "multipleOf"),
}
_LENGTHS = {"string": "Length", "array": "Items", "object": "Properties"}
_DEEPEST = 100


def type_to_schema(tp: Any) -> dict[str, Any]:
    """The JSON Schema (2020-12) of the values of a type, as they stand in JSON."""
    reader = _Types()
    schema = reader.schema(tp, 0)
    return {**schema, "$defs": reader.definitions} if reader.definitions else schema


class _Types:
    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        self._names: dict[Any, str] = {}

    def schema(self, tp: Any, depth: int) -> dict[str, Any]:
        if depth > _DEEPEST:
            raise SpecError(f"types nest more than {_DEEPEST} deep")
        scalar = _SCALARS.get(tp) if isinstance(tp, collections.abc.Hashable) else None
        if scalar is not None:
            return dict(scalar)
        if isinstance(tp, typing.NewType):
            return self.schema(tp.__supertype__, depth + 1)
        if hasattr(tp, "__value__") and type(tp).__name__ == "TypeAliasType":
            return self.schema(tp.__value__, depth + 1)
        origin = typing.get_origin(tp)
        if origin is not None:
            return self._generic(tp, origin, typing.get_args(tp), depth + 1)
        if tp in (*_LISTS, *_SETS, *_DICTS, tuple):
            unique = {"uniqueItems": True} if tp in _SETS else {}
            return {"type": "object" if tp in _DICTS else "array", **unique}
        if isinstance(tp, type):
            return self._class(tp, depth + 1)
        raise UnsupportedError(f"{_name(tp)} has no JSON Schema", hint=_hint_for(tp))

    # --- generics

    def _generic(self, tp: Any, origin: Any, args: tuple[Any, ...], depth: int) -> dict[str, Any]:
        if origin is typing.Literal:
            return _values(args, tp)
        if origin in (typing.Union, types.UnionType):
            return {"anyOf": [self.schema(arg, depth) for arg in args]}
        if origin is typing.Annotated:
            return self._annotated(args[0], args[1:], depth)
        if _name(origin) in ("Required", "NotRequired", "ReadOnly", "ClassVar", "Final"):
            return self.schema(args[0], depth)
        if origin in _LISTS or origin in _SETS:
            unique = {"uniqueItems": True} if origin in _SETS else {}
            return {"type": "array", "items": self.schema(args[0], depth), **unique}
        if origin is tuple:
            if len(args) == 2 and args[1] is Ellipsis:
                return {"type": "array", "items": self.schema(args[0], depth)}
            return self._tuple(args, depth)
        if origin in _DICTS:
            if args[0] is not str:
                raise UnsupportedError(
                    f"{_name(tp)}: the keys of a JSON object are strings", hint="write dict[str, ...]"
                )
            return {"type": "object", "additionalProperties": self.schema(args[1], depth)}
        if _is_pydantic(origin):
            return self._class(tp, depth)
        raise UnsupportedError(f"{_name(tp)} has no JSON Schema", hint=_hint_for(tp))

    def _tuple(self, args: typing.Sequence[Any], depth: int) -> dict[str, Any]:
        if not args:
            return {"type": "array", "maxItems": 0}
        items = [self.schema(arg, depth) for arg in args]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}

    def _annotated(self, tp: Any, metadata: typing.Sequence[Any], depth: int) -> dict[str, Any]:
        """Bounds of the annotated-types package are keywords, a string is a description; the rest is refused."""
        schema = self.schema(tp, depth)
        todo = list(metadata)
        while todo:
            item = todo.pop(0)
            kind = type(item).__name__
            suffix = _LENGTHS.get(schema.get("type", ""))
            if isinstance(item, str):
                schema["description"] = item
            elif type(item).__module__ != "annotated_types":
                raise UnsupportedError(f"Annotated[{_name(tp)}, {item!r}] is not understood",
                                       hint="use annotated_types bounds, or a pydantic model")  # fmt: skip
            elif kind in _BOUNDS:
                attribute, keyword = _BOUNDS[kind]
                schema[keyword] = getattr(item, attribute)
            elif kind in ("MinLen", "MaxLen") and suffix is not None:
                low = kind == "MinLen"
                schema[("min" if low else "max") + suffix] = item.min_length if low else item.max_length
            elif kind in ("Interval", "Len"):
                todo = [*item, *todo]
            else:
                raise UnsupportedError(f"Annotated[{_name(tp)}, {item!r}] is not enforced")
        return schema

    # --- classes

    def _class(self, tp: Any, depth: int) -> dict[str, Any]:
        """A reference to the definition of a class, which is made on the first visit."""
        if tp not in self._names:
            self._names[tp] = name = self._fresh_name(tp)
            self.definitions[name] = {}
            self.definitions[name] = self._definition(tp, name, depth)
        return {"$ref": f"#/$defs/{self._names[tp]}"}

    def _fresh_name(self, tp: Any) -> str:
        name = stem = "".join(c if c.isalnum() and c.isascii() else "_" for c in _name(tp))
        number = 1
        while name in self.definitions:
            number += 1
            name = f"{stem}_{number}"
        return name

    def _definition(self, tp: Any, name: str, depth: int) -> dict[str, Any]:
        if hasattr(tp, "model_json_schema"):
            schema: dict[str, Any] = tp.model_json_schema(ref_template=f"#/$defs/{name}/$defs/{{model}}")
            return schema
        if _is_pydantic(tp):
            from pydantic import TypeAdapter

            described: dict[str, Any] = TypeAdapter(tp).json_schema(ref_template=f"#/$defs/{name}/$defs/{{model}}")
            return described
        if issubclass(tp, enum.Enum):
            return _values(tuple(tp), tp)
        if dataclasses.is_dataclass(tp):
            hints = _hints(tp)
            fields = [field for field in dataclasses.fields(tp) if field.init]
            missing = dataclasses.MISSING
            needed = {f.name for f in fields if f.default is missing and f.default_factory is missing}
            return self._members({field.name: hints[field.name] for field in fields}, needed, tp, depth)
        if typing.is_typeddict(tp):
            return self._members(_hints(tp), tp.__required_keys__, tp, depth)
        if issubclass(tp, tuple) and hasattr(tp, "_fields"):
            hints = _hints(tp)
            return {"title": tp.__name__, **self._tuple([hints.get(field, Any) for field in tp._fields], depth)}
        raise UnsupportedError(
            f"{_name(tp)} has no JSON Schema", hint="use a dataclass, a TypedDict or a pydantic model"
        )

    def _members(
        self, hints: typing.Mapping[str, Any], required: typing.Collection[str], tp: Any, depth: int
    ) -> dict[str, Any]:
        schema = {
            "title": _name(tp),
            "type": "object",
            "properties": {name: self.schema(hint, depth) for name, hint in hints.items()},
            "required": [name for name in hints if name in required],
            "additionalProperties": False,
        }
        return schema


def _is_pydantic(tp: Any) -> bool:
    return isinstance(tp, type) and "__pydantic_core_schema__" in vars(tp)


def _hints(tp: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(tp, include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        hint = "annotations given as text are looked up in the module of the class"
        raise SpecError(f"{_name(tp)}: an annotation cannot be resolved: {error}", hint=hint) from None


def _values(values: typing.Sequence[Any], tp: Any) -> dict[str, Any]:
    if not values:
        raise SpecError(f"{_name(tp)} has no members, so no value satisfies it")
    plain = [value.value if isinstance(value, enum.Enum) else value for value in values]
    for value in plain:
        if value is not None and not isinstance(value, str | int | float):
            raise UnsupportedError(
                f"{_name(tp)}: the value {value!r} is not a JSON scalar",
                hint="use strings, numbers, True, False and None",
            )
    return {"const": plain[0]} if len(plain) == 1 else {"enum": plain}


def _name(tp: Any) -> str:
    return getattr(tp, "__name__", None) or str(tp)


def _hint_for(tp: Any) -> str:
    """What to pass instead of something that is no type."""
    if isinstance(tp, str):
        return "pass the type itself, not its name"
    if isinstance(tp, collections.abc.Mapping):
        return "a schema goes to compile_json_schema"
    if isinstance(tp, typing.TypeVar):
        return "put a type in the place of the type variable"
    return "pass a type: int, list[str], Literal['a', 'b'], a dataclass, ..."
