"""Refuses entries of uniqueness scopes that the core does not support. In: a grammar. Cost: linear in its nodes."""

from __future__ import annotations

from guided.errors import UnsupportedError
from guided.frontends.common.rule_table import children
from guided.ir.nodes import Entry, Grammar, MaxTokens, Node, Ref
from guided.ir.serial import ByIdentity

__all__ = ["check_entries"]


def check_entries(grammar: Grammar) -> None:
    """Refuse `MaxTokens` in an `Entry`.

    The core does not check whether a value can still become an unseen one within the limit.
    """
    seen = {inside: ByIdentity[object, None]() for inside in (False, True)}  # members have no serial number
    todo: list[tuple[Node, bool]] = [(node, False) for node in grammar.rules.values()]
    while todo:
        node, inside = todo.pop()
        inside = inside or isinstance(node, Entry)
        if node in seen[inside]:
            continue
        seen[inside][node] = None
        if inside and isinstance(node, MaxTokens):
            raise UnsupportedError("MaxTokens inside an Entry", hint="limit the characters instead, with Length")
        todo += [(child, inside) for child in children(node)]
        if inside and isinstance(node, Ref):
            todo.append((grammar.rules[node.name], True))
