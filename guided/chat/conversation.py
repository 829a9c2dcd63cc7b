"""Conversations: messages, tools and template variables. In: the caller's objects. Out: checked plain data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from guided.chat.tagged_text import tag_text
from guided.errors import GuidedError, OptionError, SpecError, brief
from guided.frontends.structural_tag.tool_prompts import read_arguments
from guided.frontends.structural_tag.tool_styles import ToolStyle, tool_style

__all__ = [
    "DEFAULT_TOOL_STYLE", "STANDARD_ROLES", "Conversation", "Message", "MessageError", "as_style", "join_parts",
    "list_additional_keys", "to_plain", "to_plain_list", "to_plain_messages",
]  # fmt: skip

Message: TypeAlias = Mapping[str, Any]
"""`role` and `content`, a string or a list of `{"type": "text", "text": ...}`. The assistant's messages may also have
`tool_calls`, as in OpenAI's API, and `reasoning_content`. A tool's messages may have `tool_call_id` and `name`.
"""

DEFAULT_TOOL_STYLE: Final = "qwen_3"
"""The Hermes form of calls, which most models know."""
STANDARD_ROLES: Final = ("system", "user", "assistant", "tool")
_ROLES: Final = frozenset(("system", "developer", "user", "assistant", "tool", "function", "ipython", "model"))
"""Roles that templates may write as control tokens. Any other role is text."""
_REASONING_KEYS: Final = ("reasoning_content", "thinking", "reasoning")
_MAX_DEPTH: Final = 200
_WRONG_FORM: Final = 'is not of the form {"role": "user", "content": "..."}'


class MessageError(GuidedError):
    """A message is malformed, or the chat template does not support it.

    Attributes:
        number: the message's number, from 0.
        key: the faulty member.
    """

    def __init__(self, number: int, key: str, problem: str) -> None:
        super().__init__(f"message {number}{'' if problem.startswith(':') else ' '}{problem}")
        self.number, self.key = number, key


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages, and other inputs of the chat template.

    Attributes:
        tools: the tools that the model may call, as in OpenAI's API.
        tool_style: how the model writes calls: a style, or its name in `guided.TOOL_STYLES`; None: the style of the
            chat template, or `DEFAULT_TOOL_STYLE` if it is unknown.
        begin: the beginning of the answer, such as "<think>\\n". Names of control tokens become these tokens. If the
            rendered text already ends with a part of this beginning, the part is not repeated.
        documents: for a retrieval template, each with `title` and `text`.
        variables: other variables of the template, such as `enable_thinking`. Variables that the template does not read
            are refused.
        add_generation_prompt: whether the prompt ends with the beginning of the assistant's message.
        continue_final_message: whether generation continues the last message instead of starting a new one.
        template: the name of one of the model's templates; None: "tool_use" if there are tools and the model has that
            template, otherwise "default".
    """

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] = ()
    tool_style: str | ToolStyle | None = None
    begin: str = ""
    documents: Sequence[Mapping[str, Any]] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    template: str | None = None


def as_style(style: str | ToolStyle | None) -> ToolStyle | None:
    """Turn the name of a style into the style; a style and None are returned unchanged.

    Raises:
        SpecError: no style has this name. OptionError: the argument is neither a style nor a name.
    """
    if style is None or isinstance(style, ToolStyle):
        return style
    if not isinstance(style, str):
        message = f"tool_style is {brief(style)}, but must be a name in guided.TOOL_STYLES or a style"
        raise OptionError(message, option="tool_style")
    return tool_style(style)


def to_plain(value: Any, description: str, depth: int = 0) -> Any:
    """A copy of a value, made of JSON values only.

    Raises:
        GuidedError: the value contains something else, or nests too deeply.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if depth > _MAX_DEPTH:
        raise GuidedError(f"{description} nest deeper than {_MAX_DEPTH}")
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: to_plain(member, description, depth + 1) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item, description, depth + 1) for item in value]
    raise GuidedError(f"{description} contain {brief(value)}, which is not a JSON value")


def to_plain_list(items: Iterable[Any], description: str) -> list[Any]:
    """A copy of a list, made of JSON values only.

    Raises:
        GuidedError: the argument is not a list, or `to_plain` refuses one of its items.
    """
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
        raise GuidedError(f"{description} must be a list, not {brief(items)}")
    return [to_plain(item, description, 1) for item in items]


def join_parts(content: str | Sequence[Mapping[str, Any]]) -> str:
    """The text of a message's content. The texts of its parts are joined without a separator."""
    return content if isinstance(content, str) else "".join(str(part["text"]) for part in content)


