"""Computes the mask of one sequence, for libraries that call a processor with only the ids so far and the logits.

In: a constraint and the source of the vocabulary; at each step the sequence's ids, including the prompt. Out: the
bitmask row of the next token. llama_cpp.py and mlx_lm.py apply it to their libraries' arrays. `RowMatchers` (rows.py)
detects which ids are the prompt, and whether a new generation begins.

A mask follows one sequence at a time. The ids do not name their sequence, and a prompt may be another prompt with one
more token, so calls of several sequences look like those of one. If the ids continue neither the sequence of the
previous call nor a new prompt, but an earlier sequence, the mask raises an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from guided.errors import GuidedError, OptionError, brief
from guided.integrations.lru_cache import LruCache
from guided.integrations.rows import RowMatchers
from guided.keywords import check_integer
from guided.matching.bitmask import allocate_token_bitmask
from guided.matching.canonical.spelling import Spelling, spelling_of
from guided.matching.compiled import CompiledGrammar
from guided.matching.compiler import GrammarCompiler
from guided.matching.constraint import Constraint, ConstraintOptions, compile_constraint
from guided.vocabulary import Vocabulary

__all__ = ["SequenceMask", "check_width", "compile_required", "compiler_of", "spelling_or_none"]

_MAX_SEQUENCES: Final = 1024


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

    Raises:
        OptionError: `max_tokens` is not a positive integer.
        UnsupportedError: see `spelling_or_none`.
        BudgetError: no output of the constraint fits `max_tokens`.
    """

    def __init__(self, grammar: CompiledGrammar, max_tokens: int | None, *, canonical: bool = False) -> None:
        check_integer("max_tokens", max_tokens, minimum=1, optional=True)
        self._rows = RowMatchers([grammar], max_tokens, spelling_or_none(canonical, grammar.vocabulary))
        self._bitmask = allocate_token_bitmask(1, grammar.vocabulary.size)
        self._sequences = LruCache[int, None](_MAX_SEQUENCES)
        """Hashes of the ids of recent calls, without those that a later call continued."""

    def mask_after(self, ids: npt.ArrayLike) -> npt.NDArray[np.int32]:
        """The mask after these ids, int32 (ceil(size / 32),). The next call overwrites it.

        Raises:
            GuidedError: the last token is not allowed, or the ids continue another sequence than that of the previous
                call.
        """
        ids = np.asarray(ids, np.int64)
        row = self._rows.follow(ids[None])[0]
        assert row.matcher is not None
        self._check_sequence(ids, begins=row.output_length == 0)
        if row.is_dead:
            raise GuidedError("the constraint does not allow the last token: another processor chose it")
        if not row.matcher.fill_next_token_bitmask(self._bitmask, max_tokens=self._rows.budget(row)):
            self._bitmask.fill(-1)
        mask: npt.NDArray[np.int32] = self._bitmask[0]
        return mask

    def _check_sequence(self, ids: npt.NDArray[np.int64], *, begins: bool) -> None:
        """Raise GuidedError if the ids begin a generation, according to `RowMatchers`, but continue an earlier one."""
        previous_ids = hash(ids[:-1].tobytes())
        if begins and previous_ids in self._sequences:
            raise GuidedError(
                "a processor follows one sequence at a time, but was called for several: create a processor for each "
                "sequence of the batch"
            )
        self._sequences.pop(previous_ids, None)
        self._sequences[hash(ids.tobytes())] = None
