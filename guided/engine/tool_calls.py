"""The calls of tools in one output: noted while tokens come, run when they end, and their results as tokens to force.

In: a matcher of a grammar in which the tools' segments are placed, and each token that the output takes. Out: where a
call has ended, the tokens of its result, which the matcher has accepted. A model never writes a result itself: what
begins one is forced right after the call, or the output fails. A call is written under a budget that leaves room for
its result; where there is none all the same, the result is empty: for that much every mask has left room.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

from guided.engine.constraint import Constraint
from guided.engine.result import ToolCall
from guided.errors import GuidedError, VocabularyError
from guided.matching.compiler import CompiledGrammar
from guided.spec.combinators import Expr
from guided.tools.tool import Tool, answer_with
from guided.tools.toolbox import BoundTool, Toolbox

__all__ = ["ToolCalls", "with_tools"]


class ForkingMatcher(Protocol):
    """What is asked of a `GrammarMatcher` here."""

    def accept_token(self, token: int, /) -> bool:
        """Go on by a token; False: refused."""

    def fork(self) -> Self:
        """Another one in the same state."""

    def min_tokens_to_finish(self) -> int:
        """The shortest completion."""


class ToolCalls:
    """What one output calls.

    Attributes:
        free: the output is text without an end of its own, so that only the budget or the model ends it.
        waiting: a call has ended, and its result must come next.
        reserved: tokens of the budget that are kept for the result of the call that is being written.
        done: the calls that have results.
    """

    def __init__(self, toolbox: Toolbox, matcher: ForkingMatcher, *, free: bool) -> None:
        self.free, self.done = free, list[ToolCall]()
        self._toolbox, self._matcher = toolbox, matcher
        self._tool: BoundTool | None = None  # whose call is being written
        self._arguments: list[int] = []
        self.waiting, self.reserved = False, 0

    def read(self, token: int, left: int) -> None:
        """Note a token that the model has chosen, or that the grammar has forced, after which `left` of the budget
        are left; the matcher has accepted it.

        Raises:
            GuidedError: it begins a result.
        """
        if token in self._toolbox.result_begins:
            raise GuidedError(
                "the grammar lets the model write the result of a tool: place `tool.segment` in it, whole"
            )
        if self._tool is None:
            self._tool = self._toolbox.by_token.get(token)
            if self._tool is not None:
                self._arguments = []
                self.reserved = max(0, min(self._tool.tool.room, left - self._matcher.min_tokens_to_finish()))
        elif token in self._tool.ends:
            self.waiting = True
        else:
            self._arguments.append(token)

    def watches(self, token: int) -> bool:
        """Whether a token begins or ends a call."""
        return token in self._toolbox.by_token or (self._tool is not None and token in self._tool.ends)

    def answer(self, left: int) -> list[int]:
        """Run the call that has ended; the tokens that follow it, of at most `left` to the end of the output.

        Raises:
            GuidedError: the grammar has no place for them.
        """
        bound, self._tool, self.waiting, self.reserved = self._tool, None, False, 0
        assert bound is not None
        text = self._toolbox.vocabulary.decode(self._arguments).decode("utf-8", "replace")
        result = bound.tool.answer(text)
        for written, inner in (*self._spellings(result), ("", [])):
            tokens = [bound.result_begin, *inner, bound.result_end]
            if self._fits(tokens, left):
                for token in tokens:
                    self._matcher.accept_token(token)
                self.done.append(ToolCall(bound.tool.name, text, written))
                return tokens
        raise GuidedError(f"the grammar has no place for the result of {bound.tool.name!r} after its call")

    def _spellings(self, result: str) -> list[tuple[str, list[int]]]:
        """The result in tokens; names of control tokens in it are text. If it cannot be spelled, why."""
        encode = self._toolbox.vocabulary.encode
        for written in (result, "error: the vocabulary cannot spell the result"):
            try:
                return [(written, encode(written, continued=True))]
            except VocabularyError:
                continue
        return []

    def _fits(self, tokens: Sequence[int], left: int) -> bool:
        """Whether the grammar takes them, and the output can be ended in what is left after them."""
        ahead = self._matcher.fork()
        return all(map(ahead.accept_token, tokens)) and ahead.min_tokens_to_finish() <= left - len(tokens)


def with_tools(constraint: Constraint, tools: Sequence[Tool]) -> Constraint:
    """The constraint of an answer in which tools may be called: any text without one, else as it places them.

    Raises:
        GuidedError: it is of a kind that has no places for calls.
    """
    if not tools or isinstance(constraint, Expr | CompiledGrammar):
        return constraint
    if constraint is None:
        return answer_with(tools)
    raise GuidedError(
        f"this constraint, a {type(constraint).__name__}, has no place for the call of a tool: compose it of parts, "
        "with `tool.segment` where a call may stand, such as guided.repeat(tool.segment) + guided.json_schema(...)"
    )
