"""Constraints in outlines (1.x), which constrains models with logits processors.

    from guided.integrations.outlines import generator

    generate = generator(model, list[int], max_new_tokens=100)
    generate("Three numbers: ", max_new_tokens=100)

In: an outlines model (`Transformers`, `LlamaCpp`), and an output type for outlines or a constraint for
`Engine.generate`. Out: outlines' own generator, with calls, batches and streams.

outlines has a fixed list of backends and no way to register another one. So `GuidedBackend`, a `BaseBackend`, only
creates processors. `generator` passes one to outlines' `Generator(processor=...)`, which accepts any processor.

MLX models are not supported and raise an error.
"""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
from outlines import Generator
from outlines.backends.base import BaseBackend
from outlines.models import LlamaCpp, Transformers
from outlines.types.dsl import CFG, JsonSchema, Term, python_types_to_terms, to_regex

from guided.errors import GuidedError
from guided.frontends import combinators
from guided.frontends.combinators import Expr
from guided.frontends.gbnf import is_gbnf
from guided.integrations import llama_cpp
from guided.integrations.rows import RowMatchers
from guided.integrations.sequence_mask import spelling_or_none
from guided.keywords import check_integer
from guided.logits import apply_token_bitmask_inplace
from guided.matching.canonical.spelling import Spelling
from guided.matching.compiled import CompiledGrammar
from guided.matching.compiler import GrammarCompiler
from guided.matching.constraint import Constraint, ConstraintCompiler, ConstraintOptions, compile_constraint
from guided.vocabulary import Vocabulary

__all__ = ["GuidedBackend", "GuidedProcessor", "generator", "vocabulary_of"]


def vocabulary_of(model: Any) -> Vocabulary:
    """The vocabulary of an outlines model.

    Raises:
        VocabularyError: its tokenizer cannot be read. GuidedError: this kind of model is not supported.
    """
    if isinstance(model, Transformers):
        from guided.integrations import transformers

        return transformers.vocabulary_of(model.hf_tokenizer, model.model)
    if isinstance(model, LlamaCpp):
        return llama_cpp.vocabulary_of(model.model)
    raise GuidedError(f"a {type(model).__name__} is not supported: Transformers and LlamaCpp are")


def generator(
    model: Any,
    output_type: Any,
    *,
    max_new_tokens: int | None = None,
    canonical: bool = False,
    **options: Unpack[ConstraintOptions],
) -> Any:
    """Create an outlines generator for an output type.

    Args:
        model: an outlines model.
        output_type: a Python type, an outlines term (`Regex`, `JsonSchema`, `CFG`, ...), or a constraint that only
            `Engine.generate` takes: a compiled grammar, or a composition such as `guided.regex(...) + "!"`.
        max_new_tokens: the limit that each call of the generator will get. Each output is then complete within it.
        canonical: allow only tokens that the tokenizer itself would produce, see `Engine.generate`.
        **options: fields of `ConstraintOptions`, such as `whitespace="compact"`.

    Raises:
        SpecError, UnsupportedError, VocabularyError: see `Engine.generate`.
    """
    backend = GuidedBackend(model, max_new_tokens=max_new_tokens, canonical=canonical)
    return Generator(model, processor=backend.processor(output_type, **options))


