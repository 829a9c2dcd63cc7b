"""Reads an answer as deltas. In: the events of one sample. Out: deltas of reasoning, text, and tool calls.

    events of the engine  ->  SampleReader.read  ->  deltas  ->  chunks of /v1/chat/completions, events of /v1/responses

All routes build their answers from these deltas, so a stream and a whole answer have the same content. All deltas of a
kind, joined, are the final text of this kind in the `SampleReader`. `AnswerSplitter` divides the answer into parts, and
this module adds ids and tokens to them, in the form of OpenAI's API.

Cost: linear in the answer. Each delta contains only new text, and the whole text is joined only on request.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Literal, TypeAlias

from guided.engine.agent.events import ReasoningDelta, TextDelta
from guided.engine.answer_splitter import AnswerPart, AnswerSplitter, AnswerText
from guided.engine.result import Result, StreamEvent
from guided.engine.token_text import ToolResult
from guided.frontends.structural_tag.call_ids import CallIds
from guided.frontends.structural_tag.calls import CallPart, CallReader
from guided.frontends.structural_tag.partial_json import PartialJson
from guided.server.openai.attribution import Attribution, ShownToken
from guided.server.openai.echo import EchoedPrompt
from guided.server.openai.scores import Offsets

__all__ = [
    "CallArguments",
    "CallBegin",
    "Delta",
    "FunctionCall",
    "ReadingOptions",
    "ReasoningDelta",
    "SampleReader",
    "TextDelta",
    "ToolResult",
    "find_finish_reason",
]  # fmt: skip


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


Delta: TypeAlias = ReasoningDelta | TextDelta | CallBegin | CallArguments | ToolResult


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
        make_call_reader: makes the reader of function calls; None: there are no functions.
        make_splitter: makes the splitter that divides the answer into its parts.
        make_call_ids: makes the `CallIds` of an answer, which replace ids that an earlier call of the conversation has.
        begins_with_reasoning: whether the answer begins with reasoning.
        shows_reasoning: whether the answer includes the reasoning.
        trims_line_ends: whether to drop line ends between reasoning and text.
        has_named_function: whether the request named the function to call, so the model did not decide to call it.
        reports_partial_json: whether to report how to complete the JSON so far (`SampleReader.partial`).
    """

    make_call_reader: Callable[[], CallReader] | None = None
    make_splitter: Callable[[], AnswerSplitter] = AnswerSplitter
    make_call_ids: Callable[[], CallIds] = CallIds
    begins_with_reasoning: bool = False
    shows_reasoning: bool = True
    trims_line_ends: bool = False
    has_named_function: bool = False
    reports_partial_json: bool = False


_PLAIN = ReadingOptions()


def find_finish_reason(result: Result) -> Literal["stop", "length"]:
    """Why an output ended, in OpenAI's words, ignoring function calls."""
    return "length" if result.cut else "stop"


