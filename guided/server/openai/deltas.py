"""Splits an answer into deltas. In: the events of one sample. Out: deltas of reasoning, text, and tool calls.

    events of the engine  ->  Reading.read  ->  deltas  ->  chunks of /v1/chat/completions, events of /v1/responses

All routes build their answers from these deltas, so a stream and a whole answer have the same content. The deltas of a
kind, joined, equal the final content of the `Reading`.

Cost: linear in the answer. Each delta contains only new text, and the whole text is joined on request.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from guided.engine.result import Result, StreamEvent
from guided.engine.token_text import AnswerDecoder, StopTail, ToolResult
from guided.frontends.structural_tag.calls import CallPart, CallReader, TextPart
from guided.frontends.structural_tag.partial_json import PartialJson
from guided.server.openai.attribution import Attribution, ShownToken
from guided.server.openai.echo import EchoedPrompt
from guided.server.openai.scores import Offsets

__all__ = [
    "CallArguments", "CallBegin", "Delta", "FunctionCall", "Reading", "ReadingOptions", "ReasoningText", "Text",
    "ToolResult", "end_of",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReasoningText:
    """A part of the reasoning before the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """A part of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegin:
    """The start of a call. `index`: its number in the answer, from 0."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """A part of a call's arguments: JSON text that continues the previous part."""

    index: int
    text: str


Delta: TypeAlias = ReasoningText | Text | CallBegin | CallArguments | ToolResult


@dataclass(slots=True)
class FunctionCall:
    """A call in the answer; `arguments` is JSON text."""

    id: str
    name: str
    pieces: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        """The arguments written so far."""
        return "".join(self.pieces)


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """How to read the answers to a request.

    Attributes:
        calls: makes the reader of function calls; None: there are no functions.
        call_markers: the markers that begin calls, if an answer is either text or calls; empty if it may mix both.
        new_decoder: makes the decoder of tokens, for calls and for results of server tools; None: use the
            event's text.
        reasoning_end: the text that ends reasoning; "" if a control token ends it, or if there is no reasoning.
        thinks: whether reasoning comes first.
        shows_reasoning: whether the answer includes the reasoning.
        trims: whether to drop line ends between reasoning and text.
        named: whether the request named the function to call, so that the call was not the model's decision.
        partial: whether to report how to complete the JSON text so far (`Reading.partial`).
        has_stops: whether stops may end the text.
    """

    calls: Callable[[], CallReader] | None = None
    call_markers: tuple[str, ...] = ()
    new_decoder: Callable[[], AnswerDecoder] | None = None
    reasoning_end: str = ""
    thinks: bool = False
    shows_reasoning: bool = True
    trims: bool = False
    named: bool = False
    partial: bool = False
    has_stops: bool = False


_PLAIN = ReadingOptions()


def end_of(result: Result) -> Literal["stop", "length"]:
    """Why an output ended, in OpenAI's words, ignoring function calls."""
    return "length" if result.cut else "stop"


