"""Requests to /v1/messages. In: JSON. Out: an equivalent request to /v1/chat/completions.

    system, messages      ->  messages               tools (flat)     ->  tools
    stop_sequences        ->  stop                   tool_choice      ->  tool_choice, parallel_tool_calls
    output_config.format  ->  response_format        thinking         ->  chat_template_kwargs, think_first

requests.py reads most fields for all routes. Errors use the field names of the original request. In addition to
Anthropic's fields, a request may contain one of the fields that constrain the text (structured.py). Without `thinking`,
the model does not reason. "adaptive" leaves the decision to the model's chat template.

If the last message is the assistant's, the answer continues it. As in Anthropic's API, such a request cannot turn
thinking on or have a format. Each call needs a result in the next message, and results precede the other blocks of
their message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from guided.errors import brief
from guided.server.anthropic.blocks import (
    CacheControl,
    InputMessage,
    TextContent,
    ToolResultBlock,
    ToolUseBlock,
    join_texts,
    read_texts_at,
)
from guided.server.http.errors import RequestError
from guided.server.openai.converted_request import ConvertedRequest
from guided.server.openai.ignored_fields import AllowedValues
from guided.server.openai.reading import StrictModel, read_by_type, read_part
from guided.server.openai.requests import MAX_TOOLS, ConstraintFields

__all__ = ["CountTokensRequest", "MessagesRequest"]

_MAX_STOPS = 128  # as in chat completions
_MIN_THINKING = 1024  # tokens, as in Anthropic's API
_NO_THREADS: Final = "thread_unsupported_request"  # Anthropic's client then sends the whole conversation instead
_RENAMES: Final = (
    (re.compile(r"\bresponse_format\.json_schema\.schema\b"), "output_config.format.schema"),
    (re.compile(r"\bresponse_format(\.json_schema)?(?![\w-])"), "output_config.format"),
    (re.compile(r"^stop\b"), "stop_sequences"),
    (re.compile(r"\bchat_template_kwargs\b"), "thinking"),
    (re.compile(r"\bthink_first\b"), "thinking.budget_tokens"),
    (re.compile(r"\b(tools[./]\d+)[./]function([./])parameters(?=[./]|$)"), r"\1\2input_schema"),
    (re.compile(r"\b(tools[./]\d+|tool_choice)[./]function(?=[./]|$)"), r"\1"),
)
"""Names of fields in /v1/chat/completions -> names of the same fields here."""


# ---- thinking
class _ThinkingEnabled(StrictModel):
    type: Literal["enabled"]
    budget_tokens: Annotated[int, Field(ge=_MIN_THINKING, strict=True)]
    display: Literal["summarized", "omitted"] | None = None


class _ThinkingAdaptive(StrictModel):
    type: Literal["adaptive"]
    display: Literal["summarized", "omitted"] | None = None


class _ThinkingDisabled(StrictModel):
    type: Literal["disabled"]


_THINKING: Final[Mapping[str, type[BaseModel]]] = {
    "enabled": _ThinkingEnabled,
    "adaptive": _ThinkingAdaptive,
    "disabled": _ThinkingDisabled,
}


def _read_thinking(value: Any) -> Any:
    return None if value is None else read_by_type("thinking", value, _THINKING)


# ---- the format of the text
class _JsonSchema(StrictModel):
    type: Literal["json_schema"]
    schema_: Annotated[dict[str, Any], Field(alias="schema")]


class _OutputConfig(StrictModel):
    format: _JsonSchema | None = None
    effort: Annotated[Any, AllowedValues(("high",), "thinking.budget_tokens limits the length of thinking")] = None


# ---- tools
class _Tool(StrictModel):
    type: Literal["custom"] | None = None
    name: str
    description: str | None = None
    input_schema: dict[str, Any]
    strict: bool | None = None
    cache_control: CacheControl | None = None
    allowed_callers: Annotated[Any, AllowedValues((["direct"],), "only the model calls tools")] = None
    defer_loading: Annotated[Any, AllowedValues((False,), "the model sees all tools")] = None
    eager_input_streaming: Annotated[Any, AllowedValues((True,), "inputs are streamed as the model writes them")] = None
    input_examples: Annotated[Any, AllowedValues(([],), "write the examples into the description")] = None


class _AnyChoice(StrictModel):
    type: Literal["auto", "any"]
    disable_parallel_tool_use: bool | None = None


class _NamedChoice(StrictModel):
    type: Literal["tool"]
    name: str
    disable_parallel_tool_use: bool | None = None


class _ToolChoiceNone(StrictModel):
    type: Literal["none"]


_CHOICES: Final[Mapping[str, type[BaseModel]]] = {
    "auto": _AnyChoice,
    "any": _AnyChoice,
    "tool": _NamedChoice,
    "none": _ToolChoiceNone,
}
_ONLY_CUSTOM: Final = "this server has no tools of its own: describe a tool with an input_schema, and call it yourself"


def _read_tools(value: Any) -> Any:
    if not isinstance(value, list) or len(value) > MAX_TOOLS:
        return value
    kinds = {"custom": _Tool}
    return [
        read_by_type(f"tools.{number}", tool, kinds, default="custom", other_hint=_ONLY_CUSTOM)
        for number, tool in enumerate(value)
    ]


def _read_tool_choice(value: Any) -> Any:
    return None if value is None else read_by_type("tool_choice", value, _CHOICES)


# ---- requests
def _read_messages(value: Any) -> Any:
    if not isinstance(value, list) or not value:
        raise RequestError(f"messages must be a list of at least one message, not {brief(value)}", param="messages")
    return [read_part(f"messages.{number}", InputMessage, message) for number, message in enumerate(value)]


class CountTokensRequest(ConvertedRequest):
    """A request to /v1/messages/count_tokens: the fields that determine the prompt."""

    hints = {  # noqa: RUF012
        "output_format": 'write "output_config": {"format": ...}',
        "max_completion_tokens": "this API calls it max_tokens",
        "stop": "this API calls it stop_sequences",
        "functions": 'write "tools": [{"name": ..., "input_schema": ...}]',
        "n": "an answer is one message: send several requests",
        "mcp_servers": "this server calls no tools",
        "context_management": "this server does not change conversations: send the messages that the model should see",
    }

    renames = _RENAMES
    model: str
    messages: Annotated[Annotated[list[InputMessage], Field(min_length=1)], BeforeValidator(_read_messages)]
    system: Annotated[TextContent | None, read_texts_at("system")] = None
    tools: Annotated[
        Annotated[list[_Tool], Field(max_length=MAX_TOOLS, fail_fast=True)] | None, BeforeValidator(_read_tools)
    ] = None
    tool_choice: Annotated[_AnyChoice | _NamedChoice | _ToolChoiceNone | None, BeforeValidator(_read_tool_choice)] = (
        None
    )
    thinking: Annotated[
        _ThinkingEnabled | _ThinkingAdaptive | _ThinkingDisabled | None, BeforeValidator(_read_thinking)
    ] = None
    output_config: _OutputConfig | None = None
    cache_control: CacheControl | None = None
    speed: Annotated[Any, AllowedValues(("standard",), "there is only one speed")] = None

    @model_validator(mode="after")
    def _check_choice(self) -> Self:
        if self.tool_choice is not None and not self.tools:
            raise RequestError("tool_choice requires tools", param="tool_choice")
        return self

    @model_validator(mode="after")
    def _check_results(self) -> Self:
        """Check that each call has a result in the next message, before the other blocks of that message."""
        call_ids, unanswered_calls = set[str](), dict[str, str]()  # unanswered_calls: id -> location
        for number, message in enumerate(self.messages):
            for expected_index, (index, result) in enumerate(message.blocks(ToolResultBlock)):
                location = f"messages.{number}.content.{index}"
                if unanswered_calls.pop(result.tool_use_id, None) is None:
                    param, call_id = f"{location}.tool_use_id", brief(result.tool_use_id)
                    raise RequestError(f"{param}: the previous message has no other call {call_id}", param=param)
                if index != expected_index:
                    raise RequestError(f"{location}: write tool results before the other blocks", param=location)
            _refuse_unanswered(unanswered_calls)
            for index, call in message.blocks(ToolUseBlock):
                location = f"messages.{number}.content.{index}"
                if call.id in call_ids:
                    reason = f"{location}.id: an earlier call has the same id {brief(call.id)}"
                    raise RequestError(reason, param=f"{location}.id")
                call_ids.add(call.id)
                unanswered_calls[call.id] = location
        _refuse_unanswered(unanswered_calls)
        return self

    @model_validator(mode="after")
    def _check_continuation(self) -> Self:
        if self.messages[-1].role != "assistant":
            return self
        last_message = "a final assistant message, which the answer continues"
        if isinstance(self.thinking, _ThinkingEnabled | _ThinkingAdaptive):
            raise RequestError(f"thinking cannot be combined with {last_message}", param="thinking")
        if self.output_config is not None and self.output_config.format is not None:
            raise RequestError(
                f"output_config.format cannot be combined with {last_message}", param="output_config.format"
            )
        return self

    @property
    def shows_thinking(self) -> bool:
        """Whether the answer contains the text of the reasoning."""
        return getattr(self.thinking, "display", None) != "omitted"

    def rename_pointer(self, pointer: str) -> str:
        """See `ConvertedRequest`."""
        return re.sub(r"^(tools/\d+)/function(/parameters)?(?=/|$)", _flatten_tool_path, pointer)

    def chat_body(self) -> dict[str, Any]:
        """See `ConvertedRequest`."""
        body: dict[str, Any] = {"model": self.model, "messages": self.chat_messages()[0]}
        if self.messages[-1].role == "assistant":
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        if self.output_config is not None and self.output_config.format is not None:
            schema = {"name": "output", "schema": self.output_config.format.schema_}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body | self._chat_tools() | self._chat_thinking()

    def chat_messages(self) -> tuple[list[dict[str, Any]], list[str]]:
        """See `ConvertedRequest`."""
        messages, locations = list[dict[str, Any]](), list[str]()
        if self.system:
            messages.append({"role": "system", "content": join_texts(self.system)})
            locations.append("system")
        for number, message in enumerate(self.messages):
            for location, chat_message in message.chat_messages():
                messages.append(chat_message)
                locations.append(f"messages.{number}{location}")
        return messages, locations

    def _chat_tools(self) -> dict[str, Any]:
        body: dict[str, Any] = {}
        if self.tools:
            body["tools"] = [{"type": "function", "function": _to_chat_function(tool)} for tool in self.tools]
        match self.tool_choice:
            case _AnyChoice(type=type):
                body["tool_choice"] = "required" if type == "any" else type
            case _NamedChoice(name=name):
                body["tool_choice"] = {"type": "function", "function": {"name": name}}
            case _ToolChoiceNone():
                body["tool_choice"] = "none"
        if getattr(self.tool_choice, "disable_parallel_tool_use", None):
            body["parallel_tool_calls"] = False
        return body

    def _chat_thinking(self) -> dict[str, Any]:
        body: dict[str, Any] = {} if self.shows_thinking else {"include_reasoning": False}
        match self.thinking:
            case _ThinkingEnabled(budget_tokens=budget):
                return body | {"chat_template_kwargs": {"enable_thinking": True}, "think_first": budget}
            case _ThinkingAdaptive():
                return body
        return {"chat_template_kwargs": {"enable_thinking": False}}


class _Metadata(StrictModel):
    user_id: str | None = None


class MessagesRequest(CountTokensRequest, ConstraintFields):
    """A request to /v1/messages."""

    hints = {**ConstraintFields.hints, **CountTokensRequest.hints}  # noqa: RUF012

    max_tokens: Annotated[int, Field(ge=1, strict=True)]
    stream: bool | None = None
    stop_sequences: Annotated[list[str], Field(max_length=_MAX_STOPS, fail_fast=True)] | None = None
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    metadata: _Metadata | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    response_format: Annotated[Any, AllowedValues((), 'write "output_config": {"format": ...}')] = None
    container: Annotated[Any, AllowedValues((), "this server runs no code")] = None
    diagnostics: Annotated[Any, AllowedValues((), "this server does not report on its cache")] = None
    inference_geo: Annotated[Any, AllowedValues((), "there is only this server")] = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_threads(cls, body: Any) -> Any:
        if isinstance(body, Mapping) and body.get("thread") is not None:
            message = "this server does not store conversations: send all messages, without thread"
            raise RequestError(message, param="thread", code=_NO_THREADS)
        return body

    @model_validator(mode="after")
    def _check_budget(self) -> Self:
        if isinstance(self.thinking, _ThinkingEnabled) and self.thinking.budget_tokens >= self.max_tokens:
            numbers = f"budget_tokens={self.thinking.budget_tokens} and max_tokens={self.max_tokens}"
            message = f"{numbers} cannot be combined: thinking counts as output, so raise max_tokens"
            raise RequestError(message, param="thinking.budget_tokens")
        return self

    def chat_body(self) -> dict[str, Any]:
        """See `CountTokensRequest.chat_body`."""
        names = {*ConstraintFields.model_fields, "max_tokens", "temperature", "top_p", "top_k"} - {"response_format"}
        body = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        body |= {"stop": self.stop_sequences} if self.stop_sequences else {}
        return body | super().chat_body()


def _to_chat_function(tool: _Tool) -> dict[str, Any]:
    """A tool as a function of a chat completion."""
    function = {"name": tool.name, "description": tool.description, "strict": tool.strict}
    return {name: value for name, value in function.items() if value is not None} | {"parameters": tool.input_schema}


def _flatten_tool_path(match: re.Match[str]) -> str:
    return f"{match[1]}/input_schema" if match[2] else match[1]


def _refuse_unanswered(calls: Mapping[str, str]) -> None:
    """Refuse calls without a result. `calls`: id -> location."""
    for id, location in calls.items():
        message = f"{location}: the next message must begin with a tool_result for the call {brief(id)}"
        raise RequestError(message, param=location)