class GuidedBackend(BaseBackend):  # type: ignore[misc]  # outlines is not always installed
    """Creates logits processors for an outlines model.

    Args:
        model: the model whose vocabulary is used.
        max_new_tokens: the limit passed to `generate`. Each output is then complete within this limit. None: no budget.
        canonical: allow only tokens that the tokenizer itself would produce.

    Raises:
        OptionError: an option has a wrong value.
        UnsupportedError: see `spelling_or_none`.
    """

    def __init__(self, model: Any, *, max_new_tokens: int | None = None, canonical: bool = False) -> None:
        check_integer("max_new_tokens", max_new_tokens, minimum=1, optional=True)
        self.compiler, self.max_new_tokens = GrammarCompiler(vocabulary_of(model)), max_new_tokens
        self._spelling = spelling_or_none(canonical, self.compiler.vocabulary)
        self._rolls_back = not isinstance(model, LlamaCpp)

    def get_json_schema_logits_processor(
        self, json_schema: str, whitespace_pattern: str | None = None
    ) -> GuidedProcessor:
        """Create the processor for a JSON Schema. `whitespace_pattern`: a regular expression for each gap; None: a
        space after `,` and `:`."""
        options = (
            ConstraintOptions() if whitespace_pattern is None else ConstraintOptions(whitespace=whitespace_pattern)
        )
        return self._make_processor(combinators.json_schema(json_schema), **options)

    def get_regex_logits_processor(self, regex: str) -> GuidedProcessor:
        """Create the processor for a regular expression, which the whole output must match."""
        return self._make_processor(regex)

    def get_cfg_logits_processor(self, grammar: str) -> GuidedProcessor:
        """Create the processor for a grammar in GBNF (`root ::= ...`) or Lark."""
        return self._make_processor(combinators.gbnf(grammar) if is_gbnf(grammar) else combinators.lark(grammar))

    def processor(self, output_type: Any, **options: Unpack[ConstraintOptions]) -> GuidedProcessor:
        """Create the processor for an output type; see `generator`."""
        if isinstance(output_type, CompiledGrammar | ConstraintCompiler | Expr):
            return self._make_processor(output_type, **options)
        term: Term = python_types_to_terms(output_type)
        if isinstance(term, CFG):
            return self.get_cfg_logits_processor(term.definition)
        if not isinstance(term, JsonSchema):
            return self._make_processor(to_regex(term), **options)
        if term.whitespace_pattern is not None:
            options["whitespace"] = term.whitespace_pattern
        return self._make_processor(combinators.json_schema(term.schema), **options)

    def _make_processor(self, constraint: Constraint, **options: Unpack[ConstraintOptions]) -> GuidedProcessor:
        grammar = compile_constraint(self.compiler, constraint, options)
        if grammar is None:
            raise GuidedError("there is no constraint: call the model itself")
        return GuidedProcessor(grammar, self.max_new_tokens, self._spelling, rolls_back=self._rolls_back)


class GuidedProcessor:
    """Masks the logits of each row of a batch by one grammar. It recognizes rows by their ids."""

    def __init__(
        self,
        grammar: CompiledGrammar,
        max_new_tokens: int | None = None,
        spelling: Spelling | None = None,
        *,
        rolls_back: bool = True,
    ) -> None:
        self.grammar = grammar
        self._rows = RowMatchers([grammar], max_new_tokens, spelling, rolls_back=rolls_back)

    def reset(self) -> None:
        """Forget the rows, so that the next call begins a new generation; see rows.py."""
        self._rows.reset()

    def __call__(self, input_ids: Any, logits: Any) -> Any:
        """Return the logits, (vocab,) or (rows, vocab), with -inf for each token that the grammar does not allow.

        Args:
            input_ids: int (length,) or (rows, length), including prompts and padding.
            logits: a numpy array, which is copied, or a torch tensor, which is changed.

        Raises:
            BudgetError: no output fits the budget. GuidedError: this kind of array is not supported, the rows continue
                a generation that is no longer kept, or other processors forbid all tokens that the grammar allows.
        """
        ids = _to_numpy(input_ids)
        masks = self._rows.mask_rows(ids[None] if ids.ndim == 1 else ids)
        logits = logits.copy() if isinstance(logits, np.ndarray) else logits  # an engine's memory may be read-only
        apply_token_bitmask_inplace(logits, masks.bitmask[0] if logits.ndim == 1 else masks.bitmask)
        if not isinstance(logits, np.ndarray):
            from guided.integrations.transformers import restore_end_tokens

            restore_end_tokens(masks, logits.view(len(masks.rows), -1))
        return logits


def _to_numpy(ids: Any) -> npt.NDArray[np.int64]:
    if isinstance(ids, np.ndarray | list | tuple):
        return np.asarray(ids, np.int64)
    if hasattr(ids, "cpu"):
        return np.asarray(ids.cpu().numpy(), np.int64)
    raise GuidedError(f"arrays of {type(ids).__module__} are not supported: give arrays of torch or numpy")
