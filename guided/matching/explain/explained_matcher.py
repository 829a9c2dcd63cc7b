"""The protocol of a matcher for explanations: matchers can explain, and explanations do not depend on matchers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from guided.matching.compiled import CompiledGrammar

__all__ = ["ExplainedMatcher"]


class ExplainedMatcher(Protocol):
    """Methods of `GrammarMatcher`; those with an underscore are described in _core.pyi."""

    grammar: CompiledGrammar

    def fork(self) -> ExplainedMatcher:
        """A matcher in the same state."""

    def is_terminated(self) -> bool:
        """Whether an end token was accepted."""

    def is_accepting(self) -> bool:
        """Whether the output may end here."""

    def validate_tokens(self, tokens: Sequence[int]) -> int:
        """How many of the tokens would be accepted."""

    def accept_string(self, text: str | bytes) -> bool:
        """Step over text; False: it is refused."""

    def _accepted(self) -> list[int | bytes]: ...
    def _characters(self, data: bytes, begun: bytes) -> list[tuple[int, int]]: ...
    def _next_tokens(self) -> list[int]: ...
    def _open_rules(self, data: bytes) -> list[str]: ...
    def _probe(self, data: bytes) -> tuple[int, bytes]: ...
    def _shortest(self, limit: int) -> list[int]: ...
