"""The text of tokens, including names of control tokens, and the results of the server's own tools.

In: the tokens of an answer, as they arrive. Out: text, and `ToolResult`s. A control token has no text in an answer, so
readers of calls get its name instead. A call of a server tool with its result (`guided.Tool`) is one part.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from guided.tools.toolbox import BoundTool, Toolbox
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Spelling", "ToolResult"]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A call of a server tool.

    Attributes:
        index: its number in the answer, from 0.
        name: the tool's name.
        arguments, result: the text that the model has written and read.
    """

    index: int
    name: str
    arguments: str
    result: str


class Spelling:
    """Spells one answer. `named`: whether control tokens are spelled by their names; else they are left out."""

    def __init__(self, vocabulary: Vocabulary, toolbox: Toolbox | None = None, *, named: bool = True) -> None:
        self._vocabulary, self._named = vocabulary, named
        self._tools = toolbox.by_token if toolbox is not None else {}
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._tool: BoundTool | None = None  # the tool whose call is open
        self._call, self._result = list[int](), list[int]()
        self._answers, self._called = False, 0  # whether its result has begun; number of ended calls

    @property
    def in_call(self) -> bool:
        """Whether a call of a server tool, or its result, is being written."""
        return self._tool is not None

    def read(self, tokens: Sequence[int], *, last: bool = False) -> list[str | ToolResult]:
        """The text and tool results of these tokens; `last`: no more tokens follow."""
        out = list[str | ToolResult]()
        special = self._vocabulary.special_tokens
        for is_control, group in groupby(tokens, key=special.__contains__):
            ids = list(group)
            if is_control:
                for id in ids:
                    out += self._control(id)
            elif self._tool is not None:
                (self._result if self._answers else self._call).extend(ids)
            else:
                out.append(self._utf8.decode(self._vocabulary.decode(ids)))
        if last:
            out.append(self._utf8.decode(b"", final=True))
        return [part for part in out if part]

    def _control(self, id: int) -> list[str | ToolResult]:
        tool = self._tool
        if tool is None:
            text = self._utf8.decode(b"", final=True)
            self._utf8.reset()
            if id in self._tools:
                self._tool, self._call, self._result, self._answers = self._tools[id], [], [], False
                return [text]
            return [text, self._vocabulary.special_tokens[id]] if self._named else [text]
        if id == tool.result_begin:
            self._answers = True
        elif id == tool.result_end:
            self._tool, self._called = None, self._called + 1
            return [
                ToolResult(self._called - 1, tool.tool.name, self._decoded(self._call), self._decoded(self._result))
            ]
        return []

    def _decoded(self, tokens: Sequence[int]) -> str:
        return self._vocabulary.decode(tokens).decode("utf-8", "replace")
