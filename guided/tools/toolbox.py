"""`Toolbox`: the tools of a request for one vocabulary, by the token that begins their calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from guided.errors import GuidedError, VocabularyError, brief
from guided.tools.tool import Tool
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["BoundTool", "Toolbox"]


@dataclass(frozen=True, slots=True)
class BoundTool:
    """A tool, and the ids of its tokens. If several ids share a name, each of them begins or ends a call."""

    tool: Tool
    begins: frozenset[int]
    ends: frozenset[int]
    result_begin: int
    result_end: int


class Toolbox:
    """The tools of a request.

    Attributes:
        by_token: maps an id that begins a call to the tool.
        result_begins: ids that begin a result; the model may not write them.

    Raises:
        VocabularyError: a token is missing or ends the output. GuidedError: two tools share a name or a begin token.
    """

    def __init__(self, tools: Sequence[Tool], vocabulary: Vocabulary) -> None:
        self.by_token: dict[int, BoundTool] = {}
        self.result_begins = frozenset[int]()
        self.vocabulary = vocabulary
        names = set[str]()
        for tool in tools:
            if not isinstance(tool, Tool):
                raise GuidedError(f"{brief(tool)} is not a tool: write guided.Tool(name, arguments, call)")
            if tool.name in names:
                raise GuidedError(f"two tools have the name {tool.name!r}")
            names.add(tool.name)
            begins, ends, result_begins, result_ends = (self._find_ids(tool, token) for token in tool.tokens)
            self.result_begins |= result_begins
            bound_tool = BoundTool(tool, begins, ends, min(result_begins), min(result_ends))
            for id in begins:
                if id in self.by_token:
                    raise GuidedError(
                        f"the calls of the tools {self.by_token[id].tool.name!r} and {tool.name!r} begin with the same "
                        "token: give them different tokens, or combine them into one tool that chooses by its arguments"
                    )
                self.by_token[id] = bound_tool

    def _find_ids(self, tool: Tool, token: str | int) -> frozenset[int]:
        names = self.vocabulary.special_tokens
        ids = frozenset(id for id, name in names.items() if token in (id, name))
        if not ids:
            known_names = ", ".join(sorted(set(names.values()))[:8]) or "none"
            raise VocabularyError(
                f"the vocabulary has no control token {token!r}, which the tool {tool.name!r} needs "
                f"(it has: {known_names})",
                hint="use four of these: tokens=guided.ToolTokens(...) of the tool, or --tool-tokens",
            )
        if ends := ids & self.vocabulary.eos_token_ids:
            raise VocabularyError(f"token {min(ends)} ends the output, so the tool {tool.name!r} cannot use it")
        return ids
