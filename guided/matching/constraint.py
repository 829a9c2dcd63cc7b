"""Compiles the constraints that callers pass to the engine.

In: None, a compiled grammar, a composed specification, a JSON Schema, a regular expression, a choice, a type, or a
function. Out: the compiled grammar, and a parser of its text. The Python type of a constraint alone determines its
meaning. The defaults are the ones for generation (`JsonSchemaOptions.for_generation`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from guided.close_names import close_name
from guided.errors import GuidedError, OptionError, SpecError, brief
from guided.frontends.combinators import Expr
from guided.frontends.composition import kinds_of, only_part
from guided.frontends.json_schema.options import JsonSchemaKeywords, JsonSchemaOptions
from guided.frontends.python_types.value_readers import text_reader
from guided.matching.compiled import CompiledGrammar
from guided.matching.compiler import GrammarCompiler
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["CompiledBy", "Constraint", "ConstraintOptions", "compile_constraint", "value_parser"]


@dataclass(frozen=True, slots=True)
class CompiledBy:
    """A constraint that compiles itself.

    Attributes:
        compile: makes the grammar. It runs on a thread of the engine. If it raises, the request fails with this error.
        free: whether it has free text, which may end anywhere. If the budget ends it, the finish reason is "length".
    """

    compile: Callable[[GrammarCompiler], CompiledGrammar]
    free: bool = False


# `Any` covers the constructs of `typing`: list[int], int | None, Literal["a"].
Constraint: TypeAlias = CompiledGrammar | Expr | Mapping[str, Any] | bool | str | Sequence[str] | type | Any | None


class ConstraintOptions(JsonSchemaKeywords, total=False):
    """Options to compile a constraint.

    Attributes:
        registry: URI -> schema, for the references of a JSON Schema to other documents.
        documents: name -> text, for `x-guided-quote` in a JSON Schema.
        dialect, search: for a regular expression, see `GrammarCompiler.compile_regex`.
        classes: for a regular expression, and for the patterns of a schema.
        whitespace, ...: the fields of `JsonSchemaOptions`, with the defaults of `for_generation()`.
    """

    registry: Mapping[str, Any] | None
    documents: Mapping[str, str] | None
    dialect: Literal["python", "ecma"]
    search: bool


_NO_OPTIONS: Final = ConstraintOptions()
_JSON_OPTIONS: Final = frozenset(JsonSchemaKeywords.__annotations__)
_SCHEMA_OPTIONS: Final = _JSON_OPTIONS | {"registry", "documents"}
_REGEX_OPTIONS: Final = frozenset(("dialect", "search", "classes"))
_ALL_OPTIONS: Final = _SCHEMA_OPTIONS | _REGEX_OPTIONS
_OPENAI: Final = "pass guided.from_response_format(format)"
_OTHER_FORMATS: Final = {
    "structural_tag": "pass guided.structural_tag(tag)",
    "json_schema": _OPENAI,
    "json_object": _OPENAI,
}


def compile_constraint(
    compiler: GrammarCompiler, constraint: Constraint, options: ConstraintOptions = _NO_OPTIONS
) -> CompiledGrammar | None:
    """Compile a constraint. `Engine.generate` describes what each type of constraint means.

    Raises:
        SpecError, UnsupportedError, LimitExceeded: the specification is invalid, unsupported or too large.
        GuidedError: a grammar was compiled for another vocabulary, or an option does not apply to the constraint.
    """
    _check_options(constraint, options)
    json_options: JsonSchemaKeywords = {name: value for name, value in options.items() if name in _JSON_OPTIONS}  # type: ignore[assignment]
    generation = JsonSchemaOptions.for_generation(**json_options)
    match constraint:
        case None:
            return None
        case CompiledGrammar():
            if not _is_same_vocabulary(constraint.vocabulary, compiler.vocabulary):
                raise GuidedError("the grammar was compiled for another vocabulary: compile it with engine.compiler")
            return constraint
        case CompiledBy():
            return constraint.compile(compiler)
        case Expr():
            return compiler.compile(constraint, **generation.given())
        case str():
            if _is_json_object(constraint):
                hint = "pass json.loads(text) for a JSON Schema"
                raise SpecError("a string is a regular expression, but this is a JSON object", hint=hint)
            dialect, search = options.get("dialect", "python"), options.get("search", False)
            return compiler.compile_regex(constraint, dialect=dialect, search=search, classes=generation.classes)
        case list() | tuple():
            if not all(isinstance(choice, str) for choice in constraint):
                raise SpecError("a list is a choice of strings, but this one contains other values")
            return compiler.compile_choice(constraint)
        case bool() | Mapping():
            _check_is_schema(constraint)
            return compiler.compile_json_schema(
                constraint, registry=options.get("registry"), documents=options.get("documents"), **generation.given()
            )
        case _:
            return compiler.compile_type(
                constraint, registry=options.get("registry"), documents=options.get("documents"), **generation.given()
            )


def _check_options(constraint: Constraint, options: Mapping[str, Any]) -> None:
    """Raise if an option would have no effect."""
    known, why = frozenset[str](), "the strings of a choice are written literally"
    match constraint:
        case None:
            why = "there is no constraint"
        case CompiledGrammar() | CompiledBy():
            why = "the constraint is already compiled, or compiles itself"
        case list() | tuple():
            pass
        case str():
            known, why = _REGEX_OPTIONS, "the constraint is a regular expression"
        case Expr():
            kinds = kinds_of(constraint)
            has_schemas = kinds & {"json_schema", "type", "structural_tag"}
            known = _JSON_OPTIONS if has_schemas else _REGEX_OPTIONS & _JSON_OPTIONS if kinds else known
            why = "the constraint is composed: pass the option to guided.json_schema(...) or guided.regex(...)"
        case _:
            known, why = _SCHEMA_OPTIONS, "the constraint is a schema or a type"
    for name in options:
        if name not in _ALL_OPTIONS:
            meant = close_name(name, _ALL_OPTIONS)
            hint = f": did you mean {meant!r}?" if meant else ""
            raise OptionError(f"{brief(name)} is not an option of a constraint{hint}")
        if name not in known:
            raise GuidedError(f"the option {name} has no effect here: {why}")


def _check_is_schema(value: bool | Mapping[str, Any]) -> None:
    """Raise for an object whose `type` names another format, since no schema has this type."""
    kind = value.get("type") if isinstance(value, Mapping) else None
    meant = _OTHER_FORMATS.get(kind) if isinstance(kind, str) else None
    if meant is not None:
        raise SpecError(f"an object is read as a JSON Schema, but this is a {kind}", pointer="/type", hint=meant)


def value_parser(grammar: CompiledGrammar | None) -> Callable[[str], Any] | None:
    """A function that parses a complete text to its JSON or Python value, or returns it as it is. None: no grammar."""
    if grammar is None:
        return None
    kind, source = grammar.kind, grammar.source
    if kind == "expr":
        kind, source = only_part(source)
    if kind == "type":
        return text_reader(source)
    return json.loads if kind == "json_schema" else str


def _is_same_vocabulary(a: Vocabulary, b: Vocabulary) -> bool:
    return a is b or (a.size == b.size and a.tokens == b.tokens and a.eos_token_ids == b.eos_token_ids)


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
