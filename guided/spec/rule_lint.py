"""What may go wrong with rules, in any notation: those that generate nothing, stand for themselves, or are not used.

In: rules of the IR and the name of the first. Out: remarks. A rule is *reached* if the first one leads to it. Rules
that generate nothing are the complement of a least fixpoint (`productive.py`). A rule *stands for itself* if a rule
that it can be replaced by, with nothing around it, leads back to it: one text then has endlessly many trees.

Cost: quadratic in the rules. What it does not do: operations on regular languages count as neither empty, nor as having
the empty text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from guided.ir.nodes import Alt, Automaton, Length, MaxTokens, Node, Ref, Repeat, Seq, Text
from guided.spec.json_schema.text.productive import generates
from guided.spec.remark import Remark
from guided.spec.rule_table import parts_of

__all__ = ["lint_rules", "reached", "recursive", "unused"]


def lint_rules(rules: Mapping[str, Node], start: str, place: Callable[[str], str]) -> Iterator[Remark]:
    """Rules that are reached and generate nothing, and those that stand for themselves. `place`: of a rule."""
    names = reached(rules, start)
    living = {name for name in names if generates(name, rules)}
    for name in names:
        if name not in living:
            message = "it generates nothing: each of its alternatives needs one that never ends"
            yield Remark("empty-rule", place(name), message, "give it an alternative without itself")
    empty = _nullable(rules, names)
    alone = {name: set(_alone(rules[name], empty)) for name in names}
    for name in names:
        if name in _after(alone, name):
            message = "it can be made of itself alone, so one text has endlessly many trees"
            yield Remark("cycle", place(name), message, "take the alternative that leads back out")


def unused(what: str, place: str) -> Remark:
    """What is said of a rule, a terminal or a definition that no output uses."""
    return Remark("unused", place, f"no output uses the {what}", "delete it, or use it", matters=False)


def reached(rules: Mapping[str, Node], start: str) -> list[str]:
    """The rules that the first one leads to, in the order in which they are met."""
    return [start, *(name for name in _after(_referred(rules), start) if name != start)]


def recursive(rules: Mapping[str, Node]) -> list[str]:
    """The rules that contain themselves, by way of others or directly."""
    referred = _referred(rules)
    return [name for name in rules if name in _after(referred, name)]


def _after(following: Mapping[str, Iterable[str]], name: str) -> dict[str, None]:
    """What is reached from a name in one step or more."""
    out = dict.fromkeys(following.get(name, ()))
    todo = list(out)
    for each in todo:  # grows while it is read
        more = [one for one in following.get(each, ()) if one not in out]
        out |= dict.fromkeys(more)
        todo += more
    return out


def _referred(rules: Mapping[str, Node]) -> dict[str, dict[str, None]]:
    """Rule -> those that it refers to, in the order in which they are written."""
    return {
        name: dict.fromkeys(part.name for part in parts_of(node) if isinstance(part, Ref))
        for name, node in rules.items()
    }


def _nullable(rules: Mapping[str, Node], names: Iterable[str]) -> set[str]:
    """The rules that have the empty text."""
    out = set[str]()
    while more := {name for name in names if name not in out and _is_nullable(rules[name], out)}:
        out |= more
    return out


def _is_nullable(node: Node, empty: set[str]) -> bool:
    match node:
        case Text(text):
            return text == ""
        case Ref(name):
            return name in empty
        case Seq(items):
            return all(_is_nullable(item, empty) for item in items)
        case Alt(items):
            return any(_is_nullable(item, empty) for item in items)
        case Repeat(item, low, _):
            return low == 0 or _is_nullable(item, empty)
        case Length(item, low, _):
            return low == 0 and _is_nullable(item, empty)
        case MaxTokens(item):
            return _is_nullable(item, empty)
        case Automaton(states, start):
            return states[start][0]
    return False


def _alone(node: Node, empty: set[str]) -> Iterator[str]:
    """The rules that a node can be replaced by, with nothing around them."""
    match node:
        case Ref(name):
            yield name
        case Alt(items):
            for item in items:
                yield from _alone(item, empty)
        case Seq(items):
            lacking = [at for at, item in enumerate(items) if not _is_nullable(item, empty)]
            for at, item in enumerate(items):
                if lacking in ([], [at]):
                    yield from _alone(item, empty)
        case Repeat(item, low, high):
            if high != 0 and (low <= 1 or _is_nullable(item, empty)):
                yield from _alone(item, empty)
        case MaxTokens(item):
            yield from _alone(item, empty)
