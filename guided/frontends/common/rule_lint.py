"""Lint for rules, in any notation: rules that generate nothing, derive themselves, or are not used.

In: rules of the IR and the name of the start rule. Out: findings. A rule is *reached* if the start rule leads to it.
The rules that generate nothing are the complement of a least fixpoint (`json_schema/text/productive.py`). A rule
*derives itself* if replacing it by a single rule, then that rule by a single rule, and so on, can lead back to it. One
text then has infinitely many parse trees.

Cost: linear in the rules and their references. Operations on regular languages, such as intersections, are not
examined: they are assumed to generate a text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

from guided.frontends.common.lint_finding import LintFinding
from guided.frontends.common.nullable import is_nullable, nullable_rules
from guided.frontends.common.rule_table import parts_of
from guided.frontends.json_schema.text.productive import productive_rules
from guided.ir.nodes import Alt, MaxTokens, Node, Ref, Repeat, Seq

__all__ = ["find_cyclic", "lint_rules", "reachable_rules", "recursive_rules", "unused_finding"]

T = TypeVar("T")


def lint_rules(rules: Mapping[str, Node], start: str, location_of: Callable[[str], str]) -> Iterator[LintFinding]:
    """Reached rules that generate nothing, and rules that derive themselves. `location_of` returns the location of a
    rule.
    """
    names = reachable_rules(rules, start)
    productive = productive_rules(names, rules)
    for name in names:
        if name not in productive:
            message = "it generates nothing: each of its alternatives needs a rule that never ends"
            yield LintFinding(
                "empty-rule", location_of(name), message, "add an alternative that does not need the rule itself"
            )
    nullable = nullable_rules({name: rules[name] for name in names})
    cyclic = find_cyclic({name: dict.fromkeys(_single_rules(rules[name], nullable)) for name in names})
    for name in names:
        if name in cyclic:
            message = "it can derive itself, so one text has infinitely many parse trees"
            yield LintFinding("cycle", location_of(name), message, "remove the alternative that leads back to the rule")


def unused_finding(what: str, location: str) -> LintFinding:
    """The finding for a rule, a terminal or a definition that no output uses."""
    return LintFinding("unused", location, f"no output uses the {what}", "delete it, or use it", matters=False)


def reachable_rules(rules: Mapping[str, Node], start: str) -> list[str]:
    """The rules that are reachable from the start rule, in the order of discovery."""
    seen = {start: None}
    todo = [start]
    for name in todo:  # grows during the loop
        new_rules = [rule for rule in _referenced_rules(rules[name]) if rule not in seen] if name in rules else []
        seen |= dict.fromkeys(new_rules)
        todo += new_rules
    return todo


def recursive_rules(rules: Mapping[str, Node]) -> list[str]:
    """The rules that contain themselves, directly or through other rules."""
    cyclic = find_cyclic({name: _referenced_rules(node) for name, node in rules.items()})
    return [name for name in rules if name in cyclic]


def _referenced_rules(node: Node) -> dict[str, None]:
    """The rules that a rule refers to, in the order of the text."""
    return dict.fromkeys(part.name for part in parts_of(node) if isinstance(part, Ref))


def find_cyclic(successors: Mapping[T, Collection[T]]) -> set[T]:
    """The names that lead back to themselves: strongly connected components (Tarjan 1972)."""
    indices: dict[T, int] = {}
    lowlinks: dict[T, int] = {}  # for names on the stack
    stack: list[T] = []
    out = set[T]()
    path: list[tuple[T, Iterator[T]]] = []

    def enter(name: T) -> None:
        indices[name] = lowlinks[name] = len(indices)
        stack.append(name)
        path.append((name, iter(successors.get(name, ()))))

    for root in successors:
        if root not in indices:
            enter(root)
        while path:
            name, targets = path[-1]
            if (target := next(targets, None)) is not None:
                if target not in indices:
                    enter(target)
                elif target in lowlinks:
                    lowlinks[name] = min(lowlinks[name], indices[target])
                continue
            path.pop()
            if path:
                lowlinks[path[-1][0]] = min(lowlinks[path[-1][0]], lowlinks[name])
            if lowlinks[name] == indices[name]:
                is_cyclic = stack[-1] != name or name in successors.get(name, ())
                while name in lowlinks:  # the component is the stack down to this name
                    each = stack.pop()
                    del lowlinks[each]
                    if is_cyclic:
                        out.add(each)
    return out


def _single_rules(node: Node, nullable: set[str]) -> Iterator[str]:
    """The rules that can replace a node if all its other parts are empty."""
    match node:
        case Ref(name):
            yield name
        case Alt(items):
            for item in items:
                yield from _single_rules(item, nullable)
        case Seq(items):
            non_nullable = [index for index, item in enumerate(items) if not is_nullable(item, nullable)]
            for index, item in enumerate(items):
                if non_nullable in ([], [index]):
                    yield from _single_rules(item, nullable)
        case Repeat(item, low, high):
            if high != 0 and (low <= 1 or is_nullable(item, nullable)):
                yield from _single_rules(item, nullable)
        case MaxTokens(item):
            yield from _single_rules(item, nullable)
