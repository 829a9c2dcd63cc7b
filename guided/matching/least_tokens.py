"""How many tokens complete an output, and whether fewer could. In: a matcher. Out: the number, and whether it is exact.

`min_tokens_to_finish` is the length of a completion that is known, to which budgets keep. A shorter one may exist:

    root ::= ("a" | "b") ("a" | "b") | root      with a token `ab`: at most 3, the end token included; 2 are enough

Here a search with a bound on its steps looks for one, breadth first over the states that tokens lead to. If none
accepts before the known completion ends, that is a shortest one.

Cost: a step of the core for each allowed token of each state, at most `MOST_STEPS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from guided.matching.bitmask import allocate_token_bitmask, allowed_tokens
from guided.matching.matcher import GrammarMatcher
from guided.meter import spend

__all__ = ["MOST_STEPS", "LeastTokens", "least_tokens"]

MOST_STEPS: Final = 20_000


@dataclass(frozen=True, slots=True)
class LeastTokens:
    """Tokens with which an output can be completed, the end token included; `is_exact`: surely no fewer are enough."""

    count: int
    is_exact: bool

    def __str__(self) -> str:
        counted = "1 token" if self.count == 1 else f"{self.count:,} tokens"
        return counted if self.is_exact else f"at most {counted}"


def least_tokens(matcher: GrammarMatcher, most_steps: int = MOST_STEPS) -> LeastTokens:
    """As the head says, from the state of a matcher, which is left as it is."""
    bound, grammar = matcher.min_tokens_to_finish(), matcher.grammar
    bitmask = allocate_token_bitmask(1, grammar.vocabulary.size)
    ends, rebuilds = grammar.vocabulary.eos_token_ids, grammar.native.rebuilds
    level, met, steps = [matcher.fork()], {matcher.state}, 0
    for count in range(1, bound):
        if any(each.is_accepting() for each in level):
            return LeastTokens(bound, False)
        if count == bound - 1:
            break
        following: list[GrammarMatcher] = []
        for each in level:
            each.fill_next_token_bitmask(bitmask)
            tokens = [token for token in allowed_tokens(bitmask) if token not in ends]
            steps += len(tokens)
            spend(len(tokens))
            if steps > most_steps or grammar.native.rebuilds != rebuilds:
                return LeastTokens(bound, False)
            for token in tokens:
                after = each.fork()
                if after.accept_token(token) and after.state not in met:
                    met.add(after.state)
                    following.append(after)
        level = following
    return LeastTokens(bound, True)
