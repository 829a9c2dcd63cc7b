"""Converts a specification to OpenAI's `response_format`, and back.

In: a JSON Schema, a type, a list of strings to choose from, or an expression that consists of a JSON Schema or a type.
Out: the `response_format` of a request. Its remarks list what strict mode refuses and what was rewritten (strict.py,
limits.py).

Cost: linear in the schema, and in the targets of references that are written out. OpenAI's API is not called.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from guided.errors import SpecError, brief
from guided.frontends.combinators import Expr
from guided.frontends.composition import only_part
from guided.frontends.json_schema.check import Entry, schema_errors
from guided.frontends.openai.limits import limit_remarks
from guided.frontends.openai.parts import as_type_list, schemas_in
from guided.frontends.openai.strict import to_strict
from guided.frontends.python_types.pydantic_types import is_read_by_pydantic, pydantic_schema
from guided.frontends.python_types.type_schema import type_to_schema

__all__ = ["ResponseFormat", "close_objects", "from_response_format", "to_openai_schema"]

_JsonObject: TypeAlias = dict[str, Any]

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_OTHER_MEMBER_KEYWORDS: Final = frozenset(("additionalProperties", "unevaluatedProperties", "patternProperties"))
_COMPOSITION_KEYWORDS: Final = frozenset(("anyOf", "oneOf", "allOf", "$ref", "if", "dependentSchemas"))
"""With these keywords, other schemas may also declare members of the object."""


class ResponseFormat(dict[str, Any]):
    """A `response_format` for OpenAI's API.

    Attributes:
        remarks: what strict mode refuses (status "refused"), and what was rewritten ("note"). Each has the location in
            the given schema, the reason and a hint.
    """

    remarks: tuple[Entry, ...]

    def __init__(self, body: Mapping[str, Any], remarks: tuple[Entry, ...]) -> None:
        super().__init__(body)
        self.remarks = remarks

    @property
    def ok(self) -> bool:
        """Whether strict mode accepts the schema, according to OpenAI's documentation."""
        return not any(remark.status == "refused" for remark in self.remarks)


def to_openai_schema(
    constraint: Any, *, name: str | None = None, description: str | None = None, strict: bool = True
) -> ResponseFormat:
    """The `response_format` for a specification, for OpenAI's API or a compatible server.

    Args:
        constraint: a JSON Schema, a type (such as a pydantic class or a dataclass), a list of strings to choose from,
            or an expression that consists of a JSON Schema or a type.
        name: the name of the schema. None: its title, or "answer" if it has no title.
        description: a description of the schema for the model.
        strict: True: rewrite the schema for strict mode as far as possible, so that every answer still satisfies the
            original. `remarks` lists the changes, and what strict mode still refuses. False: keep the schema, with
            "strict": false; `remarks` lists what strict mode would change or refuse.

    Raises:
        SpecError: the constraint is not a JSON Schema, OpenAI does not accept the name, or the description is not a
            string.
        LimitExceeded: the schema nests more than 100 levels deep, or becomes too large.

    Examples:
        >>> format = to_openai_schema({"properties": {"age": {"type": "integer"}}}, name="person")
        >>> format["json_schema"]["schema"]["required"]
        ['age']
        >>> [remark.pointer for remark in format.remarks]
        ['', '/additionalProperties', '/properties/age']
    """
    schema = _to_schema(constraint)
    if errors := schema_errors(schema):
        raise errors[0]
    strict_schema, remarks = to_strict(schema)
    remarks += tuple(limit_remarks(strict_schema))
    if name is None:
        title = strict_schema.get("title")
        name = re.sub(r"[^a-zA-Z0-9_-]+", "_", title)[:64] if isinstance(title, str) and title else "answer"
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        hint = "use 1 to 64 letters, digits, _ and -"
        raise SpecError(f"{brief(name)} is not a valid schema name", hint=hint)
    body: _JsonObject = {"name": name, "schema": strict_schema if strict else schema, "strict": strict}
    if description is not None:
        if not isinstance(description, str):
            raise SpecError(f"the description is {brief(description)}, but must be a string")
        body["description"] = description
    return ResponseFormat({"type": "json_schema", "json_schema": body}, remarks)


