"""Finds left-recursive rules that have a region. In: a grammar. Out: their names.

    sum[capture]: sum "+" NUMBER | NUMBER          only the end shows how many sums begin at the first number

A rule begins with another rule if one of its alternatives does, possibly after nullable parts. Cost: linear in the
nodes, and in the rules for each region.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache

from guided.errors import UnsupportedError
from guided.frontends.common.rule_table import children
from guided.ir.nodes import (
    Alt,
    And,
    Automaton,
    Dispatch,
    Distinct,
    Encoded,
    Entry,
    Grammar,
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

__all__ = ["check_regions", "is_nullable", "left_recursive", "recursion_error"]


def check_regions(grammar: Grammar) -> None:
    """Raise UnsupportedError if a rule with a region is left-recursive."""
    for name in left_recursive(grammar):
        raise recursion_error(grammar.origins.get(name) or name)


def recursion_error(name: str) -> UnsupportedError:
    """The error for a left-recursive rule with a region."""
    return UnsupportedError(
        "a left-recursive rule cannot be captured or have a temperature",
        pointer=name,
        hint='use right recursion (a: b "+" a | b), or as a repetition (a: b ("+" b)*)',
    )


def left_recursive(grammar: Grammar) -> list[str]:
    """The left-recursive rules with a region."""
    if not isinstance(grammar, Grammar) or not grammar.regions:  # the compiler refuses anything but a grammar
        return []
    nullable: set[str] = set()
    while True:
        done: dict[int, bool] = {}
        found = {name for name, node in grammar.rules.items() if is_nullable(node, nullable, done)}
        if found == nullable:
            break
        nullable = found
    left_corners = cache(lambda name: _left_corners(grammar.rules[name], nullable, done))
    return [name for name in grammar.regions if name in grammar.rules and _begins_with(name, grammar, left_corners)]


def _begins_with(name: str, grammar: Grammar, left_corners: Callable[[str], frozenset[str]]) -> bool:
    seen = {name}
    todo = [name]
    for rule in todo:  # grows during the loop
        if name in left_corners(rule):
            return True
        todo += (left_corners(rule) & grammar.rules.keys()) - seen
        seen |= left_corners(rule)
    return False


def _left_corners(root: Node, nullable: Collection[str], done: dict[int, bool]) -> frozenset[str]:
    """The rules with which a node can begin."""
    out, seen, todo = set[str](), set[int](), [root]
    while todo:
        node = todo.pop()
        if serial(node) in seen:
            continue
        seen.add(serial(node))
        match node:
            case Ref(name):
                out.add(name)
            case Seq(items):
                for item in items:
                    todo.append(item)
                    if not is_nullable(item, nullable, done):
                        break
            case And() | Not() | Length() | Encoded() | MaxTokens():  # regular parts, in which rules are expanded
                pass
            case Dispatch(automaton, exits, items):
                todo += [item for at, item in zip(exits, items, strict=True) if at == automaton.start]
            case Permutation(members, separator):
                todo += [member.item for member in members] + [separator]
            case _:
                todo += children(node)
    return frozenset(out)


def is_nullable(root: Node, nullable: Collection[str] = (), done: dict[int, bool] | None = None) -> bool:
    """Whether a node generates the empty text, if the rules in `nullable` do. `done` caches results."""
    done = {} if done is None else done
    todo = [root]
    while todo:
        node = todo[-1]
        parts = [] if isinstance(node, Permutation) else children(node)
        if waiting := [part for part in parts if serial(part) not in done]:
            todo += waiting
        else:
            done[serial(node)] = _is_nullable(node, [done[serial(part)] for part in parts], nullable)
            todo.pop()
    return done[serial(root)]


def _is_nullable(node: Node, parts: Sequence[bool], nullable: Collection[str]) -> bool:
    match node:
        case Ref(name):
            return name in nullable
        case Text(value):
            return not value
        case Automaton(states, start):
            return states[start][0]
        case Dispatch(automaton, exits):
            return parts[0] or any(at == automaton.start and part for at, part in zip(exits, parts[1:], strict=True))
        case Seq() | And() | Encoded() | MaxTokens() | Distinct() | Entry():
            return all(parts)
        case Alt():
            return any(parts)
        case Repeat(_, low, _):
            return low == 0 or parts[0]
        case Length(_, low, _):
            return low == 0 and parts[0]
        case Not():
            return not parts[0]
        case OtherTokens(_, low, _):
            return low == 0
        case Permutation(members, _, low):
            return low == 0 and not any(member.required for member in members)
    return False
