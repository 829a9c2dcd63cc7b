"""Checks whether the known number of tokens that complete an output is the minimum. In: a matcher. Out: this number,
and whether it is exact.

`min_tokens_to_finish` is the length of a known completion, which budgets use. A shorter one may exist:

    root ::= ("a" | "b") ("a" | "b") | root      with a token `ab`: at most 3, including the end token; 2 are enough

A bounded breadth-first search looks for a shorter one. If there is none, the known number is exact. If it finds one, or
gives up, the number is only an upper bound.

Cost: one step of the core for each allowed token of each state, at most `MAX_STEPS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from guided.matching.bitmask import allocate_token_bitmask, allowed_tokens
from guided.matching.matcher import GrammarMatcher
from guided.meter import spend

__all__ = ["MAX_STEPS", "MinTokens", "count_min_tokens"]

MAX_STEPS: Final = 20_000


@dataclass(frozen=True, slots=True)
class MinTokens:
    """The number of tokens that complete an output, including the end token; `is_exact`: it is the minimum."""

    count: int
    is_exact: bool

    def __str__(self) -> str:
        text = "1 token" if self.count == 1 else f"{self.count:,} tokens"
        return text if self.is_exact else f"at most {text}"


def count_min_tokens(matcher: GrammarMatcher, max_steps: int = MAX_STEPS) -> MinTokens:
    """See the module docstring. The state of the matcher does not change."""
    bound, grammar = matcher.min_tokens_to_finish(), matcher.grammar
    bitmask = allocate_token_bitmask(1, grammar.vocabulary.size)
    eos_token_ids, rebuilds = grammar.vocabulary.eos_token_ids, grammar.native.rebuilds
    level, seen, steps = [matcher.fork()], {matcher.state}, 0
    for count in range(1, bound):
        if any(state.is_accepting() for state in level):
            return MinTokens(bound, False)
        if count == bound - 1:
            break
        next_level: list[GrammarMatcher] = []
        for current in level:
            current.fill_next_token_bitmask(bitmask)
            tokens = [token for token in allowed_tokens(bitmask) if token not in eos_token_ids]
            steps += len(tokens)
            spend(len(tokens))
            if steps > max_steps or grammar.native.rebuilds != rebuilds:
                return MinTokens(bound, False)
            for token in tokens:
                successor = current.fork()
                if successor.accept_token(token) and successor.state not in seen:
                    seen.add(successor.state)
                    next_level.append(successor)
        level = next_level
    return MinTokens(bound, True)
