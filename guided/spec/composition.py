"""A composed specification becomes one grammar: its parts are read, and their rules get names that do not collide.

In: an `Expr` (combinators.py). Out: a `Grammar`. Rules of a part are visible only inside of it, so a rule whose name is
taken is renamed, with the references to it. Cost: linear in the parts; a part that occurs twice is read once.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias, cast

from guided.errors import Finding, LimitExceeded, SpecError, UnsupportedError, warn_of
from guided.ir.nodes import (
    Alt,
    And,
    Distinct,
    Encoded,
    Entry,
    Grammar,
    Length,
    Member,
    Node,
    Not,
    Permutation,
    Ref,
    Repeat,
    Seq,
)
from guided.ir.serial import ByIdentity
from guided.limits import Limits
from guided.spec.combinators import (
    ChoicePart,
    Expr,
    NodePart,
    ReadPart,
    RepeatPart,
    RulePart,
    RulesPart,
    SequencePart,
)
from guided.spec.json_schema.options import DEFAULTS, JsonSchemaOptions
from guided.spec.regex.algebra import run

__all__ = ["expr_to_grammar", "kinds_of", "only_part"]

Scope: TypeAlias = Mapping[str, str]  # name of a rule -> its name in the grammar


def kinds_of(expr: Expr) -> set[str]:
    """The kinds of the parts that have options: "regex", "json_schema", "type"."""
    kinds, met, work = set[str](), ByIdentity[Expr, None](), [expr]
    while work:
        part = work.pop()
        if part in met:
            continue
        met[part] = None
        match part:
            case SequencePart(parts) | ChoicePart(parts):
                work += parts
            case RepeatPart(inner):
                work.append(inner)
            case RulesPart(start, definitions):
                work += [start, *definitions.values()]
            case ReadPart(kind=kind) if kind:
                kinds.add(kind)
    return kinds


def only_part(expr: Expr) -> tuple[str, Any]:
    """The kind and the source of the only part of a whole; ("", None) where it has several, or none of these kinds."""
    only = _unwrapped(expr)
    return (only.kind, only.source) if isinstance(only, ReadPart) else ("", None)


def _unwrapped(expr: Expr) -> Expr:
    while isinstance(expr, SequencePart | ChoicePart) and len(expr.parts) == 1:
        expr = expr.parts[0]
    return expr


def expr_to_grammar(
    expr: Expr,
    limits: Limits | None = None,
    found: list[Finding] | None = None,
    *,
    options: JsonSchemaOptions = DEFAULTS,
) -> Grammar:
    """The grammar of a whole. What is not enforced of its parts goes to `found`; without it, it is warned of.

    `options`: of the parts that do not say it themselves.

    Raises:
        SpecError, UnsupportedError: of a part, or a rule that nothing defines. LimitExceeded: nesting, or of a part.
    """
    lowering = _Lowering(Limits() if limits is None else limits, options)
    try:
        if isinstance(only := _unwrapped(expr), ReadPart) and only.has_lexer:
            return cast(Grammar, only.read(lowering.limits, options, lowering.found))
        node = lowering.node(expr, {}, 0)
    except RecursionError:
        raise SpecError("the parts nest deeper than Python's stack", hint="repeat(part), or a rule(...)") from None
    start = lowering.define("start", "", node)
    if found is None:
        warn_of(lowering.found)
    else:
        found += lowering.found
    return Grammar(lowering.rules, start, lowering.origins)


class _Lowering:
    def __init__(self, limits: Limits, options: JsonSchemaOptions) -> None:
        self.limits, self.options = limits, options
        self.rules: dict[str, Node] = {}
        self.taken: Counter[str] = Counter()  # how many rules were called so, where a name was not free
        self.origins: dict[str, str] = {}
        self.found: list[Finding] = []
        self.closed: ByIdentity[Any, Any] = ByIdentity()
        self.done: ByIdentity[Scope, ByIdentity[Expr, Node]] = ByIdentity()

    def node(self, expr: Expr, scope: Scope, depth: int) -> Node:
        """The IR of a part; the same object where it was read before."""
        if scope not in self.done:
            self.done[scope] = ByIdentity()
        done = self.done[scope]
        if expr not in done:
            if depth > self.limits.depth:
                raise LimitExceeded("depth", depth, self.limits.depth)
            done[expr] = self._node(expr, scope, depth + 1)
        return done[expr]

    def _node(self, expr: Expr, scope: Scope, depth: int) -> Node:
        match expr:
            case NodePart(node):
                return node
            case SequencePart(parts):
                return Seq(tuple([self.node(part, scope, depth) for part in parts]))
            case ChoicePart(parts):
                return Alt(tuple([self.node(part, scope, depth) for part in parts]))
            case RepeatPart(part, low, high):
                return Repeat(self.node(part, scope, depth), low, high)
            case ReadPart(read):
                found = read(self.limits, self.options, self.found)
                return self.embed(found) if isinstance(found, Grammar) else found
            case RulePart(name):
                if name not in scope:
                    raise SpecError(f"rule {name!r} is not defined", hint=_defined(name, scope))
                return Ref(scope[name])
            case RulesPart(start, definitions):
                inner = dict(scope)
                inner |= {name: self.define(name, name, Alt(())) for name in definitions}
                for name, part in definitions.items():
                    self.rules[inner[name]] = self.node(part, inner, depth)
                return self.node(start, inner, depth)
        raise AssertionError(expr)

    def define(self, name: str, origin: str, node: Node) -> str:
        """A rule under a name that no other has."""
        free = name
        while free in self.rules:
            self.taken[name] += 1
            free = f"{name} {self.taken[name] + 1}"
        self.rules[free], self.origins[free] = node, origin
        return free

    def embed(self, grammar: Grammar) -> Node:
        """A grammar's rules beside those that are there already.

        Raises:
            UnsupportedError: it has a lexer, which cuts whole outputs only.
        """
        if grammar.lexer is not None:
            raise UnsupportedError(
                "a grammar with a lexer cannot be a part of another specification",
                hint='read it with semantics="scannerless"',
            )
        names = {name: self.define(name, grammar.origins.get(name, ""), Alt(())) for name in grammar.rules}
        done: ByIdentity[Any, Any] = ByIdentity()
        for name, node in grammar.rules.items():
            self.rules[names[name]] = run(_renamed(node, names, done, self.closed))
        start: Node = run(_renamed(Ref(grammar.start), names, done, self.closed))
        return start


_CHILDREN: Mapping[type, tuple[str, ...]] = {
    **dict.fromkeys((Seq, Alt, And), ("items",)),
    **dict.fromkeys((Repeat, Not, Length, Encoded, Member, Distinct, Entry), ("item",)),
    Permutation: ("members", "separator"),
}
"""The fields that hold nodes."""


def _renamed(
    node: Any, names: Scope, done: ByIdentity[Any, Any], closed: ByIdentity[Any, Any]
) -> Generator[Any, Any, Any]:
    """A node, or a tuple of them, with its references renamed; what holds none remains the same object.

    `closed` takes the nodes without references, which many grammars share as the same objects.
    Yields what it waits for, as `run` wants it: nodes may nest deeper than Python's stack.
    """
    if node in closed:
        return node
    if node in done:
        return done[node]
    out = node
    if isinstance(node, Ref):
        if node.name not in names:
            raise SpecError(f"the grammar refers to {node.name!r}, which is not defined", hint=_defined("", names))
        out = Ref(names[node.name])
    elif isinstance(node, tuple):
        parts = []
        for part in node:
            parts.append((yield _renamed(part, names, done, closed)))
        if any(new is not old for new, old in zip(parts, node, strict=True)):
            out = tuple(parts)
    else:
        old = {name: getattr(node, name) for name in _CHILDREN.get(type(node), ())}
        new = {}
        for name, part in old.items():
            new[name] = yield _renamed(part, names, done, closed)
        if any(new[name] is not old[name] for name in old):
            out = replace(node, **new)
    if out is node and not isinstance(node, Ref):
        closed[node] = node
    else:
        done[node] = out
    return out


def _defined(name: str, scope: Scope) -> str:
    if not scope:
        return "write guided.rules(start, name=...) around it"
    close = difflib.get_close_matches(name, scope, n=1)
    return f"did you mean {close[0]!r}?" if close else f"defined here are {', '.join(scope):.200}"
