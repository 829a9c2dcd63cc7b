"""Finds the least number of tokens that complete an output, by exhaustive search.

In: a matcher, and an upper bound. Out: the exact number of tokens from its state to an end, including the end token; or
None if the search was cut off after `seconds` of CPU time.

It searches the grammar's states breadth first: level k holds the states that k tokens can lead to. A state is expanded
with its plain mask: every allowed token is accepted. Equal states are merged, so each is expanded once. The first level
with an accepting state is the answer. If there is none up to the level before the bound, the bound is the answer. The
search relies only on masks and steps, not on the completions that the core computes.
Cost: one step for every pair of a state and an allowed token: about 60 ms for a state inside a string, over 128,000
tokens.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import guided

__all__ = ["Answer", "exact_minimum"]


@dataclass(frozen=True)
class Answer:
    """`tokens`: the exact minimum, or None if the search was cut off. `at_least`: a proved lower bound."""

    tokens: int | None
    at_least: int
    states: int


def exact_minimum(start: guided.GrammarMatcher, bound: int, *, seconds: float) -> Answer:
    """Search from the state of `start`, below `bound`, which some completion is known to reach."""
    deadline = time.process_time() + seconds
    grammar = start.grammar
    bitmask = guided.allocate_token_bitmask(1, grammar.vocabulary.size)
    ends = grammar.vocabulary.eos_token_ids
    rebuilds = grammar.native.rebuilds
    seen = {start.state}
    level = [start.fork()]
    tokens = 0
    while level:
        if any(matcher.is_accepting() for matcher in level):
            return Answer(tokens + 1, tokens + 1, len(seen))
        if tokens + 2 >= bound:  # one more token and the end reach the bound
            return Answer(bound, bound, len(seen))
        following: list[guided.GrammarMatcher] = []
        for matcher in level:
            matcher.fill_next_token_bitmask(bitmask)
            for token in guided.allowed_tokens(bitmask):
                if token in ends:
                    continue
                matcher.accept_token(token)
                if matcher.state not in seen:
                    seen.add(matcher.state)
                    following.append(matcher.fork())
                matcher.rollback(1)
            if time.process_time() > deadline or grammar.native.rebuilds != rebuilds:
                return Answer(None, tokens + 2, len(seen))
        level = following
        tokens += 1
    raise RuntimeError("no completion exists, though the grammar compiled")
