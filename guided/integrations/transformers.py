"""Constraints for transformers' `generate`.

    from guided.integrations.transformers import GuidedLogitsProcessor

    processor = GuidedLogitsProcessor({"type": "object", ...}, tokenizer, max_new_tokens=200)
    model.generate(**inputs, logits_processor=[processor], max_new_tokens=200)

In: constraints as `Engine.generate` takes them, one for all prompts or one for each; the tokenizer. Out: a
`LogitsProcessor`, or a `prefix_allowed_tokens_fn`. The processor derives the state of each row from its ids at each
step (rows.py), so left padding, several samples, beams, assisted generation and later prompts need no special handling.
If `forced_bos_token_id` forces the first token of a decoder, such as the target language of NLLB, the constraint begins
after it. An assistant with its own tokenizer makes bad drafts or is refused, since the constraint is compiled for the
model's tokens.

A constraint takes precedence over options such as `min_new_tokens`: if it allows only an end token, the row ends there,
as with `min_tokens` in guided's own engine. If it allows other tokens, but other processors forbid all of them, that is
an error.

`generate` has no hooks for skipping forced tokens or for token healing (`heal_prompt`); `guided.from_transformers` has
both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Unpack

import numpy as np
import torch
from transformers import LogitsProcessor

from guided.errors import GuidedError, OptionError
from guided.integrations.generation import Ids
from guided.integrations.rows import Prompt, Row, RowMasks, RowMatchers, warn_of_dead_row
from guided.integrations.sequence_mask import compiler_of, spelling_or_none
from guided.keywords import check_integer
from guided.logits import apply_token_bitmask_inplace
from guided.logits.no_token_left import rows_without_tokens
from guided.matching.bitmask import allocate_token_bitmask, allowed_tokens
from guided.matching.compiler import GrammarCompiler
from guided.matching.constraint import Constraint, ConstraintOptions, compile_constraint
from guided.matching.matcher import GrammarMatcher
from guided.vocabulary import Vocabulary
from guided.vocabulary.bounded import fit_to_logits

__all__ = ["GuidedLogitsProcessor", "prefix_allowed_tokens_fn", "restore_end_tokens", "vocabulary_of"]

Tokenizer = Any
_END_TOKEN_SCORE: Final = -1e4  # for forbidden end tokens: so low that beams that can continue rank higher


def vocabulary_of(tokenizer: Tokenizer, model: Any = None) -> Vocabulary:
    """The vocabulary of a transformers tokenizer.

    Args:
        model: if given, its logits determine the vocabulary's size, and its `generation_config` adds end tokens.

    Raises:
        VocabularyError: the tokenizer cannot be read, or belongs to another model.
    """
    if model is None:
        return Vocabulary.from_huggingface(tokenizer)
    end_ids = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    end_ids = [] if end_ids is None else [end_ids] if isinstance(end_ids, int) else list(end_ids)
    tokenizer_end_id = getattr(tokenizer, "eos_token_id", None)  # an object that is no tokenizer causes an error below
    size = model.get_output_embeddings().weight.shape[0] if hasattr(model, "get_output_embeddings") else None
    vocabulary = Vocabulary.from_huggingface(
        tokenizer, eos_token_ids={*end_ids, *([] if tokenizer_end_id is None else [tokenizer_end_id])} or None
    )
    if size is None:
        return vocabulary
    return vocabulary.copy_with(size=size) if size > vocabulary.size else fit_to_logits(vocabulary, size)


class GuidedLogitsProcessor(LogitsProcessor):
    """Masks the logits of each row by its constraint.

    Args:
        constraint: what `Engine.generate` takes: a compiled grammar, a JSON Schema as a dict, a type, a regular
            expression, a list of texts, or a composition such as `guided.regex(...) + "!"`. A tuple has one constraint
            for each prompt of the batch; None: unconstrained.
        tokenizer: a transformers tokenizer, a `Vocabulary`, or a `GrammarCompiler`, which caches compiled grammars.
        max_new_tokens: the limit passed to `generate`. Each row is then complete within this limit.
        canonical: allow only tokens that the tokenizer itself would produce, see `Engine.generate`.
        **options: fields of `ConstraintOptions`, such as `whitespace="compact"`.

    Raises:
        SpecError, UnsupportedError, VocabularyError: see `Engine.generate`. OptionError: an option has a wrong value.
        BudgetError: no output of a constraint fits `max_new_tokens`.
    """

    def __init__(
        self,
        constraint: Constraint | tuple[Constraint, ...],
        tokenizer: Tokenizer | Vocabulary | GrammarCompiler,
        *,
        max_new_tokens: int | None = None,
        canonical: bool = False,
        **options: Unpack[ConstraintOptions],
    ) -> None:
        if "max_tokens" in options:
            raise OptionError("the limit of transformers is max_new_tokens, not max_tokens", option="max_tokens")
        check_integer("max_new_tokens", max_new_tokens, minimum=1, optional=True)
        constraints = constraint if isinstance(constraint, tuple) else (constraint,)
        compiler = compiler_of(tokenizer, vocabulary_of)
        # Options are an error only if no prompt has a constraint: compile_constraint refuses options for None.
        options_if_unconstrained = (
            options if all(prompt_constraint is None for prompt_constraint in constraints) else ConstraintOptions()
        )

        def compile_for(compiler: GrammarCompiler) -> Callable[[], RowMatchers]:
            grammars = [
                compile_constraint(
                    compiler, prompt_constraint, options_if_unconstrained if prompt_constraint is None else options
                )
                for prompt_constraint in constraints
            ]
            return partial(RowMatchers, grammars, max_new_tokens, spelling_or_none(canonical, compiler.vocabulary))

        self.vocabulary, self._limits, self._compile_for = compiler.vocabulary, compiler.limits, compile_for
        # By the number of tokens: all of the tokenizer, or the logits of a model that has fewer.
        self._make_matchers = {self.vocabulary.size: compile_for(compiler)}
        self._matchers_by_width = {self.vocabulary.size: self._make_matchers[self.vocabulary.size]()}
        self._lock = threading.Lock()

    def reset(self) -> None:
        """Forget the rows, so that the next call begins a new generation.

        This is needed only if a prompt consists of an earlier prompt and a part of its answer; see rows.py.
        """
        self._matchers_by_width.clear()

    def __call__(self, input_ids: torch.LongTensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores, with -inf for each token that a row's constraint does not allow. `scores` is not changed.

        Args:
            input_ids: int64 (rows, length), including prompts and padding.
            scores: float (rows, vocabulary).

        Raises:
            GuidedError: the model and the tokenizer do not match, the number of rows does not fit the constraints, the
                rows continue a generation that is no longer kept, or other processors forbid all tokens that a
                constraint allows.
        """
        matchers = self._matchers_for(scores.shape[-1])
        masks = matchers.mask_rows(input_ids.cpu().numpy())
        if input_ids.shape[1] == 1 and bool(((scores > -torch.inf).sum(dim=-1) == 1).all()):  # forced_bos_token_id
            matchers.force_first_tokens(masks, scores.argmax(dim=-1).tolist())
        if masks.constrained_rows:
            scores = scores.clone()  # `generate` may return the original tensor as the raw logits
            has_free_rows = len(masks.constrained_rows) < len(masks.rows)
            apply_token_bitmask_inplace(scores, masks.bitmask, masks.constrained_rows if has_free_rows else None)
            restore_end_tokens(masks, scores)
        return scores

    def _matchers_for(self, width: int) -> RowMatchers:
        """The matchers of a model with `width` logits. An assistant with another width may have another tokenizer, so
        its rows are kept separate."""
        with self._lock:
            if width not in self._matchers_by_width:
                size = min(width, self.vocabulary.size)
                if size not in self._make_matchers:
                    fitting_vocabulary = fit_to_logits(self.vocabulary, size)
                    self._make_matchers[size] = self._compile_for(
                        GrammarCompiler(fitting_vocabulary, limits=self._limits)
                    )
                self._matchers_by_width[width] = self._make_matchers[size]()
            return self._matchers_by_width[width]


