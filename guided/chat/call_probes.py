"""Renders a chat template with made-up calls, and cuts the text of the calls out of the result.

In: a compiled template. Out: the text that the template writes for the calls of an assistant's message, and for their
results if they follow. How: the same conversation is rendered twice, with calls and with a marked answer. The calls
begin where the two texts begin to differ. The text after the marked answer shows how a message ends.

If a template leaves out the calls of the last message, messages with the results of the calls are appended.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias

from guided.chat.compiled import CompiledTemplate, TemplateRefusal
from guided.chat.conversation import convert_arguments, to_plain_messages
from guided.chat.tagged_text import tag_text
from guided.errors import GuidedError, LimitExceeded, UnsupportedError, brief
from guided.frontends.structural_tag.markup import format_call_id

__all__ = ["HINT", "CallRenderer", "Calls", "common_prefix", "common_suffix", "make_probe_tools"]

Calls: TypeAlias = Sequence[tuple[str, Mapping[str, Any]]]
"""Names and arguments."""
HINT: Final = "choose a style by its name, one of guided.TOOL_STYLES"
_ANSWER: Final = "\ue000answer\ue001"
_MARKER: Final = re.compile(r"\s*(?:<[^<>]*>|\[[^\[\]]*\]|\S+)")
_USER: Final = {"role": "user", "content": "question"}


class CallRenderer:
    """Renders calls with one template.

    Args:
        source: the text of the template.
        tokens: values of `bos_token`, `eos_token` and similar variables.

    Raises:
        UnsupportedError: the template does not show calls.
    """

    def __init__(self, template: CompiledTemplate, source: str, tokens: Mapping[str, str]) -> None:
        self._template, self._source = template, source
        self._tokens = {name: tag_text(text) for name, text in tokens.items()}
        self._appends_results = False
        if not self._shows_calls():
            self._appends_results = True
            if not self._shows_calls():
                raise UnsupportedError("the chat template does not show the calls of earlier messages", hint=HINT)

    def render_calls(self, calls: Calls, *, tools: Calls | None = None) -> str:
        """The text of the calls of an assistant's message, and of the results if they follow.

        `tools`: calls whose tools the prompt lists; None: those of `calls`.

        Raises:
            TemplateRefusal: the template refuses these calls. GuidedError: it cannot render them. UnsupportedError:
                answers without calls begin with a header that calls do not have.
        """
        tool_list = make_probe_tools(calls if tools is None else tools)
        rendered_calls, rendered_answer = (
            self._render(self._make_call_messages(calls), tool_list),
            self._render(self._make_answer_messages(), tool_list),
        )
        start = len(common_prefix(rendered_calls, rendered_answer))
        header, _, answer_suffix = rendered_answer[start:].partition(_ANSWER)
        if header.strip():
            raise UnsupportedError(f"answers begin with {brief(header)}, but calls do not", hint=HINT)
        message_suffix = (
            ""
            if self._appends_results
            else _cut_to_marker(common_suffix(rendered_calls[start:], answer_suffix), answer_suffix)
        )
        return rendered_calls[start : len(rendered_calls) - len(message_suffix)]

    def render_calls_or_empty(self, calls: Calls) -> str:
        """Like `render_calls`, but returns "" if the template refuses these calls or cannot render them."""
        try:
            return self.render_calls(calls)
        except LimitExceeded:
            raise
        except GuidedError:
            return ""

    def accepts_id(self, identifier: str) -> bool:
        """Whether the template accepts this call identifier."""
        calls = [("qzfirst", {"qza": "qzone"})]
        messages = self._make_call_messages(calls)
        messages[1]["tool_calls"][0]["id"] = identifier
        try:
            return identifier in self._render(messages, make_probe_tools(calls))
        except TemplateRefusal:
            return False

    @cached_property
    def message_end(self) -> str:
        """The first marker after an answer, such as <|im_end|>, if rendered calls include their results; otherwise
        ""."""
        rendered = self._render(self._make_answer_messages(), make_probe_tools([("qzfirst", {})]))
        match = _MARKER.match(rendered.partition(_ANSWER)[2]) if self._appends_results else None
        return match[0] if match else ""

    def _shows_calls(self) -> bool:
        """Whether the template renders calls: the text contains the name of a function that only a call mentions."""
        try:
            return "qzfirst" in self.render_calls(
                [("qzfirst", {"qza": "qzone"})], tools=[("qzother", {"qza": "qzone"})]
            )
        except LimitExceeded:
            raise
        except GuidedError:
            if self._appends_results:
                raise
            return False

    def _make_call_messages(self, calls: Calls) -> list[dict[str, Any]]:
        tool_calls = [
            {"id": format_call_id(number), "type": "function", "function": {"name": name, "arguments": dict(arguments)}}
            for number, (name, arguments) in enumerate(calls)
        ]
        messages: list[dict[str, Any]] = [_USER, {"role": "assistant", "content": "", "tool_calls": tool_calls}]
        if self._appends_results:
            messages += [
                {"role": "tool", "content": "result", "name": name, "tool_call_id": format_call_id(number)}
                for number, (name, _) in enumerate(calls)
            ]
        return messages

    def _make_answer_messages(self) -> list[dict[str, Any]]:
        return [_USER, {"role": "assistant", "content": _ANSWER}, *([_USER] if self._appends_results else [])]

    def _render(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> str:
        plain = convert_arguments(to_plain_messages(messages), as_text=self._template.arguments_are_text)
        variables = {"messages": plain, "tools": tools, "documents": None, "add_generation_prompt": False}
        text = str.__str__(self._template.render(**variables, **self._tokens))
        if _ANSWER not in text and "tool_calls" not in messages[1]:
            raise UnsupportedError("the chat template does not show the answers of earlier messages", hint=HINT)
        return text


def common_prefix(*texts: str) -> str:
    """The longest common prefix."""
    first, last = min(texts), max(texts)
    size = next((i for i, char in enumerate(first) if i == len(last) or char != last[i]), len(first))
    return first[:size]


def common_suffix(*texts: str) -> str:
    """The longest common suffix."""
    return common_prefix(*(text[::-1] for text in texts))[::-1]


def _cut_to_marker(suffix: str, text: str) -> str:
    """A suffix of `text` from its first marker on: "" without a marker, and the whole suffix if it is the whole
    text."""
    if suffix == text:
        return suffix
    for i in range(len(text) - len(suffix), len(text)):
        if text[i] in "<[" and (text[i - 1].isspace() or text[i - 1] in ">]"):
            return text[i:]
    return ""


def make_probe_tools(calls: Calls) -> list[dict[str, Any]]:
    """A tool for each called function, with the types of its arguments."""
    tools: dict[str, dict[str, Any]] = {}
    for name, arguments in calls:
        properties = {key: {**_describe_types(value), "description": "an argument"} for key, value in arguments.items()}
        parameters = {
            "type": "object", "properties": properties, "required": list(arguments), "additionalProperties": False,
        }  # fmt: skip
        function = {"name": name, "description": "a function", "parameters": parameters}
        tools[name] = {"type": "function", "function": function}
    return list(tools.values())


def _describe_types(value: Any) -> dict[str, Any]:
    """A schema that describes the types in a value."""
    match value:
        case bool():
            return {"type": "boolean"}
        case int() | float():
            return {"type": "number"}
        case str():
            return {"type": "string"}
        case None:
            return {"type": "null"}
        case list():
            return {
                "type": "array",
                "prefixItems": list(map(_describe_types, value)),
                "items": _describe_types(value[0]) if value else {},
            }
    properties = {key: _describe_types(inner) for key, inner in value.items()}
    return {"type": "object", "properties": properties, "required": list(value), "additionalProperties": False}
