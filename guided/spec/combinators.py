"""Specifications composed in Python: of literal text, expressions, control tokens, and whole other specifications.

    value = guided.rule("value")
    nested = guided.rules("[" + value + "]", value=guided.regex("[0-9]+") | "[" + value + "]")
    call = guided.special("<call>") + guided.json_schema({"type": "object"}) + guided.special("</call>")
    answer = guided.repeat(guided.regex("[a-z ]") | call | nested)

In: parts. Out: an `Expr`, a part itself: `a + b` is one after the other, `a | b` one of the two, and a `str` stands for
just this text. A compiled grammar is a part, too. What a part says is read when the whole is compiled
(`GrammarCompiler.compile`), under the compiler's limits. Names of rules are seen inside of their `rules(...)` alone, so
parts that were written apart never meddle with each other. Cost: linear in the parts; what is used twice is read once.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, Unpack

from guided.errors import Finding, LimitExceeded, SpecError, brief, warn_of
from guided.grammar.ir import (
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
    Special,
    Text,
)
from guided.grammar.serial import ByIdentity
from guided.keywords import keywords_checked
from guided.limits import Limits
from guided.spec.json_schema.compile import json_schema_to_grammar
from guided.spec.json_schema.options import DEFAULTS, JsonSchemaKeywords, JsonSchemaOptions, checked_registry
from guided.spec.pattern import pattern_to_grammar
from guided.spec.python_types import type_to_schema
from guided.spec.regex import Classes, parse_regex

__all__ = [
    "Expr",
    "Part",
    "choice",
    "expr_to_grammar",
    "json_schema",
    "kinds_of",
    "only_part",
    "optional",
    "pattern",
    "python_type",
    "regex",
    "repeat",
    "rule",
    "rules",
    "sequence",
    "special",
    "text",
]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Expr:
    """A part of a specification. Made by the functions of this module; equal only to itself."""

    def __repr__(self) -> str:  # what it is made of may be huge
        return f"<a {type(self).__name__.strip('_').lower()} of guided.spec.combinators>"

    def __add__(self, other: Part) -> Expr:
        return sequence(self, other)

    def __radd__(self, other: Part) -> Expr:
        return sequence(other, self)

    def __or__(self, other: Part) -> Expr:
        return choice(self, other)

    def __ror__(self, other: Part) -> Expr:
        return choice(other, self)


Part: TypeAlias = Expr | str | Grammar | Any
"""`Any` for compiled grammars, of which this layer does not know."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Node(Expr):
    node: Text | Special


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Sequence(Expr):
    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Choice(Expr):
    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Repeat(Expr):
    part: Expr
    min: int
    max: int | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Rule(Expr):
    name: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Rules(Expr):
    start: Expr
    definitions: Mapping[str, Expr]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Read(Expr):
    """A specification of another kind.

    Attributes:
        read: reads it, with the options of the whole for what it does not say itself; what is not enforced of it is
            appended to the list.
        kind: "regex", "json_schema", "type", or "" for a kind that has no options.
        source: the schema or the type.
    """

    read: Callable[[Limits, JsonSchemaOptions, list[Finding]], Grammar | Node]
    kind: str = ""
    source: Any = None


def text(text: str) -> Expr:
    """Exactly this text."""
    if not isinstance(text, str):
        raise SpecError(f"a text is a string, not a {type(text).__name__}", hint="decode it, or write str(value)")
    if any("\ud800" <= c <= "\udfff" for c in text):
        raise SpecError("the text holds a lone surrogate, which no text can", text=repr(text))
    return _Node(Text(text))


def special(token: str | int) -> Expr:
    """One control token, by its name in the vocabulary or by its id. Its name as text does not match."""
    if isinstance(token, bool) or not isinstance(token, str | int):
        raise SpecError(f"a control token is a name or an id, not {brief(token)}", hint='write special("<|call|>")')
    return _Node(Special(token))


def sequence(*parts: Part) -> Expr:
    """One part after the other; of no parts, the empty text."""
    return _Sequence(_flat(_Sequence, parts))


def choice(*parts: Part) -> Expr:
    """One of the parts."""
    if not parts:
        raise SpecError(
            "there is nothing to choose from", hint="give at least one part; for a list write choice(*list)"
        )
    return _Choice(_flat(_Choice, parts))


def repeat(part: Part, min: int = 0, max: int | None = None) -> Expr:
    """The part `min` to `max` times, one after the other; None: any number of times."""
    for name, bound in (("min", min), ("max", max)):
        if (name, bound) != ("max", None) and (isinstance(bound, bool) or not isinstance(bound, int) or bound < 0):
            raise SpecError(f"repeat: {name} is {brief(bound)}, not an integer of at least 0")
    if max is not None and max < min:
        raise SpecError(f"repeat: max is {max}, less than min, {min}", hint="the bounds are repeat(part, min, max)")
    return _Repeat(_part(part), min, max)


