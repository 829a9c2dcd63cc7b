"""Equal parts of a regular expression as one object. In: an IR node. Out: an equal one, equal parts being the same.

The core takes every object once, so a large expression that is made often is worth sharing. Bottom up: a node is known
by its kind, its numbers and which children it has. Cost: linear; recurses over the depth, which its callers bound.
"""

from __future__ import annotations

from guided.grammar.ir import Alt, And, Node, Not, Repeat, Seq, Text

__all__ = ["shared"]


_WITH_ITEMS = (Seq, Alt, And)


def shared(root: Node) -> Node:
    """`root` with equal parts shared."""
    done: dict[int, Node] = {}  # by the object met
    known: dict[object, Node] = {}  # by kind and shared parts

    def share(node: Node) -> Node:
        key: object = node
        if isinstance(node, _WITH_ITEMS):
            parts = tuple([done.get(id(item)) or share(item) for item in node.items])
            key = (type(node), *map(id, parts))
            found = known.get(key) or type(node)(parts)
        elif isinstance(node, Text):
            key, found = node.text, node
        elif isinstance(node, Repeat):
            part = done.get(id(node.item)) or share(node.item)
            key = (id(part), node.min, node.max)
            found = known.get(key) or Repeat(part, node.min, node.max)
        elif isinstance(node, Not):
            part = done.get(id(node.item)) or share(node.item)
            key = id(part)
            found = known.get(key) or Not(part)
        else:
            found = node
        found = done[id(node)] = known.setdefault(key, found)
        return found

    return share(root)
