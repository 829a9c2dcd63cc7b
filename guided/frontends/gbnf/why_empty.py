"""Why does a grammar generate nothing? In: the rules. Out: the error that names the rule that cannot end.

A rule is productive if some text ends it. The productive rules are found by going over the rules until nothing changes.
In a grammar of which the root is not among them, every rule on the way from the root needs another one like that; the
way ends in a rule that needs itself, or that contradicts itself. This is asked only where the grammar is known to be
empty. Cost: at most `_PASSES` passes; beyond them nothing is said.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from guided.errors import SpecError
from guided.ir.nodes import Alt, Chars, Node, Ref, Repeat, Seq

from .rules import Rule

__all__ = ["why_empty"]

_PASSES = 200


def why_empty(text: str, root: str, rules: Mapping[str, Rule]) -> None:
    """Raise the error of a grammar that generates nothing.

    Raises:
        SpecError: at the rule that needs itself.
    """
    productive: set[str] = set()
    names = list(rules)
    for _ in range(_PASSES):
        before = len(productive)
        names.reverse()
        productive.update(name for name in names if name not in productive and _ends(rules[name].node, productive))
        if len(productive) == before:
            break
    else:
        return
    if root in productive:
        return
    name, path = root, dict[str, None]()
    while name and name not in path:
        path[name] = None
        name = next(_needed(rules[name].node, productive), "")
    last = name or list(path)[-1]
    loop = list(path)[list(path).index(last) :]
    if not name:
        message = f"rule {last!r} generates nothing"
    elif len(loop) == 1:
        message = f"rule {last!r} never ends: each of its alternatives needs {last!r} again"
    else:
        message = f"rule {last!r} never ends: it needs {' and then '.join(map(repr, loop[1:8]))}, which needs it again"
    raise SpecError(message, text=text, span=rules[last].span, hint="give it an alternative that ends")


def _ends(node: Node, productive: Container[str]) -> bool:
    """Whether some text ends the node, if the rules that are not known to be productive generate nothing."""
    return next(_needed(node, productive), None) is None


def _needed(node: Node, productive: Container[str]) -> Iterator[str]:
    """What a node lacks to generate something: the names of rules, or "" for what generates nothing by itself.

    Of alternatives it is what the first one lacks. Nothing where the node generates a text.
    """
    match node:
        case Ref(name) if name not in productive:
            yield name
        case Chars(ranges) if not ranges:
            yield ""
        case Seq(items):
            for item in items:
                yield from _needed(item, productive)
        case Alt(items):
            lacks = [next(_needed(item, productive), None) for item in items]
            if None not in lacks:
                yield from (lack for lack in lacks[:1] or [""] if lack is not None)
        case Repeat(item, low, _) if low:
            yield from _needed(item, productive)
        case _:
            pass
