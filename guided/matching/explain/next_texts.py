"""What may follow a prefix, and why a text or a token may not. In: a matcher after the prefix. Out: a `NextTexts`.

It extends an `Explanation` by locations (line and column), the tokens that the mask allows, the forced tokens, and the
number of tokens that complete the output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from guided.matching.bitmask import allocate_token_bitmask, allowed_tokens
from guided.matching.explain.error_location import ErrorLocation
from guided.matching.explain.explanation import Explanation, is_text, shortest_completion
from guided.matching.least_tokens import LeastTokens, least_tokens
from guided.matching.matcher import GrammarMatcher

__all__ = ["NextTexts", "next_texts"]


@dataclass(frozen=True, slots=True)
class NextTexts:
    """What may follow a prefix.

    Attributes:
        explanation: of the candidate text or token, or of the state after the prefix.
        here: the end of the prefix.
        place: where prefix and text together stop being allowed; None if they are allowed, or for a control token.
        allowed: the ids that the mask allows.
        forced: the tokens that must come next.
        to_finish: the number of tokens to the end, including the end token, as budgets count; and whether it is exact.
        vocabulary_size: number of ids.
    """

    explanation: Explanation
    here: ErrorLocation
    place: ErrorLocation | None
    allowed: list[int]
    forced: list[int]
    to_finish: LeastTokens
    vocabulary_size: int

    def fields(self, most: int | None = None) -> dict[str, Any]:
        """As data, with `most` of the allowed tokens (None: all of them)."""
        return {
            "accepted": self.explanation.accepted,
            "read": self.explanation.characters_read,
            "reason": self.explanation.reason,
            "place": self.place.fields() if self.place is not None else None,
            "after_prefix": self.here.fields(),
            "allowed_tokens": self.allowed[:most],
            "forced_tokens": self.forced,
            "min_tokens_to_finish": self.to_finish.count,
            "min_tokens_is_exact": self.to_finish.is_exact,
            "vocabulary_size": self.vocabulary_size,
        }


def next_texts(matcher: GrammarMatcher, prefix: bytes, candidate: int | bytes | None) -> NextTexts:
    """What may follow the accepted output of a matcher.

    Args:
        matcher: after the prefix.
        prefix: the text of the prefix, without control tokens.
        candidate: a token or a text to explain; None: only what is expected.
    """
    explanation, size = matcher.explain(candidate), matcher.grammar.vocabulary.size
    died = not explanation.accepted and explanation.data != b"" and is_text(explanation.data)
    bitmask = allocate_token_bitmask(1, size)
    matcher.fill_next_token_bitmask(bitmask)
    return NextTexts(
        explanation,
        _place(matcher, prefix, explanation if candidate is None else matcher.explain()),
        _place(matcher, prefix, explanation) if died else None,
        [token for token in allowed_tokens(bitmask) if token < size],
        matcher.forced_tokens(),
        least_tokens(matcher),
        size,
    )


def _place(matcher: GrammarMatcher, prefix: bytes, explanation: Explanation) -> ErrorLocation:
    """Where the prefix and the candidate text together stop being allowed."""
    text, read = (prefix + explanation.data).decode(errors="replace"), explanation.data[: explanation.read]
    offset = len((prefix + read).decode(errors="replace"))
    if explanation.expected.begun:  # the text ends inside its last character
        offset = len(text)
    after = matcher.fork()
    completion = shortest_completion(after)[0] or b"" if after.accept_string(read) else explanation.completion
    return ErrorLocation(text, offset, explanation, completion)
