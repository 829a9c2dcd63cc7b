"""Corrects pydantic's descriptions where they allow JSON that pydantic does not read.

In: pydantic's schema generator. Out: methods that replace some of its methods.

    tagged unions   the tag is required, even if it has a default or occurs in a TypedDict with total=False. If a
                    function chooses the type, an unknown `format` causes a warning
    AliasPath       refused if it is the only alias, since the field is read from inside another member
    Literal         refused if it contains bytes, or a member of an Enum that differs from its value
    Enum            refused if a value is not a scalar, such as bytes, a tuple or a date
    dataclasses     without the fields that the constructor does not take (`init=False`)
    Flag            also the combinations of its members
    Hashable        scalars
    set frozenset   refused if their items are not hashable; of any value, scalars
    ImportString    an unknown `format` causes a warning

Limitations: pydantic reads `3.0` as a member of a Flag, but not as a combination (numbers="plain", the default for
generation, has no such numbers). A member that is not declared may have the name of a further alias (the second of
`AliasChoices`), or of the field itself with `validate_by_name`. Pydantic then reads the field from this member.
"""

from __future__ import annotations

import collections.abc
import enum
from collections.abc import Callable
from typing import Any, Final

from guided.errors import UnsupportedError, brief
from guided.frontends.python_types.flag_values import flag_schema
from guided.frontends.python_types.pydantic_hashing import HASHABLE_VALUES, UNHASHABLE_HINT, find_unhashable_type
from guided.frontends.python_types.pydantic_keys import NAMES, names_of_enum, names_of_literal

__all__ = ["REFUSED", "conjunction", "corrected_methods"]

REFUSED: Final = "x-guided-refused"
"""A temporary keyword for a schema that must be refused: the reason and a hint."""
_DEFINITIONS: Final = "_guided_definitions"  # an attribute of the generator
_FIELD_KINDS: Final = ("model_field", "dataclass_field", "typed_dict_field")

_Describe = Callable[[Any, Any], Any]


def corrected_methods(base: Any) -> dict[str, _Describe]:
    """The methods of a generator that corrects `base`, pydantic's `GenerateJsonSchema`."""
    return {
        "generate_inner": _with_import_format(base.generate_inner),
        "tagged_union_schema": _with_required_tag(base.tagged_union_schema),
        "literal_schema": _with_readable_constants(base.literal_schema),
        "enum_schema": _with_readable_members(base.enum_schema),
        "dataclass_args_schema": lambda self, schema: base.dataclass_args_schema(
            self, {**schema, "fields": [field for field in schema["fields"] if field.get("init", True)]}
        ),
        "is_instance_schema": lambda self, schema: (
            dict(HASHABLE_VALUES)
            if schema["cls"] is collections.abc.Hashable
            else base.is_instance_schema(self, schema)
        ),
        "definitions_schema": _with_definitions(base.definitions_schema),
        **{f"{kind}_schema": _with_hashable_items(getattr(base, f"{kind}_schema")) for kind in ("set", "frozenset")},
        **{f"{kind}_schema": _with_readable_alias(getattr(base, f"{kind}_schema")) for kind in _FIELD_KINDS},
    }


