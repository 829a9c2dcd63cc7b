"""Splits one message of a model into text, reasoning and calls, while it is written.

In: the events of the engine. Out: deltas for the caller. Calls are read by the style's `CallReader` from text with the
names of control tokens. White space that only separates calls, or precedes them, is not text.

Cost: linear in the message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from guided.engine.agent.events import CallArguments, CallStarted, FunctionCall, ReasoningDelta, TextDelta
from guided.engine.result import StreamEvent, TextSoFar
from guided.engine.token_text import AnswerDecoder, StopTail
from guided.frontends.structural_tag.calls import CallPart, CallReader, TextPart
from guided.matching.constraint import JSON_VALUE
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["AnswerReader", "Delta"]

Delta = TextDelta | ReasoningDelta | CallStarted | CallArguments


class AnswerReader:
    """One message.

    Args:
        reader: reads the calls; None: there are no functions.
        markers: the markers that begin calls, if the message is either text or calls; empty if it may mix both.
        new_id: makes the id of a call.

    Attributes:
        calls: the calls so far.
    """

    def __init__(
        self, vocabulary: Vocabulary, reader: CallReader | None, markers: tuple[str, ...], new_id: Callable[[], str]
    ) -> None:
        self.calls = list[FunctionCall]()
        self._reader, self._markers, self._new_id = reader, markers, new_id
        self._decoder, self._tail = AnswerDecoder(vocabulary), StopTail()
        self._texts, self._reasoning = list[str](), list[str]()
        self._space = ""  # white space that becomes text if text follows
        self._start = ""  # the message so far, while it may still begin with a marker
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
        """The deltas of an event."""
        if event.reasoning and event.result is None:
            yield from self._think(event.text)
            return
        if self._reader is None:
            yield from self._write(event.text)
            return
        yield from self._read_text(self._certain_text(event))
        if event.result is None:
            return
        if self._markers and self._start:
            yield from self._write(self._start)
        else:
            yield from self._parts(self._reader.finish())
        if not self.calls:
            yield from self._write(self._space)

    def _certain_text(self, event: StreamEvent) -> str:
        """The text of an event, with the names of control tokens."""
        piece, decoded = "", 0
        for token in event.tokens:
            text = "".join(part for part in self._decoder.read([token]) if isinstance(part, str))
            piece += text
            decoded += 0 if self._decoder.is_control(token) else len(text)
        return self._tail.read(piece, decoded, len(event.text))

    def _read_text(self, text: str) -> Iterator[Delta]:
        assert self._reader is not None
        if not self._markers:
            yield from self._parts(self._reader.parts(text))
            return
        self._start += text
        start = self._start
        if any(marker.startswith(start) and marker != start for marker in self._markers):
            return
        self._start = ""
        if start.startswith(self._markers):
            self._markers = ()
            yield from self._parts(self._reader.parts(start))
        else:
            self._reader = None
            yield from self._write(start)

    def _parts(self, parts: list[TextPart | CallPart]) -> Iterator[Delta]:
        for part in parts:
            match part:
                case TextPart(text, reasoning=True):
                    yield from self._think(text)
                case TextPart(text):
                    yield from self._write_beside_calls(text)
                case CallPart(_, name, arguments):
                    if part.begins:
                        self._pieces = list[str]()
                        self.calls.append(FunctionCall(self._new_id(), name, ""))
                        yield CallStarted(self.calls[-1].id, name)
                    if arguments:
                        self._pieces.append(arguments)
                        so_far = TextSoFar(JSON_VALUE, self._pieces, len(self._pieces))
                        yield CallArguments(self.calls[-1].id, arguments, so_far)
                    if part.ends:
                        self.calls[-1].text = "".join(self._pieces)

    def _write_beside_calls(self, text: str) -> Iterator[Delta]:
        text = self._space + text
        written = text.rstrip()
        self._space = text[len(written) :]
        yield from self._write(written if self._texts or not self.calls else written.lstrip())

    def _write(self, text: str) -> Iterator[Delta]:
        if text:
            self._texts.append(text)
            yield TextDelta(text)

    def _think(self, text: str) -> Iterator[Delta]:
        if text:
            self._reasoning.append(text)
            yield ReasoningDelta(text)
