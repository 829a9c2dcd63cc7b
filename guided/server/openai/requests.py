"""The fields of all requests that generate text, and requests to /v1/chat/completions. In: JSON. Out: engine options.

Fields have OpenAI's names, or vLLM's and SGLang's if OpenAI has no such field. Unknown fields are refused, and the
error suggests a similar name. The server accepts fields that OpenAI's clients send although they do not affect the text
(`user`, `metadata`, `store`, ...), and fields that these clients add to the messages that they send back. Fields with
only one accepted value are in ignored_fields.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, WrapValidator, field_validator, model_validator

from guided.errors import brief
from guided.sampling.params import REPETITION_PENALTIES
from guided.server.http.errors import RequestError
from guided.server.openai.ignored_fields import IgnoredFields, IgnoredInConversations
from guided.server.openai.reading import StrictModel, fault, read_request, validate_in_parts
from guided.server.openai.structured import KINDS, StructuredOutput, read_structured_output

__all__ = [
    "MAX_TOOLS",
    "ChatRequest",
    "ConstraintFields",
    "Count",
    "Counts",
    "Message",
    "StreamOptions",
    "TextRequest",
    "read_request",
    "remove_stops",
]

_MAX_CHOICES = 128
MAX_TOOLS: Final = 512
_MAX_STOPS = 128  # the engine searches for each stop string after each token
_STOPS = ("stop", "stop_token_ids", "ignore_eos")
_SEEDS: Final = range(-(2**63), 2**64)  # OpenAI's seeds are signed, the engine's are not
Count = Annotated[int, Field(ge=0, strict=True)]
Counts = Annotated[
    list[Count], Field(fail_fast=True)
]  # stop at the first error: a million errors would take half a minute and gigabytes
_Text = Annotated[Any, WithJsonSchema({"type": ["string", "null"]})]
_Object = Annotated[Any, WithJsonSchema({"type": ["object", "null"]})]
_Schema = Annotated[
    Any,
    WithJsonSchema({"type": ["object", "boolean", "string", "null"], "description": "a JSON Schema, or its text"}),
]
_PART: dict[str, Any] = {
    "type": "object",
    "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
    "required": ["type", "text"],
    "additionalProperties": False,
}
_CONTENT: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "array", "items": _PART}, {"type": "null"}]}


class StreamOptions(StrictModel):
    """What a stream contains in addition to the text.

    `include_partial_json`: each chunk says how to complete the JSON so far.
    """

    include_usage: bool = False
    continuous_usage_stats: bool = False
    include_partial_json: bool = False
    include_obfuscation: bool = False  # sent by OpenAI's clients; this server does not obfuscate


class ConstraintFields(StrictModel):
    """Fields that constrain the text. structured.py checks their values."""

    hints = {name: f'write "structured_outputs": {{"{name}": ...}}' for name in KINDS}  # noqa: RUF012

    response_format: _Object = None
    structured_outputs: _Object = None
    guided_json: _Schema = None
    guided_regex: _Text = None
    guided_choice: Annotated[
        Any, WithJsonSchema({"type": ["array", "null"], "items": {"type": "string"}, "minItems": 1})
    ] = None
    guided_grammar: _Text = None
    guided_json_object: Annotated[Any, WithJsonSchema({"type": ["boolean", "null"]})] = None
    guided_whitespace_pattern: _Text = None
    guided_decoding_backend: Annotated[Any, Field(description="ignored: there is only one backend")] = None
    json_schema: _Schema = None
    regex: _Text = None
    ebnf: _Text = None
    structural_tag: Annotated[Any, WithJsonSchema({"type": ["object", "string", "null"]})] = None
    lark: _Text = None
    gbnf: _Text = None
    grammar: _Text = None

    def structured_output(self, *, allow_special_tokens: bool) -> StructuredOutput:
        """The constraint on the text. Raises the errors of `read_structured_output`."""
        fields = {name: getattr(self, name) for name in ConstraintFields.model_fields}
        return read_structured_output(fields, allow_special_tokens=allow_special_tokens)


_RepetitionPenalty = Annotated[float, Field(ge=REPETITION_PENALTIES[0], le=REPETITION_PENALTIES[1])]


def _allow_null(schema: dict[str, Any]) -> None:
    """Let optional fields be null in the JSON Schema; see `TextRequest`."""
    for name, property in schema["properties"].items():
        types = [
            branch["type"] for branch in (property, *property.get("anyOf", ())) if "type" in branch
        ]  # empty: any value is allowed
        if name not in schema.get("required", ()) and types and not any("null" in type for type in types):
            schema["properties"][name] = {"anyOf": [property, {"type": "null"}]}


class TextRequest(ConstraintFields, IgnoredFields):
    """The common fields of requests that generate text. A null field counts as absent, as in OpenAI's API."""

    model_config = ConfigDict(json_schema_extra=_allow_null)

    model: str | None = None
    n: Annotated[int, Field(ge=1, le=_MAX_CHOICES, strict=True)] = 1
    max_tokens: Annotated[int, Field(ge=1, strict=True)] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    repetition_penalty: _RepetitionPenalty | None = None
    logit_bias: Annotated[dict[Annotated[int, Field(strict=False)], float], WrapValidator(validate_in_parts)] | None = (
        None
    )
    allowed_token_ids: Counts | None = None
    seed: Annotated[int, Field(strict=True)] | None = None
    stop: str | Annotated[list[str], Field(max_length=_MAX_STOPS, fail_fast=True)] | None = None
    stop_token_ids: Counts | None = None
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    min_tokens: Count | None = None
    canonical: bool | None = None
    priority: int = 0
    rid: str | None = None
    return_token_ids: bool = False
    return_fields: bool = False

    user: str | None = None
    metadata: dict[str, Any] | None = None
    store: bool | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, body: Any) -> Any:
        """Drop nulls, but refuse an unknown name even if its value is null."""
        if not isinstance(body, dict):
            return body
        return {name: value for name, value in body.items() if value is not None or name not in cls.model_fields}

    @model_validator(mode="after")
    def _check_stream_options(self) -> Self:
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options requires stream=true")
        return self

    @property
    def stops(self) -> list[str]:
        """The names of the stop options that the request sets."""
        return [name for name in _STOPS if getattr(self, name) not in (None, False, [])]

    def stop_warnings(self, constraint: str, *, allows_free_text: bool) -> dict[str, str]:
        """Warnings about stop options that have no or little effect, because of a constraint: field -> message.

        Args:
            constraint: what constrains the answer, as a clause.
            allows_free_text: whether the answer contains free text, in which stop strings work.
        """
        messages = {name: f"{name} has no effect: it ends free text, but {constraint}" for name in self.stops}
        if allows_free_text and "stop" in messages:
            messages["stop"] = f"stop ends free text only: {constraint}"
        return messages

    def options(self) -> dict[str, Any]:
        """The sampling options that the request sets, by the engine's names, and the temperature."""
        names = (
            "top_p", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias", "seed",
            "stop", "allowed_token_ids", "stop_token_ids", "include_stop_str_in_output", "ignore_eos", "min_tokens",
            "canonical",
        )  # fmt: skip
        options = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.seed is not None and _SEEDS.start <= self.seed < 0:
            options["seed"] = self.seed % 2**64
        if self.top_k is not None and self.top_k > 0:  # -1 and 0: no limit
            options["top_k"] = self.top_k
        return options | {"temperature": 1.0 if self.temperature is None else self.temperature}


