"""Masks that exceed a limit while `guided lint` and `guided bench` measure them. Data only."""

from __future__ import annotations

from dataclasses import dataclass

from guided.errors import LimitExceeded

__all__ = ["FailedMask"]

_SHOWN_BYTES = 60


@dataclass(frozen=True, slots=True)
class FailedMask:
    """A mask that exceeds a limit.

    Attributes:
        limit: the field of `guided.Limits`, or what a fixed limit counts.
        after: the end of the text before the mask.
        max_tokens: the budget, in tokens; None: the mask was computed without a budget.
        message: the error.
        hint: what to do about it.
    """

    limit: str
    after: str
    max_tokens: int | None
    message: str
    hint: str

    @classmethod
    def from_error(cls, error: LimitExceeded, text: bytes, max_tokens: int | None) -> FailedMask:
        """`text`: the text before the mask."""
        return cls(error.limit, text[-_SHOWN_BYTES:].decode(errors="replace"), max_tokens, str(error), error.hint)

    def __str__(self) -> str:
        budget = "" if self.max_tokens is None else f" under a budget of {self.max_tokens:,} tokens"
        return f"a mask{budget} exceeds the limit {self.limit!r} after {self.after!r}"
