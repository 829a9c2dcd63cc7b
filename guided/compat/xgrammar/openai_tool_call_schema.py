"""Pydantic models of the tools and tool choices of OpenAI's Chat Completions API, and of hosted tools."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import BaseModel

__all__ = [
    "AllowedToolChoiceParam",
    "AllowedToolRef",
    "AllowedToolsParam",
    "BuiltinToolChoiceParam",
    "BuiltinToolParam",
    "FunctionDefinition",
    "FunctionToolParam",
    "NamedToolChoiceFunction",
    "NamedToolChoiceParam",
    "ToolChoiceOptionParam",
    "ToolParam",
]


class FunctionDefinition(BaseModel):
    """A function. Without `parameters`, or with `strict=False`, its arguments are any JSON object."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class FunctionToolParam(BaseModel):
    """`{"type": "function", "function": {...}}`."""

    type: Literal["function"] = "function"
    function: FunctionDefinition


class BuiltinToolParam(BaseModel):
    """A hosted tool: its type, the name that the model uses if it differs from the type, and its arguments."""

    type: str
    name: str | None = None
    parameters: dict[str, Any] | None = None


ToolParam: TypeAlias = FunctionToolParam | BuiltinToolParam
"""A tool of either kind."""


class NamedToolChoiceFunction(BaseModel):
    """A reference to a function."""

    name: str


class NamedToolChoiceParam(BaseModel):
    """`{"type": "function", "function": {"name": ...}}`: this function must be called."""

    type: Literal["function"] = "function"
    function: NamedToolChoiceFunction


class BuiltinToolChoiceParam(BaseModel):
    """`{"type": ...}`: the hosted tool of this type must be called. The name is ignored."""

    type: str
    name: str | None = None


class AllowedToolRef(BaseModel):
    """A reference to a tool: to a function by its name, to a hosted tool by its type."""

    type: str
    function: NamedToolChoiceFunction | None = None
    name: str | None = None


class AllowedToolsParam(BaseModel):
    """Some of the tools, and whether one of them must be called ("required") or may be called ("auto")."""

    mode: Literal["auto", "required"]
    tools: list[AllowedToolRef]


class AllowedToolChoiceParam(BaseModel):
    """`{"type": "allowed_tools", "allowed_tools": {...}}`."""

    type: Literal["allowed_tools"] = "allowed_tools"
    allowed_tools: AllowedToolsParam


ToolChoiceOptionParam: TypeAlias = (
    Literal["none", "auto", "required"] | NamedToolChoiceParam | AllowedToolChoiceParam | BuiltinToolChoiceParam
)
"""Which tools may or must be called."""
