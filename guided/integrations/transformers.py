"""Constraints for `generate` of transformers.

    from guided.integrations.transformers import GuidedLogitsProcessor

    processor = GuidedLogitsProcessor({"type": "object", ...}, tokenizer, max_new_tokens=200)
    model.generate(**inputs, logits_processor=[processor], max_new_tokens=200)

In: constraints as `Engine.generate` takes them, one for all prompts or one for each; the tokenizer. Out: a
`LogitsProcessor`, or a `prefix_allowed_tokens_fn`. The processor derives the state of each row from its ids at each
step (rows.py), so left padding, several samples, beams, assisted generation and later prompts just work. An assistant
with its own tokenizer drafts badly or is refused, since the constraint is compiled for the model's tokens.

A constraint takes precedence over `min_new_tokens` and the like: if it allows only an end token, the row ends there, as
with `min_tokens` of guided's own engine. If it allows other tokens but all of them are forbidden, that is an error.

`generate` has no hooks for skipping forced tokens or for token healing (`heal_prompt`); `guided.from_transformers` has
both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Unpack

import numpy as np
import numpy.typing as npt
import torch
from transformers import LogitsProcessor

from guided.errors import GuidedError
from guided.integrations.rows import Row, RowMatchers, warn_of_dead
from guided.integrations.sequence_mask import check_width, compiler_of, spelling_if
from guided.keywords import check_integer
from guided.logits import apply_token_bitmask_inplace
from guided.logits.no_token_left import rows_without_tokens
from guided.matching.bitmask import allocate_token_bitmask, allowed_tokens
from guided.matching.compiler import GrammarCompiler
from guided.matching.constraint import Constraint, ConstraintOptions, compile_constraint
from guided.matching.matcher import GrammarMatcher
from guided.vocabulary import Vocabulary

__all__ = ["GuidedLogitsProcessor", "leave_a_way_on", "prefix_allowed_tokens_fn", "vocabulary_of"]

Tokenizer = Any
_LAST_RESORT: Final = -1e4  # the score of an end that others have forbidden: a beam that can continue scores higher


def vocabulary_of(tokenizer: Tokenizer, model: Any = None) -> Vocabulary:
    """The vocabulary of a transformers tokenizer.

    Args:
        model: if given, its logits determine the vocabulary's size, and its `generation_config` adds end tokens.

    Raises:
        VocabularyError: the tokenizer cannot be read.
    """
    if model is None:
        return Vocabulary.from_huggingface(tokenizer)
    ends = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ends = [] if ends is None else [ends] if isinstance(ends, int) else list(ends)
    own = getattr(tokenizer, "eos_token_id", None)  # anything but a tokenizer is refused below
    size = model.get_output_embeddings().weight.shape[0] if hasattr(model, "get_output_embeddings") else None
    return Vocabulary.from_huggingface(
        tokenizer, eos_token_ids={*ends, *([] if own is None else [own])} or None, size=size
    )


class GuidedLogitsProcessor(LogitsProcessor):
    """Masks the logits of each row by its constraint.

    Args:
        constraint: what `Engine.generate` takes: a compiled grammar, a JSON Schema as a dict, a type, a regular
            expression, a list of texts, parts. A tuple gives one for each prompt of the batch; None: unconstrained.
        tokenizer: a transformers tokenizer, a `Vocabulary`, or a `GrammarCompiler`, which caches compiled grammars.
        max_new_tokens: the limit passed to `generate`; each row is then complete within it.
        canonical: allow only tokens that the tokenizer itself would write, see `Engine.generate`.
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
        check_integer("max_new_tokens", max_new_tokens, least=1, optional=True)
        each = constraint if isinstance(constraint, tuple) else (constraint,)
        compiler = compiler_of(tokenizer, vocabulary_of)
        of_none = options if all(one is None for one in each) else ConstraintOptions()  # options for None are an error
        grammars = [compile_constraint(compiler, one, of_none if one is None else options) for one in each]
        self.vocabulary, self._one_for_all = compiler.vocabulary, not isinstance(constraint, tuple)
        self._new_rows = partial(RowMatchers, grammars, max_new_tokens, spelling_if(canonical, compiler.vocabulary))
        self._of_width = {self.vocabulary.size: self._new_rows()}

    def reset(self) -> None:
        """Forget the rows, so that the next call begins a new generation.

        This is needed only if a prompt consists of the previous prompt and a part of its answer, see rows.py.
        """
        self._of_width.clear()

    def __call__(self, input_ids: torch.LongTensor, scores: torch.Tensor) -> torch.Tensor:
        """The scores, with -inf for each token that a row's constraint does not allow. The argument is not changed.

        Args:
            input_ids: int64 (rows, length), prompts and padding included.
            scores: float (rows, vocabulary).

        Raises:
            GuidedError: the model and the tokenizer do not match, the number of rows does not fit the constraints, or
                other processors forbid all tokens that a constraint allows.
        """
        width = scores.shape[-1]
        check_width(width, self.vocabulary)
        # An assistant with logits of a different width may have a different tokenizer, so its rows are kept separate.
        if width not in self._of_width:
            self._of_width[width] = self._new_rows()
        matchers = self._of_width[width]
        rows = matchers.follow(input_ids.cpu().numpy())
        bitmask = allocate_token_bitmask(len(rows), self.vocabulary.size)
        if guided := matchers.fill(bitmask):
            scores = scores.clone()  # `generate` returns them as the raw logits
            apply_token_bitmask_inplace(scores, bitmask, None if len(guided) == len(rows) else guided)
            leave_a_way_on(matchers, guided, bitmask, scores)
        return scores


