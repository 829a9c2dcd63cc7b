"""What an answer says, part by part. In: the events of one sample. Out: deltas: reasoning, text, and calls of tools.

    events of the engine  ->  Reading.read  ->  deltas  ->  chunks of /v1/chat/completions, events of /v1/responses

Every way of answering is made of these deltas, so a stream and a whole answer say the same. Put together, the deltas
of a kind are what the `Reading` holds at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from guided.engine.result import Result, StreamEvent

__all__ = ["CallArguments", "CallBegin", "Delta", "FunctionCall", "Reading", "ReasoningText", "Text"]


@dataclass(frozen=True, slots=True)
class ReasoningText:
    """What the model thinks before it answers."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """A part of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegin:
    """A call begins. `index`: its number in the answer, from 0."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """A part of the arguments of a call: JSON text, which goes on where the part before ended."""

    index: int
    text: str


Delta: TypeAlias = ReasoningText | Text | CallBegin | CallArguments


@dataclass(slots=True)
class FunctionCall:
    """A call that the answer makes; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str = ""


class Reading:
    """What one sample has said so far.

    Attributes:
        reasoning, text, calls: of it.
        result: of the engine, once it has come.
    """

    def __init__(self) -> None:
        self.reasoning = self.text = ""
        self.calls = list[FunctionCall]()
        self.result: Result | None = None

    def read(self, event: StreamEvent) -> list[Delta]:
        """What an event adds."""
        if event.result is not None:
            self.result = event.result
        if not event.text:
            return []
        if event.reasoning:
            self.reasoning += event.text
            return [ReasoningText(event.text)]
        self.text += event.text
        return [Text(event.text)]

    @property
    def finish_reason(self) -> Literal["stop", "length", "tool_calls"] | None:
        """Why it ended, as OpenAI's interface says it; None: it has not."""
        if self.result is None:
            return None
        return "tool_calls" if self.calls and self.result.finish_reason == "stop" else self.result.finish_reason
