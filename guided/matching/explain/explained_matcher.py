"""The matcher protocol that explanations need, so `explanation.py` does not depend on `matcher.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from guided.matching.compiled import CompiledGrammar

__all__ = ["ExplainedMatcher"]


class ExplainedMatcher(Protocol):
    """Methods of `GrammarMatcher`. `_core.pyi` describes the private ones."""

    grammar: CompiledGrammar

    def fork(self) -> ExplainedMatcher:
        """A copy in the same state."""

    def is_terminated(self) -> bool:
        """Whether an end token was accepted."""

    def is_accepting(self) -> bool:
        """Whether the output may end here."""

    def validate_tokens(self, tokens: Sequence[int]) -> int:
        """How many of the tokens would be accepted."""

    def accept_string(self, text: str | bytes) -> bool:
        """Accept a text. False, with the state unchanged, if it is not allowed."""

    def _accepted(self) -> list[int | bytes]: ...
    def _characters(self, data: bytes, begun: bytes) -> list[tuple[int, int]]: ...
    def _next_tokens(self) -> list[int]: ...
    def _open_rules(self, data: bytes) -> list[str]: ...
    def _probe(self, data: bytes) -> tuple[int, bytes]: ...
    def _shortest(self, limit: int) -> list[int]: ...