def conjunction(schema: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The conjunction of a schema and more keywords."""
    if not other.keys() & schema.keys():
        return {**schema, **other}
    return {**schema, "allOf": [*schema.get("allOf", ()), other]}


# --- tagged unions


def _with_required_tag(describe: _Describe) -> _Describe:
    def method(self: Any, schema: dict[str, Any]) -> Any:
        out, names = describe(self, schema), _tag_names(schema["discriminator"])
        if not names:
            return {"allOf": [out, {"format": "callable-discriminator"}]}
        if len(names) == 1:
            out["oneOf"] = [conjunction(choice, {"required": names}) for choice in out["oneOf"]]
            return out
        tags = _tags_of_choices(self, schema)
        is_present = [{"required": [name]} for name in names]
        out["oneOf"] = [
            conjunction(choice, {"anyOf": is_present, "properties": {name: {"enum": choice_tags} for name in names}})
            for choice in out["oneOf"]
            for choice_tags in [[tag for tag, other in tags if other == choice]]
        ]
        return out

    return method


def _tag_names(discriminator: Any) -> list[str]:
    """The members in which pydantic looks for the tag: the name of the field, and its alias. Empty if a function
    finds the tag, or if it is inside another member.
    """
    paths = discriminator if isinstance(discriminator, list) else [discriminator]
    names = [path[0] if isinstance(path, list) and len(path) == 1 else path for path in paths]
    is_one_path = len(paths) > 1 and isinstance(paths[0], str)
    return names if all(isinstance(name, str) for name in names) and not is_one_path else []


def _tags_of_choices(self: Any, schema: dict[str, Any]) -> list[tuple[Any, Any]]:
    """The tag and the schema of each choice."""
    from pydantic_core import PydanticOmit

    out = []
    for tag, choice in schema["choices"].items():
        try:
            out.append((getattr(tag, "value", tag), self.generate_inner(choice)))
        except PydanticOmit:
            continue
    return out


# --- other types


def _with_readable_alias(describe: _Describe) -> _Describe:
    def method(self: Any, field: dict[str, Any]) -> Any:
        out, alias = describe(self, field), field.get("validation_alias")
        by_name = [getattr(self._config, key, False) for key in ("validate_by_name", "populate_by_name")]
        if not isinstance(alias, list) or any(by_name):
            return out
        paths = alias if isinstance(alias[0], list) else [alias]
        if isinstance(alias[0], list) and any(len(path) == 1 for path in paths):
            return out
        reason = f"pydantic reads the field from the path {'.'.join(map(str, paths[0]))} (AliasPath)"
        return {**out, REFUSED: [reason, "give it an alias that is a name, and describe the outer object as a model"]}

    return method


def _with_readable_constants(describe: _Describe) -> _Describe:
    def method(self: Any, schema: dict[str, Any]) -> Any:
        values = [value for value in schema["expected"] if isinstance(value, enum.Enum | bytes)]
        unreadable = [value for value in values if not any(other == _plain(value) for other in schema["expected"])]
        if not unreadable:
            return {**describe(self, schema), NAMES: names_of_literal(schema)}
        value = unreadable[0]
        hint = f"write Literal[{_plain(value)!r}]"
        if isinstance(value, enum.Enum):
            hint += f", or derive {type(value).__name__} from enum.StrEnum or enum.IntEnum"
        return {REFUSED: [f"Literal: pydantic does not read JSON as {value!s}", hint], NAMES: names_of_literal(schema)}

    return method


def _plain(constant: enum.Enum | bytes) -> Any:
    """The value that pydantic describes in place of a constant."""
    value = constant.value if isinstance(constant, enum.Enum) else constant
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _with_definitions(describe: _Describe) -> _Describe:
    """Keep the definitions of the core schema for `_with_hashable_items`."""

    def method(self: Any, schema: dict[str, Any]) -> Any:
        known = getattr(self, _DEFINITIONS, {})
        setattr(self, _DEFINITIONS, known | {definition["ref"]: definition for definition in schema["definitions"]})
        return describe(self, schema)

    return method


def _with_hashable_items(describe: _Describe) -> _Describe:
    def method(self: Any, schema: dict[str, Any]) -> Any:
        out, item = describe(self, schema), schema.get("items_schema", {"type": "any"})
        if item["type"] == "any":
            return {**out, "items": dict(HASHABLE_VALUES)}
        name = find_unhashable_type(item, getattr(self, _DEFINITIONS, {}))
        reason = f"{schema['type']}: {name} is not hashable, so a set cannot contain it"
        return out if name is None else {**out, REFUSED: [reason, UNHASHABLE_HINT]}

    return method


def _with_readable_members(describe: _Describe) -> _Describe:
    def method(self: Any, schema: dict[str, Any]) -> Any:
        cls, names = schema["cls"], {NAMES: names_of_enum(schema)}
        if issubclass(cls, enum.Flag):
            described = describe(self, schema)
            others = {key: value for key, value in described.items() if key not in ("enum", "const", "type")}
            return {**others, **names, **_flag_keywords(cls)}
        has_own_rule = any("_missing_" in vars(base) for base in cls.__mro__ if base is not enum.Enum)
        for member in () if has_own_rule else schema["members"]:  # `_missing_` may read any value
            if member.value is not None and not isinstance(member.value, str | int | float):
                reason = f"pydantic does not read JSON as {member}: {brief(member.value)} is not a JSON scalar"
                return {REFUSED: [reason, "use strings, numbers, True, False and None"], **names}
        return {**describe(self, schema), **names}

    return method


def _flag_keywords(cls: type[enum.Flag]) -> dict[str, Any]:
    try:
        return flag_schema(cls)
    except UnsupportedError as error:
        return {REFUSED: [error.reason, error.hint]}


def _with_import_format(describe: _Describe) -> _Describe:
    def method(self: Any, schema: dict[str, Any]) -> Any:
        out = describe(self, schema)
        function = schema.get("function")
        name = getattr(function.get("function"), "__qualname__", "") if isinstance(function, dict) else ""
        return conjunction(out, {"allOf": [{"format": "import-string"}]}) if name == "import_string" else out

    return method