class SampleReader:
    """Reads the events of one sample, and stores the answer so far.

    Args:
        options: see `ReadingOptions`.
        echo: the prompt that the text begins with; None: the text does not repeat the prompt.

    Attributes:
        calls: the function calls.
        tool_results: results of the server's own tools.
        reasoning_tokens: the number of reasoning tokens, including the end marker.
        result: the engine's result, once it has arrived.
        tokens: the tokens known to belong to the text, or to the reasoning if the answer shows it. They do not include
            tokens of calls, of tool results, or of whitespace outside the text.
        offsets: offsets of the tokens with reported log probabilities.
    """

    def __init__(self, options: ReadingOptions = _PLAIN, echo: EchoedPrompt | None = None) -> None:
        self.options, self._echo = options, echo
        self.calls, self.tool_results = list[FunctionCall](), list[ToolResult]()
        self.reasoning_tokens = 0
        self._old_token_count = 0  # the number of `tokens` before the last event
        self.tokens, self.offsets = list[ShownToken](), Offsets(0 if echo is None else echo.offset)
        self.result: Result | None = None
        self._reasoning, self._text = list[str](), list[str]()
        self._splitter, self._attribution = options.make_splitter(), Attribution()
        self._call_ids = options.make_call_ids()
        self._json = PartialJson() if options.reports_partial_json else None

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
        """The `tokens` that the most recent event added."""
        return self.tokens[self._old_token_count :]

    def read(self, event: StreamEvent) -> list[Delta]:
        """The deltas of an event."""
        self._old_token_count, self.result = len(self.tokens), event.result
        parts = self._splitter.read(event)
        if event.reasoning and event.result is None:
            self.reasoning_tokens += len(event.tokens)
            if self.options.shows_reasoning:
                self.tokens += ShownToken.from_event(event, is_text=False)
            return self._make_deltas(parts)
        deltas, tokens = self._emit_echo(event), ShownToken.from_event(event, is_text=True)
        if self._splitter.decoder is None:
            self.tokens += tokens
            return deltas + self._make_deltas(parts)
        for token, (texts, is_hidden) in zip_longest(tokens, self._splitter.decoded_tokens):
            self._attribution.write(token, texts, is_hidden=is_hidden)
        deltas += self._make_deltas(parts)
        self.tokens += self._attribution.take_decided(self._splitter.first_undecided)
        return deltas

    @property
    def finish_reason(self) -> Literal["stop", "length", "tool_calls"] | None:
        """Why the answer ended, in OpenAI's words; None: it has not ended."""
        if self.result is None:
            return None
        if self.calls and self.result.finish_reason == "stop":  # if not "stop", a call may have been cut off
            return "stop" if self.options.has_named_function else "tool_calls"
        return find_finish_reason(self.result)

    @property
    def is_empty(self) -> bool:
        """Whether an answer that could contain calls ended without calls and without text."""
        return self.result is not None and self.options.make_call_reader is not None and not (self.calls or self._text)

    @property
    def partial(self) -> dict[str, int | str] | None:
        """How to turn the text so far into valid JSON: keep its first `length` characters, and append `end`."""
        if self._json is None:
            return None
        length, end = self._json.certain_length_and_closers
        return {"length": length, "end": end}

    def _emit_echo(self, event: StreamEvent) -> list[Delta]:
        """The delta of the prompt, before the first event and if the text begins with the prompt; otherwise nothing."""
        echo, self._echo = self._echo, None
        if echo is None:
            return []
        self.tokens += echo.shown_tokens(event.prompt_logprobs)
        return self._add_text(echo.text)

    def _make_deltas(self, parts: Sequence[AnswerPart]) -> list[Delta]:
        deltas = list[Delta]()
        for part in parts:
            match part:
                case AnswerText(text, reasoning=True, positions=positions):
                    if self.options.shows_reasoning:
                        self._reasoning.append(text)
                        self._attribution.set_is_text(positions, is_text=False)
                        deltas.append(ReasoningDelta(text))
                case AnswerText(text, positions=positions):
                    deltas += self._add_text(text, positions)
                case ToolResult():
                    self.tool_results.append(part)
                    deltas.append(part)
                case CallPart(index, name, arguments):
                    if part.begins:
                        id = self._call_ids.choose(part.id or f"call_{secrets.token_hex(12)}", name)
                        call = FunctionCall(id, name)
                        self.calls.append(call)
                        deltas.append(CallBegin(index, call.id, name))
                    if arguments:
                        self.calls[index].pieces.append(arguments)
                        deltas.append(CallArguments(index, arguments))
        return deltas

    def _add_text(self, text: str, positions: Sequence[int] = ()) -> list[Delta]:
        """Emit text. `positions`: the positions of its characters in the decoded answer."""
        if self.options.trims_line_ends and not self._text:
            positions = positions[len(text) - len(text.lstrip("\n")) :]
            text = text.lstrip("\n")
        if not text:
            return []
        self._text.append(text)
        self._attribution.set_is_text(positions, is_text=True)
        if self._json is not None:
            self._json.read(text)
        return [TextDelta(text)]