def leave_a_way_on(
    matchers: RowMatchers, guided: list[int], bitmask: npt.NDArray[np.int32], scores: torch.Tensor
) -> None:
    """Let a row end if its constraint allows only an end token, which another processor has forbidden.

    Otherwise `generate` would choose token 0, whatever it is.

    Args:
        guided: the rows that have a constraint.
        bitmask: the masks of the constraints.
        scores: float (rows, vocabulary), masked, changed in place.

    Raises:
        GuidedError: in all rows of a prompt, the constraint allows other tokens, but each of them is forbidden.
    """
    stuck = rows_without_tokens(guided, bitmask, scores)
    for row in [row for row in stuck if matchers.allows_only_ends(bitmask[row])]:
        scores[row, allowed_tokens(bitmask, row)] = _LAST_RESORT
        stuck.remove(row)
    for row in stuck:
        if set(matchers.prompt_of(row)).issubset(stuck):  # otherwise it is a beam, and other beams continue
            raise GuidedError(
                f"each token that the constraint of row {row} allows is forbidden by another processor or an option "
                "of generate, such as bad_words_ids, suppress_tokens or no_repeat_ngram_size: leave it out"
            )


def prefix_allowed_tokens_fn(
    constraint: Constraint, tokenizer: Tokenizer | Vocabulary | GrammarCompiler, **options: Unpack[ConstraintOptions]
) -> Callable[[int, torch.Tensor], list[int]]:
    """A function for `generate(prefix_allowed_tokens_fn=...)`: the ids that may come next in a row.

    Prefer `GuidedLogitsProcessor`. This function has no budget, does not see what other options of `generate` forbid
    (`min_new_tokens` among them), and keeps all rows of a generation in memory. Its lists of ids are slower than masks.
    Do not combine it with an assistant that has its own tokenizer.

    Warns:
        RuntimeWarning: a row has a token that the constraint does not allow; the row ends there.
    """
    compiler = compiler_of(tokenizer, vocabulary_of)
    grammar = compile_constraint(compiler, constraint, options)
    bitmask = allocate_token_bitmask(1, compiler.vocabulary.size)
    begun: dict[int, tuple[npt.NDArray[np.int64], dict[bytes, Row]]] = {}  # the prompt; the rows by their further ids

    def row_of(batch_id: int, ids: npt.NDArray[np.int64]) -> Row:
        prompt, rows = begun.get(batch_id, (ids, {}))
        if np.array_equal(ids[: len(prompt)], prompt):
            own = ids[len(prompt) :]
            if (known := rows.get(own.tobytes())) is not None:
                return known
            if len(own) and (before := rows.get(own[:-1].tobytes())) is not None:
                row = rows[own.tobytes()] = before.fork()
                row.read(own[-1:].tolist())
                return row
        row = Row(None if grammar is None else GrammarMatcher(grammar))
        begun[batch_id] = (ids, {b"": row})
        return row

    def allowed(batch_id: int, ids: torch.Tensor) -> list[int]:
        row = row_of(batch_id, ids.cpu().numpy())
        if row.matcher is None:
            return list(range(compiler.vocabulary.size))
        if row.is_dead:
            warn_of_dead(batch_id)
            return sorted(compiler.vocabulary.eos_token_ids)
        row.matcher.fill_next_token_bitmask(bitmask)
        return allowed_tokens(bitmask)

    return allowed
