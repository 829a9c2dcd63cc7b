"""Languages of decoded strings, as IR: any text, texts of a given length, unions."""

from __future__ import annotations

from collections.abc import Sequence

from guided.ir.nodes import ANY_CHAR, EMPTY, Alt, Length, Node, Repeat

__all__ = ["any_text", "union_of", "with_length"]


def any_text(low: int = 0, high: int | None = None) -> Node:
    """Decoded content of `low` to `high` characters."""
    return Repeat(ANY_CHAR, low, high)


def union_of(nodes: Sequence[Node]) -> Node:
    """The union of the nodes."""
    return EMPTY if not nodes else nodes[0] if len(nodes) == 1 else Alt(tuple(nodes))


def with_length(content: Node, low: int, high: int | None) -> Node:
    """The texts of `content` that have `low` to `high` characters."""
    return content if low == 0 and high is None else Length(content, low, high)
