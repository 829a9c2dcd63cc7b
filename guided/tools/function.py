"""Python functions as tools: their description for the model, typed arguments, and the text of their results.

In: a function with type hints. Out: a tool as in OpenAI's API, arguments parsed from the JSON text of a call, and the
result as text. The first part of the docstring describes the function, and its section about parameters describes the
parameters, in Google's, NumPy's, Sphinx's or another form that the package docstring_parser reads.

The text of a result is the string itself, JSON for other values, and `str(value)` for values without a JSON form.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from guided.errors import SpecError, UnsupportedError, brief
from guided.frontends.python_types.type_parts import is_function, name_of
from guided.frontends.python_types.type_schema import type_to_schema
from guided.frontends.python_types.value_readers import text_reader
from guided.packages import importing

__all__ = ["FunctionTool", "function_tool", "result_text"]

_NAME: Final = re.compile("[a-zA-Z0-9_.-]{1,64}")  # as in OpenAI's API


@dataclass(frozen=True, eq=False)
class FunctionTool:
    """A Python function that a model may call.

    Attributes:
        function: computes the result. Its parameters need type hints that have a JSON form.
        name: unique among the tools: up to 64 ASCII letters, digits, `_`, `-` and `.`.
        description: describes the function to the model.
        parameters: the JSON Schema of its arguments.
    """

    function: Callable[..., Any]
    name: str
    description: str
    parameters: Mapping[str, Any]

    @property
    def schema(self) -> dict[str, Any]:
        """The tool as in OpenAI's API."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}

    def arguments(self, text: str) -> inspect.BoundArguments:
        """Read the arguments of a call from their JSON text, as values of the parameters' types.

        Raises:
            SpecError: a value does not have the type of its parameter, or a class refuses it (`__post_init__`).
            ValueError: the text is not JSON, or pydantic refuses a value.
        """
        arguments: inspect.BoundArguments = self._read_text(text)
        return arguments

    @cached_property
    def _read_text(self) -> Callable[[str], Any]:
        return text_reader(self.function)


def function_tool(function: Callable[..., Any], *, name: str | None = None) -> FunctionTool:
    """A function as a tool. `name`: the function's own name by default.

    Raises:
        SpecError: it is not a function, or has no valid name. UnsupportedError: a parameter has a type without a JSON
            form, or it is a method without an object, or a generator function.
    """
    if not is_function(function):
        hint = "pass a function with type hints, or a guided.Tool"
        if isinstance(function, classmethod | property | functools.cached_property):
            hint = "take it from the class or an object, not from the class's __dict__"
        raise SpecError(f"{brief(function)} is not a function that a model can call", hint=hint)
    if name is not None and not (isinstance(name, str) and _NAME.fullmatch(name)):
        hint = "use 1 to 64 ASCII letters, digits, _, - and ."
        raise SpecError(f"the name {brief(name)} is not a valid function name", hint=hint)
    name = name or str(getattr(function, "__name__", ""))
    if not _NAME.fullmatch(name):
        hint = "wrap it in a function with a name (def), or pass guided.function_tool(function, name=...)"
        raise SpecError(f"the function {name_of(function)} has no valid tool name", hint=hint)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        hint = "return a list, or the last value"
        raise UnsupportedError(f"{name} is a generator function, so its result is not text", hint=hint)
    description, parameter_descriptions = _read_docstring(function)
    schema = {key: value for key, value in type_to_schema(function).items() if key != "title"}
    properties = {
        parameter: {**value, "description": parameter_descriptions[parameter]}
        if parameter in parameter_descriptions and "description" not in value
        else value
        for parameter, value in schema["properties"].items()
    }
    return FunctionTool(function, name, description, {**schema, "properties": properties})


def result_text(value: Any) -> str:
    """The text of a result, which the model reads. A lone surrogate becomes "?", since it cannot be encoded.

    Raises:
        Exception: whatever `str(value)` or `value.model_dump()` raises.
    """
    if not isinstance(value, str):
        try:
            value = json.dumps(value, ensure_ascii=False, default=_to_plain_value)
        except (TypeError, ValueError, RecursionError):
            value = str(value)
    return str(value).encode("utf-8", "replace").decode()


def _to_plain_value(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if callable(dump := getattr(value, "model_dump", None)):  # a pydantic model
        return dump(mode="json")
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, set | frozenset):
        return list(value)
    return str(value)


def _read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The description of the function, and the descriptions of its parameters by name."""
    if isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
        if not function.__doc__:  # `getdoc` would return the docstring of `type.__call__`
            return "", {}
    text = inspect.getdoc(function) or ""
    if not text:
        return "", {}
    with importing("a docstring of a tool"):
        from docstring_parser import parse
    try:
        docstring = parse(text)
    except Exception:  # the package raises errors of several kinds for text that only looks like its formats
        return text, {}
    parameter_descriptions = {
        parameter.arg_name: " ".join(parameter.description.split())
        for parameter in docstring.params
        if parameter.description
    }
    return (docstring.description or "").strip(), parameter_descriptions
