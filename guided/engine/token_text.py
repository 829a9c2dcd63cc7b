"""Decodes the tokens of an answer, including names of control tokens and the results of the engine's own tools.

In: the tokens of an answer, as they arrive. Out: text, and `ToolResult`s. A control token has no text in an answer, so
call readers get its name instead. A call of an engine tool (`guided.Tool`) and its result become one `ToolResult`.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from guided.tools.toolbox import BoundTool, Toolbox
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["AnswerDecoder", "StopTail", "ToolResult"]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A completed call of a `guided.Tool`.

    Attributes:
        index: the number of the call in the answer, from 0.
        name: the tool's name.
        arguments, result: the text that the model wrote, and the text that it read next.
    """

    index: int
    name: str
    arguments: str
    result: str


class AnswerDecoder:
    """Decodes the tokens of one answer. `keep_control_names`: whether control tokens become their names or nothing."""

    def __init__(
        self, vocabulary: Vocabulary, toolbox: Toolbox | None = None, *, keep_control_names: bool = True
    ) -> None:
        self._vocabulary, self._keep_control_names = vocabulary, keep_control_names
        self._tools = toolbox.by_token if toolbox is not None else {}
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._tool: BoundTool | None = None  # the tool whose call is open
        self._call_tokens, self._result_tokens = list[int](), list[int]()
        self._in_result = False  # whether the open call has reached its result
        self._call_count = 0  # the number of completed calls

    @property
    def in_call(self) -> bool:
        """Whether a call of a `guided.Tool`, or its result, is being written."""
        return self._tool is not None

    def is_control(self, token: int) -> bool:
        """Whether a token is a control token."""
        return token in self._vocabulary.special_tokens

    def read(self, tokens: Sequence[int], *, last: bool = False) -> list[str | ToolResult]:
        """The text and tool results of these tokens. `last`: no more tokens follow."""
        out = list[str | ToolResult]()
        special = self._vocabulary.special_tokens
        for is_control, group in groupby(tokens, key=special.__contains__):
            ids = list(group)
            if is_control:
                for id in ids:
                    out += self._read_control_token(id)
            elif self._tool is not None:
                (self._result_tokens if self._in_result else self._call_tokens).extend(ids)
            else:
                out.append(self._utf8.decode(self._vocabulary.decode(ids)))
        if last:
            out.append(self._utf8.decode(b"", final=True))
        return [part for part in out if part]

    def _read_control_token(self, id: int) -> list[str | ToolResult]:
        tool = self._tool
        if tool is None:
            text = self._utf8.decode(b"", final=True)
            self._utf8.reset()
            if id in self._tools:
                self._tool, self._call_tokens, self._result_tokens, self._in_result = self._tools[id], [], [], False
                return [text]
            return [text, self._vocabulary.special_tokens[id]] if self._keep_control_names else [text]
        if id == tool.result_begin:
            self._in_result = True
        elif id == tool.result_end:
            self._tool, self._call_count = None, self._call_count + 1
            arguments, result = self._decode(self._call_tokens), self._decode(self._result_tokens)
            return [ToolResult(self._call_count - 1, tool.tool.name, arguments, result)]
        return []

    def _decode(self, tokens: Sequence[int]) -> str:
        return self._vocabulary.decode(tokens).decode("utf-8", "replace")


class StopTail:
    """Withholds decoded text that a stop string may still cut. An event contains a token as soon as part of its text is
    certain, so the decoded tokens of the events may be longer than their text.

    Attributes:
        withheld: the decoded text that is not certain yet.
    """

    def __init__(self) -> None:
        self.withheld = ""
        self._decoded_length = self._certain_length = 0  # numbers of characters, without the names of control tokens

    def read(self, piece: str, decoded_length: int, certain_length: int) -> str:
        """Return the certain part of the withheld text followed by a new piece.

        Args:
            piece: the decoded text of an event.
            decoded_length: the number of characters in `piece` that are not part of a control token's name.
            certain_length: the number of characters of `StreamEvent.text`.
        """
        self._decoded_length, self._certain_length = (
            self._decoded_length + decoded_length,
            self._certain_length + certain_length,
        )
        text = self.withheld + piece
        end = len(text) - max(0, self._decoded_length - self._certain_length)
        self.withheld = text[end:]
        return text[:end]
