"""What a caller may give as a constraint, and what becomes of it.

In: None, a compiled grammar, one composed of parts, a JSON Schema, a regular expression, a choice, a type, or a
function. Out: the compiled grammar, and what makes a value of its text. What the Python value is decides what it means;
nothing is guessed. It is compiled the way generation writes (guided/spec/generation.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from guided.errors import GuidedError, SpecError, brief
from guided.matching.compiler import CompiledGrammar, GrammarCompiler
from guided.spec import generation
from guided.spec.combinators import Expr
from guided.spec.json_schema.options import named_options
from guided.spec.python_values import text_reader
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Constraint", "compile_constraint", "value_parser"]

# The last one stands for typing's constructs too: list[int], int | None, Literal["a"].
Constraint: TypeAlias = CompiledGrammar | Expr | Mapping[str, Any] | bool | str | Sequence[str] | type | Any | None


def compile_constraint(compiler: GrammarCompiler, constraint: Constraint, **options: Any) -> CompiledGrammar | None:
    """The grammar that the constraint means: see `Engine.generate`.

    Args:
        options: the fields of `JsonSchemaOptions`; what is not given is as generation writes. Expressions, and what is
            composed of parts, have `classes` alone.

    Raises:
        SpecError, UnsupportedError, LimitExceeded: the specification.
        GuidedError: a grammar that was compiled for another vocabulary; options that a constraint does not have.
        ValueError: classes that there are not.
        TypeError: an option that there is not.
    """
    named_options(options | {"classes": "full"})
    if (classes := options.get("classes", "full")) not in ("full", "plain"):
        raise ValueError(f"classes is {brief(classes)}, it must be 'full' or 'plain'")
    _check_options(constraint, options)
    regex, json_schema = {**generation.REGEX, **options}, generation.with_defaults(options)
    match constraint:
        case None:
            return None
        case CompiledGrammar():
            if not _same(constraint.vocabulary, compiler.vocabulary):
                raise GuidedError("the grammar was compiled for another vocabulary: compile it with engine.compiler")
            return constraint
        case Expr():
            return compiler.compile(constraint, **regex)
        case str():
            if _is_json_object(constraint):
                hint = "pass json.loads(text) for a JSON Schema"
                raise SpecError("a string is a regular expression, but this is a JSON object", hint=hint)
            return compiler.compile_regex(constraint, **regex)
        case list() | tuple():
            if not all(isinstance(choice, str) for choice in constraint):
                raise SpecError("a list means one of its strings; this one holds other things")
            return compiler.compile_choice(constraint)
        case bool() | Mapping():
            return compiler.compile_json_schema(constraint, **json_schema)
        case _:
            return compiler.compile_type(constraint, **json_schema)


def _check_options(constraint: Constraint, options: Mapping[str, Any]) -> None:
    """Raises where one of them would say nothing."""
    match constraint:
        case None:
            known, why = set[str](), "there is none"
        case CompiledGrammar():
            known, why = set[str](), "this one is compiled already"
        case list() | tuple():
            known, why = set[str](), "texts to choose from are written as they are"
        case str():
            known, why = {"classes"}, "this is a regular expression"
        case Expr():
            known, why = {"classes"}, "this is composed of parts: give it to guided.json_schema(...)"
        case _:
            return
    if unused := [name for name in options if name not in known]:
        raise GuidedError(f"{unused[0]} says how a constraint is compiled, and {why}")


def value_parser(grammar: CompiledGrammar | None) -> Callable[[str], Any] | None:
    """Makes the value of a complete text: a value of the type, or a JSON value; None: there is none."""
    if grammar is None or grammar.kind not in ("json_schema", "type"):
        return None
    return text_reader(grammar.source) if grammar.kind == "type" else json.loads


def _same(a: Vocabulary, b: Vocabulary) -> bool:
    return a is b or (a.size == b.size and a.tokens == b.tokens and a.eos_token_ids == b.eos_token_ids)


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
