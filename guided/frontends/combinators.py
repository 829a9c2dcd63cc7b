"""Specifications composed in Python from literal text, control tokens, and other specifications.

    value = guided.rule("value")
    nested = guided.rules("[" + value + "]", value=guided.regex("[0-9]+") | "[" + value + "]")
    call = guided.special("<call>") + guided.json_schema({"type": "object"}) + guided.special("</call>")
    answer = guided.repeat(guided.regex("[a-z ]") | call | nested)

In: parts. Out: an `Expr`, which is itself a part: `a + b` is a sequence, `a | b` a choice, and a `str` stands for
exactly this text. A compiled grammar can be a part, too. Parts are read when the composition is compiled
(`GrammarCompiler.compile`), under the compiler's limits. Names of rules are only visible inside their `rules(...)`, so
parts that were written separately do not interfere with each other. Cost: linear in the parts; a part that is used
twice is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, Unpack

from guided.errors import Finding, SpecError, brief
from guided.frontends.common.aho_corasick import FreeText
from guided.frontends.common.quoted_texts import check_documents
from guided.frontends.gbnf import gbnf_to_grammar
from guided.frontends.json_schema.compile import json_schema_to_grammar
from guided.frontends.json_schema.options import DEFAULTS, JsonSchemaKeywords, JsonSchemaOptions, copy_registry
from guided.frontends.lark import LarkOptions, check_folders, check_grammars, read_lark
from guided.frontends.pattern import pattern_to_grammar
from guided.frontends.python_types.type_schema import type_to_schema
from guided.frontends.regex import Classes, parse_regex
from guided.frontends.stored import Tables
from guided.ir.nodes import Grammar, Node, Special, Text
from guided.ir.ranges import has_surrogate
from guided.keywords import keywords_checked
from guided.limits import Limits

__all__ = [
    "Expr",
    "Part",
    "capture",
    "choice",
    "copy_schema",
    "gbnf",
    "json_schema",
    "lark",
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
    """A part of a specification. Created by the functions of this module; equal only to itself."""

    def __repr__(self) -> str:  # its content may be huge
        return f"<a {type(self).__name__.removesuffix('Part').lower()} of guided.frontends.combinators>"

    def __add__(self, other: Part) -> Expr:
        return sequence(self, other)

    def __radd__(self, other: Part) -> Expr:
        return sequence(other, self)

    def __or__(self, other: Part) -> Expr:
        return choice(self, other)

    def __ror__(self, other: Part) -> Expr:
        return choice(other, self)


Part: TypeAlias = Expr | str | Grammar | Any
"""`Any` stands for compiled grammars, whose class belongs to a higher layer."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NodePart(Expr):
    node: Node


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SequencePart(Expr):
    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ChoicePart(Expr):
    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RepeatPart(Expr):
    part: Expr
    min: int
    max: int | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CapturePart(Expr):
    name: str
    part: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RulePart(Expr):
    name: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RulesPart(Expr):
    start: Expr
    definitions: Mapping[str, Expr]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReadPart(Expr):
    """A specification of another kind.

    Attributes:
        read: reads it, with the options of the composition as defaults, and appends what is not enforced to the list.
        kind: "regex", "json_schema", "type", "structural_tag", or "" for a kind without options.
        source: the schema, the type or the structural tag.
        has_lexer: whether its grammar may have a lexer.
        stored: returns tables, the first of which is the stored grammar. If it is None or returns None, the grammar is
            not stored.
        content: determines the language of the part, together with the options. None: the part equals only itself.
    """

    read: Callable[[Limits, JsonSchemaOptions, list[Finding]], Grammar | Node]
    kind: str = ""
    source: Any = None
    has_lexer: bool = False
    stored: Callable[[Limits], Tables | None] | None = None
    content: object = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DispatchPart(Expr):
    """Free text that ends with one of several markers, and the part that follows each marker."""

    free: FreeText
    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DeferredPart(Expr):
    """A part that may be compiled when it is first entered: see `guided.ir.DeferredRule`.

    Attributes:
        part: the part. It generates some text, but not the empty one, and compiling it causes no warnings.
        origin: its location in the specification.
        content: identifies the part, together with the options.
        shortest_bound: an upper bound on the bytes of its shortest text.
    """

    part: Expr
    origin: str
    content: bytes
    shortest_bound: int


def text(text: str) -> Expr:
    """Exactly this text."""
    if not isinstance(text, str):
        raise SpecError(f"a text is a string, not a {type(text).__name__}", hint="decode it, or write str(value)")
    if has_surrogate(text):
        raise SpecError("the text contains a lone surrogate, which cannot occur in a text", text=repr(text))
    return NodePart(Text(text))


