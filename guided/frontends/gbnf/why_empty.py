"""Explains why a grammar generates nothing. In: the rules. Out: an error that names the rule that cannot end.

A rule is productive if it generates some string. Productive rules are found by iterating over the rules until nothing
changes. If the root is not productive, it needs another unproductive rule, which needs another one, and so on. This
path ends at a rule that is already on the path, or that contains an empty class. This code normally runs only if the
grammar is known to generate nothing. Cost: at most `_MAX_PASSES` passes over the rules; if these do not suffice,
nothing is reported.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from guided.errors import SpecError
from guided.ir.nodes import Alt, Chars, Node, Ref, Repeat, Seq

from .rules import Rule

__all__ = ["check_not_empty"]

_MAX_PASSES = 200


def check_not_empty(text: str, root: str, rules: Mapping[str, Rule]) -> None:
    """Raise an error if the grammar generates nothing.

    Raises:
        SpecError: points to the rule that needs itself or generates nothing.
    """
    productive: set[str] = set()
    names = list(rules)
    for _ in range(_MAX_PASSES):
        old_count = len(productive)
        names.reverse()
        productive.update(name for name in names if name not in productive and _generates(rules[name].node, productive))
        if len(productive) == old_count:
            break
    else:
        return
    if root in productive:
        return
    name, path = root, dict[str, None]()
    while name and name not in path:
        path[name] = None
        name = next(_find_blockers(rules[name].node, productive), "")
    last = name or list(path)[-1]
    cycle = list(path)[list(path).index(last) :]
    if not name:
        message = f"rule {last!r} generates nothing"
    elif len(cycle) == 1:
        message = f"rule {last!r} never ends: each of its alternatives needs {last!r} again"
    else:
        message = f"rule {last!r} never ends: it needs {' and then '.join(map(repr, cycle[1:8]))}, which needs it again"
    raise SpecError(message, text=text, span=rules[last].span, hint="give it an alternative that ends")


def _generates(node: Node, productive: Container[str]) -> bool:
    """Whether the node generates some string, assuming that rules outside `productive` generate none."""
    return next(_find_blockers(node, productive), None) is None


def _find_blockers(node: Node, productive: Container[str]) -> Iterator[str]:
    """What keeps a node from generating a string: names of unproductive rules, or "" for an empty class or alternation.

    If all alternatives of an `Alt` are blocked, yields only a blocker of the first one. Yields nothing if the node
    generates a string.
    """
    match node:
        case Ref(name) if name not in productive:
            yield name
        case Chars(ranges) if not ranges:
            yield ""
        case Seq(items):
            for item in items:
                yield from _find_blockers(item, productive)
        case Alt(items):
            first_blockers = [next(_find_blockers(item, productive), None) for item in items]
            if None not in first_blockers:
                yield from (blocker for blocker in first_blockers[:1] or [""] if blocker is not None)
        case Repeat(item, low, _) if low:
            yield from _find_blockers(item, productive)
        case _:
            pass
