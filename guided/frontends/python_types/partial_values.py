"""Reads typed values from JSON that is still being written.

In: a type, and the JSON value of the text so far, without an unfinished string or number. Out: the value so far:

    pydantic model          an instance with the fields that are complete, and the defaults of the others. Its own
                            validators have not run. `model_fields_set` names the fields that have been written
    dict, TypedDict, list   a container with the entries so far
    other types             the value if it is complete, otherwise the JSON value

A field is complete once its value has the field's type, so a list in a model grows item by item (regardless of its
minimum length). A dataclass in a model appears when its last member has been written; until then, the field is missing.

Cost: linear in the value. Nothing is kept between calls.
"""

from __future__ import annotations

import copy
import json
import typing
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

from guided.errors import GuidedError
from guided.frontends.python_types.pydantic_types import is_read_by_pydantic, pydantic_reader
from guided.frontends.python_types.type_parts import DICT_TYPES, LIST_TYPES, hints_of, is_typed_dict
from guided.frontends.python_types.value_readers import value_reader

__all__ = ["partial_value"]

_MISSING: Final = object()


def partial_value(tp: Any, value: Any) -> Any:
    """The value so far, read as the type `tp`; see the module docstring. `value`: the JSON value so far."""
    typed_value = _typed_or_missing(tp, value)
    return value if typed_value is _MISSING else typed_value


def _typed_or_missing(tp: Any, value: Any) -> Any:
    """The value so far, or `_MISSING` if it is not complete."""
    if (fields := _model_fields(tp)) is not None and isinstance(value, dict):
        typed_fields = dict[str, Any]()
        for name, key, field in fields:
            if key in value and (typed_value := _typed_or_missing(field, value[key])) is not _MISSING:
                typed_fields[name] = typed_value
        keys = {key for _, key, _ in fields}
        return _build_instance(tp, typed_fields, {key: item for key, item in value.items() if key not in keys})
    origin, args = typing.get_origin(tp) or tp, typing.get_args(tp)
    if origin in LIST_TYPES and isinstance(value, list) and args:
        return [typed_item for item in value if (typed_item := _typed_or_missing(args[0], item)) is not _MISSING]
    if origin in DICT_TYPES and isinstance(value, dict) and args:
        return {
            key: typed_item
            for key, item in value.items()
            if (typed_item := _typed_or_missing(args[1], item)) is not _MISSING
        }
    if is_typed_dict(tp) and isinstance(value, dict):
        hints = hints_of(tp)
        return {
            k: typed_item
            for k, item in value.items()
            if k in hints and (typed_item := _typed_or_missing(hints[k], item)) is not _MISSING
        }
    try:
        return _get_reader(tp)(value)
    except (GuidedError, ValueError):  # pydantic's ValidationError is a ValueError
        is_container = typing.get_origin(tp) is typing.Annotated and isinstance(value, list | dict)
        return _typed_or_missing(tp.__origin__, value) if is_container else _MISSING


def _build_instance(tp: Any, fields: dict[str, Any], other_members: dict[str, Any]) -> Any:
    """An instance of a pydantic model with some of its fields, without its own validators and `model_post_init`.

    `other_members`: members that are not fields, which the model keeps if its configuration allows extra ones.
    """
    values = dict(fields)
    for name, info in tp.model_fields.items():
        if name not in values and not info.is_required():
            with suppress(Exception):  # a factory that needs another field
                values[name] = info.get_default(call_default_factory=True, validated_data=dict(values))
    extra = other_members if tp.model_config.get("extra") == "allow" else None
    private = _private_values(tp) if tp.__private_attributes__ else None
    instance = tp.__new__(tp)
    for name, value in (
        ("__dict__", values),
        ("__pydantic_fields_set__", {*fields, *(extra or ())}),
        ("__pydantic_extra__", extra),
        ("__pydantic_private__", private),
    ):
        object.__setattr__(instance, name, value)
    return instance


def _private_values(tp: Any) -> dict[str, Any]:
    """The defaults of the private attributes of a pydantic model."""
    from pydantic_core import PydanticUndefined

    values = dict[str, Any]()
    for name, attribute in tp.__private_attributes__.items():
        with suppress(Exception):  # a factory that needs the fields, a default that cannot be copied
            if attribute.default_factory is not None:
                values[name] = attribute.default_factory()
            elif attribute.default is not PydanticUndefined:
                values[name] = copy.deepcopy(attribute.default)
    return values


def _get_reader(tp: Any) -> Callable[[Any], Any]:
    try:
        return _cached_reader(tp)
    except TypeError:  # the type is not hashable
        return _new_reader(tp)


def _new_reader(tp: Any) -> Callable[[Any], Any]:
    if is_read_by_pydantic(tp):
        read = pydantic_reader(tp)
        return lambda value: read(json.dumps(value))
    return value_reader(tp)


_cached_reader = lru_cache(maxsize=256)(_new_reader)


def _model_fields(tp: Any) -> list[tuple[str, str, Any]] | None:
    """The fields of a pydantic model: name, name in JSON, type. None for other types, and for models with a root."""
    fields = getattr(tp, "model_fields", None) if isinstance(tp, type) and hasattr(tp, "model_construct") else None
    if fields is None or "root" in fields:
        return None
    return [(name, _json_key(name, info.validation_alias), _annotated_type(info)) for name, info in fields.items()]


def _json_key(name: str, alias: Any) -> str:
    """The key of a field in JSON: its first alias, as in the schema, or its name."""
    choices = getattr(alias, "choices", [alias])
    return choices[0] if isinstance(choices[0], str) else name


def _annotated_type(info: Any) -> Any:
    """The type of a field, with its constraints."""
    return typing.Annotated[info.annotation, info] if info.metadata else info.annotation