def special(token: str | int) -> Expr:
    """One control token, by its name in the vocabulary or by its id. Text that spells the name does not match."""
    if isinstance(token, bool) or not isinstance(token, str | int):
        raise SpecError(f"a control token is a name or an id, not {brief(token)}", hint='write special("<|call|>")')
    return NodePart(Special(token))


def sequence(*parts: Part) -> Expr:
    """The parts, one after the other. Without parts, the empty text."""
    return SequencePart(_flat(SequencePart, parts))


def choice(*parts: Part) -> Expr:
    """One of the parts."""
    if not parts:
        raise SpecError(
            "there is nothing to choose from", hint="give at least one part; for a list write choice(*list)"
        )
    return ChoicePart(_flat(ChoicePart, parts))


def repeat(part: Part, min: int = 0, max: int | None = None) -> Expr:
    """The part, `min` to `max` times in a row. `max=None`: any number of times."""
    for name, bound in (("min", min), ("max", max)):
        if (name, bound) != ("max", None) and (isinstance(bound, bool) or not isinstance(bound, int) or bound < 0):
            raise SpecError(f"repeat: {name} is {brief(bound)}, not an integer of at least 0")
    if max is not None and max < min:
        raise SpecError(f"repeat: max is {max}, less than min, {min}", hint="the bounds are repeat(part, min, max)")
    return RepeatPart(_to_expr(part), min, max)


def optional(part: Part) -> Expr:
    """The part, or nothing."""
    return repeat(part, 0, 1)


def capture(name: str, part: Part) -> Expr:
    """The part. Its text is captured under a name: `matcher.captures()`, `result.captures`.

    A part that occurs several times is captured each time. `guided/matching/regions/parse_paths.py` explains which
    parse counts if a text has several.
    """
    if not isinstance(name, str) or not name:
        raise SpecError(f"the name of a capture is a string, not {brief(name)}", hint='write capture("year", part)')
    return CapturePart(name, _to_expr(part))


def rule(name: str) -> Expr:
    """The rule with this name, which a surrounding `rules(...)` defines. Rules may be recursive in any way."""
    if not isinstance(name, str):
        raise SpecError(f"the name of a rule is a string, not a {type(name).__name__}", hint='write rule("value")')
    return RulePart(name)


def rules(start: Part, /, **definitions: Part) -> Expr:
    """The part `start`. In it and in the definitions, `rule(name)` refers to the definition with this name."""
    return RulesPart(_to_expr(start), {name: _to_expr(part) for name, part in definitions.items()})


@keywords_checked()
def regex(
    pattern: str,
    *,
    dialect: Literal["python", "ecma"] = "python",
    search: bool = False,
    classes: Classes | None = None,
) -> Expr:
    """The texts that a regular expression matches as a whole; see `GrammarCompiler.compile_regex`.

    Anchors and lookarounds only see the text of this part. `classes=None` uses the setting of the composition, which is
    "plain" if an engine generates the text.
    """
    if not isinstance(pattern, str):
        raise SpecError(f"a pattern is a string, not a {type(pattern).__name__}", hint="write it as text: r'[a-z]+'")

    def read(limits: Limits, default_options: JsonSchemaOptions, _: list[Finding]) -> Node:
        effective_classes = default_options.classes if classes is None else classes
        return parse_regex(pattern, dialect=dialect, search=search, classes=effective_classes, limits=limits)

    return ReadPart(read, "regex", content=("regex", pattern, dialect, search, classes))


@keywords_checked(JsonSchemaKeywords.__annotations__)
def json_schema(
    schema: str | Mapping[str, Any] | bool | type,
    *,
    registry: Mapping[str, Any] | None = None,
    documents: Mapping[str, str] | None = None,
    **options: Unpack[JsonSchemaKeywords],
) -> Expr:
    """The JSON texts of a schema; see `GrammarCompiler.compile_json_schema`.

    Options that are not given have the values of the composition's options, which are
    `JsonSchemaOptions.for_generation()` if an engine generates the text.
    """
    if isinstance(schema, type):
        return python_type(schema, registry=registry, documents=documents, **options)
    return _json_schema(schema, registry, documents, options, "json_schema", schema)


