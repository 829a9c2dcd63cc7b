"""Reads a message while the model writes it. In: the engine's events. Out: deltas for the caller.

`AnswerSplitter` finds text, reasoning and calls. Cost: linear in the message.
"""

from __future__ import annotations

from collections.abc import Iterator

from guided.engine.agent.events import CallArguments, CallStarted, FunctionCall, ReasoningDelta, TextDelta
from guided.engine.answer_splitter import AnswerSplitter, AnswerText
from guided.engine.result import StreamEvent, TextSoFar
from guided.frontends.structural_tag.call_ids import CallIds
from guided.frontends.structural_tag.calls import CallPart
from guided.matching.constraint import JSON_VALUE

__all__ = ["AnswerReader", "Delta"]

Delta = TextDelta | ReasoningDelta | CallStarted | CallArguments


class AnswerReader:
    """One message. `ids`: the ids of calls in the conversation.

    Attributes:
        calls: the calls so far.
    """

    def __init__(self, splitter: AnswerSplitter, ids: CallIds) -> None:
        self.calls = list[FunctionCall]()
        self._splitter, self._ids = splitter, ids
        self._texts, self._reasoning = list[str](), list[str]()
        self._pieces = list[str]()  # the arguments of the current call

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._texts)

    @property
    def reasoning(self) -> str:
        """The reasoning so far."""
        return "".join(self._reasoning)

    def read(self, event: StreamEvent) -> Iterator[Delta]:
        """Yield the deltas of an event."""
        for part in self._splitter.read(event):
            match part:
                case AnswerText(text, reasoning=True):
                    self._reasoning.append(text)
                    yield ReasoningDelta(text)
                case AnswerText(text):
                    self._texts.append(text)
                    yield TextDelta(text)
                case CallPart():
                    yield from self._read_call(part)

    def _read_call(self, part: CallPart) -> Iterator[Delta]:
        if part.begins:
            self._pieces = list[str]()
            self.calls.append(FunctionCall(self._ids.choose(part.id, part.name), part.name, ""))
            yield CallStarted(self.calls[-1].id, part.name)
        if part.arguments:
            self._pieces.append(part.arguments)
            so_far = TextSoFar(JSON_VALUE, self._pieces, len(self._pieces))
            yield CallArguments(self.calls[-1].id, part.arguments, so_far)
        if part.ends:
            self.calls[-1].text = "".join(self._pieces)
