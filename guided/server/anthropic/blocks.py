"""The messages of /v1/messages and their content blocks. In: JSON. Out: messages in the form of chat completions.

    block               in messages of   chat completions
    text                every role       a part of the content
    tool_use            the assistant    a call; its input becomes JSON text
    tool_result         the user         a message of the role tool; "Error: " before the text of an error
    thinking            the assistant    reasoning
    redacted_thinking   the assistant    nothing, since only the API that wrote it can read it

Clients can send the content of an answer back unchanged. An assistant message becomes one message with all its text,
all its calls and all its reasoning, because each chat template writes them in its own order. `cache_control` has no
effect on answers: the server reuses prefixes of prompts automatically. `signature` is not checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field, ValidationInfo, field_validator

from guided.server.openai.ignored_fields import AllowedValues
from guided.server.openai.reading import StrictModel, read_by_type

__all__ = [
    "CacheControl", "InputMessage", "TextBlock", "TextContent", "ThinkingBlock", "ToolResultBlock", "ToolUseBlock",
    "join_texts", "read_texts_at",
]  # fmt: skip

_ONLY_TEXT: Final = 'this server reads only text: write {"type": "text", "text": ...}'
_NO_MEDIA: Final = 'images and documents are not supported: write {"type": "text", "text": ...}'
_NO_SETS: Final = "this server has no sets of tools"


class CacheControl(StrictModel):
    """Marks the end of a prefix of the prompt that should be cached."""

    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None


class TextBlock(StrictModel):
    """A block of text."""

    type: Literal["text"]
    text: str
    cache_control: CacheControl | None = None
    citations: Annotated[Any, AllowedValues(([],), "the model does not see citations")] = None


def read_texts_at(path: str) -> BeforeValidator:
    """A validator that reads a list of text blocks at this path, and leaves any other value as it is."""
    return BeforeValidator(lambda value: _read_block_list(path, value, {"text": TextBlock}))


def _read_block_list(path: str, value: Any, kinds: Mapping[str, type[BaseModel]], other_hint: str = _ONLY_TEXT) -> Any:
    if not isinstance(value, list):
        return value
    return [read_by_type(f"{path}.{number}", block, kinds, other_hint=other_hint) for number, block in enumerate(value)]


TextContent: TypeAlias = str | list[TextBlock]
"""A string, or text blocks."""


class ToolUseBlock(StrictModel):
    """A tool call."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]
    cache_control: CacheControl | None = None
    caller: Annotated[Any, AllowedValues(({"type": "direct"},), "only the model calls tools")] = None
    toolset_name: Annotated[Any, AllowedValues((), _NO_SETS)] = None

    @property
    def call(self) -> dict[str, Any]:
        """The call in the form of chat completions."""
        arguments = json.dumps(self.input, ensure_ascii=False)
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": arguments}}


class ToolResultBlock(StrictModel):
    """The result of a tool call."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: Annotated[TextContent | None, read_texts_at("content")] = None
    is_error: bool | None = None
    cache_control: CacheControl | None = None
    toolset_name: Annotated[Any, AllowedValues((), _NO_SETS)] = None

    @property
    def plain_text(self) -> str:
        """The text of the result. If `is_error`, it begins with "Error: ", since chat templates have no such field."""
        return ("Error: " if self.is_error else "") + join_texts(self.content or "")


class ThinkingBlock(StrictModel):
    """The model's reasoning."""

    type: Literal["thinking"]
    thinking: str
    signature: str


class RedactedThinkingBlock(StrictModel):
    """Reasoning that only Anthropic's API can read."""

    type: Literal["redacted_thinking"]
    data: str


_KINDS: Final[Mapping[str, Mapping[str, type[BaseModel]]]] = {
    "system": {"text": TextBlock},
    "user": {"text": TextBlock, "tool_result": ToolResultBlock},
    "assistant": {
        "text": TextBlock,
        "tool_use": ToolUseBlock,
        "thinking": ThinkingBlock,
        "redacted_thinking": RedactedThinkingBlock,
    },
}
_Block: TypeAlias = TextBlock | ToolUseBlock | ToolResultBlock | ThinkingBlock | RedactedThinkingBlock


class InputMessage(StrictModel):
    """A message in a conversation."""

    role: Literal["user", "assistant", "system"]
    content: str | Annotated[list[_Block], Field(fail_fast=True)]

    @field_validator("content", mode="before")
    @classmethod
    def _read_blocks(cls, value: Any, info: ValidationInfo) -> Any:
        """Read the blocks that messages with this role may have."""
        if (role := info.data.get("role")) is None:
            return value
        *first_kinds, last_kind = _KINDS[role]
        kinds = f"{', '.join(first_kinds)} and {last_kind}"
        other_hint = _ONLY_TEXT if role == "system" else f"blocks of the {role} are {kinds}; {_NO_MEDIA}"
        return _read_block_list("content", value, _KINDS[role], other_hint)

    def blocks(self, kind: type[_Block]) -> Iterator[tuple[int, Any]]:
        """The blocks of one type, with their indices."""
        content = self.content if isinstance(self.content, list) else ()
        return ((number, block) for number, block in enumerate(content) if isinstance(block, kind))

    def chat_messages(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The message as chat completion messages: its tool results, then its text. Each comes with its location in
        this message."""
        text = join_texts(self.content)
        results = list(self.blocks(ToolResultBlock))
        for number, result in results:
            yield (
                f".content.{number}",
                {"role": "tool", "tool_call_id": result.tool_use_id, "content": result.plain_text},
            )
        if results and not text:
            return
        message: dict[str, Any] = {"role": self.role, "content": text}
        if calls := [block.call for _, block in self.blocks(ToolUseBlock)]:
            message["tool_calls"] = calls
        if reasoning := "".join(block.thinking for _, block in self.blocks(ThinkingBlock)):
            message["reasoning"] = reasoning
        yield "", message


def join_texts(content: str | list[Any]) -> str:
    """The text of a message's content. The texts of its blocks are joined without a separator."""
    if isinstance(content, str):
        return content
    return "".join(block.text for block in content if isinstance(block, TextBlock))
