"""The state of one request, with the methods of vLLM's `StructuredOutputGrammar`.

In: a matcher and the request's `max_tokens`. Out: rows of vLLM's bitmask, and whether tokens are accepted. Each mask
leaves room for the shortest end within the budget, so an answer is complete, its end token included, when `max_tokens`
is reached. Drafts of speculative decoding are cut where the mask would forbid them, the budget included.

What a request wrote before its answer, its reasoning, is taken from the budget, as soon as `follow` tells of it. Where
that leaves no room for the shortest answer, the grammar is kept, and the budget cannot be.

It does not import vLLM; `plugin.py` checks that the methods are those that vLLM calls.
"""

from __future__ import annotations

from typing import Any

from guided.errors import BudgetError
from guided.matching.matcher import GrammarMatcher

__all__ = ["GuidedGrammar"]


class GuidedGrammar:
    """See the head.

    Args:
        matcher: at its beginning.
        max_tokens: what the answer may take, its end token counted; None: no budget.
    """

    def __init__(self, matcher: GrammarMatcher, max_tokens: int | None = None) -> None:
        self.matcher, self.max_tokens = matcher, max_tokens
        self._before = 0  # tokens that the request wrote before the grammar began

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Go on with tokens; what follows an end token is not read. False, with the state unchanged: one is refused."""
        before = self.matcher.steps
        for token in tokens:
            if self.matcher.is_terminated():
                break
            if not self.matcher.accept_token(token):
                self.matcher.rollback(self.matcher.steps - before)
                return False
        return True

    def follow(self, written: int) -> None:
        """All that was accepted is final, and the request has written so many tokens, its reasoning included."""
        if not self.matcher.is_terminated():
            self._before = written - self.matcher.steps

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """Those from the front that masks would allow one after the other, up to an end token. The state stays."""
        accepted = list[int]()
        for token in tokens:
            if self.matcher.is_terminated() or not self.matcher.accept_token(token):
                break
            accepted.append(token)
            left = self._left()
            if left is not None and not self.matcher.is_terminated() and self.matcher.min_tokens_to_finish() > left:
                accepted.pop()
                self.matcher.rollback(1)
                break
        self.matcher.rollback(len(accepted))
        return accepted

    def rollback(self, num_tokens: int) -> None:
        """Take back the last tokens that were accepted."""
        self.matcher.rollback(num_tokens)

    def fill_bitmask(self, bitmask: Any, batch_index: int) -> None:
        """Write the tokens that may come next into a row of the bitmask, int32 (rows, words) on a CPU.

        After an end token all are allowed, as in vLLM's own backends: it has ended the request, or was told to ignore
        end tokens.
        """
        if self.matcher.is_terminated():
            bitmask[batch_index] = -1
            return
        left = self._left()
        try:
            masked = self.matcher.fill_next_token_bitmask(
                bitmask, batch_index, max_tokens=left if left is None or left > 0 else None
            )
        except BudgetError:  # tokens were accepted that no mask allowed, so it can be kept no longer; the grammar can
            masked = self.matcher.fill_next_token_bitmask(bitmask, batch_index)
        if not masked:
            bitmask[batch_index] = -1

    def is_terminated(self) -> bool:
        """Whether an end token was accepted."""
        return self.matcher.is_terminated()

    def reset(self) -> None:
        """Begin anew."""
        self.matcher.reset()

    def _left(self) -> int | None:
        """Tokens that are left; 0 and less behind drafts that reach beyond the budget."""
        return None if self.max_tokens is None else self.max_tokens - self._before - self.matcher.steps
