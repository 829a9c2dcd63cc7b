"""Which rules generate nothing. In: IR rules. Out: the names of the rules whose language is empty for sure.

A least fixpoint: a rule generates something once all of its parts do. Regular operations (`And`, `Not`, `Length`) are
taken to be non-empty; the automaton core decides those. Cost: linear in the rules and their references.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from guided.grammar.ir import Alt, Chars, Distinct, Entry, Node, Permutation, Ref, Repeat, Seq

__all__ = ["unproductive"]


def unproductive(rules: Mapping[str, Node]) -> set[str]:
    """Names of rules that generate no string."""
    known: set[str] = set()
    waiting: defaultdict[str, set[str]] = defaultdict(set)
    work = list(rules)
    while work:
        name = work.pop()
        if name in known:
            continue
        missing: list[str] = []
        if _generates(rules[name], known, missing):
            known.add(name)
            work.extend(waiting.pop(name, ()))
        else:
            for needed in missing:
                waiting[needed].add(name)
    return set(rules) - known


def _generates(node: Node, known: set[str], missing: list[str]) -> bool:
    if isinstance(node, Ref):
        if node.name not in known:
            missing.append(node.name)
        return node.name in known
    if isinstance(node, Seq):
        generates = [_generates(item, known, missing) for item in node.items]  # each, to collect all that is missing
        return all(generates)
    if isinstance(node, Alt):
        return any(_generates(item, known, missing) for item in node.items)
    if isinstance(node, Repeat):
        return node.min == 0 or _generates(node.item, known, missing)
    if isinstance(node, Permutation):
        return _permutes(node, known, missing)
    if isinstance(node, Distinct | Entry):
        return _generates(node.item, known, missing)
    return not isinstance(node, Chars) or bool(node.ranges)


def _permutes(node: Permutation, known: set[str], missing: list[str]) -> bool:
    if node.max is not None and node.max < node.min:
        return False
    usable = [(member, _generates(member.item, known, missing)) for member in node.members]
    if not all(works for member, works in usable if member.required):
        return False
    count = sum(works for _, works in usable)
    return count >= node.min or any(works and member.repeatable for member, works in usable)
