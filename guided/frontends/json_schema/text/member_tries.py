"""Writes many optional members in declared order. In: members with their keys. Out: IR rules, nearly linear in the
members.

Problem: any later member may follow a member, up to the next required one. One expression would contain n sets of up to
n keys, which the core would have to make deterministic. That is quadratic.

How: the keys that may come next form a radix trie. The trie before a member is the trie before the next member, plus
the member's own key (or only this key, if the member is required). So tries share everything except the path to one key
(path copying; Okasaki, "Purely Functional Data Structures", 1998, section 2.2). Each node of a trie is a rule that
reads one character. All calls are tail calls, so nothing is pushed while matching.

Cost: the number of rules, and of their alternatives, is linear in the members times the length of a path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from guided.frontends.json_schema.algebra.strings import union_of
from guided.ir.nodes import EPSILON, Alt, Node, Ref, Seq, Text

__all__ = ["Field", "MemberTries"]


class Field(NamedTuple):
    """A declared member: its name, the text after its key, whether it is required, and the text of its key."""

    name: str
    value: Node
    is_required: bool
    key: Node

    @property
    def node(self) -> Node:
        """The text of the whole member."""
        return Seq((self.key, self.value))


@dataclass(frozen=True, slots=True)
class _Trie:
    """`branches`: first character of an edge -> the edge. `end`: the text after a key that ends here."""

    branches: dict[str, _Edge]
    end: Node | None = None


@dataclass(frozen=True, slots=True)
class _Edge:
    """`label`: its text after the first character. `target`: the trie `child` as IR. `node`: the whole edge as IR."""

    label: str
    child: _Trie
    target: Node
    node: Node


_NewRule: TypeAlias = Callable[[str, Node], None]
_EMPTY_TRIE = _Trie({})


class MemberTries:
    """Creates the rules of one object, named after `name`.

    `spell` writes a part of a key, `quotes` are the nodes before and after it, and `comma` separates members. `extras`:
    one or more additional members after all others (None: not allowed).
    """

    def __init__(
        self, comma: Node, extras: Node | None, spell: Callable[[str], Node], new_rule: _NewRule, name: str,
        quotes: tuple[Node, Node] = (Text('"'), Text('"')),
    ) -> None:  # fmt: skip
        self._comma, self._spell, self._quotes = comma, spell, quotes
        self._new_rule, self._name = new_rule, name
        self._rule_count = 0
        self._extras = None if extras is None else self._add_rule(extras)

    def members(self, fields: Sequence[Field]) -> Node:
        """At least one member, in order."""
        trie, is_optional = _EMPTY_TRIE, True
        for field in reversed(fields):
            next_member = self._next_member(trie, is_optional)
            cases = [EPSILON] if is_optional else []
            if next_member is not None:
                cases.append(Seq((self._comma, next_member)))
            leaf = Seq((self._quotes[1], field.value, self._add_rule(Alt(tuple(cases)))))
            trie = self._insert(_EMPTY_TRIE if field.is_required else trie, field.name, leaf)
            is_optional = is_optional and not field.is_required
        first = self._next_member(trie, is_optional)
        assert first is not None
        return first

    def _next_member(self, trie: _Trie, is_optional: bool) -> Node | None:
        """The next member: one from the trie, or an additional one if no required member is left."""
        cases: list[Node] = []
        if trie is not _EMPTY_TRIE:
            cases.append(Seq((self._quotes[0], self._node(trie))))
        if is_optional and self._extras is not None:
            cases.append(self._extras)
        return union_of(cases) if cases else None

    def _insert(self, trie: _Trie, key: str, leaf: Node) -> _Trie:
        """The trie with an additional key. Only the nodes on the path to it are new."""
        path: list[tuple[_Trie, str, str]] = []  # (node, first character, rest of the label below it)
        while key:
            first, rest = key[0], key[1:]
            if first not in trie.branches:
                path.append((trie, first, rest))
                trie, key = _EMPTY_TRIE, ""
                break
            edge = trie.branches[first]
            label, common_length = edge.label, _common_prefix_length(edge.label, rest)
            path.append((trie, first, label[:common_length]))
            trie, key = edge.child, rest[common_length:]
            if common_length < len(label):  # the edge is split
                trie = self._branch(
                    _EMPTY_TRIE, label[common_length], label[common_length + 1 :], edge.child, edge.target
                )
        trie = _Trie(trie.branches, leaf)
        for parent, first, label in reversed(path):
            trie = self._branch(parent, first, label, trie, self._node(trie))
        return trie

    def _branch(self, trie: _Trie, first: str, label: str, child: _Trie, target: Node) -> _Trie:
        """The trie with an edge at `first` to `child`. The text after the first character is a shared rule."""
        rest_node = self._add_rule(Seq((self._spell(label), target))) if label else target
        edge = _Edge(label, child, target, Seq((self._spell(first), rest_node)))
        return _Trie({**trie.branches, first: edge}, trie.end)

    def _node(self, trie: _Trie) -> Node:
        edges = [edge.node for edge in trie.branches.values()]
        if trie.end is not None:
            edges.append(trie.end)
        return edges[0] if len(edges) == 1 else self._add_rule(Alt(tuple(edges)))

    def _add_rule(self, node: Node) -> Ref:
        self._rule_count += 1
        name = f"{self._name}.{self._rule_count}"
        self._new_rule(name, node)
        return Ref(name)


def _common_prefix_length(a: str, b: str) -> int:
    """The length of the longest common prefix."""
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count
