"""What an answer says, part by part. In: the events of one sample. Out: deltas: reasoning, text, and calls of tools.

    events of the engine  ->  Reading.read  ->  deltas  ->  chunks of /v1/chat/completions, events of /v1/responses

Every way of answering is made of these deltas, so a stream and a whole answer say the same. Put together, the deltas
of a kind are what the `Reading` holds at the end.

Cost: linear in the answer. Each delta is what is new; the whole is put together where it is asked for.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from guided.engine.result import Result, StreamEvent
from guided.frontends.structural_tag.calls import CallPart, CallReader, TextPart
from guided.frontends.structural_tag.partial_json import PartialJson
from guided.server.openai.attribution import Attribution, ShownToken
from guided.server.openai.scores import Offsets
from guided.server.openai.spelling import Spelling, ToolResult

__all__ = [
    "CallArguments", "CallBegin", "Delta", "FunctionCall", "How", "Reading", "ReasoningText", "Text", "ToolResult",
    "end_of",
]  # fmt: skip


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


Delta: TypeAlias = ReasoningText | Text | CallBegin | CallArguments | ToolResult


@dataclass(slots=True)
class FunctionCall:
    """A call that the answer makes; `arguments` is JSON text."""

    id: str
    name: str
    pieces: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        """As far as they were written."""
        return "".join(self.pieces)


@dataclass(frozen=True, slots=True)
class How:
    """How answers to a request are read.

    Attributes:
        calls: makes what reads the calls of functions; None: there are none.
        apart: where an answer is text or calls, what calls begin with: any other text has none.
        spelling: makes what spells tokens, for calls, and for results of the server's own tools; None: as the event.
        reasoning_end: the text that ends reasoning; "" also where it has none.
        thinks: whether reasoning comes first.
        shows_reasoning: whether it is told.
        trims: whether line ends between reasoning and text are no part of the text.
        named: whether one function had to be called, so that calling it is no decision of the model's.
        partial: whether the value of the text, which is JSON, is told while it is written.
    """

    calls: Callable[[], CallReader] | None = None
    apart: tuple[str, ...] = ()
    spelling: Callable[[], Spelling] | None = None
    reasoning_end: str = ""
    thinks: bool = False
    shows_reasoning: bool = True
    trims: bool = False
    named: bool = False
    partial: bool = False


_PLAIN = How()


def end_of(result: Result) -> Literal["stop", "length"]:
    """Why an output ended, as OpenAI's interface says it, but for calls of functions."""
    return "length" if result.cut else "stop"


