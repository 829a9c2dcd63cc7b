"""Checks whether nodes of the IR generate the empty text. In: a node, or rules. Out: a bool, or the names of the rules.

Cost: linear in the nodes. A rule is examined again whenever a rule that it refers to turns out to generate the empty
text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from guided.frontends.common.rule_table import children, parts_of
from guided.ir.nodes import (
    Alt,
    And,
    Automaton,
    Dispatch,
    Distinct,
    Encoded,
    Entry,
    Length,
    MaxTokens,
    Node,
    Not,
    OtherTokens,
    Permutation,
    Ref,
    Repeat,
    Seq,
    Text,
)
from guided.ir.serial import serial

__all__ = ["is_nullable", "nullable_rules"]


def nullable_rules(rules: Mapping[str, Node]) -> set[str]:
    """The rules that generate the empty text. Later rules are examined first, since earlier ones usually refer to
    them.
    """
    referring_rules: dict[str, set[str]] = {}
    for name, node in rules.items():
        for part in parts_of(node):
            if isinstance(part, Ref):
                referring_rules.setdefault(part.name, set()).add(name)
    out, work = set[str](), list(rules)
    while work:
        name = work.pop()
        if name not in out and is_nullable(rules[name], out):
            out.add(name)
            work += referring_rules.get(name, ())
    return out


def is_nullable(root: Node, nullable: Collection[str] = (), results: dict[int, bool] | None = None) -> bool:
    """Whether a node generates the empty text, if the rules in `nullable` do. `results` caches results."""
    results = {} if results is None else results
    todo = [root]
    while todo:
        node = todo[-1]
        parts = [] if isinstance(node, Permutation) else children(node)
        if pending_parts := [part for part in parts if serial(part) not in results]:
            todo += pending_parts
        else:
            results[serial(node)] = _is_nullable(node, [results[serial(part)] for part in parts], nullable)
            todo.pop()
    return results[serial(root)]


def _is_nullable(node: Node, are_nullable: Sequence[bool], nullable: Collection[str]) -> bool:
    """`are_nullable`: whether each child of the node generates the empty text."""
    match node:
        case Ref(name):
            return name in nullable
        case Text(value):
            return not value
        case Automaton(states, start):
            return states[start][0]
        case Dispatch(automaton, exits):
            return are_nullable[0] or any(
                state == automaton.start and is_item_nullable
                for state, is_item_nullable in zip(exits, are_nullable[1:], strict=True)
            )
        case Seq() | And() | Encoded() | MaxTokens() | Distinct() | Entry():
            return all(are_nullable)
        case Alt():
            return any(are_nullable)
        case Repeat(_, low, _):
            return low == 0 or are_nullable[0]
        case Length(_, low, _):
            return low == 0 and are_nullable[0]
        case Not():
            return not are_nullable[0]
        case OtherTokens(_, low, _):
            return low == 0
        case Permutation(members, _, low):
            return low == 0 and not any(member.required for member in members)
    return False
