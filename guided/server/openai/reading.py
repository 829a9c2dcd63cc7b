"""Parses JSON values as requests. In: a JSON value, and the class of the request. Out: the request, or its first error.

Reading stops at the first error. pydantic would collect all errors, at 10 us each, and a body may have a million. So
names are checked before values (`StrictModel`), lists have `fail_fast`, and large objects are read in parts
(`validate_in_parts`). The error for an unknown name suggests a similar field of the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, ClassVar, Final, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from guided.close_names import find_closest_name
from guided.errors import brief
from guided.server.http.errors import RequestError

__all__ = ["StrictModel", "check_object", "fault", "read_by_type", "read_part", "read_request", "validate_in_parts"]

_FAULT: Final = "guided_fault"
_PART: Final = 1000  # entries of an object that are read at a time
_MAX_NAME: Final = 100  # characters of a name in `param`; all field names are shorter
_SHOULD_BE: Final = "Input should be "
_OBJECT_ERRORS: Final = frozenset(("dict_type", "model_type", "model_attributes_type"))
_Read = TypeVar("_Read", bound=BaseModel)


def fault(message: str, param: str) -> PydanticCustomError:
    """An error for a validator to raise about one member of an object. `param`: the member's path in the object."""
    return PydanticCustomError(_FAULT, "{message}", {"message": message, "param": param})


class StrictModel(BaseModel):
    """An object that refuses unknown names.

    Attributes:
        hints: unknown name -> what to write instead.
    """

    model_config = ConfigDict(extra="forbid", protected_namespaces=(), strict=True)
    hints: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, value: Any) -> Any:
        known_names = _list_names(cls)
        if isinstance(value, dict) and cls.model_config["extra"] == "forbid" and not value.keys() <= known_names.keys():
            name = next(name for name in value if name not in known_names)
            similar_name = find_closest_name(name, known_names)
            hint = cls.hints.get(name) or (f"did you mean {similar_name}?" if similar_name else "")
            raise fault(f"unknown field {brief(name)}{hint and ': '}{hint}", name)
        return value


@cache
def _list_names(kind: type[BaseModel]) -> dict[str, None]:
    return dict.fromkeys(info.alias or name for name, info in kind.model_fields.items())


def validate_in_parts(value: Any, read: Callable[[Any], Any]) -> Any:
    """Validate an object with any number of members in parts, and stop at the first part that has errors."""
    if not isinstance(value, dict) or len(value) <= _PART:
        return read(value)
    items, merged_values = iter(value.items()), dict[Any, Any]()
    while part := dict(islice(items, _PART)):
        merged_values |= read(part)
    return merged_values


def read_request(kind: type[_Read], body: object) -> _Read:
    """Parse a body as a request of this class.

    Raises:
        RequestError: the first error, with the field that it concerns.
    """
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        names, message = _describe(error.errors(include_url=False), body)
        raise RequestError(message, param=".".join(name[:_MAX_NAME] for name in names) or None) from None


def _describe(errors: Sequence[ErrorDetails], body: object) -> tuple[list[str], str]:
    """The path of the field with the first error, and a message that begins with it."""
    same_field = _find_best(errors, body)
    names = _find_path(same_field[0], body)[0]
    if same_field[0]["type"] == _FAULT:
        return [*names, same_field[0]["ctx"]["param"]], same_field[0]["msg"]
    first, *others = dict.fromkeys(map(_reword, same_field))
    message = ", or ".join([first, *(other.removeprefix(_SHOULD_BE) for other in others)])
    return names, f"{'.'.join(names)}: {message}" if names else message


def _reword(error: ErrorDetails) -> str:
    """The message of an error, without names of Python's types."""
    return f"{_SHOULD_BE}an object" if error["type"] in _OBJECT_ERRORS else error["msg"].removeprefix("Value error, ")


def _find_path(error: ErrorDetails, body: object) -> tuple[list[str], int | None]:
    """The path of an error's field, and the index of the first part of its location that is not in the body.

    Such a part is a type: pydantic adds it where a field may have several types. None: there is no such part.
    """
    names, type_index, value = list[str](), None, cast(Any, body)
    for index, part in enumerate(error["loc"]):
        is_item = isinstance(value, list) and isinstance(part, int) and part < len(value)
        if is_item or (isinstance(value, Mapping) and part in value):
            names.append(str(part))
            value = value[part]
        elif error["type"] == "missing" and index + 1 == len(error["loc"]):
            names.append(str(part))
        elif type_index is None:
            type_index = index
    return names, type_index


def _find_best(errors: Sequence[ErrorDetails], body: object) -> list[ErrorDetails]:
    """The first error. But if its field may have several types, the errors of the types that fit best: those that were
    read furthest, and if possible those that are not about the type itself. They all concern the same field.
    """
    type_index = _find_path(errors[0], body)[1]
    if type_index is None:
        return [errors[0]]

    def is_alternative(error: ErrorDetails) -> bool:
        same_loc = error["loc"][:type_index] == errors[0]["loc"][:type_index]
        return same_loc and _find_path(error, body)[1] == type_index

    def distance(error: ErrorDetails) -> tuple[int, list[int]]:
        return len(_find_path(error, body)[0]), [part for part in error["loc"] if isinstance(part, int)]

    alternatives = list(filter(is_alternative, errors))
    furthest = max(map(distance, alternatives))
    alternatives = [error for error in alternatives if distance(error) == furthest]
    kinds = {error["type"] for error in alternatives}
    if any(not kind.endswith("_type") and kind != "literal_error" for kind in kinds):
        alternatives = [error for error in alternatives if not error["type"].endswith("_type")]
    return alternatives


def read_part(path: str, kind: type[_Read], value: object) -> _Read:
    """Parse an object inside a request.

    Args:
        path: the object's path in the request, or in the object that contains it.
        kind: its class.
        value: the object.

    Raises:
        RequestError: the first error, with the path of the field that it concerns.
    """
    members = dict(check_object(path, value))
    try:
        return read_request(kind, members)
    except RequestError as error:
        param = f"{path}.{error.param}" if error.param else path
        begins_with_param = error.param and error.message.startswith(f"{error.param}")
        message = f"{path}.{error.message}" if begins_with_param else f"{path}: {error.message}"
        raise RequestError(message, param=param, code=error.code) from None


def read_by_type(
    path: str,
    value: object,
    kinds: Mapping[str, type[BaseModel]],
    *,
    default: str = "",
    reasons: Mapping[str, str] | None = None,
    other_hint: str = "",
) -> BaseModel:
    """Parse an object with the class that its `type` determines.

    Args:
        path, value: see `read_part`.
        kinds: `type` -> the class for it.
        default: the type of objects without `type`; "": `type` is required.
        reasons: type that is known but refused -> what to write instead.
        other_hint: what to write instead of any other unknown type.

    Raises:
        RequestError: the type is unknown or refused, or the object is malformed.
    """
    if isinstance(value, BaseModel):
        return value
    type_name = check_object(path, value).get("type") or default
    kind = kinds.get(type_name) if isinstance(type_name, str) else None
    if kind is None:
        reason = (reasons or {}).get(str(type_name), other_hint) or f"known types are {', '.join(kinds)}"
        raise RequestError(f"{path}.type is {brief(type_name)}: {reason}", param=f"{path}.type")
    return read_part(path, kind, value)


def check_object(path: str, value: object) -> Mapping[str, Any]:
    """Return a value that must be an object. Raises RequestError if it is not one."""
    if not isinstance(value, Mapping):
        raise RequestError(f"{path} must be an object, not {brief(value)}", param=path)
    return value
