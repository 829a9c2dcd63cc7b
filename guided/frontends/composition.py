"""Turns a composed specification into one grammar: reads its parts, and gives their rules distinct names.

In: an `Expr` (combinators.py). Out: a `Grammar`. How: `rule_table.py` keeps the rules of the parts apart. Cost: linear
in the parts; a part that occurs twice is read once.
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from guided.errors import Finding, LimitExceeded, SpecError, UnsupportedError, brief, warn_about
from guided.frontends.combinators import (
    CapturePart,
    ChoicePart,
    DeferredPart,
    DispatchPart,
    Expr,
    NodePart,
    ReadPart,
    RepeatPart,
    RulePart,
    RulesPart,
    SequencePart,
)
from guided.frontends.common.rule_table import RuleTable, Scope, undefined_rule_hint
from guided.frontends.json_schema.options import DEFAULTS, JsonSchemaOptions
from guided.frontends.stored import Tables
from guided.ir.nodes import Alt, DeferredRule, Grammar, Node, Ref, Region, Repeat, Seq, Text
from guided.ir.serial import ByIdentity
from guided.limits import Limits
from guided.meter import limit_compilation, spend

__all__ = ["MIN_DEFERRED", "content_of_parts", "expr_to_grammar", "only_part", "part_kinds", "stored_tables"]

MIN_DEFERRED = 8
"""The least number of parts that are worth deferring. Fewer parts are compiled at once, so that no mask has to wait."""


def part_kinds(expr: Expr) -> set[str]:
    """The kinds of the parts that have options: "regex", "json_schema", "type", "structural_tag"."""
    kinds, seen, work = set[str](), ByIdentity[Expr, None](), [expr]
    while work:
        part = work.pop()
        if part in seen:
            continue
        seen[part] = None
        match part:
            case SequencePart(parts) | ChoicePart(parts) | DispatchPart(_, parts):
                work += parts
            case RepeatPart(inner) | DeferredPart(inner) | CapturePart(_, inner):
                work.append(inner)
            case RulesPart(start, definitions):
                work += [start, *definitions.values()]
            case ReadPart(kind=kind) if kind:
                kinds.add(kind)
    return kinds


def only_part(expr: Expr) -> tuple[str, Any]:
    """The kind and source of a specification with a single part. ("", None) if it has several parts, or if its part has
    no kind.
    """
    part = _unwrap(expr)
    return (part.kind, part.source) if isinstance(part, ReadPart) else ("", None)


def content_of_parts(expr: Expr) -> object:
    """A value that determines the grammar of a specification, together with the options; always hashable.

    It is equal for specifications that were composed alike from equal texts, control tokens, regular expressions and
    grammars. Other parts equal only themselves. It lists the distinct parts; a part refers to its own parts by number.
    """
    numbers, rows, work = ByIdentity[Expr, int](), dict[object, int](), [expr]
    while work:
        own_content, parts = _split(work[-1])
        missing = [part for part in parts if part not in numbers]
        if missing:
            work += missing
            continue
        row = (own_content, *[numbers[part] for part in parts])
        try:
            number = rows.setdefault(row, len(rows))
        except TypeError:  # not hashable
            number = rows.setdefault(work[-1], len(rows))
        numbers[work.pop()] = number
    return (*rows, numbers[expr])


def _split(expr: Expr) -> tuple[object, tuple[Expr, ...]]:
    """The content of a part without its own parts, and these parts."""
    match expr:
        case NodePart(node):
            return node, ()
        case SequencePart(parts) | ChoicePart(parts):
            return type(expr), parts
        case RepeatPart(part, low, high):
            return (RepeatPart, low, high), (part,)
        case CapturePart(name, part):
            return (CapturePart, name), (part,)
        case RulePart(name):
            return (RulePart, name), ()
        case RulesPart(start, definitions):
            return (RulesPart, *definitions), (start, *definitions.values())
        case ReadPart(content=content) if content is not None:
            return content, ()
    return expr, ()


def stored_tables(expr: Expr, limits: Limits) -> Tables | None:
    """The tables of a specification whose only part is a stored grammar with a lexer; None: it is something else."""
    part = _unwrap(expr)
    if not isinstance(part, ReadPart) or not part.has_lexer or part.stored is None:
        return None
    return part.stored(limits)


def _unwrap(expr: Expr) -> Expr:
    while isinstance(expr, SequencePart | ChoicePart) and len(expr.parts) == 1:
        expr = expr.parts[0]
    return expr


def expr_to_grammar(
    expr: Expr,
    limits: Limits | None = None,
    findings: list[Finding] | None = None,
    *,
    options: JsonSchemaOptions = DEFAULTS,
    defer: bool = False,
) -> Grammar:
    """The grammar of a composed specification. What its parts do not enforce is appended to `findings`; if this list is
    None, it causes warnings.

    `options`: defaults for the options of the parts. `defer`: if many parts can be deferred (`DeferredPart`), compile
    them when they are entered.

    Raises:
        SpecError, UnsupportedError: a part is invalid, or a rule is undefined. LimitExceeded: a part exceeds a limit,
            or the parts nest too deeply.
    """
    lowering = _Lowering(Limits() if limits is None else limits, options, defer)
    try:
        if isinstance(only := _unwrap(expr), ReadPart) and only.has_lexer:
            return cast(Grammar, only.read(lowering.limits, options, lowering.findings))
        with limit_compilation(lowering.limits, work=False):
            node = lowering.node(expr, {}, 0)
    except RecursionError:
        raise SpecError(
            "the parts nest too deeply for Python's stack", hint="use repeat(part), or a rule(...)"
        ) from None
    table = lowering.table
    if table.has_lexed_part and table.regions:
        raise UnsupportedError(
            "captures cannot be combined with a grammar that has a lexer", hint='use semantics="scannerless"'
        )
    if table.has_lexed_part and defer:  # the parts of such a grammar are compiled separately
        return expr_to_grammar(expr, limits, findings, options=options)
    start = table.define("start", "", node)
    later_rules = lowering.deferred_rules()
    if findings is None:
        warn_about(lowering.findings)
    else:
        findings += lowering.findings
    return Grammar(
        table.rules, start, table.origins, later=later_rules, composed=table.has_lexed_part,
        regions=table.regions, schemas=table.schemas,
    )  # fmt: skip


class _Lowering:
    def __init__(self, limits: Limits, options: JsonSchemaOptions, defers: bool) -> None:
        self.limits, self.options, self.defers = limits, options, defers
        self.table = RuleTable()
        self.findings: list[Finding] = []
        self.node_cache: ByIdentity[Scope, ByIdentity[Expr, Node]] = ByIdentity()
        self.deferred_parts: dict[str, DeferredPart] = {}

    def deferred_rules(self) -> dict[str, DeferredRule]:
        """The rules to compile later. If there are only a few, they are lowered now."""
        if len(self.deferred_parts) >= MIN_DEFERRED:
            options_key = repr(self.options).encode()
            return {
                name: DeferredRule(partial(expr_to_grammar, deferred_part.part, self.limits, [], options=self.options),
                            options_key + deferred_part.content, deferred_part.shortest_bound)
                for name, deferred_part in self.deferred_parts.items()
            }  # fmt: skip
        for name, deferred_part in self.deferred_parts.items():
            self.table.rules[name] = self.node(deferred_part.part, {}, 0)
        return {}

    def node(self, expr: Expr, scope: Scope, depth: int) -> Node:
        """The IR of a part. A part that was read before returns the same object."""
        if scope not in self.node_cache:
            self.node_cache[scope] = ByIdentity()
        nodes = self.node_cache[scope]
        if expr not in nodes:
            spend()
            if depth > self.limits.depth:
                raise LimitExceeded("depth", depth, self.limits.depth)
            nodes[expr] = self._node(expr, scope, depth + 1)
        return nodes[expr]

    def _node(self, expr: Expr, scope: Scope, depth: int) -> Node:
        match expr:
            case NodePart(node):
                return node
            case SequencePart(parts):
                return Seq(tuple([self.node(part, scope, depth) for part in parts]))
            case ChoicePart(parts):
                return Alt(tuple([self.node(part, scope, depth) for part in parts]))
            case DispatchPart(free, parts):
                return free.dispatch([self.node(part, scope, depth) for part in parts])
            case RepeatPart(part, low, high):
                return Repeat(self.node(part, scope, depth), low, high)
            case CapturePart(name, part):
                rule = self.table.define(f"capture {name}", name, self.node(part, scope, depth))
                self.table.regions[rule] = Region(capture=name)
                return Ref(rule)
            case ReadPart(read):
                content = read(self.limits, self.options, self.findings)
                return self.table.embed(content) if isinstance(content, Grammar) else content
            case DeferredPart(part) if not self.defers:
                return self.node(part, scope, depth)
            case DeferredPart(_, origin):
                name = self.table.define(f"{origin} later", origin, Text(" "))
                self.deferred_parts[name] = expr
                return Ref(name)
            case RulePart(name):
                if name not in scope:
                    raise SpecError(f"rule {name!r} is not defined", hint=undefined_rule_hint(name, scope))
                return Ref(scope[name])
            case RulesPart(start, definitions):
                inner_scope = dict(scope)
                inner_scope |= {name: self.table.define(name, name, Alt(())) for name in definitions}
                for name, part in definitions.items():
                    self.table.rules[inner_scope[name]] = self.node(part, inner_scope, depth)
                return self.node(start, inner_scope, depth)
        raise TypeError(f"a part must be a string or the result of a function such as guided.regex, not {brief(expr)}")
