"""Equal parts of a regular expression as one object. In: an IR node. Out: an equal one, equal parts being the same.

The core takes every object once, so a large expression that is made often is worth sharing. Bottom up: a node is known
by its kind, its numbers and which children it has. Cost: linear; recurses over the depth, which its callers bound.
"""

from __future__ import annotations

from guided.grammar.ir import Alt, And, Node, Not, Repeat, Seq

__all__ = ["shared"]


def shared(root: Node) -> Node:
    """`root` with equal parts shared."""
    done: dict[int, Node] = {}
    known: dict[object, Node] = {}

    def share(node: Node) -> Node:
        found = done.get(id(node))
        if found is None:
            found = done[id(node)] = known.setdefault(*_rebuilt(node))
        return found

    def _rebuilt(node: Node) -> tuple[object, Node]:
        match node:
            case Seq(items) | Alt(items) | And(items):
                parts = tuple(share(item) for item in items)
                return (type(node), *map(id, parts)), type(node)(parts)
            case Repeat(item, low, high):
                part = share(item)
                return (Repeat, id(part), low, high), Repeat(part, low, high)
            case Not(item):
                part = share(item)
                return (Not, id(part)), Not(part)
        return node, node

    return share(root)