def optional(part: Part) -> Expr:
    """The part, or nothing."""
    return repeat(part, 0, 1)


def rule(name: str) -> Expr:
    """The rule of this name, which a `rules(...)` around it defines; rules may be recursive in any way."""
    if not isinstance(name, str):
        raise SpecError(f"the name of a rule is a string, not a {type(name).__name__}", hint='write rule("value")')
    return _Rule(name)


def rules(start: Part, /, **definitions: Part) -> Expr:
    """The part `start`, in which, as in the definitions themselves, `rule(name)` is what is defined here."""
    return _Rules(_part(start), {name: _part(part) for name, part in definitions.items()})


@keywords_checked()
def regex(
    pattern: str,
    *,
    dialect: Literal["python", "ecma"] = "python",
    search: bool = False,
    classes: Classes | None = None,
) -> Expr:
    """What a regular expression matches as a whole; see `GrammarCompiler.compile_regex`.

    Anchors and lookarounds see the text of this part alone. `classes`: None is as the whole is compiled, plain where an
    engine writes it.
    """
    if not isinstance(pattern, str):
        raise SpecError(f"a pattern is a string, not a {type(pattern).__name__}", hint="write it as text: r'[a-z]+'")

    def read(limits: Limits, whole: JsonSchemaOptions, _: list[Finding]) -> Node:
        own = whole.classes if classes is None else classes
        return parse_regex(pattern, dialect=dialect, search=search, classes=own, limits=limits)

    return _Read(read, "regex")


@keywords_checked(JsonSchemaKeywords.__annotations__)
def json_schema(
    schema: str | Mapping[str, Any] | bool | type,
    *,
    registry: Mapping[str, Any] | None = None,
    **options: Unpack[JsonSchemaKeywords],
) -> Expr:
    """The JSON texts of a schema; see `GrammarCompiler.compile_json_schema`.

    What the options do not say is as the whole is compiled, as `JsonSchemaOptions.for_generation()` where an engine
    writes it.
    """
    if isinstance(schema, type):
        return python_type(schema, registry=registry, **options)
    return _json_schema(schema, registry, options, "json_schema", schema)


@keywords_checked(JsonSchemaKeywords.__annotations__)
def python_type(tp: Any, *, registry: Mapping[str, Any] | None = None, **options: Unpack[JsonSchemaKeywords]) -> Expr:
    """The JSON of a Python type's values; see `GrammarCompiler.compile_type`, and `json_schema` for the options."""
    return _json_schema(type_to_schema(tp), registry, options, "type", tp)


def _json_schema(
    schema: object, registry: Mapping[str, Any] | None, options: JsonSchemaKeywords, kind: str, source: object
) -> Expr:
    DEFAULTS.changed(**options)  # what contradicts itself is told here
    kept, known = _copy(schema), _copy(checked_registry(registry))

    def read(limits: Limits, whole: JsonSchemaOptions, found: list[Finding]) -> Grammar:
        return json_schema_to_grammar(kept, whole.changed(**options), registry=known, limits=limits, found=found)

    return _Read(read, kind, source)


def pattern(elements: Sequence[tuple[str, str]], char_classes: Mapping[str, Iterable[str]] | None = None) -> Expr:
    """(class or literal, "1" or "+") pairs; see `GrammarCompiler.compile_pattern`."""
    grammar = pattern_to_grammar(elements, char_classes)
    return _Read(lambda *_: grammar)


def _copy(schema: Any) -> Any:
    """So that it says tomorrow what it says today."""
    try:
        return deepcopy(schema)
    except RecursionError:  # the front end words it
        return schema


def _flat(kind: type[_Sequence] | type[_Choice], parts: Sequence[Part]) -> tuple[Expr, ...]:
    """The parts; those of one's own kind are taken apart, so that `a + b + c + ...` does not nest."""
    out: list[Expr] = []
    for part in map(_part, parts):
        out += part.parts if isinstance(part, kind) else [part]
    return tuple(out)


def _part(value: Part) -> Expr:
    if isinstance(value, Expr):
        return value
    if isinstance(value, str):
        return text(value)
    grammar = value if isinstance(value, Grammar) else getattr(value, "grammar", None)
    if isinstance(grammar, Grammar):
        return _Read(lambda *_: grammar)
    raise SpecError(
        f"{brief(value)} is no part of a specification",
        hint="parts are strings (literal text), compiled grammars, and what guided.regex, guided.json_schema, "
        "guided.python_type, guided.pattern, guided.special and the other combinators make",
    )


# ---- to the IR
_Scope: TypeAlias = Mapping[str, str]  # name of a rule -> its name in the grammar


