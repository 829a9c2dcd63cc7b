"""Finds left-recursive rules that have a region: they are captured or have a temperature (`Grammar.regions`).

In: a grammar. Out: their names. Such a rule is refused, because only the text after a region's beginning shows how many
regions begin there:

    sum[capture]: sum "+" NUMBER | NUMBER          in 1+2+3, three sums begin at 1

A rule begins with another rule if one of its alternatives does, possibly after nullable parts. Cost: linear in the
nodes; for each region, also linear in the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache

from guided.errors import UnsupportedError
from guided.frontends.common.nullable import is_nullable, nullable_rules
from guided.frontends.common.rule_table import children
from guided.ir.nodes import And, Dispatch, Encoded, Grammar, Length, MaxTokens, Node, Not, Permutation, Ref, Seq
from guided.ir.serial import serial

__all__ = ["check_regions", "find_left_recursive", "recursion_error"]


def check_regions(grammar: Grammar) -> None:
    """Raise UnsupportedError if a rule with a region is left-recursive."""
    for name in find_left_recursive(grammar):
        raise recursion_error(grammar.origins.get(name) or name)


def recursion_error(name: str) -> UnsupportedError:
    """The error for a left-recursive rule with a region."""
    return UnsupportedError(
        "a left-recursive rule cannot be captured or have a temperature",
        pointer=name,
        hint='use right recursion (a: b "+" a | b), or a repetition (a: b ("+" b)*)',
    )


def find_left_recursive(grammar: Grammar) -> list[str]:
    """The left-recursive rules with a region."""
    if not isinstance(grammar, Grammar) or not grammar.regions:  # the compiler refuses anything but a grammar
        return []
    nullable, nullable_cache = nullable_rules(grammar.rules), dict[int, bool]()
    left_corners = cache(lambda name: _left_corners(grammar.rules[name], nullable, nullable_cache))
    return [
        name for name in grammar.regions if name in grammar.rules and _begins_with_itself(name, grammar, left_corners)
    ]


def _begins_with_itself(name: str, grammar: Grammar, left_corners: Callable[[str], frozenset[str]]) -> bool:
    seen = {name}
    todo = [name]
    for rule in todo:  # grows during the loop
        if name in left_corners(rule):
            return True
        todo += (left_corners(rule) & grammar.rules.keys()) - seen
        seen |= left_corners(rule)
    return False


def _left_corners(root: Node, nullable: Collection[str], nullable_cache: dict[int, bool]) -> frozenset[str]:
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
                    if not is_nullable(item, nullable, nullable_cache):
                        break
            case And() | Not() | Length() | Encoded() | MaxTokens():  # regular, so they contain no recursive rules
                pass
            case Dispatch(automaton, exits, items):
                todo += [item for state, item in zip(exits, items, strict=True) if state == automaton.start]
            case Permutation(members, separator):
                todo += [member.item for member in members] + [separator]
            case _:
                todo += children(node)
    return frozenset(out)