def restore_end_tokens(masks: RowMasks, scores: torch.Tensor) -> None:
    """Let a row end if its constraint allows only end tokens, but another processor has forbidden them.

    If all scores were -inf, `generate` would choose token 0.

    Args:
        masks: the masks of the constraints.
        scores: the masked scores, float (rows, vocabulary), changed in place.

    Raises:
        GuidedError: in all rows of a prompt, the constraint allows other tokens, but other processors forbid them.
    """
    blocked_rows = rows_without_tokens(masks.constrained_rows, masks.bitmask, scores)
    for row in [row for row in blocked_rows if masks.allows_only_ends(row)]:
        scores[row, allowed_tokens(masks.bitmask, row)] = _END_TOKEN_SCORE
        blocked_rows.remove(row)
    for row in blocked_rows:
        if set(masks.rows_with_same_prompt(row)).issubset(
            blocked_rows
        ):  # otherwise, the row is a beam, and other beams continue
            raise GuidedError(
                "another processor, or an option of generate such as bad_words_ids, suppress_tokens, "
                "no_repeat_ngram_size or forced_eos_token_id, forbids each token that the constraint of row "
                f"{row} allows: leave it out"
            )


def prefix_allowed_tokens_fn(
    constraint: Constraint, tokenizer: Tokenizer | Vocabulary | GrammarCompiler, **options: Unpack[ConstraintOptions]
) -> Callable[[int, torch.Tensor], list[int]]:
    """Create a function for `generate(prefix_allowed_tokens_fn=...)`. It returns the ids that may come next in a row.

    Prefer `GuidedLogitsProcessor`. This function has no budget, does not see what other options of `generate` forbid
    (such as `min_new_tokens`), and keeps all rows of a generation in memory. Its lists of ids are slower than masks. Do
    not combine it with an assistant that has its own tokenizer. Each thread has its own generation.

    Warns:
        RuntimeWarning: a row has a token that the constraint does not allow. The row ends there.
    """
    if name := next((name for name in ("max_tokens", "max_new_tokens") if name in options), None):
        raise OptionError(f"{name}: this function has no budget; GuidedLogitsProcessor has one", option=name)
    compiler = compiler_of(tokenizer, vocabulary_of)
    grammar = compile_constraint(compiler, constraint, options)
    of_thread = threading.local()

    def find_row(batch_id: int, ids: Ids) -> Row:
        # batch id -> its prompt, and its rows by the ids after the prompt
        generations: dict[int, tuple[Ids, dict[bytes, Row]]] = of_thread.__dict__.setdefault("generations", {})
        prompt, rows = generations.get(batch_id, (ids, {}))
        if np.array_equal(ids[: len(prompt)], prompt):
            output_ids = ids[len(prompt) :]
            if (cached_row := rows.get(output_ids.tobytes())) is not None:
                return cached_row
            if len(output_ids) and (parent_row := rows.get(output_ids[:-1].tobytes())) is not None:
                row = rows[output_ids.tobytes()] = parent_row.fork()
                row.read(output_ids[-1:].tolist())
                return row
        row = Row.at_prompt(None if grammar is None else GrammarMatcher(grammar), Prompt(len(ids), compiler.vocabulary))
        generations[batch_id] = (ids, {b"": row})
        return row

    def list_allowed_tokens(batch_id: int, ids: torch.Tensor) -> list[int]:
        row = find_row(batch_id, ids.cpu().numpy())
        if row.matcher is None:
            return list(range(compiler.vocabulary.size))
        if row.is_dead:
            if row.padding is None:
                warn_of_dead_row(batch_id)
            return sorted(compiler.vocabulary.eos_token_ids)
        bitmask = allocate_token_bitmask(1, compiler.vocabulary.size)
        row.matcher.fill_next_token_bitmask(bitmask)
        return allowed_tokens(bitmask)

    return list_allowed_tokens
