"""Splits one answer of a model incrementally into text, reasoning, function calls and tool results.

In: the engine's events. Out: parts in the order of the answer. The style's `CallReader` finds calls in the decoded
tokens, which contain the names of control tokens. Whitespace that precedes or separates calls is not text. Each
`AnswerText` has the positions of its characters, so that the server can find its tokens. Cost: linear in the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from guided.engine.result import StreamEvent
from guided.engine.token_text import AnswerDecoder, StopTail, ToolResult
from guided.frontends.structural_tag.calls import CallPart, CallReader, TextPart

__all__ = ["AnswerPart", "AnswerSplitter", "AnswerText"]


@dataclass(frozen=True, slots=True)
class AnswerText:
    """A piece of the text or of the reasoning.

    `positions`: the positions of its characters in the decoded answer, if known.
    """

    text: str
    reasoning: bool = False
    positions: Sequence[int] = ()


AnswerPart: TypeAlias = AnswerText | CallPart | ToolResult


class AnswerSplitter:
    """Splits one answer.

    Args:
        decoder: decodes the tokens; None if there are neither functions nor tools. The text then comes from the events.
        reader: reads function calls; None: there are no functions.
        reasoning_end: the text that ends the reasoning before the answer; "" if there is no reasoning, or if a control
            token ends it.
        has_stops: whether stop strings may end the text.

    Attributes:
        decoded_tokens: for each token of the last event, and for the end of the answer: the strings that it completes,
            and whether the token itself is hidden, as inside a tool call. If there are two strings, the first one
            replaces an incomplete character before the token.
    """

    def __init__(
        self,
        decoder: AnswerDecoder | None = None,
        reader: CallReader | None = None,
        *,
        reasoning_end: str = "",
        has_stops: bool = False,
    ) -> None:
        self.decoder, self.decoded_tokens = decoder, list[tuple[list[str], bool]]()
        self._reader, self._reasoning_end = reader, reasoning_end
        self._stop_tail = StopTail() if has_stops else None
        self._reasoning_tail = ""  # the end of the reasoning so far, if it may begin the end marker
        self._space = ""  # whitespace between calls or at the end; it becomes text if text follows
        self._space_positions: Sequence[int] = ()
        self._decoded_length = 0  # the number of decoded characters that can no longer change
        self._has_text = self._has_calls = self._has_ended = False

    @property
    def first_undecided(self) -> int:
        """The position of the first character for which it is still unknown whether it is text."""
        if self._reader is None or self._has_ended:
            return self._decoded_length
        return min([self._reader.interpreted_length, *self._space_positions[:1]])

    def read(self, event: StreamEvent) -> list[AnswerPart]:
        """Return the parts of an event."""
        self.decoded_tokens = []
        if event.reasoning and event.result is None:
            return self._read_reasoning(event.text)
        parts = self._make_text_parts(event.text) if self.decoder is None else self._read_tokens(event, self.decoder)
        if event.result is not None:
            parts += self._finish()
        return parts

    def _read_reasoning(self, text: str) -> list[AnswerPart]:
        """The parts of reasoning before the answer. Withholds the end of the text if the end marker may begin there."""
        text, marker = self._reasoning_tail + text, self._reasoning_end
        sizes = range(min(len(marker), len(text)), 0, -1)
        withheld = next((size for size in sizes if marker.startswith(text[-size:])), 0)
        self._reasoning_tail = text[len(text) - withheld :]
        return self._make_text_parts(text[: len(text) - withheld], reasoning=True)

    def _read_tokens(self, event: StreamEvent, decoder: AnswerDecoder) -> list[AnswerPart]:
        parts, piece, decoded_size = list[AnswerPart](), "", 0
        for token in event.tokens if event.result is None else (*event.tokens, None):
            items = decoder.read([] if token is None else [token], last=token is None)
            texts = [item for item in items if isinstance(item, str)]
            self.decoded_tokens.append((texts, decoder.in_call or len(texts) < len(items)))
            piece += "".join(texts)
            decoded_size += 0 if token is not None and decoder.is_control(token) else sum(map(len, texts))
            for item in items:
                if isinstance(item, ToolResult):
                    parts += [*self._read_piece(piece), item]
                    piece = ""
        if self._stop_tail is not None:
            piece = self._stop_tail.read(piece, decoded_size, len(event.text))
        return parts + self._read_piece(piece)

    def _read_piece(self, piece: str) -> list[AnswerPart]:
        """The parts of a piece of the decoded answer."""
        self._decoded_length += len(piece)
        if self._reader is None:
            return self._make_text_parts(piece, range(self._decoded_length - len(piece), self._decoded_length))
        return self._merge_parts(self._reader.parts(piece))

    def _merge_parts(self, parts: list[TextPart | CallPart]) -> list[AnswerPart]:
        out = list[AnswerPart]()
        for part in parts:
            if isinstance(part, CallPart):
                self._has_calls = True
                out.append(part)
                continue
            positions = range(part.at, part.at + len(part.text))
            if part.reasoning:
                out += self._make_text_parts(part.text, positions, True)
            else:
                out += self._text_around_calls(part.text, positions)
        return out

    def _text_around_calls(self, text: str, positions: Sequence[int]) -> list[AnswerPart]:
        """Text without the whitespace that separates or precedes calls."""
        text, positions = self._space + text, [*self._space_positions, *positions]
        visible_text = text.rstrip()
        self._space, self._space_positions = text[len(visible_text) :], positions[len(visible_text) :]
        if self._has_calls and not self._has_text:
            positions = positions[len(visible_text) - len(visible_text.lstrip()) :]
            visible_text = visible_text.lstrip()
        return self._make_text_parts(visible_text, positions[: len(visible_text)])

    def _make_text_parts(self, text: str, positions: Sequence[int] = (), reasoning: bool = False) -> list[AnswerPart]:
        self._has_text |= bool(text) and not reasoning
        return [AnswerText(text, reasoning, positions)] if text else []

    def _finish(self) -> list[AnswerPart]:
        """The withheld text, now that the answer has ended."""
        parts, self._has_ended = list[AnswerPart](), True
        if self._reader is not None:
            parts += self._merge_parts(self._reader.finish())
        if not self._has_calls:
            parts += self._make_text_parts(self._space, self._space_positions)
        return parts
