"""Languages of decoded strings, as IR: any string, strings of a given length, unions."""

from __future__ import annotations

from collections.abc import Sequence

from guided.ir.nodes import ANY_CHAR, EMPTY, Alt, Length, Node, Repeat

__all__ = ["any_string", "union_of", "with_length"]


def any_string(low: int = 0, high: int | None = None) -> Node:
    """All decoded strings of `low` to `high` characters."""
    return Repeat(ANY_CHAR, low, high)


def union_of(nodes: Sequence[Node]) -> Node:
    """The union of the nodes."""
    return EMPTY if not nodes else nodes[0] if len(nodes) == 1 else Alt(tuple(nodes))


def with_length(content: Node, low: int, high: int | None) -> Node:
    """The strings of `content` that have `low` to `high` characters."""
    return content if low == 0 and high is None else Length(content, low, high)