@keywords_checked(JsonSchemaKeywords.__annotations__)
def python_type(
    tp: Any,
    *,
    registry: Mapping[str, Any] | None = None,
    documents: Mapping[str, str] | None = None,
    **options: Unpack[JsonSchemaKeywords],
) -> Expr:
    """The JSON of a Python type's values; see `GrammarCompiler.compile_type`, and `json_schema` for the options."""
    return _json_schema(type_to_schema(tp), registry, documents, options, "type", tp)


def _json_schema(
    schema: object,
    registry: Mapping[str, Any] | None,
    documents: Mapping[str, str] | None,
    options: JsonSchemaKeywords,
    kind: str,
    source: object,
) -> Expr:
    DEFAULTS.with_changes(**options)  # raises an error now if options contradict each other
    schema_copy, resources = copy_schema(schema), copy_schema(copy_registry(registry))
    texts = check_documents(documents)

    def read(limits: Limits, default_options: JsonSchemaOptions, findings: list[Finding]) -> Grammar:
        effective_options = default_options.with_changes(**options)
        return json_schema_to_grammar(
            schema_copy, effective_options, registry=resources, documents=texts, limits=limits, findings=findings
        )

    return ReadPart(read, kind, source)


@keywords_checked()
def gbnf(text: str, *, root: str = "root", allow_special_tokens: bool = False) -> Expr:
    """The language of a grammar of llama.cpp or xgrammar; see `GrammarCompiler.compile_gbnf`."""

    def read(limits: Limits, _: JsonSchemaOptions, findings: list[Finding]) -> Grammar:
        return gbnf_to_grammar(
            text, root=root, allow_special_tokens=allow_special_tokens, limits=limits, findings=findings
        )

    return ReadPart(read, content=("gbnf", text, root, allow_special_tokens))


@keywords_checked()
def lark(
    text: str,
    *,
    start: str = "start",
    semantics: Literal["lexer", "scannerless"] | None = None,
    lexer: Literal["contextual", "basic"] = "contextual",
    grammars: Mapping[str, Any] | None = None,
    allow_special_tokens: bool = False,
    import_paths: Sequence[str] = (),
    postlex: object = None,
) -> Expr:
    """The language of a Lark grammar; see `GrammarCompiler.compile_lark`.

    A grammar with a lexer may be a part of sequences, choices and repetitions, but not of recursive rules.
    """
    folders, checked_grammars = check_folders(import_paths), check_grammars(grammars)
    options = LarkOptions(start, semantics, lexer, folders, postlex, checked_grammars, allow_special_tokens)

    def read(limits: Limits, schema_options: JsonSchemaOptions, findings: list[Finding]) -> Grammar:
        return read_lark(text, options, limits, schema_options, findings)

    content = None
    if not checked_grammars:
        content = ("lark", text, start, semantics, lexer, folders, postlex, allow_special_tokens)
    return ReadPart(read, has_lexer=semantics != "scannerless", content=content)


def pattern(elements: Sequence[tuple[str, str]], char_classes: Mapping[str, Iterable[str]] | None = None) -> Expr:
    """(class or literal, "1" or "+") pairs; see `GrammarCompiler.compile_pattern`."""
    grammar = pattern_to_grammar(elements, char_classes)
    return ReadPart(lambda *_: grammar)


def copy_schema(schema: Any) -> Any:
    """A copy, so that later changes by the caller have no effect."""
    try:
        return deepcopy(schema)
    except RecursionError:  # the front end reports it
        return schema


def _flat(kind: type[SequencePart] | type[ChoicePart], parts: Sequence[Part]) -> tuple[Expr, ...]:
    """The parts. The first part is flattened if it is of the same kind, so that `a + b + c + ...` does not nest. Others
    are not flattened: repeating `a = a + a` would create exponentially many parts.
    """
    exprs = tuple(map(_to_expr, parts))
    return (*exprs[0].parts, *exprs[1:]) if exprs and isinstance(exprs[0], kind) else exprs


def _to_expr(value: Part) -> Expr:
    if isinstance(value, Expr):
        return value
    if isinstance(value, str):
        return text(value)
    grammar = value if isinstance(value, Grammar) else getattr(value, "grammar", None)
    if isinstance(grammar, Grammar):
        return ReadPart(lambda *_: grammar)
    if isinstance(value, Mapping):
        hint = "for a JSON Schema, guided.json_schema(...)"
        raise SpecError(f"{brief(value)} is not a part of a specification", hint=hint)
    raise SpecError(
        f"{brief(value)} is not a part of a specification",
        hint="parts are strings (literal text), compiled grammars, and what guided.regex, guided.json_schema, "
        "guided.python_type, guided.pattern, guided.special and the other combinators return",
    )
