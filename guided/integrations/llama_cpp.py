"""Constraints in llama-cpp-python.

    from guided.integrations.llama_cpp import GuidedLogitsProcessor

    processor = GuidedLogitsProcessor({"type": "object", ...}, llm, max_tokens=200)
    llm.create_chat_completion(messages, logits_processor=[processor], max_tokens=200)

In: a constraint as `Engine.generate` takes it, and the `Llama` (or the path of its GGUF file, or a `Vocabulary`). Out:
a logits processor, which masks what the constraint does not allow. `LlamaGrammar` has the constructors of the class of
that name in llama-cpp-python; give its processor where the other is given as `grammar=grammar`. It enforces what that
does not: a JSON Schema in all of its keywords, and an end within a budget.

llama-cpp-python goes on without the mask where a processor raises. So what can be wrong is refused when a processor is
made, and a text that another processor has led astray ends, with a warning. A `Llama` with a `draft_model` is refused:
it calls processors with the drafts of all places that it verifies, as if they were written.

It does not import llama_cpp. Cost: 0.1 ms for a token, and the copies that llama-cpp-python makes of the logits.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
import numpy.typing as npt

import guided.frontends.combinators as parts
from guided.errors import GuidedError
from guided.integrations.sequence_mask import SequenceMask, compiler_of, required_grammar
from guided.logits import apply_token_bitmask_inplace
from guided.matching.bitmask import row_of
from guided.matching.constraint import Constraint, ConstraintOptions
from guided.vocabulary import Vocabulary

__all__ = ["GuidedLogitsProcessor", "LlamaGrammar", "vocabulary_of"]

Ids = npt.NDArray[np.intc]
Scores = npt.NDArray[np.single]


def vocabulary_of(llama: Any) -> Vocabulary:
    """The vocabulary of a `llama_cpp.Llama`, read from its GGUF file.

    Raises:
        VocabularyError, ModelFileError: the file cannot be read. GuidedError: the `Llama` has a `draft_model`.
    """
    if getattr(llama, "draft_model", None) is not None:
        raise GuidedError("llama-cpp-python shows processors what is drafted as written: leave draft_model out")
    path = llama if isinstance(llama, str | os.PathLike) else llama.model_path
    return Vocabulary.from_gguf(Path(path))


class GuidedLogitsProcessor:
    """Masks the logits of one sequence; the next completion begins anew.

    Args:
        constraint: what `Engine.generate` takes.
        llama: the `Llama`, or the path of its GGUF file, a `Vocabulary`, or a `GrammarCompiler`.
        max_tokens: what the completion is given; its text is then complete within it.
        canonical: allow only tokens that the tokenizer itself would write, see `Engine.generate`.
        **options: of `ConstraintOptions`, as `whitespace="compact"`.

    Raises:
        SpecError, UnsupportedError, VocabularyError: see `Engine.generate`. OptionError: an option has no such value.
        BudgetError: no output of the constraint fits the budget.
        GuidedError: the `Llama` has a `draft_model`.
    """

    def __init__(
        self,
        constraint: Constraint,
        llama: Any,
        *,
        max_tokens: int | None = None,
        canonical: bool = False,
        **options: Unpack[ConstraintOptions],
    ) -> None:
        compiler = compiler_of(llama, vocabulary_of)
        self.vocabulary = compiler.vocabulary
        self._ends = row_of(self.vocabulary.size, sorted(self.vocabulary.eos_token_ids))
        self._mask = SequenceMask(required_grammar(compiler, constraint, options), max_tokens, canonical=canonical)

    def __call__(self, input_ids: Ids, scores: Scores) -> Scores:
        """The scores, (n_vocab,), with -inf for each token that is not allowed after `input_ids`, prompt included.

        Raises:
            ValueError: there are fewer scores than the vocabulary has tokens.

        Warns:
            RuntimeWarning: a token was chosen that the constraint does not allow, by another processor; the text ends.
        """
        try:
            row = self._mask.after(input_ids)
        except GuidedError as error:
            warnings.warn(f"the text ends here: {error}", RuntimeWarning, stacklevel=2)
            row = self._ends
        scores = np.array(scores, np.single)  # llama-cpp-python's own memory stays as it is
        apply_token_bitmask_inplace(scores, row)
        return scores


class LlamaGrammar:
    """A grammar in GBNF or a JSON Schema, by the names of llama-cpp-python; see the head.

    Give it as `logits_processor=[grammar.processor(llm)]`.
    """

    def __init__(self, constraint: Constraint) -> None:
        self._constraint = constraint

    @classmethod
    def from_string(cls, grammar: str, verbose: bool = True) -> Self:
        """A grammar in GBNF, whose rule `root` is the output."""
        return cls(parts.gbnf(grammar))

    @classmethod
    def from_file(cls, file: str | Path, verbose: bool = True) -> Self:
        """A file with such a grammar."""
        return cls.from_string(Path(file).read_text("utf-8"))

    @classmethod
    def from_json_schema(cls, json_schema: str, verbose: bool = True) -> Self:
        """A JSON Schema, as JSON text."""
        return cls(parts.json_schema(json_schema))

    def processor(self, llama: Any, *, max_tokens: int | None = None) -> GuidedLogitsProcessor:
        """What enforces it in one completion at a time; arguments are those of `GuidedLogitsProcessor`."""
        return GuidedLogitsProcessor(self._constraint, llama, max_tokens=max_tokens)
