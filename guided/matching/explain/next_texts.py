"""Explains what may follow a prefix, and why a text or a token may not. In: a matcher after the prefix. Out: a
`NextStep`.

A `NextStep` adds to an `Explanation`: locations (line and column), the tokens that the mask allows, the forced tokens,
and the number of tokens that complete the output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from guided.matching.bitmask import allocate_token_bitmask, allowed_tokens
from guided.matching.explain.error_location import ErrorLocation, locate_error
from guided.matching.explain.explanation import Explanation, is_text
from guided.matching.least_tokens import MinTokens, count_min_tokens
from guided.matching.matcher import GrammarMatcher

__all__ = ["NextStep", "explain_next"]


@dataclass(frozen=True, slots=True)
class NextStep:
    """What may follow a prefix.

    Attributes:
        explanation: of the candidate text or token, or of the state after the prefix if there is no candidate.
        prefix_end: the location of the end of the prefix.
        error_location: where the prefix and the candidate stop being allowed; None if the candidate is allowed or a
            control token.
        allowed: the ids that the mask allows.
        forced: the tokens that must come next.
        min_tokens: the minimum number of tokens that complete the output, including the end token, and whether it is
            exact.
        vocabulary_size: the number of ids.
    """

    explanation: Explanation
    prefix_end: ErrorLocation
    error_location: ErrorLocation | None
    allowed: list[int]
    forced: list[int]
    min_tokens: MinTokens
    vocabulary_size: int

    def fields(self, max_tokens_shown: int | None = None) -> dict[str, Any]:
        """The result as JSON data, with at most `max_tokens_shown` allowed tokens (None: all)."""
        return {
            "accepted": self.explanation.accepted,
            "read": self.explanation.characters_read,
            "reason": self.explanation.reason,
            "place": self.error_location.fields() if self.error_location is not None else None,
            "after_prefix": self.prefix_end.fields(),
            "allowed_tokens": self.allowed[:max_tokens_shown],
            "forced_tokens": self.forced,
            "min_tokens_to_finish": self.min_tokens.count,
            "min_tokens_is_exact": self.min_tokens.is_exact,
            "vocabulary_size": self.vocabulary_size,
        }


def explain_next(matcher: GrammarMatcher, prefix: bytes, candidate: int | bytes | None) -> NextStep:
    """What may follow the accepted output of a matcher.

    Args:
        matcher: has read the prefix.
        prefix: the text of the prefix, without control tokens.
        candidate: a token or a text to explain; None: explain only what is expected next.
    """
    explanation, size = matcher.explain(candidate), matcher.grammar.vocabulary.size
    is_refused_text = not explanation.accepted and explanation.data != b"" and is_text(explanation.data)
    bitmask = allocate_token_bitmask(1, size)
    matcher.fill_next_token_bitmask(bitmask)
    return NextStep(
        explanation,
        locate_error(matcher, prefix, explanation if candidate is None else matcher.explain()),
        locate_error(matcher, prefix, explanation) if is_refused_text else None,
        [token for token in allowed_tokens(bitmask) if token < size],
        matcher.forced_tokens(),
        count_min_tokens(matcher),
        size,
    )
