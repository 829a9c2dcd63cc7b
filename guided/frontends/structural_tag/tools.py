"""Reads OpenAI's list of tools and `tool_choice`. Out: which tools may be called, and whether one must be called.

Source: the Chat Completions API. Tools must have the type "function". The choices are "none", "auto", "required",
`{"type": "function", "function": {"name": ...}}` and `{"type": "allowed_tools", ...}`. As in that API, a function
without `parameters` has no arguments, and arguments are always an object, even if their schema allows other values.
`strict` has no effect: arguments always satisfy their schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from guided.errors import SpecError, UnsupportedError, brief

__all__ = ["ChosenTools", "Function", "chosen_tools", "restrict_to_objects"]

ToolChoice: TypeAlias = str | Mapping[str, Any] | None
Mode: TypeAlias = Literal["auto", "required", "named"]
_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_DOCUMENT_KEYWORDS: Final = ("$schema", "$id", "id", "definitions", "$defs")
_NO_ARGUMENTS: Final[Mapping[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": False}


class Function(NamedTuple):
    """A tool: its name, and the schema of its arguments."""

    name: str
    parameters: Mapping[str, Any] | bool


class ChosenTools(NamedTuple):
    """The tools that may be called. `mode`: a call is optional ("auto"), required, or must be of one given tool
    ("named").
    """

    functions: tuple[Function, ...]
    mode: Mode


def chosen_tools(tools: Sequence[Mapping[str, Any]] | None, tool_choice: ToolChoice = "auto") -> ChosenTools:
    """The tools that `tool_choice` allows.

    Raises:
        SpecError: a tool or the choice is malformed. The error has a JSON Pointer, such as /tools/0/function/name.
        UnsupportedError: a tool has a type other than "function".
    """
    functions = _read_functions([] if tools is None else tools)
    match tool_choice:
        case None | "auto":
            return ChosenTools(tuple(functions.values()), "auto")
        case "none":
            return ChosenTools((), "auto")
        case "required":
            return _require_call(tuple(functions.values()))
        case Mapping():
            return _read_choice_object(functions, tool_choice)
    raise SpecError(
        f"there is no tool_choice {brief(tool_choice)}", pointer="/tool_choice",
        hint='one of "none", "auto", "required", {"type": "function", "function": {"name": ...}}',
    )  # fmt: skip


def _read_functions(tools: object) -> dict[str, Function]:
    if not isinstance(tools, list | tuple):
        raise SpecError(
            f"tools must be a list, not a {type(tools).__name__}", pointer="/tools", hint='write [{"type": ...}]'
        )
    out: dict[str, Function] = {}
    for number, tool in enumerate(tools):
        pointer = f"/tools/{number}"
        function = _read_function(tool, pointer)
        if function.name in out:
            raise SpecError(
                f"the name {function.name!r} is taken by an earlier tool", pointer=f"{pointer}/function/name",
                hint="rename one of them",
            )  # fmt: skip
        out[function.name] = function
    return out


def _read_function(tool: object, pointer: str) -> Function:
    if not isinstance(tool, Mapping):
        raise SpecError(
            f"a tool is an object, not {brief(tool)}", pointer=pointer, hint='write {"type": "function", ...}'
        )
    kind = tool.get("type")
    if kind != "function":
        if isinstance(kind, str) and kind:
            raise UnsupportedError(
                f"tools of the type {brief(kind)} are not supported", pointer=f"{pointer}/type",
                hint="describe it as a function",
            )  # fmt: skip
        raise SpecError('the "type" of a tool must be "function"', pointer=pointer, hint='write "type": "function"')
    function = tool.get("function")
    if not isinstance(function, Mapping):
        hint = 'write {"type": "function", "function": {"name": ..., "parameters": {...}}}'
        raise SpecError(
            '"function" is missing, or not an object',
            pointer=f"{pointer}/function" if "function" in tool else pointer,
            hint=hint,
        )
    name = function.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SpecError(
            f"the name {brief(name)} is not a valid function name",
            pointer=f"{pointer}/function/name" if "name" in function else f"{pointer}/function",
            hint="use 1 to 64 ASCII letters, digits, _, - and .",
        )  # fmt: skip
    parameters = function.get("parameters")
    if parameters is None:
        parameters = dict(_NO_ARGUMENTS)
    if not isinstance(parameters, Mapping | bool):
        raise SpecError(
            f"the parameters are {brief(parameters)}, not a schema", pointer=f"{pointer}/function/parameters",
            hint='write {"type": "object", "properties": {...}}',
        )  # fmt: skip
    return Function(name, restrict_to_objects(parameters, f"{pointer}/function/parameters"))


def restrict_to_objects(schema: Mapping[str, Any] | bool, pointer: str) -> dict[str, Any] | bool:
    """The schema of arguments, restricted to objects. `pointer`: its location, for errors.

    Raises:
        SpecError: its type excludes objects.
    """
    if schema is False:  # no value satisfies it
        return False
    schema = {} if schema is True else schema
    types = schema.get("type", "object")
    if not (types == "object" or (isinstance(types, list | tuple) and "object" in types)):
        message = f"the arguments of a function must be an object, but the type of this schema is {brief(types)}"
        raise SpecError(message, pointer=f"{pointer}/type", hint='write "type": "object"')
    wrapped = _wrap_reference(schema)
    is_restricted = wrapped is schema and schema.get("type") == "object"
    return schema if is_restricted and isinstance(schema, dict) else {**wrapped, "type": "object"}


def _wrap_reference(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Move a `$ref` into `allOf`, since older drafts ignore other keywords next to a reference."""
    if "$ref" not in schema or "draft-0" not in str(schema.get("$schema")):
        return schema
    document = {name: value for name, value in schema.items() if name in _DOCUMENT_KEYWORDS}
    return {**document, "allOf": [{name: value for name, value in schema.items() if name not in _DOCUMENT_KEYWORDS}]}


