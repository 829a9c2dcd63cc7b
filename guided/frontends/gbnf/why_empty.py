"""Explains why a grammar generates nothing. In: the rules. Out: an error that names the rule that cannot end.

A rule is productive if it generates some text. Productive rules are found by iterating over the rules until nothing
changes. If the root is not productive, a path of unproductive rules that need each other begins at the root. It ends in
a rule that needs itself, or that contradicts itself. This code runs only if the grammar is known to be empty. Cost: at
most `_MAX_PASSES` passes; beyond these, nothing is reported.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from guided.errors import SpecError
from guided.ir.nodes import Alt, Chars, Node, Ref, Repeat, Seq

from .rules import Rule

__all__ = ["why_empty"]

_MAX_PASSES = 200


def why_empty(text: str, root: str, rules: Mapping[str, Rule]) -> None:
    """Raise the error for a grammar that generates nothing.

    Raises:
        SpecError: points to the rule that needs itself.
    """
    productive: set[str] = set()
    names = list(rules)
    for _ in range(_MAX_PASSES):
        before = len(productive)
        names.reverse()
        productive.update(name for name in names if name not in productive and _generates(rules[name].node, productive))
        if len(productive) == before:
            break
    else:
        return
    if root in productive:
        return
    name, path = root, dict[str, None]()
    while name and name not in path:
        path[name] = None
        name = next(_missing_parts(rules[name].node, productive), "")
    last = name or list(path)[-1]
    loop = list(path)[list(path).index(last) :]
    if not name:
        message = f"rule {last!r} generates nothing"
    elif len(loop) == 1:
        message = f"rule {last!r} never ends: each of its alternatives needs {last!r} again"
    else:
        message = f"rule {last!r} never ends: it needs {' and then '.join(map(repr, loop[1:8]))}, which needs it again"
    raise SpecError(message, text=text, span=rules[last].span, hint="give it an alternative that ends")


def _generates(node: Node, productive: Container[str]) -> bool:
    """Whether the node generates some text, if rules that are not known to be productive generate none."""
    return next(_missing_parts(node, productive), None) is None


def _missing_parts(node: Node, productive: Container[str]) -> Iterator[str]:
    """The parts that keep a node from generating a text: names of rules, or "" for a part that is itself empty.

    For alternatives, these are the parts of the first one. There are none if the node generates a text.
    """
    match node:
        case Ref(name) if name not in productive:
            yield name
        case Chars(ranges) if not ranges:
            yield ""
        case Seq(items):
            for item in items:
                yield from _missing_parts(item, productive)
        case Alt(items):
            first_missing = [next(_missing_parts(item, productive), None) for item in items]
            if None not in first_missing:
                yield from (missing for missing in first_missing[:1] or [""] if missing is not None)
        case Repeat(item, low, _) if low:
            yield from _missing_parts(item, productive)
        case _:
            pass
