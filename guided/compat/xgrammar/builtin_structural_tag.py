"""Structural tags for the tool-call formats of model families. In: tools as in OpenAI's API. Out: a structural tag.

The formats are guided's tool styles (`guided.tool_style`), which have the same names as in xgrammar. As in xgrammar, a
function without `parameters`, or with `strict=False`, accepts any arguments.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, Literal, TypeAlias, TypeVar

from pydantic import TypeAdapter

from guided.compat.xgrammar.openai_tool_call_schema import (
    AllowedToolChoiceParam,
    BuiltinToolChoiceParam,
    BuiltinToolParam,
    FunctionDefinition,
    FunctionToolParam,
    NamedToolChoiceParam,
    ToolChoiceOptionParam,
    ToolParam,
)
from guided.compat.xgrammar.structural_tag import StructuralTag
from guided.errors import GuidedError
from guided.frontends.structural_tag.tool_styles import TOOL_STYLES, tool_style

__all__ = [
    "get_builtin_structural_tag",
    "get_model_structural_tag",
    "normalize_tool_choice",
    "register_model_structural_tag",
]

SimplifiedToolChoice: TypeAlias = Literal["auto", "required", "forced"]
Builder: TypeAlias = Callable[..., StructuralTag]
_BuilderT = TypeVar("_BuilderT", bound=Builder)
_TOOL_ADAPTER: Final[TypeAdapter[Any]] = TypeAdapter(ToolParam)
_CHOICE_ADAPTER: Final[TypeAdapter[Any]] = TypeAdapter(ToolChoiceOptionParam)
_builders: dict[str, Builder] = {}
_HOSTED_NAME: Final = "hosted-tool-{number}-"
"""The temporary names with which hosted tools are passed to a style, as functions."""
_HOSTED_CALL_BEGINNINGS: Final = {
    "harmony": [
        "<|channel|>commentary to={name} code<|message|>",
        " to={name}<|channel|>commentary code<|message|>",
    ],
}
"""Style -> the texts with which a call of a hosted tool can begin."""


def get_model_structural_tag(
    model: str,
    tools: list[ToolParam | dict[str, Any]] | None = None,
    tool_choice: ToolChoiceOptionParam | dict[str, Any] | None = "auto",
    reasoning: bool | Literal["enabled", "disabled", "auto"] = "enabled",
    force_reasoning: bool = False,
    any_order: bool = False,
    exclude_special_tokens: bool = True,
    max_whitespace_cnt: int | None = None,
    parallel_tool_calls: bool = True,
    token_markers: bool = False,
) -> StructuralTag:
    """Build the structural tag of a model's answer, in which the model may call these tools.

    Args:
        model: a name of `guided.TOOL_STYLES`, or a registered name.
        tools, tool_choice: see `normalize_tool_choice`.
        reasoning: whether the answer begins with reasoning: "enabled" or True: it does; "auto": it may; "disabled" or
            False: it does not.
        force_reasoning: deprecated and without effect, as in xgrammar.
        any_order: whether arguments may come in any order.
        exclude_special_tokens: whether free text must not contain the markers of the format.
        max_whitespace_cnt: the maximum number of whitespace characters in a row in the arguments.
        parallel_tool_calls: whether there may be several calls.
        token_markers: must be False: markers are text, which the tokens that are spelled like them match.

    Raises:
        ValueError: the model is unknown, `token_markers` is True, or the tools, the choice or the reasoning mode are
            invalid.
    """
    builder = _builders.get(model)
    if builder is None:
        raise ValueError(f"Unknown format type: {model}, supported types: {list(_builders)}")
    if token_markers:
        raise ValueError("token_markers is not supported: leave it out, or write a structural tag with token formats")
    functions, builtin_tools, choice = normalize_tool_choice(tools, tool_choice)
    mode = {True: "enabled", False: "disabled"}[reasoning] if isinstance(reasoning, bool) else reasoning
    if mode not in ("enabled", "disabled", "auto"):
        raise ValueError("The 'reasoning' argument must be a bool or one of: 'enabled', 'disabled', 'auto'.")
    if not isinstance(parallel_tool_calls, bool):
        raise ValueError("The 'parallel_tool_calls' argument must be a bool.")
    return builder(
        functions,
        builtin_tools,
        choice,
        mode,
        any_order=any_order,
        exclude_special_tokens=exclude_special_tokens,
        max_whitespace_cnt=max_whitespace_cnt,
        parallel_tool_calls=parallel_tool_calls,
    )


get_builtin_structural_tag = get_model_structural_tag


def normalize_tool_choice(
    tools: list[ToolParam | dict[str, Any]] | None = None,
    tool_choice: ToolChoiceOptionParam | dict[str, Any] | None = "auto",
) -> tuple[list[FunctionToolParam], list[BuiltinToolParam], SimplifiedToolChoice]:
    """Find the functions and the hosted tools (`BuiltinToolParam`) that a choice allows, and whether one must be
    called.

    Args:
        tools: OpenAI's functions `{"type": "function", "function": {...}}`, and hosted tools `{"type": ..., "name":
            ...}`.
        tool_choice: "auto" (also None), "none", "required", a named tool, or allowed tools.

    Raises:
        ValueError: a tool or the choice is malformed, a chosen tool is missing, or a tool is required but none is left.
    """
    if tools is None:
        tools = []
    if not isinstance(tools, list):
        raise ValueError("The 'tools' argument must be a list.")
    parsed_tools = [
        tool if isinstance(tool, FunctionToolParam | BuiltinToolParam) else _TOOL_ADAPTER.validate_python(tool)
        for tool in tools
    ]
    functions = [tool for tool in parsed_tools if isinstance(tool, FunctionToolParam)]
    builtin_tools = [tool for tool in parsed_tools if isinstance(tool, BuiltinToolParam)]
    choice: Any = "auto" if tool_choice is None else _CHOICE_ADAPTER.validate_python(tool_choice)
    mode: SimplifiedToolChoice = "forced"
    if isinstance(choice, AllowedToolChoiceParam):
        functions, builtin_tools = _select_allowed_tools(functions, builtin_tools, choice)
        mode = choice.allowed_tools.mode
    elif isinstance(choice, NamedToolChoiceParam):
        name = choice.function.name
        functions, builtin_tools = [tool for tool in functions if tool.function.name == name], []
        if not functions:
            raise ValueError(f"The tool with name '{name}' is not found in the tools list.")
    elif isinstance(choice, BuiltinToolChoiceParam):
        functions, builtin_tools = [], [tool for tool in builtin_tools if tool.type == choice.type]
        if len(builtin_tools) != 1:
            raise ValueError(
                f"Builtin tool choice must match exactly one builtin tool, got {len(builtin_tools)} matches."
            )
    elif choice == "none":
        functions, builtin_tools, mode = [], [], "auto"
    else:
        mode = choice
    if mode == "required" and not functions and not builtin_tools:
        raise ValueError("The 'tools' list is empty, which is not allowed when 'tool_choice' is 'required'.")
    if mode == "forced" and len(functions) + len(builtin_tools) != 1:
        raise ValueError("Forced tool choice must resolve to exactly one tool.")
    return functions, builtin_tools, mode


def _select_allowed_tools(
    functions: list[FunctionToolParam], builtin_tools: list[BuiltinToolParam], choice: AllowedToolChoiceParam
) -> tuple[list[FunctionToolParam], list[BuiltinToolParam]]:
    names, types = set[str](), set[str]()
    for reference in choice.allowed_tools.tools:
        if reference.type != "function":
            types.add(reference.type)
        elif reference.function is None:
            raise ValueError("Allowed function tool references must include 'function'.")
        else:
            names.add(reference.function.name)
    if missing_tools := names - {tool.function.name for tool in functions}:
        raise ValueError(f"Allowed function tools are not found in the tools list: {missing_tools}.")
    if missing_tools := types - {tool.type for tool in builtin_tools}:
        raise ValueError(f"Allowed builtin tools are not found in the tools list: {missing_tools}.")
    return (
        [tool for tool in functions if tool.function.name in names],
        [tool for tool in builtin_tools if tool.type in types],
    )


def register_model_structural_tag(
    name: str, *, marker_tokens: list[str] | None = None
) -> Callable[[_BuilderT], _BuilderT]:
    """Register the decorated function as the builder for `name`. It takes the arguments of `_build_for_style` without
    `style`. `marker_tokens` has no effect, since `token_markers` is not supported.
    """

    def decorate(builder: _BuilderT) -> _BuilderT:
        _builders[name] = builder
        return builder

    return decorate


def _build_for_style(
    style: str,
    tools: list[FunctionToolParam] | None = None,
    builtin_tools: list[BuiltinToolParam] | None = None,
    tool_choice: SimplifiedToolChoice = "auto",
    reasoning: Literal["enabled", "disabled", "auto"] = "enabled",
    any_order: bool = False,
    exclude_special_tokens: bool = True,
    max_whitespace_cnt: int | None = None,
    parallel_tool_calls: bool = True,
    **kwargs: Any,
) -> StructuralTag:
    """Build the structural tag of one of guided's styles, for the result of `normalize_tool_choice`."""
    functions = [
        {"type": "function", "function": {"name": tool.function.name, "parameters": _parameter_schema(tool.function)}}
        for tool in tools or []
    ]
    hosted_tools = {_HOSTED_NAME.format(number=number): tool for number, tool in enumerate(builtin_tools or [])}
    if hosted_tools and style not in _HOSTED_CALL_BEGINNINGS:
        if not functions and tool_choice != "auto":
            raise ValueError(f"the format {style} cannot call hosted tools: describe them as functions")
        types = ", ".join(tool.type for tool in hosted_tools.values())
        warnings.warn(
            f"the format {style} cannot call hosted tools, so {types} are left out: describe them as functions",
            stacklevel=3,
        )
        hosted_tools = {}
    functions += [
        {"type": "function", "function": {"name": name, "parameters": _parameter_schema(tool)}}
        for name, tool in hosted_tools.items()
    ]
    choice: Any = tool_choice
    if tool_choice == "forced":
        if not functions:
            raise ValueError("Forced tool choice must resolve to exactly one tool.")
        choice = {"type": "function", "function": {"name": functions[0]["function"]["name"]}}  # type: ignore[index]
    try:
        document = tool_style(style).structural_tag(
            functions, tool_choice=choice, parallel_tool_calls=parallel_tool_calls, reasoning=reasoning
        )
    except GuidedError as error:
        raise ValueError(str(error)) from error
    split_tag = partial(_split_tag, style=style, hosted_tools=hosted_tools)
    for nested_format in _nested_formats(document):
        if "tags" in nested_format:
            nested_format["tags"] = [tag for joined_tag in nested_format["tags"] for tag in split_tag(joined_tag)]
        if "elements" in nested_format:
            nested_format["elements"] = [_join(split_tag(element)) for element in nested_format["elements"]]
        for name in ("format", "content"):
            if name in nested_format:
                nested_format[name] = _join(split_tag(nested_format[name]))
        if nested_format["type"] == "json_schema":
            nested_format |= {"any_order": any_order, "max_whitespace_cnt": max_whitespace_cnt}
        if not exclude_special_tokens and "excludes" in nested_format:
            nested_format["excludes"] = []
    return StructuralTag.model_validate(document)


def get_minimax_m3_structural_tag(
    tools: list[FunctionToolParam] | None = None,
    builtin_tools: list[BuiltinToolParam] | None = None,
    tool_choice: SimplifiedToolChoice = "auto",
    reasoning: Literal["enabled", "disabled", "auto"] = "auto",
    any_order: bool = False,
    exclude_special_tokens: bool = True,
    max_whitespace_cnt: int | None = None,
    parallel_tool_calls: bool = True,
    **kwargs: Any,
) -> StructuralTag:
    """Build the structural tag of MiniMax M3. By default, its answers may begin with reasoning."""
    return _build_for_style(
        "minimax_m3", tools, builtin_tools, tool_choice, reasoning, any_order, exclude_special_tokens,
        max_whitespace_cnt, parallel_tool_calls, **kwargs,
    )  # fmt: skip


def _split_tag(node: dict[str, Any], style: str, hosted_tools: dict[str, BuiltinToolParam]) -> list[dict[str, Any]]:
    """Split a tag with several begin texts into one tag for each, since xgrammar's tags have only one. The tag of a
    hosted tool gets the tool's own begin texts. Other formats are returned unchanged."""
    if node["type"] != "tag":
        return [node]
    begins = node["begin"] if isinstance(node["begin"], list) else [node["begin"]]
    for name, tool in hosted_tools.items():
        if f"functions.{name}" in begins[0]:
            begins = [begin.replace("{name}", tool.name or tool.type) for begin in _HOSTED_CALL_BEGINNINGS[style]]
    return [{**node, "begin": begin} for begin in begins]


def _join(alternatives: list[dict[str, Any]]) -> dict[str, Any]:
    """One format for several alternative formats."""
    return alternatives[0] if len(alternatives) == 1 else {"type": "or", "elements": alternatives}


def _parameter_schema(function: FunctionDefinition | BuiltinToolParam) -> dict[str, Any] | bool:
    """The schema of a tool's arguments."""
    if isinstance(function, FunctionDefinition) and function.strict is False:
        return True
    return True if function.parameters is None else function.parameters


def _nested_formats(node: Any) -> Iterator[dict[str, Any]]:
    """Yield a document or a format, and then all formats inside it."""
    if isinstance(node, list):
        for item in node:
            yield from _nested_formats(item)
    elif isinstance(node, dict) and "type" in node:
        yield node
        for name in ("format", "content", "elements", "tags"):
            yield from _nested_formats(node.get(name))


_STYLES: Final = tuple(name for name in TOOL_STYLES if tool_style(name).data["source"].startswith("xgrammar"))
"""xgrammar's formats; guided has more styles."""
_builders |= {name: partial(_build_for_style, name) for name in _STYLES}


def __getattr__(name: str) -> Any:
    """Return `get_NAME_structural_tag` for a style, as in xgrammar."""
    style = name.removeprefix("get_").removesuffix("_structural_tag")
    if name == f"get_{style}_structural_tag" and style in _STYLES:
        return partial(_build_for_style, style)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
