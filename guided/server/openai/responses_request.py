"""Requests to /v1/responses. In: JSON. Out: an equivalent request to /v1/chat/completions.

    input, instructions  ->  messages            text.format          ->  response_format
    tools (flat)         ->  tools               max_output_tokens    ->  max_tokens
    include, top_logprobs -> logprobs            reasoning.effort     ->  reasoning_effort

requests.py reads most fields for both routes. Errors use the field names of the original request. The server stores
nothing, and the only tools are functions that the client calls. Other features are refused with a hint. Reasoning that
a client sends back is added to the message that follows it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WrapValidator, model_validator

from guided.errors import brief
from guided.server.http.errors import RequestError
from guided.server.openai.converted_request import ConvertedRequest
from guided.server.openai.reading import StrictModel, read_by_type, validate_in_parts
from guided.server.openai.requests import MAX_TOOLS, StreamOptions, TextRequest
from guided.server.openai.responses_items import (
    INPUT_ITEMS,
    CallItem,
    CallOutputItem,
    InputItem,
    MessageItem,
    ReasoningItem,
)

__all__ = ["InputTokensRequest", "ResponsesRequest"]

_NOT_STORED: Final = "this server does not store responses; send all items of the conversation as input"
_REFUSED_FIELDS: Final = {
    "previous_response_id": _NOT_STORED,
    "conversation": _NOT_STORED,
    "prompt": "this server does not store prompts; write instructions and input",
    "background": "this server does not store responses; wait for the answer, or stream it",
    "max_tool_calls": "it limits tool calls by the server, but this server calls no tools: leave it out",
    "max_tokens": "it is called max_output_tokens here",
    "max_completion_tokens": "it is called max_output_tokens here",
    "response_format": "it is called text.format here",
    "messages": "it is called input here",
    "n": "a response has only one answer: send several requests, or use /v1/chat/completions",
    "logprobs": 'write include=["message.output_text.logprobs"]',
}
_ACCEPTED_VALUES: Final = {"background": "False", "n": "1"}
_LOGPROBS_ITEM: Final = "message.output_text.logprobs"
_RENAMES: Final = (
    (re.compile(r"\bresponse_format(\.json_schema)?(?![\w-])"), "text.format"),
    (re.compile(r"\bmax(_completion)?_tokens\b"), "max_output_tokens"),
    (re.compile(r"\breasoning_effort\b"), "reasoning.effort"),
    (re.compile(r"\b(tools[./]\d+|tool_choice)[./]function(?=[./]|$)"), r"\1"),
)
"""Names of fields in /v1/chat/completions -> names of the same fields here."""


# ---- the format of the text
class _Text(StrictModel):
    type: Literal["text"]


class _JsonObject(StrictModel):
    type: Literal["json_object"]


class _JsonSchema(StrictModel):
    type: Literal["json_schema"]
    name: str
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    description: str | None = None
    strict: bool | None = None


class _Lark(StrictModel):
    type: Literal["lark"]
    lark: str


class _Gbnf(StrictModel):
    type: Literal["gbnf"]
    gbnf: str


class _Regex(StrictModel):
    type: Literal["regex"]
    regex: str


class _Grammar(StrictModel):
    type: Literal["grammar"]
    grammar: str


class _StructuralTag(StrictModel):
    model_config = ConfigDict(extra="allow")
    type: Literal["structural_tag"]


_FORMATS: Final[Mapping[str, type[BaseModel]]] = {
    "text": _Text,
    "json_object": _JsonObject,
    "json_schema": _JsonSchema,
    "structural_tag": _StructuralTag,
    "lark": _Lark,
    "gbnf": _Gbnf,
    "regex": _Regex,
    "grammar": _Grammar,
}
_Format = _Text | _JsonObject | _JsonSchema | _StructuralTag | _Lark | _Gbnf | _Regex | _Grammar


def _read_format(value: Any) -> Any:
    return None if value is None else read_by_type("text.format", value, _FORMATS)


class _TextConfig(StrictModel):
    format: Annotated[_Format | None, BeforeValidator(_read_format)] = None
    verbosity: Literal["medium"] | None = None

    @property
    def chat_format(self) -> dict[str, Any] | None:
        """The format in the form of `response_format`."""
        if self.format is None:
            return None
        fields = _to_json(self.format)
        if fields["type"] != "json_schema":
            return fields
        return {"type": fields.pop("type"), "json_schema": fields}


# ---- tools
class _Function(StrictModel):
    type: Literal["function"]
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class _Choice(StrictModel):
    type: Literal["function"]
    name: str


class _AllowedTools(StrictModel):
    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: Annotated[list[_Choice], Field(max_length=MAX_TOOLS, fail_fast=True)]


_ONLY_FUNCTIONS: Final = "this server does not call tools: describe a function, and call it in the client"


def _read_tools(value: Any) -> Any:
    if not isinstance(value, list) or len(value) > MAX_TOOLS:
        return value
    kinds = {"function": _Function}
    return [
        read_by_type(f"tools.{number}", tool, kinds, other_hint=_ONLY_FUNCTIONS) for number, tool in enumerate(value)
    ]


def _read_tool_choice(value: Any) -> Any:
    kinds: dict[str, type[BaseModel]] = {"function": _Choice, "allowed_tools": _AllowedTools}
    if isinstance(value, str) and value not in ("none", "auto", "required"):
        message = f"tool_choice must be none, auto, required or a tool, not {brief(value)}"
        raise RequestError(message, param="tool_choice")
    return (
        value
        if value is None or isinstance(value, str)
        else read_by_type("tool_choice", value, kinds, other_hint=_ONLY_FUNCTIONS)
    )


def _read_items(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        raise RequestError(f"input must be a string, or a list of at least one item, not {brief(value)}", param="input")
    reasons = {"item_reference": _NOT_STORED}
    return [
        read_by_type(f"input.{number}", item, INPUT_ITEMS, default="message", reasons=reasons)
        for number, item in enumerate(value)
    ]


class _Reasoning(StrictModel):
    effort: str | None = None  # `ChatRequest` checks the values
    summary: None = None
    generate_summary: None = None


class InputTokensRequest(ConvertedRequest):
    """A request to /v1/responses/input_tokens: the fields that determine the prompt."""

    renames = _RENAMES
    input: Annotated[str | Annotated[list[InputItem], Field(min_length=1)], BeforeValidator(_read_items)]
    instructions: str | None = None
    text: _TextConfig | None = None
    tools: Annotated[
        Annotated[list[_Function], Field(max_length=MAX_TOOLS, fail_fast=True)] | None, BeforeValidator(_read_tools)
    ] = None
    tool_choice: Annotated[
        Literal["none", "auto", "required"] | _Choice | _AllowedTools | None, BeforeValidator(_read_tool_choice)
    ] = None
    parallel_tool_calls: bool | None = None
    reasoning: _Reasoning | None = None
    truncation: Literal["auto", "disabled"] | None = None  # with "auto", too, a prompt that does not fit is refused
    previous_response_id: None = None
    conversation: None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_fields(cls, body: Any) -> Any:
        for name, reason in _REFUSED_FIELDS.items() if isinstance(body, Mapping) else ():
            if body.get(name) is not None and repr(body[name]) != _ACCEPTED_VALUES.get(name):
                raise RequestError(f"{name}: {reason}", param=name)
        return body

    def rename_pointer(self, pointer: str) -> str:
        """See `ConvertedRequest`."""
        return re.sub(r"^(tools/\d+)/function(?=/|$)", r"\1", pointer)

    def chat_body(self) -> dict[str, Any]:
        """See `ConvertedRequest`."""
        format = self.text.chat_format if self.text is not None else None
        body: dict[str, Any] = {"model": self.model, "messages": self.chat_messages()[0]}
        body |= {} if format is None else {"response_format": format}
        if self.tools:
            tools = [_to_json(tool) for tool in self.tools]
            body["tools"] = [{"type": tool.pop("type"), "function": tool} for tool in tools]
            body |= {} if self.parallel_tool_calls is None else {"parallel_tool_calls": self.parallel_tool_calls}
            body |= {} if self.tool_choice is None else {"tool_choice": _to_chat_choice(self.tool_choice)}
        elif self.tool_choice not in (None, "none", "auto"):
            raise RequestError("tool_choice requires tools", param="tool_choice")
        if self.reasoning is not None and self.reasoning.effort is not None:
            body["reasoning_effort"] = self.reasoning.effort
        return body

    def chat_messages(self) -> tuple[list[dict[str, Any]], list[str]]:
        """See `ConvertedRequest`."""
        messages, locations = list[dict[str, Any]](), list[str]()
        if self.instructions is not None:
            messages.append({"role": "system", "content": self.instructions})
            locations.append("instructions")
        if isinstance(self.input, str):
            return [*messages, {"role": "user", "content": self.input}], [*locations, "input"]
        open_message: dict[str, Any] | None = None  # an assistant message to which further items may be added
        for number, item in enumerate(self.input):
            if open_message is None or not _continues_message(open_message, item):
                open_message = {"role": "assistant", "content": ""}
                messages.append(open_message)
                locations.append(f"input.{number}")
            match item:
                case MessageItem():
                    open_message |= {"role": item.role, "content": item.plain_text}
                case ReasoningItem():
                    open_message["reasoning"] = item.plain_text
                case CallItem():
                    function = {"name": item.name, "arguments": item.arguments}
                    call = {"id": item.call_id, "type": "function", "function": function}
                    open_message.setdefault("tool_calls", []).append(call)
                case CallOutputItem():
                    open_message |= {"role": "tool", "tool_call_id": item.call_id, "content": item.plain_text}
            open_message = open_message if open_message["role"] == "assistant" else None
        return messages, locations


class _ResponseStreamOptions(StreamOptions):
    include_usage: Literal[False] = False
    continuous_usage_stats: Literal[False] = False
    include_partial_json: Literal[False] = False


class ResponsesRequest(InputTokensRequest, TextRequest):
    """A request to /v1/responses."""

    max_output_tokens: Annotated[int, Field(ge=1, strict=True)] | None = None
    include: (
        Annotated[
            # Reasoning items contain their text, so clients need no encrypted content to send them back.
            list[Literal["message.output_text.logprobs", "reasoning.encrypted_content"]],
            Field(max_length=MAX_TOOLS, fail_fast=True),
        ]
        | None
    ) = None
    top_logprobs: Annotated[int, Field(ge=0, le=20, strict=True)] | None = None
    metadata: Annotated[dict[str, str], WrapValidator(validate_in_parts)] | None = None
    service_tier: Literal["auto", "default"] | None = None
    stream_options: _ResponseStreamOptions | None = None
    prompt: None = None
    background: Literal[False] | None = None
    max_tool_calls: None = None
    n: Literal[1] = 1
    return_token_ids: Literal[False] = False
    return_fields: Literal[False] = False
    max_tokens: None = None
    response_format: None = None

    @property
    def top(self) -> int | None:
        """See `ChatRequest.top`."""
        return (self.top_logprobs or 0) if _LOGPROBS_ITEM in (self.include or ()) else None

    @model_validator(mode="after")
    def _check_top_logprobs(self) -> ResponsesRequest:
        if self.top_logprobs and self.top is None:
            raise RequestError(f'top_logprobs requires include=["{_LOGPROBS_ITEM}"]', param="top_logprobs")
        return self

    def chat_body(self) -> dict[str, Any]:
        """See `InputTokensRequest.chat_body`."""
        own_fields = InputTokensRequest.model_fields.keys() | {
            "metadata", "service_tier", "stream_options", "n", "max_tokens", "response_format", "store",
        }  # fmt: skip
        common_names = [
            name for name in TextRequest.model_fields if name in self.model_fields_set and name not in own_fields
        ]
        body = {name: getattr(self, name) for name in common_names} | super().chat_body()
        body |= {} if self.max_output_tokens is None else {"max_tokens": self.max_output_tokens}
        body |= {} if self.top is None else {"logprobs": True, "top_logprobs": self.top}
        return body

    def echoed_fields(self) -> dict[str, Any]:
        """The fields of the request that the answer repeats. Formats that OpenAI does not have are reported as text."""
        format = self.text.format if self.text is not None else None
        choice = self.tool_choice.model_dump() if isinstance(self.tool_choice, BaseModel) else self.tool_choice
        return {
            "background": False,
            "instructions": self.instructions,
            "max_output_tokens": self.max_output_tokens,
            "max_tool_calls": None,
            "metadata": self.metadata or {},
            "parallel_tool_calls": self.parallel_tool_calls is not False,
            "previous_response_id": None,
            "prompt_cache_key": self.prompt_cache_key,
            "reasoning": {"effort": self.reasoning.effort if self.reasoning is not None else None, "summary": None},
            "safety_identifier": self.safety_identifier,
            "service_tier": "default",
            "store": False,
            "temperature": 1.0 if self.temperature is None else self.temperature,
            "text": {"format": _to_json(format) if isinstance(format, _JsonObject | _JsonSchema) else {"type": "text"}},
            "tool_choice": choice or "auto",
            "tools": [tool.model_dump() for tool in self.tools or ()],
            "top_logprobs": self.top_logprobs or 0,
            "top_p": 1.0 if self.top_p is None else self.top_p,
            "truncation": "disabled",
            "user": self.user,
        }


def _continues_message(open_message: Mapping[str, Any], item: InputItem) -> bool:
    """Whether an item continues the assistant's open message: reasoning, then text, then calls."""
    match item:
        case CallItem():
            return True
        case MessageItem(role="assistant"):
            return open_message.keys() == {"role", "content", "reasoning"} and not open_message["content"]
    return False


def _to_chat_choice(choice: str | _Choice | _AllowedTools) -> Any:
    if isinstance(choice, str):
        return choice
    if isinstance(choice, _Choice):
        return {"type": "function", "function": {"name": choice.name}}
    choice_fields = {"mode": choice.mode, "tools": [_to_chat_choice(tool) for tool in choice.tools]}
    return {"type": "allowed_tools", "allowed_tools": choice_fields}


def _to_json(model: BaseModel) -> dict[str, Any]:
    """The fields of an object that are not null, by their JSON names."""
    fields = {info.alias or name: getattr(model, name) for name, info in type(model).model_fields.items()}
    return {name: value for name, value in fields.items() if value is not None} | (model.model_extra or {})
