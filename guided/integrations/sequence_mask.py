"""The mask of one sequence, where a library calls a processor with the ids so far and the logits, and says no more.

In: a constraint, and what knows the vocabulary; at each step the sequence's ids, prompt included. Out: the row of the
tokens that may come next. What a processor does with it, in the arrays of its library, is its module's: llama_cpp.py,
mlx_lm.py. Which ids are the prompt, and whether a generation begins anew, is found by `RowMatchers`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from guided.errors import GuidedError, OptionError, brief
from guided.integrations.rows import RowMatchers
from guided.keywords import check_integer
from guided.matching.bitmask import allocate_token_bitmask
from guided.matching.canonical.spelling import Spelling, spelling_of
from guided.matching.compiled import CompiledGrammar
from guided.matching.compiler import GrammarCompiler
from guided.matching.constraint import Constraint, ConstraintOptions, compile_constraint
from guided.vocabulary import Vocabulary

__all__ = ["SequenceMask", "check_width", "compiler_of", "required_grammar", "spelling_if"]


def compiler_of(source: Any, vocabulary_of: Callable[[Any], Vocabulary]) -> GrammarCompiler:
    """A compiler: the one that is given, or one for a vocabulary that is given, or that `vocabulary_of` reads."""
    if isinstance(source, GrammarCompiler):
        return source
    return GrammarCompiler(source if isinstance(source, Vocabulary) else vocabulary_of(source))


def required_grammar(compiler: GrammarCompiler, constraint: Constraint, options: ConstraintOptions) -> CompiledGrammar:
    """The grammar of a constraint, of which there must be one.

    Raises:
        SpecError, UnsupportedError, LimitExceeded, GuidedError: see `compile_constraint`.
    """
    grammar = compile_constraint(compiler, constraint, options)
    if grammar is None:
        raise GuidedError("there is no constraint: leave the processor out")
    return grammar


def spelling_if(canonical: bool, vocabulary: Vocabulary) -> Spelling | None:
    """How the tokenizer spells, where only what it would write itself is allowed.

    Raises:
        UnsupportedError: that is not known. OptionError: `canonical` is neither True nor False.
    """
    if not isinstance(canonical, bool):
        raise OptionError(f"canonical is {brief(canonical)}, it must be True or False")
    return spelling_of(vocabulary) if canonical else None


def check_width(width: int, vocabulary: Vocabulary) -> None:
    """Raises GuidedError where a model scores fewer tokens than the vocabulary has."""
    if width < vocabulary.size:
        raise GuidedError(
            f"the model scores {width} tokens, the vocabulary has {vocabulary.size}: this is another model's tokenizer"
        )


class SequenceMask:
    """See the head.

    Args:
        grammar: the constraint, compiled.
        max_tokens: what the generation is given; its text is then complete within it. None: no budget.
        canonical: allow only what the tokenizer itself would write.

    Raises:
        OptionError: `max_tokens` is no number of tokens. UnsupportedError: it is not known how the tokenizer spells.
        BudgetError: no output of the constraint fits it.
    """

    def __init__(self, grammar: CompiledGrammar, max_tokens: int | None, *, canonical: bool = False) -> None:
        check_integer("max_tokens", max_tokens, least=1, optional=True)
        self._rows = RowMatchers([grammar], max_tokens, spelling_if(canonical, grammar.vocabulary))
        self._bitmask = allocate_token_bitmask(1, grammar.vocabulary.size)

    def after(self, ids: npt.ArrayLike) -> npt.NDArray[np.int32]:
        """The row after these ids, int32 (ceil(size / 32),); the next call overwrites it.

        Raises:
            GuidedError: the last token is not allowed.
        """
        row = self._rows.follow(np.asarray(ids, np.int64)[None])[0]
        assert row.matcher is not None
        if row.is_dead:
            raise GuidedError("the constraint does not allow the last token: another processor chose it")
        if not row.matcher.fill_next_token_bitmask(self._bitmask, max_tokens=self._rows.budget(row)):
            self._bitmask.fill(-1)
        only: npt.NDArray[np.int32] = self._bitmask[0]
        return only
