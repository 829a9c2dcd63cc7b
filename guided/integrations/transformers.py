"""Constraints for `generate` of transformers.

    from guided.integrations.transformers import GuidedLogitsProcessor

    processor = GuidedLogitsProcessor({"type": "object", ...}, tokenizer, max_new_tokens=200)
    model.generate(**inputs, logits_processor=[processor], max_new_tokens=200)

In: constraints as `Engine.generate` takes them, one for all prompts or one for each; the tokenizer. Out: a
`LogitsProcessor`, or a `prefix_allowed_tokens_fn`. Where the rows of a batch are, is found from their ids at each step
(rows.py), so left padding, several samples, beams, assisted generation, and another prompt later need no help. An
assistant with a tokenizer of its own drafts badly, or is refused, since the constraint is of the model's tokens.

A constraint wins over `min_new_tokens` and the like: where it leaves only an end, the row ends there, as with
`min_tokens` of guided's own engine. Where it leaves others, and all of them are forbidden, that is an error.

What it does not do: skip forced tokens, and spell a prompt's end anew (`heal_prompt`), which `generate` has no place
for; see `guided.from_transformers`.
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
_LAST_RESORT: Final = -1e4  # the score of an end that others have forbidden: a beam that may go on is better


def vocabulary_of(tokenizer: Tokenizer, model: Any = None) -> Vocabulary:
    """The vocabulary of a tokenizer of transformers.

    Args:
        model: where it is given, its logits say the vocabulary's size, and its `generation_config` further end tokens.

    Raises:
        VocabularyError: the tokenizer cannot be read.
    """
    if model is None:
        return Vocabulary.from_huggingface(tokenizer)
    ends = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ends = [] if ends is None else [ends] if isinstance(ends, int) else list(ends)
    own = getattr(tokenizer, "eos_token_id", None)  # what is no tokenizer at all is refused below
    size = model.get_output_embeddings().weight.shape[0] if hasattr(model, "get_output_embeddings") else None
    return Vocabulary.from_huggingface(
        tokenizer, eos_token_ids={*ends, *([] if own is None else [own])} or None, size=size
    )


class GuidedLogitsProcessor(LogitsProcessor):
    """Masks the logits of each row by its constraint.

    Args:
        constraint: what `Engine.generate` takes: a compiled grammar, a JSON Schema as a dict, a type, a regular
            expression, a list of texts, parts. A tuple gives one for each prompt of the batch, None for a free one.
        tokenizer: of transformers, or a `Vocabulary`, or a `GrammarCompiler`, which remembers what it compiled.
        max_new_tokens: what `generate` is given: each row is then complete within it.
        canonical: allow only tokens that the tokenizer itself would write, see `Engine.generate`.
        **options: of `ConstraintOptions`, as `whitespace="compact"`.

    Raises:
        SpecError, UnsupportedError, VocabularyError: see `Engine.generate`. OptionError: an option has no such value.
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
        of_none = options if all(one is None for one in each) else ConstraintOptions()  # an error where there are some
        grammars = [compile_constraint(compiler, one, of_none if one is None else options) for one in each]
        self.vocabulary, self._one_for_all = compiler.vocabulary, not isinstance(constraint, tuple)
        self._new_rows = partial(RowMatchers, grammars, max_new_tokens, spelling_if(canonical, compiler.vocabulary))
        self._of_width = {self.vocabulary.size: self._new_rows()}

    def reset(self) -> None:
        """Forget the rows: the next call is the first one of a generation.

        It is only needed where a prompt is the one before with a part of its answer, see rows.py.
        """
        self._of_width.clear()

    def __call__(self, input_ids: torch.LongTensor, scores: torch.Tensor) -> torch.Tensor:
        """The scores with -inf where a row's constraint allows no token; the argument stays as it is.

        Args:
            input_ids: int64 (rows, length), prompts and padding included.
            scores: float (rows, vocabulary).

        Raises:
            GuidedError: the model is another one, the rows do not fit the constraints, or all that a constraint allows
                is forbidden by others.
        """
        width = scores.shape[-1]
        check_width(width, self.vocabulary)
        # An assistant whose logits are of another width may have another tokenizer: its rows are none of the model's.
        if width not in self._of_width:
            self._of_width[width] = self._new_rows()
        matchers = self._of_width[width]
        rows = matchers.follow(input_ids.cpu().numpy())
        bitmask = allocate_token_bitmask(len(rows), self.vocabulary.size)
        if guided := matchers.fill(bitmask):
            scores = scores.clone()  # `generate` gives them away as the raw logits
            apply_token_bitmask_inplace(scores, bitmask, None if len(guided) == len(rows) else guided)
            leave_a_way_on(matchers, guided, bitmask, scores)
        return scores


def leave_a_way_on(
    matchers: RowMatchers, guided: list[int], bitmask: npt.NDArray[np.int32], scores: torch.Tensor
) -> None:
    """Let rows end in which a constraint allows nothing else, and others have forbidden that.

    `generate` would otherwise take token 0, whatever it is.

    Args:
        guided: the rows that have a constraint.
        bitmask: what the constraints allow.
        scores: float (rows, vocabulary), masked, changed in place.

    Raises:
        GuidedError: in all rows of a prompt another token may come, but each is forbidden.
    """
    stuck = rows_without_tokens(guided, bitmask, scores)
    for row in [row for row in stuck if matchers.allows_only_ends(bitmask[row])]:
        scores[row, allowed_tokens(bitmask, row)] = _LAST_RESORT
        stuck.remove(row)
    for row in stuck:
        if set(matchers.prompt_of(row)).issubset(stuck):  # else it is a beam, and others go on
            raise GuidedError(
                f"each token that the constraint of row {row} allows is forbidden by another processor or an option "
                "of generate, such as bad_words_ids, suppress_tokens or no_repeat_ngram_size: leave it out"
            )


def prefix_allowed_tokens_fn(
    constraint: Constraint, tokenizer: Tokenizer | Vocabulary | GrammarCompiler, **options: Unpack[ConstraintOptions]
) -> Callable[[int, torch.Tensor], list[int]]:
    """A function for `generate(prefix_allowed_tokens_fn=...)`: the ids that may come next in a row.

    It has no budget, cannot see what other options of `generate` forbid (`min_new_tokens` among them, beyond what the
    constraint allows), remembers all that a generation has written, and lists of ids are slower than masks: prefer
    `GuidedLogitsProcessor`. An assistant with a tokenizer of its own must not be used beside it.

    Warns:
        RuntimeWarning: a row has a token that the constraint does not allow; it ends there.
    """
    compiler = compiler_of(tokenizer, vocabulary_of)
    grammar = compile_constraint(compiler, constraint, options)
    bitmask = allocate_token_bitmask(1, compiler.vocabulary.size)
    begun: dict[int, tuple[npt.NDArray[np.int64], dict[bytes, Row]]] = {}  # the prompt; the rows by what follows it

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
