"""Compiles the constraints that callers pass to the engine.

In: None, a compiled grammar, or a specification of any kind (compile_any.py). Out: the compiled grammar, and a parser
of its text, complete or not. The defaults are the ones for generation (`JsonSchemaOptions.for_generation`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from guided.errors import GuidedError
from guided.frontends.composition import only_part
from guided.frontends.python_types.partial_values import partial_value
from guided.frontends.python_types.value_readers import text_reader
from guided.frontends.structural_tag.partial_json import completed_json
from guided.matching.compile_any import ConstraintOptions, Specification, check_effects, check_options
from guided.matching.compiled import CompiledGrammar
from guided.matching.compiler import GrammarCompiler
from guided.vocabulary.vocabulary import Vocabulary

__all__ = [
    "JSON_VALUE",
    "Constraint",
    "ConstraintCompiler",
    "ConstraintOptions",
    "ValueParser",
    "compile_constraint",
    "value_parser",
]


@dataclass(frozen=True, slots=True)
class ConstraintCompiler:
    """A constraint that compiles itself.

    Attributes:
        compile: makes the grammar. It runs on a thread of the engine. If it raises, the request fails with this error.
        open_ended: whether it has free text, which may end anywhere. If the budget ends it, the finish reason is
            "length".
        has_calls: whether it consists of calls, or of free text with calls. Then stops end the free text only, and no
            further call begins that the budget could cut short.
        follows_message: whether it applies only to what follows a continued message (`continue_final_message`), such as
            required calls after text. Otherwise the message and what follows satisfy it together.
    """

    compile: Callable[[GrammarCompiler], CompiledGrammar]
    open_ended: bool = False
    has_calls: bool = False
    follows_message: bool = False

    @property
    def omits_calls(self) -> bool:
        """Whether it is free text in a conversation with tools, none of which may be called now."""
        return self.open_ended and not self.has_calls


Constraint: TypeAlias = CompiledGrammar | ConstraintCompiler | Specification | None
_NO_OPTIONS: Final = ConstraintOptions()


def compile_constraint(
    compiler: GrammarCompiler, constraint: Constraint, options: ConstraintOptions = _NO_OPTIONS
) -> CompiledGrammar | None:
    """Compile a constraint. `Engine.generate` describes what each type of constraint means.

    Raises:
        SpecError, UnsupportedError, LimitExceeded: the specification is invalid, unsupported or too large.
        GuidedError: a grammar was compiled for another vocabulary, or an option does not apply to the constraint.
    """
    if constraint is None:
        check_effects(options, frozenset(), "there is no constraint")
        return None
    if isinstance(constraint, CompiledGrammar | ConstraintCompiler):
        check_effects(options, frozenset(), "the constraint is already compiled, or compiles itself")
    if isinstance(constraint, ConstraintCompiler):
        return constraint.compile(compiler)
    if not isinstance(constraint, CompiledGrammar):
        check_options(constraint, options)
        return compiler.compile(constraint, style="generation", **options)
    if not _is_same_vocabulary(constraint.vocabulary, compiler.vocabulary):
        raise GuidedError("the grammar was compiled for another vocabulary: compile it with engine.compiler")
    return constraint


@dataclass(frozen=True, slots=True)
class ValueParser:
    """Parses the text of an output.

    Attributes:
        parse: a complete text -> its value.
        is_json: whether the text is JSON.
        type: the type of the value; None: its JSON value, or the text itself.
    """

    parse: Callable[[str], Any] = str
    is_json: bool = False
    type: Any = None

    def __call__(self, text: str) -> Any:
        """The value of a complete text."""
        return self.parse(text)

    def partial(self, text: str) -> Any:
        """The value so far of a text that is still being written; None: nothing is certain yet.

        JSON contains unfinished strings, but no unfinished numbers and words. A value of a type does not contain
        unfinished strings either; see `guided.frontends.python_types.partial_values`.
        """
        if not self.is_json:
            return text
        certain_json = completed_json(text, with_unfinished_strings=self.type is None)
        if not certain_json:
            return None
        value = json.loads(certain_json)
        return value if self.type is None else partial_value(self.type, value)


_TEXT: Final = ValueParser()
JSON_VALUE: Final = ValueParser(json.loads, True)


def value_parser(grammar: CompiledGrammar | None) -> ValueParser | None:
    """The parser of a grammar's texts: to a JSON or Python value, or to the text itself. None: no grammar."""
    if grammar is None:
        return None
    kind, source = grammar.kind, grammar.source
    if kind == "expr":
        kind, source = only_part(source)
    if kind == "type":
        return ValueParser(text_reader(source), True, source)
    return JSON_VALUE if kind == "json_schema" else _TEXT


def _is_same_vocabulary(a: Vocabulary, b: Vocabulary) -> bool:
    return a is b or (a.size == b.size and a.tokens == b.tokens and a.eos_token_ids == b.eos_token_ids)
