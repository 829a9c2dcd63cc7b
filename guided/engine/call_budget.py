"""Prevents incomplete calls: no call begins if the remaining budget could cut it short.

In: the matcher of an answer that consists of calls, or of free text with calls, and the number of tokens so far. Out:
the budget for the next mask. A mask lets a call begin if its shortest form fits, such as `{"city": ""}`. A model would
rarely write that form, and after one complete call it need not write another. So a further call begins only if as many
tokens are left as the longest call so far took.

The answer may end between calls, but not inside one: this is how calls are recognised. If no further call may begin,
the mask gets a budget that suffices to complete one character, but no call.
"""

from __future__ import annotations

from typing import Final

from guided.matching.protocol import Matcher

__all__ = ["CallBudget"]

_CHARACTER: Final = 5  # tokens that complete any character, and the end


class CallBudget:
    """The calls of one answer so far."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._begin = self._longest = 0  # the number of tokens before the current call; the length of the longest one

    def is_between_calls(self) -> bool:
        """Whether the answer may end here, which means that no call is incomplete."""
        return self._matcher.is_accepting()

    def read(self, length: int, *, is_answer: bool) -> None:
        """Note the number of tokens so far, all of which the matcher has accepted.

        `is_answer`: whether the answer has begun. The reasoning before it is not a call.
        """
        if not is_answer:
            self._begin = length
        elif self.is_between_calls():
            self._longest = max(self._longest, length - self._begin)
            self._begin = length

    def limit(self, budget: int) -> int:
        """The budget for the next mask, including the end. `budget`: the remaining budget."""
        return min(budget, _CHARACTER) if budget <= self._longest and self.is_between_calls() else budget
