"""Expresses `OtherTokens` by other nodes, for one vocabulary."""

from __future__ import annotations

from collections.abc import Collection

from guided.ir.nodes import ANY_CHAR, Alt, Node, OtherTokens, Repeat, Special

__all__ = ["is_any_text", "other_tokens"]


def is_any_text(node: OtherTokens, excluded: Collection[int], text_ids: Collection[int]) -> bool:
    """Whether the node means any text; see `OtherTokens`.

    Args:
        excluded: the ids of `node.but`.
        text_ids: the ids that have text.
    """
    return node.max is None and node.min <= 1 and not any(token in text_ids for token in excluded)


def other_tokens(node: OtherTokens, excluded: Collection[int], text_ids: Collection[int]) -> Node:
    """An equivalent node without `OtherTokens`: any text, or a list of the allowed tokens. Cost: linear in the
    vocabulary.
    """
    if is_any_text(node, excluded, text_ids):
        return Repeat(ANY_CHAR, node.min, None)
    return Repeat(
        Alt(tuple([Special(token) for token in sorted(text_ids) if token not in excluded])), node.min, node.max
    )
