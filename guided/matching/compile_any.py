"""Implements `GrammarCompiler.compile`, the entry point for specifications of any kind.

In: a composed specification, a JSON Schema, a regular expression, a choice, a type, a function, or a grammar as IR. Its
Python type alone determines its meaning, as for `Engine.generate`. Out: the compiled grammar. An option that would have
no effect is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Final, Literal, Protocol, TypeAlias, Unpack

from guided.close_names import find_closest_name
from guided.errors import GuidedError, OptionError, SpecError, brief
from guided.frontends.combinators import Expr
from guided.frontends.composition import part_kinds
from guided.frontends.json_schema.options import JsonSchemaKeywords, JsonSchemaOptions
from guided.ir import Grammar
from guided.keywords import keywords_checked
from guided.matching.compiled import CompiledGrammar

__all__ = ["CompileAny", "ConstraintOptions", "Specification", "Style", "check_effects", "check_options"]

# `Any` covers the constructs of `typing`: list[int], int | None, Literal["a"].
Specification: TypeAlias = (
    Expr | Grammar | Mapping[str, Any] | bool | str | re.Pattern[str] | Sequence[str] | type | Any
)
Style: TypeAlias = Literal["any", "generation"]


class ConstraintOptions(JsonSchemaKeywords, total=False):
    """Options to compile a specification.

    Attributes:
        registry: URI -> schema, for the references of a JSON Schema to other documents.
        documents: name -> text, for `x-guided-quote` in a JSON Schema.
        dialect, search: for a regular expression, see `GrammarCompiler.compile_regex`.
        classes: for a regular expression, and for the patterns of a schema.
        whitespace, ...: the fields of `JsonSchemaOptions`.
    """

    registry: Mapping[str, Any] | None
    documents: Mapping[str, str] | None
    dialect: Literal["python", "ecma"]
    search: bool


_JSON_OPTIONS: Final = frozenset(JsonSchemaKeywords.__annotations__)
_SCHEMA_OPTIONS: Final = _JSON_OPTIONS | {"registry", "documents"}
_REGEX_OPTIONS: Final = frozenset(("dialect", "search", "classes"))
_ALL_OPTIONS: Final = _SCHEMA_OPTIONS | _REGEX_OPTIONS
_OPENAI_HINT: Final = "pass guided.from_response_format(format)"
_HINTS_BY_FORMAT: Final = {
    "structural_tag": "pass guided.structural_tag(tag)",
    "json_schema": _OPENAI_HINT,
    "json_object": _OPENAI_HINT,
}
_LETTERS_BY_FLAG: Final = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s", re.VERBOSE: "x", re.ASCII: "a"}


class _Compiler(Protocol):
    """The methods of a `GrammarCompiler` for each kind of specification."""

    @property
    def compile_expr(self) -> Callable[..., CompiledGrammar]: ...
    @property
    def compile_grammar(self) -> Callable[..., CompiledGrammar]: ...
    @property
    def compile_choice(self) -> Callable[..., CompiledGrammar]: ...
    @property
    def compile_regex(self) -> Callable[..., CompiledGrammar]: ...
    @property
    def compile_json_schema(self) -> Callable[..., CompiledGrammar]: ...
    @property
    def compile_type(self) -> Callable[..., CompiledGrammar]: ...


class CompileAny:
    """See the module docstring."""

    @keywords_checked(ConstraintOptions.__annotations__)
    def compile(
        self: _Compiler,
        specification: Specification,
        *,
        style: Style = "any",
        **options: Unpack[ConstraintOptions],
    ) -> CompiledGrammar:
        """Compile a specification of any kind.

        Args:
            specification: a composed specification (`guided.sequence`, `guided.grammar`, ...). A mapping or a bool: a
                JSON Schema. A string or `re.Pattern`: a regular expression that the whole text must match. A list of
                strings: one of them. A function: its arguments, as a JSON object. A grammar as IR. Anything else: a
                type, in JSON.
            style: the defaults of the options. "any": those of `JsonSchemaOptions()`, every spelling of JSON.
                "generation": those of `JsonSchemaOptions.for_generation()`, which `Engine.generate` uses: one space
                after `,` and `:`, the simplest spellings, and no other members in objects that declare members, unless
                the schema mentions them.
            **options: see `ConstraintOptions`.

        Raises:
            SpecError, UnsupportedError, LimitExceeded: the specification is invalid, unsupported or too large.
            VocabularyError: it names a control token that the vocabulary lacks.
            GuidedError: an option does not apply to this kind of specification.
        """
        if style not in ("any", "generation"):
            raise OptionError(f'style is {brief(style)}, but must be "any" or "generation"', option="style")
        if isinstance(specification, Expr):  # the options are defaults for its parts, which may be of any kind
            check_effects(options, _JSON_OPTIONS, "the specification is composed: pass the option to one of its parts")
        else:
            check_options(specification, options)
        fields: JsonSchemaKeywords = {name: value for name, value in options.items() if name in _JSON_OPTIONS}  # type: ignore[assignment]
        make_options = JsonSchemaOptions.for_generation if style == "generation" else JsonSchemaOptions
        json_options = make_options(**fields)
        resources = {"registry": options.get("registry"), "documents": options.get("documents")}
        match specification:
            case Expr():
                return self.compile_expr(specification, **json_options.non_defaults())
            case Grammar():
                return self.compile_grammar(specification)
            case str() | re.Pattern():
                regex_options = {name: options[name] for name in ("dialect", "search") if name in options}
                pattern = _pattern_text(specification, options.get("dialect", "python"))
                return self.compile_regex(pattern, classes=json_options.classes, **regex_options)
            case list() | tuple():
                if not all(isinstance(choice, str) for choice in specification):
                    raise SpecError("a list is a choice of strings, but this one contains other values")
                return self.compile_choice(specification)
            case Set():
                hint = "pass a list of strings for a choice, such as sorted(choices)"
                raise SpecError(f"a set has no order: {brief(specification)} is no specification", hint=hint)
            case bool() | Mapping():
                _check_is_schema(specification)
                return self.compile_json_schema(specification, **resources, **json_options.non_defaults())
            case _:
                return self.compile_type(specification, **resources, **json_options.non_defaults())


def _pattern_text(pattern: str | re.Pattern[Any], dialect: str) -> str:
    """The text of a regular expression, with the flags of a compiled one."""
    if isinstance(pattern, str):
        if _is_json_object(pattern):
            hint = "pass json.loads(text) for a JSON Schema"
            raise SpecError("a string is a regular expression, but this is a JSON object", hint=hint)
        return pattern
    if not isinstance(pattern.pattern, str):
        raise SpecError("this regular expression matches bytes, not text", hint="write it as a str")
    flags = "".join(letter for flag, letter in _LETTERS_BY_FLAG.items() if pattern.flags & flag)
    if dialect != "python":
        raise OptionError("a compiled regular expression has Python's dialect: leave dialect out", option="dialect")
    return f"(?{flags}){pattern.pattern}" if flags else pattern.pattern


def check_options(specification: Specification, options: Mapping[str, Any]) -> None:
    """Raise if an option is unknown, or would have no effect."""
    effective_options, reason = frozenset[str](), "the strings of a choice are written literally"
    match specification:
        case list() | tuple():
            pass
        case Grammar():
            reason = "the specification is a grammar"
        case str() | re.Pattern():
            effective_options, reason = _REGEX_OPTIONS, "the constraint is a regular expression"
        case Expr():
            kinds = part_kinds(specification)
            has_schemas = kinds & {"json_schema", "type", "structural_tag"}
            effective_options = (
                _JSON_OPTIONS if has_schemas else _REGEX_OPTIONS & _JSON_OPTIONS if kinds else effective_options
            )
            reason = "the constraint is composed: pass the option to guided.json_schema(...) or guided.regex(...)"
        case _:
            effective_options, reason = _SCHEMA_OPTIONS, "the constraint is a schema or a type"
    check_effects(options, effective_options, reason)


def check_effects(options: Mapping[str, Any], effective_options: frozenset[str], reason: str) -> None:
    """Raise if an option is unknown, or not one of `effective_options`. `reason`: why it would have no effect."""
    for name in options:
        if name not in _ALL_OPTIONS:
            suggestion = find_closest_name(name, _ALL_OPTIONS)
            hint = f": did you mean {suggestion!r}?" if suggestion else ""
            raise OptionError(f"{brief(name)} is not an option of a constraint{hint}")
        if name not in effective_options:
            raise GuidedError(f"the option {name} has no effect here: {reason}")


def _check_is_schema(value: bool | Mapping[str, Any]) -> None:
    """Raise for an object whose `type` names another format, since no schema has this type."""
    kind = value.get("type") if isinstance(value, Mapping) else None
    suggestion = _HINTS_BY_FORMAT.get(kind) if isinstance(kind, str) else None
    if suggestion is not None:
        raise SpecError(f"an object is read as a JSON Schema, but this is a {kind}", pointer="/type", hint=suggestion)


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
