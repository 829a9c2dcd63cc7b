"""Writes tools and calls into messages, for chat templates that do not support tools or use another style of calls.

In: messages, tools, a style of calls. Out: messages with the roles system, user and assistant only. The system message
describes the tools, the assistant's message contains the calls, and a user message contains the results, as in the
templates of Qwen and Hermes (`guided/frontends/structural_tag/tool_prompts.py`). If a marker such as `<tool_call>` is a
control token of the vocabulary, it becomes that token: markers are `TaggedText`, and the caller's text is not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from guided.chat.conversation import join_parts
from guided.chat.tagged_text import join_tagged, tag_text
from guided.frontends.structural_tag.tool_prompts import Piece, tool_instructions, write_calls
from guided.frontends.structural_tag.tool_styles import ToolStyle

__all__ = ["add_system_prompt", "add_tool_prompt", "complete_tool", "default_system", "write_tools_as_text"]

_DEFAULT_SYSTEM: Final = re.compile(r"'<\|im_start\|>system(?:\n|\\n)([^<{}']*)<\|im_end\|>")


def default_system(template: str) -> str:
    """The default system message of a ChatML template, or "" if it cannot be determined."""
    match = _DEFAULT_SYSTEM.search(template)
    return match.group(1).replace("\\n", "\n") if match else ""


def complete_tool(tool: Any) -> Any:
    """Add an empty description and empty parameters to a tool that lacks them. A value that is no tool is returned
    unchanged.
    """
    if not isinstance(tool, Mapping) or not isinstance(function := tool.get("function"), Mapping):
        return tool
    given = {key: value for key, value in function.items() if value is not None}
    defaults = {"description": "", "parameters": {"type": "object", "properties": {}}}
    return {**tool, "function": {**function, **defaults, **given}}


def add_system_prompt(
    messages: Sequence[Mapping[str, Any]], style: ToolStyle, tools: Sequence[Mapping[str, Any]], default: str
) -> list[dict[str, Any]]:
    """Messages whose first message is a system message that describes the tools.

    Raises:
        UnsupportedError: see `write_calls`.
    """
    if messages[0]["role"] not in ("system", "developer"):
        messages = [{"role": tag_text("system"), "content": default}, *messages]
    first, instructions = messages[0], _join_pieces(tool_instructions(style, tools))
    content = (
        join_tagged((_get_content(first), tag_text("\n\n"), instructions)) if _get_content(first) else instructions
    )
    return [{**first, "content": content}, *map(dict, messages[1:])]


def add_tool_prompt(
    messages: Sequence[Mapping[str, Any]], style: ToolStyle, tools: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Like `add_system_prompt`, but the first message describes the tools, whatever its role."""
    content = join_tagged((_join_pieces(tool_instructions(style, tools)), tag_text("\n\n"), _get_content(messages[0])))
    return [{**messages[0], "content": content}, *map(dict, messages[1:])]


def write_tools_as_text(
    messages: Sequence[Mapping[str, Any]], style: ToolStyle, *, keeps_results: bool = False
) -> list[dict[str, Any]]:
    """The messages, in which calls are written as text. Messages of the role `tool` become user messages, unless
    `keeps_results`: the template writes them.

    Raises:
        UnsupportedError: see `write_calls`.
    """
    out: list[dict[str, Any]] = []
    for role, group in groupby(messages, key=lambda message: message["role"]):
        if role == "tool" and not keeps_results:  # consecutive results share a user message
            begin, end = tag_text("<tool_response>\n"), tag_text("\n</tool_response>")
            results = [join_tagged((begin, _get_content(message), end)) for message in group]
            out.append({"role": tag_text("user"), "content": tag_text("\n").join(results)})
            continue
        for message in group:
            copy = {key: value for key, value in message.items() if key != "tool_calls"}
            if calls := message.get("tool_calls"):
                calls_as_text = [(call["function"]["name"], _write_arguments(call)) for call in calls]
                parts = [
                    part for part in (_get_content(message), _join_pieces(write_calls(style, calls_as_text))) if part
                ]
                copy["content"] = tag_text("\n").join(parts)
            out.append(copy)
    return out


def _write_arguments(call: Mapping[str, Any]) -> str:
    arguments = call["function"]["arguments"]
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _get_content(message: Mapping[str, Any]) -> str:
    return join_parts(message.get("content", ""))


def _join_pieces(pieces: Iterable[Piece]) -> str:
    return join_tagged(piece.text if piece.literal else tag_text(piece.text) for piece in pieces)
