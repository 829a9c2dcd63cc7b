"""Explains why a grammar generates nothing. In: the rules. Out: an error that names the rule that cannot end.

A rule is productive if it generates some string. Productive rules are found by iterating over the rules until nothing
changes. If the root is not productive, it needs another unproductive rule, which needs another one, and so on. This
path ends at a rule that is already on the path, or that contains an empty class. This code normally runs only if the
grammar is known to generate nothing. Cost: at most `_MAX_PASSES` passes over the rules; if these do not suffice,
nothing is reported.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Mapping
from typing import Any

from guided.errors import SpecError
from guided.frontends.regex.algebra import run
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
        name = _find_blocker(rules[name].node, productive) or ""
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
    return _find_blocker(node, productive) is None


def _find_blocker(node: Node, productive: Container[str]) -> str | None:
    """What keeps a node from generating a string: the name of an unproductive rule, or "" for an empty class or
    alternation. If all alternatives of an `Alt` are blocked, it is the blocker of the first one. None if the node
    generates a string.
    """

    def visit(node: Node) -> Generator[Any, Any, str | None]:
        match node:
            case Ref(name) if name not in productive:
                return name
            case Chars(ranges) if not ranges:
                return ""
            case Seq(items):
                for item in items:
                    if (blocker := (yield visit(item))) is not None:
                        return str(blocker)
            case Alt(items):
                blockers: list[str] = []
                for item in items:
                    if (blocker := (yield visit(item))) is None:
                        return None
                    blockers.append(blocker)
                return blockers[0] if blockers else ""
            case Repeat(item, low, _) if low:
                result: str | None = yield visit(item)
                return result
            case _:
                pass
        return None

    return run(visit(node))