def remove_stops(options: Mapping[str, Any], *, keep: Sequence[str] = ()) -> dict[str, Any]:
    """The options without stop options, except those in `keep`."""
    return {name: value for name, value in options.items() if name not in _STOPS or name in keep}


class _CalledFunction(StrictModel):
    name: str
    arguments: str
    parsed_arguments: Any = None


class _Call(StrictModel):
    id: str
    type: Literal["function"] = "function"
    function: _CalledFunction
    index: int | None = None


class Message(StrictModel):
    """A message in a conversation."""

    role: str
    content: Annotated[str | None, WithJsonSchema(_CONTENT)] = None
    name: str | None = None
    refusal: str | None = None
    tool_calls: Annotated[list[_Call], Field(fail_fast=True)] | None = None
    tool_call_id: str | None = None
    reasoning: str | None = None  # in earlier turns; the chat template decides how much of it is shown to the model
    reasoning_content: str | None = None
    parsed: Any = None
    tool_results: Any = None
    annotations: Any = None
    audio: None = None
    function_call: None = None

    @field_validator("content", mode="before")
    @classmethod
    def _join_text_parts(cls, content: Any) -> Any:
        """Join the texts of all parts. Parts have no pydantic model, since a large body may contain many of them."""
        if not isinstance(content, list):
            return content
        for number, part in enumerate(content):
            kind = part.get("type") if isinstance(part, dict) else part
            if kind != "text":
                hint = 'this server accepts only text: write {"type": "text", "text": ...}'
                raise ValueError(f"part {number} has the type {brief(kind)}; {hint}")
            if part.keys() != {"type", "text"} or not isinstance(part["text"], str):
                raise ValueError(f"part {number} must have a string as text, and no other members")
        return "".join(part["text"] for part in content)

    def to_engine_message(self) -> dict[str, Any]:
        """The message in the engine's form."""
        role = "system" if self.role == "developer" else self.role
        message: dict[str, Any] = {"role": role, "content": self.content or ""}
        if self.tool_calls:
            calls = [
                (call.id, {"name": call.function.name, "arguments": call.function.arguments})
                for call in self.tool_calls
            ]
            message["tool_calls"] = [{"id": id, "type": "function", "function": function} for id, function in calls]
        if self.tool_call_id is not None:
            message["tool_call_id"] = self.tool_call_id
        if self.role == "assistant" and (reasoning := self.reasoning_content or self.reasoning):
            message["reasoning_content"] = reasoning
        return message


