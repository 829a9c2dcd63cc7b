"""Tokens by what they are not, spelled out for one vocabulary. In: an `OtherTokens` node. Out: nodes without it.

Cost: linear in the vocabulary, unless the node means any text.
"""

from __future__ import annotations

from collections.abc import Collection

from guided.grammar.ir import ANY_CHAR, Alt, Node, Repeat, Special

__all__ = ["other_tokens"]


def other_tokens(but: Collection[int], low: int, high: int | None, text_ids: Collection[int]) -> Node:
    """`low` to `high` tokens out of those that have text, `text_ids`, without `but`; see `OtherTokens`."""
    if high is None and low <= 1 and not any(token in text_ids for token in but):
        return Repeat(ANY_CHAR, low, None)
    return Repeat(Alt(tuple([Special(token) for token in sorted(text_ids) if token not in but])), low, high)