class Reading:
    """What one sample has said so far.

    Attributes:
        calls: the calls of functions.
        results: of the server's own tools.
        reasoning_tokens: how many tokens the reasoning has, its end included.
        result: of the engine, once it has come.
        tokens: those of the text, and of the reasoning if it is told, as far as that is known. Tokens of calls, of
            results of tools, and of white space that is no text are not among them.
        fresh: how many of them there were before the last event.
        offsets: of the tokens whose log probabilities were told.
    """

    def __init__(self, how: How = _PLAIN) -> None:
        self.how = how
        self.calls, self.results = list[FunctionCall](), list[ToolResult]()
        self.reasoning_tokens = self.fresh = 0
        self.tokens, self.offsets = list[ShownToken](), Offsets()
        self.result: Result | None = None
        self._reasoning, self._text = list[str](), list[str]()
        self._reader = how.calls() if how.calls is not None else None
        self._spelling = how.spelling() if how.spelling is not None else None
        self._held = ""  # of the reasoning: it may be what ends it
        self._undecided: str | None = "" if how.apart else None  # the begin, while it may be that of a call
        self._space = ""  # between calls, or at an end; it is text if text follows
        self._space_at: Sequence[int] = ()
        self._places: Attribution | None = Attribution() if how.spelling is not None else None
        self._json = PartialJson() if how.partial else None

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        """The reasoning so far; "" where it is not told."""
        return "".join(self._reasoning)

    def read(self, event: StreamEvent) -> list[Delta]:
        """What an event adds."""
        self.fresh = len(self.tokens)
        if event.reasoning and event.result is None:
            self.reasoning_tokens += len(event.tokens)
            if self.how.shows_reasoning:
                self.tokens += ShownToken.of(event, is_text=False)
            return self._think(event.text)
        deltas = self._answer(event)
        if event.result is not None:
            self.result = event.result
            deltas += self._rest()
        if self._places is not None:
            self.tokens += self._places.settled(self._undecided_from(self._places))
        return deltas

    @property
    def finish_reason(self) -> Literal["stop", "length", "tool_calls"] | None:
        """Why it ended, as OpenAI's interface says it; None: it has not."""
        if self.result is None:
            return None
        if self.calls and self.result.finish_reason == "stop":  # a further call may have been cut off: these are whole
            return "stop" if self.how.named else "tool_calls"
        return end_of(self.result)

    @property
    def is_empty(self) -> bool:
        """Whether it has ended where calls might have been, with none and without text."""
        return self.result is not None and self.how.calls is not None and not (self.calls or self._text)

    @property
    def partial(self) -> dict[str, int | str] | None:
        """How the text is completed to valid JSON: its first `length` characters, and `end` behind them."""
        if self._json is None:
            return None
        length, end = self._json.sure
        return {"length": length, "end": end}

    # ---- reasoning
    def _think(self, text: str) -> list[Delta]:
        """All but what may be the text that ends it: that is told once the reasoning goes on, and never else."""
        self._held += text
        end = self.how.reasoning_end
        most = min(len(end), len(self._held))
        keep = next((size for size in range(most, 0, -1) if end.startswith(self._held[-size:])), 0)
        told, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        if not told or not self.how.shows_reasoning:
            return []
        self._reasoning.append(told)
        return [ReasoningText(told)]

    # ---- the answer
    def _answer(self, event: StreamEvent) -> list[Delta]:
        tokens = ShownToken.of(event, is_text=True)
        if self._spelling is None or self._places is None:
            self.tokens += tokens
            return self._say(event.text)
        deltas, piece, begin = list[Delta](), "", self._places.size
        for token in (*tokens, None) if event.result is not None else tokens:
            parts = self._spelling.read([token.id] if token is not None else [], last=token is None)
            texts = [part for part in parts if isinstance(part, str)]
            self._places.write(token, texts, is_hidden=self._spelling.in_call or len(texts) < len(parts))
            piece += "".join(texts)
            for part in parts:
                if isinstance(part, ToolResult):
                    deltas += [*self._read_piece(piece, begin), part]
                    self.results.append(part)
                    piece, begin = "", self._places.size
        return deltas + self._read_piece(piece, begin)

    def _read_piece(self, piece: str, begin: int) -> list[Delta]:
        """What a piece of the spelled answer adds; it begins at a character."""
        if not piece:
            return []
        if self._reader is None:
            return self._say(piece, range(begin, begin + len(piece)))
        if self._undecided is None:
            return self._parts(self._reader.parts(piece))
        self._undecided += piece
        begun = self._undecided
        if any(mark.startswith(begun) and mark != begun for mark in self.how.apart):
            return []
        self._undecided = None
        if begun.startswith(self.how.apart):
            return self._parts(self._reader.parts(begun))
        self._reader = None
        return self._say(begun, range(len(begun)))

    def _undecided_from(self, places: Attribution) -> int:
        """The first character of which it is not known whether it is text."""
        if self._undecided is not None:
            return 0
        if self._reader is None or self.result is not None:
            return places.size
        return min([self._reader.understood, *self._space_at[:1]])

    def _parts(self, parts: list[TextPart | CallPart]) -> list[Delta]:
        deltas = list[Delta]()
        for part in parts:
            match part:
                case TextPart(text, reasoning=True):
                    if self._places is not None and self.how.shows_reasoning:
                        self._places.say(range(part.at, part.at + len(text)), is_text=False)
                    deltas += self._think(text)
                case TextPart(text):
                    deltas += self._say_between(text, range(part.at, part.at + len(text)))
                case CallPart(index, name, arguments):
                    if part.begins:
                        call = FunctionCall(f"call_{secrets.token_hex(12)}", name)
                        self.calls.append(call)
                        deltas.append(CallBegin(index, call.id, name))
                    if arguments:
                        self.calls[index].pieces.append(arguments)
                        deltas.append(CallArguments(index, arguments))
        return deltas

    def _say_between(self, text: str, at: Sequence[int]) -> list[Delta]:
        """Text beside calls, without the white space that only sets calls apart."""
        text, at = self._space + text, [*self._space_at, *at]
        told = text.rstrip()
        self._space, self._space_at = text[len(told) :], at[len(told) :]
        if told and self.calls and not self._text:
            told, at = told.lstrip(), at[len(told) - len(told.lstrip()) :]
        return self._say(told, at)

    def _say(self, text: str, at: Sequence[int] = ()) -> list[Delta]:
        """Text, and which characters of the spelled answer it is."""
        if self.how.trims and not self._text:
            at = at[len(text) - len(text.lstrip("\n")) :]
            text = text.lstrip("\n")
        if not text:
            return []
        self._text.append(text)
        if self._places is not None:
            self._places.say(at[: len(text)], is_text=True)
        if self._json is not None:
            self._json.read(text)
        return [Text(text)]

    def _rest(self) -> list[Delta]:
        """What was held back, and is text since nothing follows."""
        deltas = list[Delta]()
        if self._undecided:
            deltas += self._say(self._undecided, range(len(self._undecided)))
            self._undecided = self._reader = None
        if self._reader is not None:
            deltas += self._parts(self._reader.rest())
        if not self.calls:
            deltas += self._say(self._space, self._space_at)
        self._space, self._space_at = "", ()
        return deltas