def kinds_of(expr: Expr) -> set[str]:
    """The kinds of the parts that have options: "regex", "json_schema", "type"."""
    kinds, met, work = set[str](), ByIdentity[Expr, None](), [expr]
    while work:
        part = work.pop()
        if part in met:
            continue
        met[part] = None
        match part:
            case _Sequence(parts) | _Choice(parts):
                work += parts
            case _Repeat(inner):
                work.append(inner)
            case _Rules(start, definitions):
                work += [start, *definitions.values()]
            case _Read(kind=kind) if kind:
                kinds.add(kind)
    return kinds


def only_part(expr: Expr) -> tuple[str, Any]:
    """The kind and the source of the only part of a whole; ("", None) where it has several, or none of these kinds."""
    while isinstance(expr, _Sequence | _Choice) and len(expr.parts) == 1:
        expr = expr.parts[0]
    return (expr.kind, expr.source) if isinstance(expr, _Read) else ("", None)


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
        self.origins: dict[str, str] = {}
        self.found: list[Finding] = []
        self.done: ByIdentity[_Scope, ByIdentity[Expr, Node]] = ByIdentity()

    def node(self, expr: Expr, scope: _Scope, depth: int) -> Node:
        """The IR of a part; the same object where it was read before."""
        if scope not in self.done:
            self.done[scope] = ByIdentity()
        done = self.done[scope]
        if expr not in done:
            if depth > self.limits.depth:
                raise LimitExceeded("depth", depth, self.limits.depth)
            done[expr] = self._node(expr, scope, depth + 1)
        return done[expr]

    def _node(self, expr: Expr, scope: _Scope, depth: int) -> Node:
        match expr:
            case _Node(node):
                return node
            case _Sequence(parts):
                return Seq(tuple([self.node(part, scope, depth) for part in parts]))
            case _Choice(parts):
                return Alt(tuple([self.node(part, scope, depth) for part in parts]))
            case _Repeat(part, low, high):
                return Repeat(self.node(part, scope, depth), low, high)
            case _Read(read):
                found = read(self.limits, self.options, self.found)
                return self.embed(found) if isinstance(found, Grammar) else found
            case _Rule(name):
                if name not in scope:
                    raise SpecError(f"rule {name!r} is not defined", hint=_defined(name, scope))
                return Ref(scope[name])
            case _Rules(start, definitions):
                inner = dict(scope)
                inner |= {name: self.define(name, name, Alt(())) for name in definitions}
                for name, part in definitions.items():
                    self.rules[inner[name]] = self.node(part, inner, depth)
                return self.node(start, inner, depth)
        raise AssertionError(expr)

    def define(self, name: str, origin: str, node: Node) -> str:
        """A rule under a name that no other has."""
        free, number = name, 1
        while free in self.rules:
            number += 1
            free = f"{name} {number}"
        self.rules[free], self.origins[free] = node, origin
        return free

    def embed(self, grammar: Grammar) -> Node:
        """A grammar's rules beside those that are there already."""
        names = {name: self.define(name, grammar.origins.get(name, ""), Alt(())) for name in grammar.rules}
        done: ByIdentity[Any, Any] = ByIdentity()
        for name, node in grammar.rules.items():
            self.rules[names[name]] = _renamed(node, names, done)
        start: Node = _renamed(Ref(grammar.start), names, done)
        return start


_CHILDREN: Mapping[type, tuple[str, ...]] = {
    **dict.fromkeys((Seq, Alt, And), ("items",)),
    **dict.fromkeys((Repeat, Not, Length, Encoded, Member, Distinct, Entry), ("item",)),
    Permutation: ("members", "separator"),
}
"""The fields that hold nodes."""


def _renamed(node: Any, names: _Scope, done: ByIdentity[Any, Any]) -> Any:
    """A node, or a tuple of them, with its references renamed; what holds none remains the same object."""
    if node in done:
        return done[node]
    out = node
    if isinstance(node, Ref):
        if node.name not in names:
            raise SpecError(f"the grammar refers to {node.name!r}, which is not defined", hint=_defined("", names))
        out = Ref(names[node.name])
    elif isinstance(node, tuple):
        parts = [_renamed(part, names, done) for part in node]
        if any(new is not old for new, old in zip(parts, node, strict=True)):
            out = tuple(parts)
    else:
        old = {name: getattr(node, name) for name in _CHILDREN.get(type(node), ())}
        new = {name: _renamed(part, names, done) for name, part in old.items()}
        if any(new[name] is not old[name] for name in old):
            out = replace(node, **new)
    done[node] = out
    return out


def _defined(name: str, scope: _Scope) -> str:
    if not scope:
        return "write guided.rules(start, name=...) around it"
    close = difflib.get_close_matches(name, scope, n=1)
    return f"did you mean {close[0]!r}?" if close else f"defined here are {', '.join(scope):.200}"
