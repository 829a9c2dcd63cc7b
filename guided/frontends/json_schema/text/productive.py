"""Checks whether a rule generates anything. In: IR rules and a name. Out: False if its language is certainly empty.

A least fixpoint, computed top-down: a rule generates something once one of its alternatives needs only rules that
generate something. Only rules on which the result depends are visited. Regular operations (`And`, `Not`, `Length`) are
assumed to be non-empty; the automaton core decides about them. Cost: linear in the visited rules and their references.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from guided.ir.nodes import Alt, Chars, Distinct, Encoded, Entry, Node, Permutation, Ref, Repeat, Seq, Text

__all__ = ["generates", "productive_rules"]

_NEVER_EMPTY = frozenset((Text, Encoded))  # the most frequent nodes without parts


def generates(start: str, rules: Mapping[str, Node]) -> bool:
    """Whether the rule `start` may generate a string. False is certain."""
    return start in _find_productive([start], rules, start)


def productive_rules(names: Iterable[str], rules: Mapping[str, Node]) -> set[str]:
    """The rules that may generate a string, among `names` and the rules on which these depend."""
    return _find_productive(list(names), rules, None)


def _find_productive(work: list[str], rules: Mapping[str, Node], target: str | None) -> set[str]:
    """The rules that generate something, among `work` and its dependencies. Stops early once `target` is found."""
    productive: set[str] = set()
    entered_rules: set[str] = set()
    waiting_rules: defaultdict[str, set[str]] = defaultdict(set)  # rule -> rules to revisit once it is productive
    while work and target not in productive:
        name = work.pop()
        if name in productive:
            continue
        missing: list[str] = []
        if _generates(rules[name], productive, missing):
            productive.add(name)
            work.extend(waiting_rules.pop(name, ()))
        elif name not in entered_rules:  # revisited after all rules on which it depends
            entered_rules.add(name)
            work.append(name)
            work.extend(dependency for dependency in missing if dependency not in entered_rules)
        else:
            for dependency in missing:
                waiting_rules[dependency].add(name)
    return productive


def _generates(node: Node, productive: set[str], missing: list[str]) -> bool:
    if isinstance(node, Seq):
        is_productive, parts = True, list(node.items)
        while parts:  # visit every part, to collect all that is missing
            part = parts.pop()
            if type(part) in _NEVER_EMPTY:
                continue
            if isinstance(part, Seq):
                parts += part.items
            elif not (isinstance(part, Repeat) and part.min == 0):
                is_productive = _generates(part, productive, missing) and is_productive
        return is_productive
    if isinstance(node, Ref):
        if node.name not in productive:
            missing.append(node.name)
        return node.name in productive
    if isinstance(node, Alt):
        return any(_generates(item, productive, missing) for item in node.items)
    if isinstance(node, Repeat):
        return node.min == 0 or _generates(node.item, productive, missing)
    if isinstance(node, Permutation):
        return _generates_permutation(node, productive, missing)
    if isinstance(node, Distinct | Entry):
        return _generates(node.item, productive, missing)
    return not isinstance(node, Chars) or bool(node.ranges)


def _generates_permutation(node: Permutation, productive: set[str], missing: list[str]) -> bool:
    if node.max is not None and node.max < node.min:
        return False
    members = [(member, _generates(member.item, productive, missing)) for member in node.members]
    if node.condition is not None or node.ordered or node.slots:
        return any(is_productive for _, is_productive in members)  # the core decides
    if not all(is_productive for member, is_productive in members if member.required):
        return False
    count = sum(is_productive for _, is_productive in members)
    return count >= node.min or any(is_productive and member.repeatable for member, is_productive in members)