class TemplateVariables(BaseModel):
    """`chat_template_kwargs`: variables for the model's chat template. Variables that it does not read are refused.

    Qwen's and DeepSeek's names, `enable_thinking` and `thinking`, decide whether the model reasons before it answers.
    """

    model_config = ConfigDict(extra="allow", strict=True)
    enable_thinking: bool | None = None
    thinking: bool | None = None

    @property
    def is_reasoning_on(self) -> bool | None:
        """Whether reasoning is on; None: not specified."""
        return self.enable_thinking if self.enable_thinking is not None else self.thinking

    @property
    def other_variables(self) -> dict[str, Any]:
        """The variables that do not control reasoning."""
        return dict(self.model_extra or {})


class ChatRequest(TextRequest, IgnoredInConversations):
    """A request to /v1/chat/completions."""

    messages: Annotated[list[Message], Field(min_length=1, fail_fast=True)]
    max_completion_tokens: Annotated[int, Field(ge=1, strict=True)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20, strict=True)] | None = None
    tools: Annotated[list[Any], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    chat_template_kwargs: TemplateVariables | None = None
    documents: Annotated[list[dict[str, Any]], Field(max_length=MAX_TOOLS)] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool = False
    reasoning_effort: str | None = None
    include_reasoning: bool = True
    describe: bool | None = None
    think_first: Annotated[int, Field(ge=1, strict=True)] | Literal["answer"] | None = None
    separate_reasoning: Literal[True] = True

    @model_validator(mode="after")
    def _check_length(self) -> Self:
        if None not in (limits := {self.max_tokens, self.max_completion_tokens}) and len(limits) > 1:
            given_fields = f"max_tokens={self.max_tokens} and max_completion_tokens={self.max_completion_tokens}"
            raise fault(f"{given_fields} contradict each other: give only one", "max_tokens")
        return self

    @model_validator(mode="after")
    def _check_tools(self) -> Self:
        self.tools = self.tools or None  # an empty list means no tools
        if self.tools is None and self.tool_choice not in (None, "none", "auto"):
            raise ValueError("tool_choice requires tools")
        return self

    @model_validator(mode="after")
    def _check_messages(self) -> Self:
        """Check that each tool result answers an earlier call."""
        call_ids = set[str]()
        for number, message in enumerate(self.messages):
            if message.content is None and message.role != "assistant":
                raise fault(f"message {number} has no content", f"messages.{number}.content")
            if message.tool_calls and message.role != "assistant":
                raise fault(
                    f"message {number} has tool_calls, but its role is not assistant", f"messages.{number}.tool_calls"
                )
            call_ids |= {call.id for call in message.tool_calls or ()}
            if (message.role == "tool") != (message.tool_call_id is not None):
                problem = "messages with the role tool need a tool_call_id, and other messages cannot have one"
                raise fault(f"message {number}: {problem}", f"messages.{number}.tool_call_id")
            if message.tool_call_id is not None and message.tool_call_id not in call_ids:
                problem = f"no earlier call has the id {brief(message.tool_call_id)}"
                raise fault(f"message {number}: {problem}", f"messages.{number}.tool_call_id")
        return self

    @model_validator(mode="after")
    def _check_continuation(self) -> Self:
        if self.continue_final_message and (self.add_generation_prompt or self.messages[-1].role != "assistant"):
            message = "continue_final_message requires a final assistant message and add_generation_prompt=false"
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _check_logprobs(self) -> Self:
        if self.top_logprobs and not self.logprobs:
            raise fault("top_logprobs requires logprobs=true", "top_logprobs")
        return self

    @property
    def call_ids(self) -> list[str]:
        """The ids of all calls in the conversation, in order."""
        return [call.id for message in self.messages for call in message.tool_calls or ()]

    @property
    def top(self) -> int | None:
        """See `CompletionRequest.top`."""
        return (self.top_logprobs or 0) if self.logprobs else None

    def wants_reasoning(self) -> bool | None:
        """Whether the model should reason before it answers; None: the model's default.

        Raises:
            RequestError: reasoning_effort is not supported, or contradicts chat_template_kwargs.
        """
        is_reasoning_on = self.chat_template_kwargs.is_reasoning_on if self.chat_template_kwargs is not None else None
        if self.reasoning_effort is None:
            return is_reasoning_on
        if self.reasoning_effort != "none":
            message = 'only the reasoning_effort "none" is supported: the length of reasoning is limited by max_tokens'
            raise RequestError(message, param="reasoning_effort")
        if is_reasoning_on:
            message = "chat_template_kwargs turns reasoning on, but reasoning_effort turns it off"
            raise RequestError(message, param="reasoning_effort")
        return False

    def engine_options(self, max_tokens: int) -> dict[str, Any]:
        """The sampling options and the maximum number of tokens. `max_tokens`: the default if the request sets none."""
        token_limit = self.max_completion_tokens or self.max_tokens or max_tokens
        scores = {"logprobs": self.top_logprobs or 0, "score_forced": True} if self.logprobs else {}
        return self.options() | {"max_tokens": token_limit} | scores
