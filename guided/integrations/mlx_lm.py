"""Constraints in mlx-lm: a logits processor for `generate`, `stream_generate`, `generate_step` and `BatchGenerator`.

    from guided.integrations.mlx_lm import GuidedLogitsProcessor

    model, tokenizer = mlx_lm.load(...)
    processor = GuidedLogitsProcessor({"type": "object", ...}, tokenizer, max_tokens=200)
    mlx_lm.generate(model, tokenizer, prompt, logits_processors=[processor], max_tokens=200)

In: a constraint as `Engine.generate` takes it, and mlx-lm's tokenizer. Out: a callable that takes ids (n,) and logits
(1, V), both MLX arrays. One processor follows one sequence at a time, so give `BatchGenerator.insert` a processor for
each row. `batch_generate` passes the same processors to all rows, which is refused. Drafts of a smaller model
(`draft_model`) are supported: rejected ids are rolled back.

MLX is imported when the processor is called. Cost: the ids are copied from MLX and the mask is copied to MLX, so each
step waits for the previous token.
"""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from guided.integrations.sequence_mask import SequenceMask, check_width, compile_required, compiler_of
from guided.logits.mlx import mask_logits
from guided.matching.constraint import Constraint, ConstraintOptions
from guided.vocabulary import Vocabulary

__all__ = ["GuidedLogitsProcessor", "vocabulary_of"]


def vocabulary_of(tokenizer: Any) -> Vocabulary:
    """The vocabulary of mlx-lm's `TokenizerWrapper`, with the model's end tokens, or of a transformers tokenizer.

    Raises:
        VocabularyError: the tokenizer cannot be read.
    """
    end_ids = getattr(tokenizer, "eos_token_ids", None)
    return Vocabulary.from_huggingface(getattr(tokenizer, "_tokenizer", tokenizer), eos_token_ids=end_ids or None)


class GuidedLogitsProcessor:
    """Masks the logits of one sequence at a time. It detects when the next generation begins, and then starts again.

    Args:
        constraint: what `Engine.generate` takes.
        tokenizer: mlx-lm's tokenizer, or a `Vocabulary`, or a `GrammarCompiler`, which caches compiled grammars.
        max_tokens: the token limit of the generation. The output is then complete within this limit.
        canonical: allow only tokens that the tokenizer itself would produce, see `Engine.generate`.
        **options: fields of `ConstraintOptions`, such as `whitespace="compact"`.

    Raises:
        SpecError, UnsupportedError, VocabularyError: see `Engine.generate`. OptionError: an option has a wrong value.
        BudgetError: no output of the constraint fits the budget.
    """

    def __init__(
        self,
        constraint: Constraint,
        tokenizer: Any,
        *,
        max_tokens: int | None = None,
        canonical: bool = False,
        **options: Unpack[ConstraintOptions],
    ) -> None:
        compiler = compiler_of(tokenizer, vocabulary_of)
        self.vocabulary = compiler.vocabulary
        self._mask = SequenceMask(compile_required(compiler, constraint, options), max_tokens, canonical=canonical)

    def reset(self) -> None:
        """Forget the sequence, so that the next call begins a new one.

        This is needed only if a prompt consists of the previous prompt and a part of its answer.
        """
        self._mask.reset()

    def __call__(self, tokens: Any, logits: Any) -> Any:
        """Return the logits, (1, V), with -inf for each token that is not allowed after `tokens`.

        Args:
            tokens: the ids so far. The beginning of the prompt may be missing, if mlx-lm has processed it separately.

        Raises:
            GuidedError: a token that the constraint does not allow was chosen, several sequences use the processor at a
                time, or the model and the tokenizer do not match.
            ModuleNotFoundError: MLX is not installed.
        """
        check_width(logits.shape[-1], self.vocabulary)
        return mask_logits(logits, self._mask.mask_after(np.array(tokens)))
