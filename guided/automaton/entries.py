"""Rejects entries of uniqueness scopes that the core does not support. In: a grammar. Cost: linear in its nodes."""

from __future__ import annotations

from guided.errors import UnsupportedError
from guided.frontends.common.rule_table import children
from guided.ir.nodes import Entry, Grammar, MaxTokens, Node, Ref
from guided.ir.serial import ByIdentity

__all__ = ["check_entries"]


def check_entries(grammar: Grammar) -> None:
    """Raise `UnsupportedError` for `MaxTokens` in an `Entry`.

    The core cannot check whether a value can still become an unseen one within the limit.
    """
    seen = {is_in_entry: ByIdentity[object, None]() for is_in_entry in (False, True)}  # a `Member` has no serial number
    todo: list[tuple[Node, bool]] = [(node, False) for node in grammar.rules.values()]
    while todo:
        node, is_in_entry = todo.pop()
        is_in_entry = is_in_entry or isinstance(node, Entry)
        if node in seen[is_in_entry]:
            continue
        seen[is_in_entry][node] = None
        if is_in_entry and isinstance(node, MaxTokens):
            raise UnsupportedError("MaxTokens inside an Entry", hint="limit the characters instead, with Length")
        todo += [(child, is_in_entry) for child in children(node)]
        if is_in_entry and isinstance(node, Ref):
            todo.append((grammar.rules[node.name], True))
