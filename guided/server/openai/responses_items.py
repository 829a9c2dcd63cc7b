"""The items of a conversation in /v1/responses. In: JSON. Out: messages, calls and their outputs, reasoning.

The `type` of an item determines the class that reads it, so errors concern that class alone. Clients can send the items
of an answer back unchanged: fields that the model does not see (`id`, `status`, ...) are accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field

from guided.server.openai.reading import StrictModel, read_by_type

__all__ = ["INPUT_ITEMS", "CallItem", "CallOutputItem", "InputItem", "MessageItem", "ReasoningItem"]

_Status: TypeAlias = Literal["in_progress", "completed", "incomplete"] | None


class _InputText(StrictModel):
    type: Literal["input_text"]
    text: str


class _OutputText(StrictModel):
    type: Literal["output_text"]
    text: str
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None
    parsed: Any = None


class _Refusal(StrictModel):
    type: Literal["refusal"]
    refusal: str

    @property
    def text(self) -> str:
        return self.refusal


class _ReasoningText(StrictModel):
    type: Literal["reasoning_text"]
    text: str


class _SummaryText(StrictModel):
    type: Literal["summary_text"]
    text: str


_PARTS: Final[Mapping[str, type[BaseModel]]] = {
    "input_text": _InputText,
    "output_text": _OutputText,
    "refusal": _Refusal,
}
_ONLY_TEXT: Final = "this server accepts only text: write input_text"


def _read_parts(field: str) -> BeforeValidator:
    def read(value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return [read_by_type(f"{field}.{i}", part, _PARTS, other_hint=_ONLY_TEXT) for i, part in enumerate(value)]

    return BeforeValidator(read)


_Parts: TypeAlias = list[_InputText | _OutputText | _Refusal]


class MessageItem(StrictModel):
    """A message in a conversation."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: Annotated[str | _Parts, _read_parts("content")]
    id: str | None = None
    status: _Status = None
    phase: str | None = None

    @property
    def plain_text(self) -> str:
        """The text of all parts."""
        return _join_texts(self.content)


class CallItem(StrictModel):
    """A function call; `arguments` is JSON text."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    id: str | None = None
    status: _Status = None
    parsed_arguments: Any = None


class CallOutputItem(StrictModel):
    """The result of a function call."""

    type: Literal["function_call_output"]
    call_id: str
    output: Annotated[str | _Parts, _read_parts("output")]
    id: str | None = None
    status: _Status = None

    @property
    def plain_text(self) -> str:
        """The text of all parts."""
        return _join_texts(self.output)


class ReasoningItem(StrictModel):
    """The model's reasoning before the next item."""

    type: Literal["reasoning"]
    id: str | None = None
    summary: list[_SummaryText] = Field(default_factory=list)
    content: list[_ReasoningText] | None = None
    encrypted_content: None = None
    status: _Status = None

    @property
    def plain_text(self) -> str:
        """The text of all parts."""
        return _join_texts(self.content or self.summary)


InputItem: TypeAlias = MessageItem | CallItem | CallOutputItem | ReasoningItem
INPUT_ITEMS: Final[Mapping[str, type[BaseModel]]] = {
    "message": MessageItem,
    "function_call": CallItem,
    "function_call_output": CallOutputItem,
    "reasoning": ReasoningItem,
}


def _join_texts(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content)
