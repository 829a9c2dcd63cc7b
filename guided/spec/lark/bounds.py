"""What Lark's loader would write out, reckoned before it does. In: a grammar as Lark has parsed it. Out: nothing, or an
error.

Lark writes out choices inside of a sequence (`(a|b) (c|d)` becomes four alternatives), short repetitions
(`(a|b)~0..20` becomes two million), templates for each list of arguments, and terminals that are made of terminals. A
text of a few lines may so stand for more than any memory holds.

How: the alternatives of a tree are a product for a sequence and a sum for a choice; instances of templates are listed
as Lark would list them; the length of a terminal is the sum of its parts. Cost: linear in the trees and the instances.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from guided.errors import LimitExceeded

__all__ = ["check_bounds", "check_terminals"]

_BREAKS_FROM: Final = 50  # repetitions: longer ones become rules of their own (lark's REPEAT_BREAK_THRESHOLD)
_MOST_ALTERNATIVES: Final = 50_000
_MOST_INSTANCES: Final = 5_000
_LONGER_BY: Final = 100_000  # characters of a terminal
_LONGEST_NAME: Final = 10_000
_DEEPEST: Final = 100  # terminals that are made of terminals


def check_bounds(grammar: Any) -> None:
    """See the head.

    Raises:
        LimitExceeded: of what would be written out.
    """
    total = 0
    for name, _, tree, _ in grammar.rule_defs:
        total += _alternatives(tree)
        if total > _MOST_ALTERNATIVES:
            hint = f"rule {name}: give the choices in it, as (a|b) or a?, and its repetitions rules of their own"
            raise LimitExceeded("nodes", total, _MOST_ALTERNATIVES, fixed=True, hint=hint)
    _check_templates(grammar)


def check_terminals(tree: Any, text: str) -> None:
    """The same of terminals, of a text as Lark's grammar of grammars parses it: Lark writes them out as it loads them.

    Raises:
        LimitExceeded: one would be too long, or is made of terminals in more levels than Lark reads in a moment.
    """
    lengths, most = dict[str, int](), len(text) + _LONGER_BY
    levels = dict[str, int]()
    trees = {_name(each.children[0]): each for each in tree.find_data("term")}
    for name in trees:
        length = _length(name, trees, lengths, levels, most)
        if levels[name] > _DEEPEST:
            hint = f"terminal {name} is made of terminals that are made of terminals, and so on: write some of them out"
            raise LimitExceeded("depth", levels[name], _DEEPEST, fixed=True, hint=hint)
        if length > most:
            hint = f"terminal {name} is made of terminals that are made of terminals: it is too long when written out"
            raise LimitExceeded("spec_length", length, most, fixed=True, hint=hint)


def _name(leaf: Any) -> str:
    return str(getattr(leaf, "name", leaf))


def _kind(tree: Any) -> str:
    return str(getattr(tree, "data", ""))


def _alternatives(tree: Any) -> int:
    """How many alternatives a tree becomes, at most `_MOST_ALTERNATIVES` and a few."""
    kind, enough = _kind(tree), _MOST_ALTERNATIVES + 1
    if kind in ("expansions", "maybe"):
        return min(sum(map(_alternatives, tree.children)) + (kind == "maybe"), enough)
    if kind == "expr":
        inner, op, *counts = tree.children
        many = _alternatives(inner)
        if str(op) == "?":
            return min(many + 1, enough)
        if str(op) == "~":
            low, high = int(counts[0]), int(counts[-1])
            return _powers(many, low, high) if high < _BREAKS_FROM else many
        return many  # a rule of its own
    if kind == "template_usage" or not kind:
        return 1
    out = 1
    for child in tree.children:
        out = min(out * _alternatives(child), enough)
    return out


def _powers(many: int, low: int, high: int) -> int:
    out, power = 0, 1
    for count in range(high + 1):
        out += power if count >= low else 0
        power *= many
        if out > _MOST_ALTERNATIVES or power > _MOST_ALTERNATIVES:
            return _MOST_ALTERNATIVES + 1
    return out


def _check_templates(grammar: Any) -> None:
    templates = {
        str(name): ([str(each) for each in params], tree) for name, params, tree, _ in grammar.rule_defs if params
    }
    seen: dict[str, None] = {}
    work = [usage for _, params, tree, _ in grammar.rule_defs if not params for usage in _usages(tree)]
    todo = [(usage, dict[str, str]()) for usage in work]
    while todo:
        usage, known = todo.pop()
        name, arguments = _name(usage.children[0]), [_written(each, known) for each in usage.children[1:]]
        instance = f"{name}{{{','.join(arguments)}}}"
        if instance in seen or name not in templates:
            continue
        seen[instance] = None
        if len(seen) > _MOST_INSTANCES or len(instance) > _LONGEST_NAME:
            hint = f"the template {name} is used with ever more, or ever larger, arguments"
            raise LimitExceeded("nodes", _MOST_INSTANCES + 1, _MOST_INSTANCES, fixed=True, hint=hint)
        params, tree = templates[name]
        inner = dict(zip(params, arguments, strict=False))
        todo += [(each, inner) for each in _usages(tree)]


def _usages(tree: Any) -> Iterator[Any]:
    work = [tree]
    while work:
        at = work.pop()
        if _kind(at) == "template_usage":
            yield at
        work += getattr(at, "children", ())


def _written(tree: Any, known: dict[str, str]) -> str:
    """An argument, with the parameters around it filled in; of a length that is bounded."""
    if not _kind(tree):
        return known.get(_name(tree), _name(tree))
    if _kind(tree) == "template_usage":
        name, *arguments = tree.children
        return f"{_name(name)}{{{','.join(_written(each, known) for each in arguments)}}}"[: 2 * _LONGEST_NAME]
    return " ".join(_written(each, known) for each in tree.children)[: 2 * _LONGEST_NAME]


def _length(name: str, trees: dict[str, Any], lengths: dict[str, int], levels: dict[str, int], most: int) -> int:
    """The length of a terminal when it is written out, at most `most` and a few; notes its levels, too."""
    todo, waits = [name], {name}
    while todo:
        at = todo[-1]
        if at in lengths:
            todo.pop()
            continue
        parts = [part for part in _leaves(trees[at]) if part != at]
        waiting = [part for part in parts if part in trees and part not in lengths and part not in waits]
        if waiting:
            todo += waiting
            waits.update(waiting)
            continue
        levels[at] = 1 + max((levels.get(part, 0) for part in parts), default=0)
        lengths[at] = min(sum(lengths.get(part, 1) if part in trees else len(part) for part in parts), most + 1)
        todo.pop()
    return lengths[name]


def _leaves(tree: Any) -> Iterator[str]:
    work = [tree]
    while work:
        at = work.pop()
        if _kind(at):
            work += at.children
        elif at is not None:
            yield _name(at)
