"""What a caller may give as a constraint, and what becomes of it.

In: None, a compiled grammar, one composed of parts, a JSON Schema, a regular expression, a choice, a type, or a
function. Out: the compiled grammar, and what makes a value of its text. What the Python value is decides what it means;
nothing is guessed.
JSON is written the way small models write it best: ", " and ": ", numbers without exponents, and the shortest escapes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from guided.errors import GuidedError, SpecError
from guided.matching.compiler import CompiledGrammar, GrammarCompiler
from guided.spec.combinators import Expr
from guided.spec.python_values import text_reader
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Constraint", "compile_constraint", "value_parser"]

# The last one stands for typing's constructs too: list[int], int | None, Literal["a"].
Constraint: TypeAlias = CompiledGrammar | Expr | Mapping[str, Any] | bool | str | Sequence[str] | type | Any | None

_WRITING: Final[dict[str, Any]] = {"whitespace": "single_space", "numbers": "plain", "escapes": "minimal"}


def compile_constraint(compiler: GrammarCompiler, constraint: Constraint) -> CompiledGrammar | None:
    """The grammar that the constraint means: see `Engine.generate`.

    Raises:
        SpecError, UnsupportedError, LimitExceeded: the specification.
        GuidedError: a grammar that was compiled for another vocabulary.
    """
    match constraint:
        case None:
            return None
        case CompiledGrammar():
            if not _same(constraint.vocabulary, compiler.vocabulary):
                raise GuidedError("the grammar was compiled for another vocabulary: compile it with engine.compiler")
            return constraint
        case Expr():
            return compiler.compile(constraint)
        case str():
            if _is_json_object(constraint):
                hint = "pass json.loads(text) for a JSON Schema"
                raise SpecError("a string is a regular expression, but this is a JSON object", hint=hint)
            return compiler.compile_regex(constraint)
        case list() | tuple():
            if not all(isinstance(choice, str) for choice in constraint):
                raise SpecError("a list means one of its strings; this one holds other things")
            return compiler.compile_choice(constraint)
        case bool() | Mapping():
            return compiler.compile_json_schema(constraint, **_WRITING)
        case _:
            return compiler.compile_type(constraint, **_WRITING)


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