class Reading:
    """What one sample has produced so far.

    Args:
        options: see `ReadingOptions`.
        echo: the prompt that the text begins with; None: it does not repeat the prompt.

    Attributes:
        calls: the function calls.
        results: results of the server's own tools.
        reasoning_tokens: number of tokens of the reasoning, including its end marker.
        result: the engine's result, once it has arrived.
        tokens: tokens known to belong to the text, or to the reasoning if shown. Tokens of calls, of tool results, and
            of white space outside the text are left out.
        offsets: offsets of the tokens with reported log probabilities.
    """

    def __init__(self, options: ReadingOptions = _PLAIN, echo: EchoedPrompt | None = None) -> None:
        self.options, self._echo = options, echo
        self.calls, self.results = list[FunctionCall](), list[ToolResult]()
        self.reasoning_tokens = self._old_tokens = 0  # _old_tokens: number of `tokens` before the last event
        self.tokens, self.offsets = list[ShownToken](), Offsets(0 if echo is None else echo.offset)
        self.result: Result | None = None
        self._reasoning, self._text = list[str](), list[str]()
        self._reader = options.calls() if options.calls is not None else None
        self._decoder = options.new_decoder() if options.new_decoder is not None else None
        self._tail = StopTail()
        self._reasoning_tail = ""  # the end of the reasoning so far, if it may begin the end marker
        self._undecided = "" if options.call_markers else None  # the answer's start, while it may begin a call
        self._space = ""  # white space between calls or at the end; it becomes text if text follows
        self._space_at: Sequence[int] = ()
        self._places: Attribution | None = Attribution() if options.new_decoder is not None else None
        self._json = PartialJson() if options.partial else None

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        """The reasoning so far; "" if not shown."""
        return "".join(self._reasoning)

    @property
    def new_tokens(self) -> list[ShownToken]:
        """The `tokens` that the last event added."""
        return self.tokens[self._old_tokens :]

    def read(self, event: StreamEvent) -> list[Delta]:
        """The deltas of an event."""
        self._old_tokens = len(self.tokens)
        if event.reasoning and event.result is None:
            self.reasoning_tokens += len(event.tokens)
            if self.options.shows_reasoning:
                self.tokens += ShownToken.of(event, is_text=False)
            return self._think(event.text)
        deltas = [*self._begin(event), *self._answer(event)]
        if event.result is not None:
            self.result = event.result
            deltas += self._rest()
        if self._places is not None:
            self.tokens += self._places.take_decided(self._undecided_from(self._places))
        return deltas

    @property
    def finish_reason(self) -> Literal["stop", "length", "tool_calls"] | None:
        """Why the answer ended, in OpenAI's words; None: it has not ended."""
        if self.result is None:
            return None
        if self.calls and self.result.finish_reason == "stop":  # if not "stop", a call may have been cut off
            return "stop" if self.options.named else "tool_calls"
        return end_of(self.result)

    @property
    def is_empty(self) -> bool:
        """Whether an answer that could contain calls ended without calls and without text."""
        return self.result is not None and self.options.calls is not None and not (self.calls or self._text)

    @property
    def partial(self) -> dict[str, int | str] | None:
        """How to complete the text to valid JSON: keep its first `length` characters, and append `end`."""
        if self._json is None:
            return None
        length, end = self._json.certain
        return {"length": length, "end": end}

    # ---- reasoning
    def _think(self, text: str) -> list[Delta]:
        """Emit the reasoning, but withhold a tail that may begin the end marker until more reasoning follows."""
        self._reasoning_tail += text
        end = self.options.reasoning_end
        most = min(len(end), len(self._reasoning_tail))
        withheld = next((size for size in range(most, 0, -1) if end.startswith(self._reasoning_tail[-size:])), 0)
        shown_text, self._reasoning_tail = (
            self._reasoning_tail[: len(self._reasoning_tail) - withheld],
            self._reasoning_tail[len(self._reasoning_tail) - withheld :],
        )
        if not shown_text or not self.options.shows_reasoning:
            return []
        self._reasoning.append(shown_text)
        return [ReasoningText(shown_text)]

    # ---- the answer
    def _begin(self, event: StreamEvent) -> list[Delta]:
        """The prompt, before the first event, if the text begins with it."""
        echo, self._echo = self._echo, None
        if echo is None:
            return []
        self.tokens += echo.shown(event.prompt_logprobs)
        return self._add_text(echo.text)

    def _answer(self, event: StreamEvent) -> list[Delta]:
        tokens = ShownToken.of(event, is_text=True)
        if self._decoder is None or self._places is None:
            self.tokens += tokens
            return self._add_text(event.text)
        deltas, piece, begin = list[Delta](), "", self._places.size
        decoded = 0
        for token in (*tokens, None) if event.result is not None else tokens:
            parts = self._decoder.read([token.id] if token is not None else [], last=token is None)
            texts = [part for part in parts if isinstance(part, str)]
            self._places.write(token, texts, is_hidden=self._decoder.in_call or len(texts) < len(parts))
            piece += "".join(texts)
            decoded += 0 if token is not None and self._decoder.is_control(token.id) else sum(map(len, texts))
            for part in parts:
                if isinstance(part, ToolResult):
                    deltas += [*self._read_piece(piece, begin), part]
                    self.results.append(part)
                    piece, begin = "", self._places.size
        if self.options.has_stops:
            begin -= len(self._tail.withheld)
            piece = self._tail.read(piece, decoded, len(event.text))
        return deltas + self._read_piece(piece, begin)

    def _read_piece(self, piece: str, begin: int) -> list[Delta]:
        """The deltas of a piece of the decoded answer. `begin`: the position of its first character."""
        if not piece:
            return []
        if self._reader is None:
            return self._add_text(piece, range(begin, begin + len(piece)))
        if self._undecided is None:
            return self._parts(self._reader.parts(piece))
        self._undecided += piece
        start = self._undecided
        if any(marker.startswith(start) and marker != start for marker in self.options.call_markers):
            return []
        self._undecided = None
        if start.startswith(self.options.call_markers):
            return self._parts(self._reader.parts(start))
        self._reader = None
        return self._add_text(start, range(len(start)))

    def _undecided_from(self, places: Attribution) -> int:
        """The position of the first character that may or may not become text."""
        if self._undecided is not None:
            return 0
        if self._reader is None or self.result is not None:
            return places.size
        return min([self._reader.interpreted_length, *self._space_at[:1]])

    def _parts(self, parts: list[TextPart | CallPart]) -> list[Delta]:
        deltas = list[Delta]()
        for part in parts:
            match part:
                case TextPart(text, reasoning=True):
                    if self._places is not None and self.options.shows_reasoning:
                        self._places.mark(range(part.at, part.at + len(text)), is_text=False)
                    deltas += self._think(text)
                case TextPart(text):
                    deltas += self._add_text_between_calls(text, range(part.at, part.at + len(text)))
                case CallPart(index, name, arguments):
                    if part.begins:
                        call = FunctionCall(f"call_{secrets.token_hex(12)}", name)
                        self.calls.append(call)
                        deltas.append(CallBegin(index, call.id, name))
                    if arguments:
                        self.calls[index].pieces.append(arguments)
                        deltas.append(CallArguments(index, arguments))
        return deltas

    def _add_text_between_calls(self, text: str, at: Sequence[int]) -> list[Delta]:
        """Emit text beside calls, without the white space that only separates calls."""
        text, at = self._space + text, [*self._space_at, *at]
        trimmed_text = text.rstrip()
        self._space, self._space_at = text[len(trimmed_text) :], at[len(trimmed_text) :]
        if trimmed_text and self.calls and not self._text:
            trimmed_text, at = trimmed_text.lstrip(), at[len(trimmed_text) - len(trimmed_text.lstrip()) :]
        return self._add_text(trimmed_text, at)

    def _add_text(self, text: str, at: Sequence[int] = ()) -> list[Delta]:
        """Emit text. `at`: its positions in the decoded answer."""
        if self.options.trims and not self._text:
            at = at[len(text) - len(text.lstrip("\n")) :]
            text = text.lstrip("\n")
        if not text:
            return []
        self._text.append(text)
        if self._places is not None:
            self._places.mark(at[: len(text)], is_text=True)
        if self._json is not None:
            self._json.read(text)
        return [Text(text)]

    def _rest(self) -> list[Delta]:
        """Emit the text that was withheld, because the answer has ended."""
        deltas = list[Delta]()
        if self._undecided:
            deltas += self._add_text(self._undecided, range(len(self._undecided)))
            self._undecided = self._reader = None
        if self._reader is not None:
            deltas += self._parts(self._reader.finish())
        if not self.calls:
            deltas += self._add_text(self._space, self._space_at)
        self._space, self._space_at = "", ()
        return deltas