def to_plain_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages in the form that templates read: without None values, and with the reasoning as both
    `reasoning_content` and `thinking`.

    Raises:
        MessageError: a message is malformed. GuidedError: there are no messages.
    """
    if not isinstance(messages, Iterable):
        raise GuidedError(f"messages must be a list of messages, not {brief(messages)}")
    if not messages:
        raise GuidedError("the list of messages is empty")
    return [_to_plain_message(number, message) for number, message in enumerate(messages)]


def list_additional_keys(message: Message) -> list[str]:
    """The keys of a message that are not standard for its role, sorted."""
    keys = {"assistant": ("tool_calls", *_REASONING_KEYS), "tool": ("tool_call_id", "name")}.get(message["role"], ())
    return sorted(message.keys() - {"role", "content", *keys})


def _to_plain_message(number: int, source_message: Message) -> dict[str, Any]:
    if not isinstance(source_message, Mapping) or not isinstance(role := source_message.get("role"), str):
        raise MessageError(number, "role", _WRONG_FORM)
    description = f"the members of message {number}"
    message = {key: to_plain(value, description) for key, value in source_message.items() if value is not None}
    if wrong_keys := [key for key in message if not isinstance(key, str)]:
        raise MessageError(number, str(wrong_keys[0]), f"has the key {brief(wrong_keys[0])}, which is not a string")
    if "tool_calls" in list_additional_keys(message):
        problem = "has the key 'tool_calls', which only messages with the role assistant have"
        raise MessageError(number, "tool_calls", problem)
    _check_content(number, message)
    calls = message.get("tool_calls", [])
    if not isinstance(calls, list):
        raise MessageError(number, "tool_calls", f"has tool_calls {brief(calls)}, but they must be a list")
    for call in calls:
        _check_call(number, call)
    reasoning = next((message[key] for key in _REASONING_KEYS if key in message), None)
    if reasoning is not None:
        message = {"thinking": reasoning, **message, "reasoning_content": reasoning}
    return message | {"role": tag_text(role) if role in _ROLES else role}


def _check_content(number: int, message: Mapping[str, Any]) -> None:
    content = message.get("content", "" if message.get("tool_calls") or "reasoning_content" in message else None)
    if isinstance(content, str):
        return
    if not isinstance(content, list) or not content:
        raise MessageError(number, "content", _WRONG_FORM)
    for part in content:
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            problem = f'{_WRONG_FORM}: a content part is {{"type": "text", "text": "..."}}'
            raise MessageError(number, "content", problem)


def _check_call(number: int, call: Any) -> None:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        problem = 'has a call without {"function": {"name": "...", "arguments": "{...}"}}'
        raise MessageError(number, "tool_calls", problem)
    try:
        read_arguments(_write_arguments(function.get("arguments")))
    except SpecError as error:
        raise MessageError(number, "tool_calls", f": {error}") from None


def _write_arguments(arguments: Any) -> Any:
    return json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, Mapping) else arguments


def convert_arguments(messages: Sequence[Mapping[str, Any]], *, as_text: bool) -> list[dict[str, Any]]:
    """Convert the arguments of all calls to JSON text (`as_text`) or to parsed values.

    As parsed values, arguments that are not a JSON object become an object with the member `arguments`, since templates
    read members.
    """
    out = []
    for message in messages:
        copy = dict(message)
        if calls := message.get("tool_calls"):
            copy["tool_calls"] = [
                {
                    **call,
                    "function": {**call["function"], "arguments": _convert_call_arguments(call["function"], as_text)},
                }
                for call in calls
            ]
        out.append(copy)
    return out


def _convert_call_arguments(function: Mapping[str, Any], as_text: bool) -> Any:
    text = _write_arguments(function["arguments"])
    arguments = read_arguments(text)
    if as_text:
        return text if arguments else "{}"
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}