def _require_call(functions: tuple[Function, ...]) -> ChosenTools:
    if not functions:
        raise SpecError(
            "a tool must be called, but there is none", pointer="/tool_choice", hint='add tools, or write "auto"'
        )
    return ChosenTools(functions, "required")


def _find_function(functions: Mapping[str, Function], reference: object, pointer: str) -> Function:
    function_reference = reference.get("function") if isinstance(reference, Mapping) else None
    name = function_reference.get("name") if isinstance(function_reference, Mapping) else None
    if not isinstance(reference, Mapping) or reference.get("type") != "function" or not isinstance(name, str):
        raise SpecError(
            "a choice must name a function",
            pointer=pointer,
            hint='write {"type": "function", "function": {"name": ...}}',
        )
    if name not in functions:
        raise SpecError(
            f"no tool has the name {brief(name)}",
            pointer=f"{pointer}/function/name",
            hint=f"one of {', '.join(functions)}",
        )
    return functions[name]


def _read_choice_object(functions: Mapping[str, Function], choice: Mapping[str, Any]) -> ChosenTools:
    if choice.get("type") != "allowed_tools":
        return ChosenTools((_find_function(functions, choice, "/tool_choice"),), "named")
    allowed_tools, pointer = choice.get("allowed_tools"), "/tool_choice/allowed_tools"
    if not isinstance(allowed_tools, Mapping) or not isinstance(allowed_tools.get("tools"), list):
        raise SpecError(
            '"allowed_tools" must have a mode and tools', pointer=pointer, hint='write {"mode": "auto", "tools": [...]}'
        )
    chosen_functions = {}
    for number, reference in enumerate(allowed_tools["tools"]):
        function = _find_function(functions, reference, f"{pointer}/tools/{number}")
        chosen_functions[function.name] = function
    match allowed_tools.get("mode"):
        case "auto":
            return ChosenTools(tuple(chosen_functions.values()), "auto")
        case "required":
            return _require_call(tuple(chosen_functions.values()))
    raise SpecError(
        f"there is no mode {brief(allowed_tools.get('mode'))}",
        pointer=f"{pointer}/mode",
        hint='use "auto" or "required"',
    )
