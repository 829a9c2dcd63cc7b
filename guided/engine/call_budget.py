"""Prevents incomplete calls: no call begins if the remaining budget could cut it short.

In: the matcher of an answer that consists of calls, or of free text with calls, and the number of tokens so far. Out:
the budget for the next mask. A mask allows a call to begin if its shortest form fits, such as `{"city": ""}`. Models
rarely write that form, and after one complete call they need not write another. So another call may begin only if more
tokens are left than the longest call so far took.

The answer may end between calls, but not inside one: this is how calls are recognised. If no further call may begin,
the mask gets a budget that suffices to complete one character, but no call.
"""

from __future__ import annotations

from typing import Final

from guided.matching.protocol import Matcher

__all__ = ["CallBudget"]

_CHARACTER_TOKENS: Final = 5  # enough tokens to complete any character and to end the answer


class CallBudget:
    """The calls of one answer so far."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._call_begin = self._longest_call = 0  # numbers of tokens: before the current call; in the longest call

    def is_between_calls(self) -> bool:
        """Whether the answer may end here, which means that no call is incomplete."""
        return self._matcher.is_accepting()

    def record_length(self, length: int, *, is_answer: bool) -> None:
        """Record the number of tokens so far. The matcher must have accepted all of them.

        `is_answer`: whether the answer has begun. The reasoning before it is not a call.
        """
        if not is_answer:
            self._call_begin = length
        elif self.is_between_calls():
            self._longest_call = max(self._longest_call, length - self._call_begin)
            self._call_begin = length

    def limit(self, budget: int) -> int:
        """The budget for the next mask, including the end token. `budget`: the remaining budget."""
        return min(budget, _CHARACTER_TOKENS) if budget <= self._longest_call and self.is_between_calls() else budget
