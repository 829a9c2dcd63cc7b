"""What a conversation with tools produces: events while it runs, and a result at the end."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias

from guided.engine.result import FinishReason, Result, TextSoFar, ValueT_co

__all__ = [
    "CallArguments", "CallResult", "CallStarted", "ChatDone", "ChatEvent", "ChatResult", "FunctionCall",
    "ReasoningDelta", "TextDelta",
]  # fmt: skip


@dataclass(slots=True)
class FunctionCall:
    """A call of a function.

    Attributes:
        id: unique in the conversation.
        name: the tool's name.
        text: the arguments as JSON.
        arguments: the arguments with the types of the parameters; None: a type rejected them (see `error`).
        value: what the function returned.
        result: the text that the model reads: the value, or "error: ..." with the exception's message.
        error: the exception that the function raised, or that a type raised when it rejected the arguments.
    """

    id: str
    name: str
    text: str
    arguments: inspect.BoundArguments | None = None
    value: Any = None
    result: str = ""
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """New text of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """New text of the reasoning before an answer."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """The model has begun to write a call."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """New arguments of a call: JSON text that continues the previous text."""

    id: str
    text: str
    so_far: TextSoFar = field(repr=False, compare=False)

    @property
    def partial(self) -> Any:
        """The arguments so far as a dict, including an unfinished string. Cost: linear in their text."""
        return self.so_far.value


@dataclass(frozen=True, slots=True)
class CallResult:
    """A function has returned or raised; the model reads `call.result` next."""

    call: FunctionCall


@dataclass(frozen=True, slots=True)
class ChatDone:
    """The last event."""

    result: ChatResult


ChatEvent: TypeAlias = TextDelta | ReasoningDelta | CallStarted | CallArguments | CallResult | ChatDone


@dataclass(frozen=True, slots=True)
class ChatResult(Generic[ValueT_co]):
    """The result of `Engine.chat`. Its type parameter, as in `Result`, tells type checkers the type of the value.

    Attributes:
        text: the text of the last message.
        value: the value of this text (`Result.value`) if there is a constraint, otherwise None.
        messages: the whole conversation, with the calls, the results and the last message. A later `chat` may continue
            it.
        tool_calls: all calls of this turn in order, including those of `guided.Tool`s.
        results: the engine's result for each message that the model wrote.
    """

    text: str
    value: ValueT_co
    messages: list[dict[str, Any]]
    tool_calls: list[FunctionCall]
    results: list[Result]

    @property
    def finish_reason(self) -> FinishReason:
        """Why the last message ended."""
        return self.results[-1].finish_reason

    def __repr__(self) -> str:
        return f"ChatResult({self.text!r}, {len(self.tool_calls)} calls, {len(self.messages)} messages)"
