"""Computes the mask of one sequence, for libraries that call a processor with only the ids so far and the logits.

In: a constraint and the source of the vocabulary; at each step the sequence's ids, including the prompt. Out: the
bitmask row of the next token. llama_cpp.py and mlx_lm.py apply it to their libraries' arrays. `RowMatchers` (rows.py)
detects which ids are the prompt, and whether a new generation begins.

A mask follows one sequence at a time. A prompt may be another prompt with one more token, so the calls of several
sequences may look like those of one. If the ids continue another sequence than that of the previous call, the mask
raises an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from guided.errors import GuidedError, OptionError, brief
from guided.integrations.rows import Row, RowMatchers
from guided.keywords import check_integer
from guided.matching.bitmask import allocate_token_bitmask
from guided.matching.canonical.spelling import Spelling, spelling_of
from guided.matching.compiled import CompiledGrammar
from guided.matching.compiler import GrammarCompiler
from guided.matching.constraint import Constraint, ConstraintOptions, compile_constraint
from guided.vocabulary import Vocabulary

__all__ = ["SequenceMask", "check_width", "compile_required", "compiler_of", "spelling_or_none"]


def compiler_of(source: Any, vocabulary_of: Callable[[Any], Vocabulary]) -> GrammarCompiler:
    """Return `source` if it is a compiler. Otherwise create a compiler, for `source` if it is a `Vocabulary`, else for
    the vocabulary that `vocabulary_of` reads from it."""
    if isinstance(source, GrammarCompiler):
        return source
    return GrammarCompiler(source if isinstance(source, Vocabulary) else vocabulary_of(source))


def compile_required(compiler: GrammarCompiler, constraint: Constraint, options: ConstraintOptions) -> CompiledGrammar:
    """Compile a constraint, which must not be None.

    Raises:
        SpecError, UnsupportedError, LimitExceeded: see `compile_constraint`.
        GuidedError: the constraint is None.
    """
    grammar = compile_constraint(compiler, constraint, options)
    if grammar is None:
        raise GuidedError("there is no constraint: leave the processor out")
    return grammar


def spelling_or_none(canonical: bool, vocabulary: Vocabulary) -> Spelling | None:
    """The `Spelling` of the vocabulary's tokenizer if `canonical` is set, otherwise None.

    Raises:
        UnsupportedError: the tokenizer is not byte-level BPE, or has an unknown part.
        OptionError: `canonical` is neither True nor False.
    """
    if not isinstance(canonical, bool):
        raise OptionError(f"canonical is {brief(canonical)}, but must be True or False")
    return spelling_of(vocabulary) if canonical else None


def check_width(width: int, vocabulary: Vocabulary) -> None:
    """Raise GuidedError if a model scores fewer tokens than the vocabulary has."""
    if width < vocabulary.size:
        raise GuidedError(
            f"the model has logits for {width} tokens, but the vocabulary has {vocabulary.size}: the tokenizer belongs "
            "to another model"
        )


class SequenceMask:
    """See the module docstring.

    Args:
        grammar: the compiled constraint.
        max_tokens: the token limit of the generation. The output is then complete within this limit. None: no budget.
        canonical: allow only tokens that the tokenizer itself would produce.
        max_length: the limit of the prompt and the output together, such as the size of the context. None: no limit.
        rolls_back: the engine may roll back tokens; see `RowMatchers`.

    Raises:
        OptionError: `max_tokens` is not a positive integer.
        UnsupportedError: see `spelling_or_none`.
        BudgetError: no output of the constraint fits `max_tokens`.
    """

    def __init__(
        self,
        grammar: CompiledGrammar,
        max_tokens: int | None,
        *,
        canonical: bool = False,
        max_length: int | None = None,
        rolls_back: bool = True,
    ) -> None:
        check_integer("max_tokens", max_tokens, minimum=1, optional=True)
        spelling = spelling_or_none(canonical, grammar.vocabulary)
        self._rows = RowMatchers([grammar], max_tokens, spelling, rolls_back=rolls_back)
        self._bitmask = allocate_token_bitmask(1, grammar.vocabulary.size)
        self._max_length = max_length

    def reset(self) -> None:
        """Forget the sequence, so that the next call begins a new one."""
        self._rows.reset()

    def mask_after(self, ids: npt.ArrayLike) -> npt.NDArray[np.int32]:
        """The mask after these ids, int32 (ceil(size / 32),). The next call overwrites it.

        Raises:
            GuidedError: the last token is not allowed, or the ids continue another sequence than that of the previous
                call.
        """
        ids = np.asarray(ids, np.int64)
        row, is_latest = self._rows.follow_sequence(ids)
        if not is_latest:
            raise GuidedError(
                "a processor follows one sequence at a time, but was called for several: create a processor for each "
                "sequence of the batch"
            )
        if row.is_dead:
            raise GuidedError(
                "the constraint does not allow the last token: another processor chose it, or a new prompt continues "
                "the previous answer, which needs reset() of the processor"
            )
        assert row.matcher is not None
        if not row.matcher.fill_next_token_bitmask(self._bitmask, max_tokens=self._budget(row, len(ids))):
            self._bitmask.fill(-1)
        mask: npt.NDArray[np.int32] = self._bitmask[0]
        return mask

    def _budget(self, row: Row, length: int) -> int | None:
        """The number of tokens left to the output, plus one for the end token."""
        budget = self._rows.budget(row)
        if self._max_length is None:
            return budget
        left = max(1, self._max_length - length + 1)
        return left if budget is None else min(budget, left)
