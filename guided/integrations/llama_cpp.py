"""Constraints in llama-cpp-python.

    from guided.integrations.llama_cpp import GuidedLogitsProcessor, LogitsProcessorList

    processors = LogitsProcessorList([GuidedLogitsProcessor({"type": "object", ...}, llm, max_tokens=200)])
    llm.create_chat_completion(messages, logits_processor=processors, max_tokens=200)

In: a constraint as `Engine.generate` takes it, and the `Llama` (or the path of its GGUF file, or a `Vocabulary`). Out:
a logits processor, which masks the tokens that the constraint does not allow. `LlamaGrammar` has the constructors of
llama-cpp-python's class of the same name. Unlike the original class, it enforces all keywords of a JSON Schema, and
completes the text within a budget. Pass `logits_processor=LogitsProcessorList([grammar.processor(llm)])` instead of
`grammar=grammar`.

With a `logit_bias`, llama-cpp-python 0.3.36 ignores all processors that are in a plain list or in a list of its own
class, in silence. `LogitsProcessorList` keeps them.

If a processor raises, llama-cpp-python continues without the mask. So errors in the constraint are raised when the
processor is created. If another processor chooses a token that is not allowed, the text ends with a warning. A `Llama`
with a `draft_model` is refused, because it passes drafts to the processors as if they were written.

This module does not import llama_cpp. Cost: 0.1 ms per token, and the copies that llama-cpp-python makes of the logits.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
import numpy.typing as npt

from guided.errors import GuidedError
from guided.frontends import combinators
from guided.integrations.sequence_mask import SequenceMask, compile_required, compiler_of
from guided.logits import apply_token_bitmask_inplace
from guided.matching.bitmask import row_of
from guided.matching.constraint import Constraint, ConstraintOptions
from guided.vocabulary import Vocabulary

__all__ = ["GuidedLogitsProcessor", "LlamaGrammar", "LogitsProcessorList", "vocabulary_of"]

Ids = npt.NDArray[np.intc]
Scores = npt.NDArray[np.single]
Processor = Callable[[Ids, Scores], Scores]


def vocabulary_of(llama: Any) -> Vocabulary:
    """The vocabulary of a `llama_cpp.Llama`, read from its GGUF file. `llama` may also be the path of a GGUF file.

    Raises:
        VocabularyError, ModelFileError: the file cannot be read. GuidedError: the `Llama` has a `draft_model`.
    """
    if getattr(llama, "draft_model", None) is not None:
        raise GuidedError("llama-cpp-python passes drafts to processors as if written: leave draft_model out")
    path = llama if isinstance(llama, str | os.PathLike) else llama.model_path
    return Vocabulary.from_gguf(Path(path))


class GuidedLogitsProcessor:
    """Masks the logits of one sequence at a time. It detects when the next completion begins, and then starts again.

    Args:
        constraint: what `Engine.generate` takes.
        llama: the `Llama`, or the path of its GGUF file, a `Vocabulary`, or a `GrammarCompiler`.
        max_tokens: the token limit of the completion. The output is then complete within this limit. It is also
            complete within the context of `llama`, if that is a `Llama`.
        canonical: allow only tokens that the tokenizer itself would produce, see `Engine.generate`.
        **options: fields of `ConstraintOptions`, such as `whitespace="compact"`.

    Raises:
        SpecError, UnsupportedError, VocabularyError: see `Engine.generate`. OptionError: an option has a wrong value.
        BudgetError: no output of the constraint fits the budget.
        GuidedError: the `Llama` has a `draft_model`, or the constraint is None.
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
        self._end_row = row_of(self.vocabulary.size, sorted(self.vocabulary.eos_token_ids))
        self._mask = SequenceMask(
            compile_required(compiler, constraint, options),
            max_tokens,
            canonical=canonical,
            max_length=llama.n_ctx() if hasattr(llama, "n_ctx") else None,
            rolls_back=False,
        )

    def reset(self) -> None:
        """Forget the sequence, so that the next call begins a new one.

        This is needed only if a prompt consists of the previous prompt, its whole answer and one more token.
        """
        self._mask.reset()

    def __call__(self, input_ids: Ids, scores: Scores) -> Scores:
        """Return the scores, (n_vocab,), with -inf for each token that is not allowed after `input_ids`.

        Args:
            input_ids: the ids so far, including the prompt.

        Raises:
            ValueError: there are fewer scores than the vocabulary has tokens.

        Warns:
            RuntimeWarning: another processor chose a token that the constraint does not allow; the text ends.
        """
        try:
            row = self._mask.mask_after(input_ids)
        except GuidedError as error:
            warnings.warn(f"the text ends here: {error}", RuntimeWarning, stacklevel=2)
            row = self._end_row
        scores = np.array(scores, np.single)  # leave llama-cpp-python's own memory unchanged
        apply_token_bitmask_inplace(scores, row)
        return scores


class LogitsProcessorList(list[Processor]):
    """A list of logits processors that a `logit_bias` does not remove; see the module docstring."""

    def __call__(self, input_ids: Ids, scores: Scores) -> Scores:
        """Return the scores after all processors, in order."""
        for processor in self:
            scores = processor(input_ids, scores)
        return scores

    def extend(self, processors: Iterable[Processor]) -> Self:  # type: ignore[override]
        """Return a new list with more processors.

        llama-cpp-python continues with the result of `extend`, which is None for other lists. This list does not
        change, because the caller may pass it again.
        """
        return type(self)([*self, *processors])


class LlamaGrammar:
    """A GBNF grammar or a JSON Schema, with llama-cpp-python's method names; see the module docstring.

    Pass it as `logits_processor=LogitsProcessorList([grammar.processor(llm)])`. `verbose` has no effect.
    """

    def __init__(self, constraint: Constraint) -> None:
        self._constraint = constraint

    @classmethod
    def from_string(cls, grammar: str, verbose: bool = True) -> Self:
        """Create from a GBNF grammar with the start rule `root`."""
        return cls(combinators.gbnf(grammar))

    @classmethod
    def from_file(cls, file: str | Path, verbose: bool = True) -> Self:
        """Create from a file that contains a GBNF grammar."""
        return cls.from_string(Path(file).read_text("utf-8"))

    @classmethod
    def from_json_schema(cls, json_schema: str, verbose: bool = True) -> Self:
        """Create from a JSON Schema, given as JSON text."""
        return cls(combinators.json_schema(json_schema))

    def processor(self, llama: Any, *, max_tokens: int | None = None) -> GuidedLogitsProcessor:
        """Create a processor that enforces the grammar in one completion at a time. See `GuidedLogitsProcessor`."""
        return GuidedLogitsProcessor(self._constraint, llama, max_tokens=max_tokens)
