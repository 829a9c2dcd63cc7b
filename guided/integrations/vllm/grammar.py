"""The state of one request, with the methods of vLLM's `StructuredOutputGrammar`.

In: a matcher and the request's `max_tokens`. Out: rows of vLLM's bitmask, and whether tokens are accepted. After each
token that a mask allows, enough of the budget is left for the shortest completion. So the answer, including its end
token, is complete within `max_tokens`. Drafts of speculative decoding are cut at the first token that the grammar or
the budget forbids.

Reasoning before the answer counts toward the budget as soon as `report_output_length` reports it. If too few tokens are
left for the shortest answer, the grammar is still enforced, but the budget cannot be.

This module does not import vLLM; `plugin.py` checks that the class has the methods that vLLM calls.
"""

from __future__ import annotations

from typing import Any

from guided.errors import BudgetError
from guided.matching.matcher import GrammarMatcher
from guided.matching.protocol import accept_any_id

__all__ = ["GuidedGrammar"]


class GuidedGrammar:
    """See the module docstring.

    Args:
        matcher: a matcher that has not accepted anything yet.
        max_tokens: the token budget of the request: reasoning, answer and end token; None: no budget.
    """

    def __init__(self, matcher: GrammarMatcher, max_tokens: int | None = None) -> None:
        self.matcher, self.max_tokens = matcher, max_tokens
        self._reasoning_length = 0  # the number of tokens before the text that the grammar constrains

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Accept tokens up to an end token. Return False, with the state unchanged, if a token is refused."""
        steps_before = self.matcher.steps
        for token in tokens:
            if self.matcher.is_terminated():
                break
            if not accept_any_id(self.matcher, token):
                self.matcher.rollback(self.matcher.steps - steps_before)
                return False
        return True

    def report_output_length(self, output_length: int) -> None:
        """Compute the length of the reasoning. All accepted tokens must be final, that is, no drafts are among them.

        Args:
            output_length: the number of tokens so far, including reasoning.
        """
        if not self.matcher.is_terminated():
            self._reasoning_length = output_length - self.matcher.steps

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """The longest prefix that the masks would allow, up to an end token. The state is unchanged."""
        accepted_tokens = list[int]()
        for token in tokens:
            if self.matcher.is_terminated() or not accept_any_id(self.matcher, token):
                break
            accepted_tokens.append(token)
            tokens_left = self._remaining_tokens()
            if (
                tokens_left is not None
                and not self.matcher.is_terminated()
                and self.matcher.min_tokens_to_finish() > tokens_left
            ):
                accepted_tokens.pop()
                self.matcher.rollback(1)
                break
        self.matcher.rollback(len(accepted_tokens))
        return accepted_tokens

    def rollback(self, num_tokens: int) -> None:
        """Take back the last accepted tokens."""
        self.matcher.rollback(num_tokens)

    def fill_bitmask(self, bitmask: Any, batch_index: int) -> None:
        """Write the tokens that may come next into a row of the bitmask, int32 (rows, words) on a CPU.

        After an end token all tokens are allowed, as in vLLM's own backends: the request has ended, or it ignores end
        tokens.
        """
        if self.matcher.is_terminated():
            bitmask[batch_index] = -1
            return
        tokens_left = self._remaining_tokens()
        try:
            is_masked = self.matcher.fill_next_token_bitmask(
                bitmask, batch_index, max_tokens=tokens_left if tokens_left is None or tokens_left > 0 else None
            )
        except BudgetError:  # tokens were accepted that the mask forbids under the budget: enforce only the grammar
            is_masked = self.matcher.fill_next_token_bitmask(bitmask, batch_index)
        if not is_masked:
            bitmask[batch_index] = -1

    def is_terminated(self) -> bool:
        """Whether an end token was accepted."""
        return self.matcher.is_terminated()

    def reset(self) -> None:
        """Return to the initial state."""
        self.matcher.reset()

    def _remaining_tokens(self) -> int | None:
        """The number of tokens left; 0 or less after drafts that exceed the budget."""
        return None if self.max_tokens is None else self.max_tokens - self._reasoning_length - self.matcher.steps
