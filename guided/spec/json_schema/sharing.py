"""Equal parts of a regular expression as one object. In: an IR node. Out: an equal one, equal parts being the same.

The core takes every object once, so a large expression that is made often is worth sharing. Bottom up: a node is known
by its kind, its numbers and which children it has. Cost: linear; recurses over the depth, which its callers bound.
"""

from __future__ import annotations

from guided.grammar.ir import Alt, And, Node, Not, Repeat, Seq, Text

__all__ = ["shared"]


def shared(root: Node) -> Node:
    """`root` with equal parts shared."""
    done: dict[int, Node] = {}  # by the object met
    known: dict[object, Node] = {}  # by kind and shared parts

    def share(node: Node) -> Node:
        found = done.get(id(node))
        if found is None:
            found = done[id(node)] = whole(node)
        return found

    def whole(node: Node) -> Node:
        match node:
            case Seq(items) | Alt(items) | And(items):
                parts = tuple([share(item) for item in items])
                key = (type(node), *map(id, parts))
                return known.get(key) or known.setdefault(key, type(node)(parts))
            case Repeat(item, low, high):
                part = share(item)
                return known.setdefault((id(part), low, high), Repeat(part, low, high))
            case Not(item):
                part = share(item)
                return known.setdefault(id(part), Not(part))
            case Text(text):
                return known.setdefault(text, node)
        return known.setdefault(node, node)

    return share(root)
