"""Handles the tool calls of one output: collects them token by token, runs them, and forces the tokens of the results.

In: a matcher of a grammar that contains the tools' segments, and every token of the output. Out: after a complete call,
the tokens of its result, which the matcher has accepted. The model never writes a result itself: the beginning of a
result is forced right after its call, and an output that contains it anywhere else fails. While a call is written, part
of the budget is reserved for its result. A result that does not fit is replaced by an empty one, which always fits.
"""

from __future__ import annotations

from collections.abc import Sequence

from guided.engine.result import ToolCall
from guided.errors import GuidedError, VocabularyError
from guided.frontends.combinators import Expr
from guided.matching.compiled import CompiledGrammar
from guided.matching.constraint import Constraint
from guided.matching.protocol import ForkingMatcher
from guided.tools.tool import Tool, answer_with
from guided.tools.toolbox import BoundTool, Toolbox

__all__ = ["ToolCalls", "with_tools"]


class ToolCalls:
    """The tool calls of one output.

    Attributes:
        has_complete_call: whether a call is complete, so that its result must follow.
        reserved: the number of budget tokens that are reserved for the result of the call that is being written.
        completed_calls: the calls that have results.
    """

    def __init__(self, toolbox: Toolbox, matcher: ForkingMatcher) -> None:
        self.completed_calls = list[ToolCall]()
        self._toolbox, self._matcher = toolbox, matcher
        self._tool: BoundTool | None = None  # the tool whose call is being written
        self._arguments: list[int] = []
        self.has_complete_call, self.reserved = False, 0

    def read(self, token: int, tokens_left: int) -> None:
        """Process a token that the matcher has accepted. `tokens_left`: the budget that remains after it.

        Raises:
            GuidedError: the token begins a result.
        """
        if token in self._toolbox.result_begins:
            raise GuidedError(
                "the grammar lets the model write the result of a tool: use the complete `tool.segment` in the grammar"
            )
        if self._tool is None:
            self._tool = self._toolbox.by_token.get(token)
            if self._tool is not None:
                self._arguments = []
                self.reserved = max(
                    0, min(self._tool.tool.reserved_tokens, tokens_left - self._matcher.min_tokens_to_finish())
                )
        elif token in self._tool.ends:
            self.has_complete_call = True
        else:
            self._arguments.append(token)

    def is_boundary(self, token: int) -> bool:
        """Whether a token begins or ends a call."""
        return token in self._toolbox.by_token or (self._tool is not None and token in self._tool.ends)

    def answer(self, tokens_left: int) -> list[int]:
        """Run the complete call, and return the tokens of its result.

        `tokens_left`: the remaining budget for the result, the rest of the output and its end token.

        Raises:
            GuidedError: the grammar does not allow a result here.
        """
        bound_tool, self._tool, self.has_complete_call, self.reserved = self._tool, None, False, 0
        assert bound_tool is not None
        text = self._toolbox.vocabulary.decode(self._arguments).decode("utf-8", "replace")
        result = bound_tool.tool.answer(text)
        for answer_text, result_tokens in (*self._spellings(result), ("", [])):
            tokens = [bound_tool.result_begin, *result_tokens, bound_tool.result_end]
            if self._can_be_completed_after(tokens, tokens_left):
                for token in tokens:
                    self._matcher.accept_token(token)
                self.completed_calls.append(ToolCall(bound_tool.tool.name, text, answer_text))
                return tokens
        raise GuidedError(f"the grammar does not allow the result of {bound_tool.tool.name!r} after its call")

    def _spellings(self, result: str) -> list[tuple[str, list[int]]]:
        """The result with its tokens, or an error message with its tokens if the vocabulary cannot spell the result.

        Names of control tokens in the result are encoded as text.
        """
        encode = self._toolbox.vocabulary.encode
        for answer_text in (result, "error: the vocabulary cannot spell the result"):
            try:
                return [(answer_text, encode(answer_text, continued=True))]
            except VocabularyError:
                continue
        return []

    def _can_be_completed_after(self, tokens: Sequence[int], tokens_left: int) -> bool:
        """Whether the grammar accepts these tokens and the output can be completed after them."""
        fork = self._matcher.fork()
        return all(map(fork.accept_token, tokens)) and fork.min_tokens_to_finish() <= tokens_left - len(tokens)


def with_tools(constraint: Constraint, tools: Sequence[Tool], *, needs_matcher: bool = False) -> Constraint:
    """Extend a request's constraint by its tools. `needs_matcher`: whether the output needs a matcher even without
    tools.

    Without a constraint, the answer is free text with calls anywhere. Otherwise calls occur where the constraint
    contains `tool.segment`.

    Raises:
        GuidedError: a constraint of this kind cannot contain tool calls.
    """
    if constraint is None:
        return answer_with(tools) if tools or needs_matcher else None
    if not tools or isinstance(constraint, Expr | CompiledGrammar):
        return constraint
    raise GuidedError(
        f"a constraint of type {type(constraint).__name__} cannot contain tool calls: use `tool.segment` in a composed "
        "constraint, such as guided.repeat(tool.segment) + guided.json_schema(...)"
    )
