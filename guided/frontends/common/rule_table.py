"""Merges the rules of many grammars into one table. In: grammars, one by one. Out: rules whose names do not collide.

Rules are only visible inside their own grammar, so a rule whose name is taken is renamed, together with all references
to it. Cost: linear in the grammars; nodes without references remain the same objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from guided.close_names import find_closest_name
from guided.errors import SpecError, UnsupportedError
from guided.frontends.regex.algebra import run
from guided.ir.embedded import EmbeddedSchema
from guided.ir.nodes import (
    Alt,
    And,
    Dispatch,
    Distinct,
    Encoded,
    Entry,
    Grammar,
    Length,
    Lexed,
    MaxTokens,
    Member,
    Node,
    Not,
    Permutation,
    Ref,
    Region,
    Repeat,
    Seq,
)
from guided.ir.serial import ByIdentity
from guided.meter import spend

__all__ = ["RuleTable", "Scope", "children", "parts_of", "replace_nodes", "undefined_rule_hint"]

Scope: TypeAlias = Mapping[str, str]  # name of a rule -> its name in the table


class RuleTable:
    """The rules so far, their origins and regions."""

    def __init__(self) -> None:
        self.rules: dict[str, Node] = {}
        self.origins: dict[str, str] = {}
        self.has_lexed_part = False  # whether some part has a lexer
        self.regions: dict[str, Region] = {}
        self.schemas: dict[str, EmbeddedSchema] = {}
        self._name_counts: Counter[str] = Counter()  # name -> the number of later rules of the same name
        self._without_references: ByIdentity[Any, Any] = ByIdentity()

    def define(self, name: str, origin: str, node: Node) -> str:
        """Add a rule. If the name is taken, a number is appended."""
        new_name = name
        while new_name in self.rules:
            self._name_counts[name] += 1
            new_name = f"{name} {self._name_counts[name] + 1}"
        self.rules[new_name], self.origins[new_name] = node, origin
        return new_name

    def embed(self, grammar: Grammar) -> Node:
        """Add a grammar's rules to the table, and return the node that generates its texts. A grammar with a lexer is
        not taken apart.
        """
        if grammar.lexer is not None:
            if grammar.regions:
                raise UnsupportedError(
                    "a grammar with a lexer and captures cannot be a part of another specification",
                    hint='use semantics="scannerless"',
                )
            self.has_lexed_part = True
            self.origins = {**grammar.origins, **self.origins}
            return Lexed(grammar)
        self.has_lexed_part |= grammar.composed
        assert not grammar.later, "parts contain no deferred rules"
        names = {name: self.define(name, grammar.origins.get(name, ""), Alt(())) for name in grammar.rules}
        renamed_nodes: ByIdentity[Any, Any] = ByIdentity()
        for name, node in grammar.rules.items():
            spend()
            self.rules[names[name]] = run(_rename(node, names, renamed_nodes, self._without_references))
        self.regions |= {names[name]: region for name, region in grammar.regions.items() if name in names}
        self.schemas |= {names[name]: schema for name, schema in grammar.schemas.items()}
        start: Node = run(_rename(Ref(grammar.start), names, renamed_nodes, self._without_references))
        return start


_CHILDREN: Mapping[type, tuple[str, ...]] = {
    **dict.fromkeys((Seq, Alt, And), ("items",)),
    **dict.fromkeys((Repeat, Not, Length, Encoded, MaxTokens, Member, Distinct, Entry), ("item",)),
    Permutation: ("members", "separator"),
    Dispatch: ("automaton", "items"),
}
"""The fields that contain nodes."""


def children(node: Any) -> list[Any]:
    """The nodes directly below a node."""
    if isinstance(node, tuple):
        return list(node)
    out: list[Any] = []
    for name in _CHILDREN.get(type(node), ()):
        part = getattr(node, name)
        out += part if isinstance(part, tuple) else [part]
    return out


def parts_of(node: Any) -> Iterator[Any]:
    """A node and all nodes below it, each object once, in the order of the text."""
    seen: ByIdentity[Any, None] = ByIdentity()
    work = [node]
    while work:
        item = work.pop()
        if item not in seen:
            spend()
            seen[item] = None
            yield item
            work += reversed(children(item))


def _with_children(node: Any, change: Callable[[Any], Generator[Any, Any, Any]]) -> Generator[Any, Any, Any]:
    """Replace the parts of a node, or of a tuple of nodes, with the results of `change`. Returns the same object if
    nothing changed.

    Yields generators to `run` (`regex/algebra.py`), which returns their results.
    """
    if isinstance(node, tuple):
        items = []
        for item in node:
            items.append((yield change(item)))
        return node if all(new is old for new, old in zip(items, node, strict=True)) else tuple(items)
    old_children = {name: getattr(node, name) for name in _CHILDREN.get(type(node), ())}
    new_children = {}
    for name, child in old_children.items():
        new_children[name] = yield change(child)
    is_unchanged = all(new_children[name] is child for name, child in old_children.items())
    return node if is_unchanged else replace(node, **new_children)


def replace_nodes(grammar: Grammar, change: Callable[[Any], Node | None]) -> Grammar:
    """Replace nodes of a grammar. `change` returns the replacement of a node, or None to replace in its parts."""
    replacements: ByIdentity[Any, Any] = ByIdentity()

    def replace_in(node: Any) -> Generator[Any, Any, Any]:
        if node not in replacements:
            replacement = change(node)
            replacements[node] = (yield _with_children(node, replace_in)) if replacement is None else replacement
        return replacements[node]

    return replace(grammar, rules={name: run(replace_in(node)) for name, node in grammar.rules.items()})


def _rename(
    node: Any, names: Scope, renamed_nodes: ByIdentity[Any, Any], without_references: ByIdentity[Any, Any]
) -> Generator[Any, Any, Any]:
    """A node, or a tuple of nodes, with its references renamed. Nodes without references remain the same objects.

    `without_references` collects the nodes without references, since many grammars share the same objects. Yields
    generators to `run`, which returns their results: nodes may nest deeper than Python's stack.
    """
    if node in without_references:
        return node
    if node in renamed_nodes:
        return renamed_nodes[node]
    out = node
    if isinstance(node, Ref):
        if node.name not in names:
            raise SpecError(
                f"the grammar refers to {node.name!r}, which is not defined", hint=undefined_rule_hint("", names)
            )
        out = Ref(names[node.name])
    else:
        out = yield _with_children(node, lambda part: _rename(part, names, renamed_nodes, without_references))
    if out is node and not isinstance(node, Ref):
        without_references[node] = node
    else:
        renamed_nodes[node] = out
    return out


def undefined_rule_hint(name: str, scope: Scope) -> str:
    """A hint for an undefined rule."""
    if not scope:
        return "wrap it in guided.rules(start, name=...)"
    similar_name = find_closest_name(name, scope)
    return f"did you mean {similar_name!r}?" if similar_name else f"the rules defined here are {', '.join(scope):.200}"