def from_response_format(format: Mapping[str, Any]) -> dict[str, Any] | bool | None:
    """The JSON Schema of a `response_format`, for any function that takes a constraint. None: any text.

    Also accepts the format of the Responses API, where the schema is next to its name.

    Raises:
        SpecError: the format has an unknown type, or no schema.

    Examples:
        >>> from_response_format({"type": "json_object"})
        {'type': 'object'}
    """
    if not isinstance(format, Mapping):
        hint = 'write an object: {"type": "json_schema", "json_schema": {...}}'
        raise SpecError(f"{brief(format)} is not a response_format", hint=hint)
    kind = format.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    if kind != "json_schema":
        hint = "use text, json_object or json_schema"
        raise SpecError(f"the type {brief(kind)} is unknown", pointer="/type", hint=hint)
    body = format.get("json_schema", format)
    schema = body.get("schema") if isinstance(body, Mapping) else None
    if not isinstance(schema, dict | bool):
        pointer = "/json_schema/schema" if "json_schema" in format else "/schema"
        raise SpecError(
            f"the schema is {brief(schema)}, but must be an object or a boolean",
            pointer=pointer,
            hint="write a JSON Schema",
        )
    return schema


def close_objects(schema: _JsonObject) -> _JsonObject:
    """A copy of the schema in which objects are closed, as strict mode requires, unless they mention other members."""
    copy: _JsonObject = json.loads(json.dumps(schema))
    work: list[Any] = [copy]
    while work:
        value = work.pop()
        if not isinstance(value, dict):
            continue
        is_object, composition_keywords = (
            "properties" in value or "object" in as_type_list(value.get("type")),
            value.keys() & _COMPOSITION_KEYWORDS,
        )
        if is_object and not value.keys() & _OTHER_MEMBER_KEYWORDS:
            value["unevaluatedProperties" if composition_keywords else "additionalProperties"] = False
        work += [
            each
            for pointer, each in schemas_in(value)
            if not (is_object and pointer.split("/")[1] in composition_keywords)
        ]
    return copy


def _to_schema(constraint: Any) -> _JsonObject:
    if isinstance(constraint, Expr):
        kind, constraint = only_part(constraint)
        if kind not in ("json_schema", "type"):
            message = "this expression is not a single JSON Schema or type"
            raise SpecError(message, hint="OpenAI's response_format takes only a JSON Schema")
    if isinstance(constraint, str) or constraint is None:
        hint = "for a regular expression, write an object with a member that has this pattern"
        if isinstance(constraint, str) and constraint.lstrip().startswith("{"):
            hint = "pass json.loads(text) for a JSON Schema"
        raise SpecError(f"{brief(constraint)} is not a JSON Schema", hint=hint)
    if isinstance(constraint, bool):
        return {} if constraint else {"not": {}}
    if isinstance(constraint, Mapping):
        schema: _JsonObject = json.loads(json.dumps(constraint))
        return schema
    if isinstance(constraint, list | tuple):
        if not constraint or not all(isinstance(each, str) for each in constraint):
            raise SpecError("a list of choices must contain at least one string, and nothing else")
        return {"type": "string", "enum": list(constraint)}
    if is_read_by_pydantic(constraint):  # as in OpenAI's client, definitions are at the root
        return pydantic_schema(constraint, "#/$defs/{model}")
    return _with_flat_definitions(type_to_schema(constraint))


def _with_flat_definitions(schema: _JsonObject) -> _JsonObject:
    """Move nested definitions to the root. Pydantic classes inside other types have such definitions."""
    flat: _JsonObject = {}
    for name, definition in schema.get("$defs", {}).items():
        inner_definitions = definition.get("$defs", {})
        flat[name] = {keyword: value for keyword, value in definition.items() if keyword != "$defs"}
        flat |= {f"{name}.{inner_name}": value for inner_name, value in inner_definitions.items()}
    copy: _JsonObject = json.loads(json.dumps({**schema, "$defs": flat} if flat else schema))
    work: list[Any] = [copy]
    while work:
        if isinstance(value := work.pop(), dict):
            if isinstance(reference := value.get("$ref"), str):
                value["$ref"] = "#/$defs/" + reference.removeprefix("#/$defs/").replace("/$defs/", ".")
            work += [each for _, each in schemas_in(value)]
    return copy
