"""Finds the matcher of each row of a batch, for engines that pass only the rows' token ids at each step.

In: the grammar of each prompt; at each step the ids of all rows, including the prompts. Out: the matcher of each row,
which has accepted the row's ids after the prompt.

Engines copy, reorder and drop rows (beam search), roll tokens back (assisted generation), and start a new generation
without notice. So a row may continue any row of the previous step. `RowMatchers` chooses the one with the longest
common prefix, rolls back the tokens that differ, and accepts the new tokens. Rows that continue the same row get forks
of its matcher. The rows of the first step are the prompts.

Engines request a mask before each token. So in one generation, the previous step had a row that begins with all ids of
the new row except the last one. If it had none, the rows are other prompts, and a new generation begins. A new
generation also begins if the rows have not become longer and the last token is refused: the engine had the mask for
this token, so the same generation would not have chosen it.

One case is not detected: a new prompt that consists of the previous prompt, the beginning of its answer and at most one
more token.

The number of rows is constant in a generation. Only if all rows belong to one request, which the engine names, it may
change: with beam search, TensorRT-LLM passes the prompt once, and then a row for each beam.

With a `Spelling`, the masks allow only tokens that the tokenizer itself would produce (matching/canonical/).

Cost: if all rows grow by a token, one comparison of the batch and one accepted token per row. Otherwise, each row is
compared with the rows of its prompt in the previous step.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from guided.errors import BudgetError, GuidedError
from guided.matching.bitmask import fill_batch, row_of
from guided.matching.canonical.matcher import CanonicalMatcher
from guided.matching.canonical.spelling import Spelling
from guided.matching.compiled import CompiledGrammar
from guided.matching.matcher import GrammarMatcher
from guided.matching.protocol import ForkingMatcher, accept_any_id

__all__ = ["Row", "RowMatchers", "warn_of_dead_row"]

Ids = npt.NDArray[np.int64]


@dataclass(eq=False, slots=True)
class Row:
    """A row of the batch.

    Attributes:
        matcher: the matcher of its constraint; None: the row is unconstrained.
        output_length: how many tokens follow the prompt.
        is_dead: whether the row has a token that its constraint refuses. This happens only to a beam without allowed
            tokens, or if another processor changes the choice.
    """

    matcher: ForkingMatcher | None
    output_length: int = 0
    is_dead: bool = False

    def read(self, tokens: Sequence[int]) -> None:
        """Accept tokens. Tokens after an end token are padding."""
        self.output_length += len(tokens)
        for token in tokens:
            if self.matcher is None or self.is_dead or self.matcher.is_terminated():
                return
            self.is_dead = not accept_any_id(self.matcher, int(token))

    def fork(self) -> Row:
        """An independent copy."""
        return Row(None if self.matcher is None else self.matcher.fork(), self.output_length, self.is_dead)


class RowMatchers:
    """See the module docstring.

    Args:
        grammars: the grammar of each prompt; None: the prompt is unconstrained. A single grammar is for all prompts.
            The rows of one prompt (several samples, beams) are adjacent.
        max_new_tokens: the budget of each row. The masks then leave enough tokens for the shortest completion. None: no
            budget.
        spelling: allow only tokens that the tokenizer itself would produce; None: any tokens.
        one_request: all rows are beams of one request, whose number may change.

    Raises:
        BudgetError: no output of a constraint fits `max_new_tokens`.
    """

    def __init__(
        self,
        grammars: Sequence[CompiledGrammar | None],
        max_new_tokens: int | None = None,
        spelling: Spelling | None = None,
        *,
        one_request: bool = False,
    ) -> None:
        if not grammars:
            raise ValueError("the list of constraints is empty: give one for each prompt, or None")
        self.grammars, self.max_new_tokens, self._spelling = list(grammars), max_new_tokens, spelling
        self._one_request = one_request
        self._rows: list[Row] = []
        self._ids: Ids = np.zeros((0, 0), np.int64)
        self._prompt_length = 0
        self._rows_with_same_prompt: list[range] = []
        if max_new_tokens is not None:
            for grammar in filter(None, self.grammars):
                if (min_tokens := GrammarMatcher(grammar).min_tokens_to_finish() - 1) > max_new_tokens:
                    raise BudgetError(min_tokens, max_new_tokens)

    def follow(self, ids: Ids) -> list[Row]:
        """Advance the rows to these ids, int64 (rows, length), and return them.

        Raises:
            GuidedError: the number of rows is not a multiple of the number of prompts.
        """
        previous_ids, new_count = self._ids, ids.shape[1] - self._ids.shape[1]
        if new_count == 1 and ids.shape[0] == len(self._rows) and np.array_equal(ids[:, :-1], previous_ids):
            for row, token in zip(self._rows, ids[:, -1].tolist(), strict=True):
                row.read((token,))
        elif self._may_continue(ids) and (rows := self._regroup(ids, new_count)) is not None:
            self._rows = rows
        else:
            self._begin_generation(ids)
        self._ids = ids.copy()
        return self._rows

    def budget(self, row: Row) -> int | None:
        """The number of tokens left to a row, plus one for the end token, which does not count toward the limit."""
        return None if self.max_new_tokens is None else max(1, self.max_new_tokens - row.output_length + 1)

    def fill(self, bitmask: npt.NDArray[np.int32]) -> list[int]:
        """Write the masks of the rows that have a constraint. A dead row may only end.

        Args:
            bitmask: int32 (rows, ceil(size / 32)). Unconstrained rows are not changed.

        Returns:
            The numbers of the rows that have a constraint.

        Raises:
            BudgetError: a row can no longer be completed.

        Warns:
            RuntimeWarning: a row is dead.
        """
        constrained_rows = [
            (number, row.matcher, row) for number, row in enumerate(self._rows) if row.matcher is not None
        ]
        rows_by_budget: dict[int | None, list[tuple[int, GrammarMatcher]]] = {}
        for number, matcher, row in constrained_rows:
            if row.is_dead:
                warn_of_dead_row(number)
                bitmask[number] = self._end_row
            elif isinstance(matcher, GrammarMatcher):
                rows_by_budget.setdefault(self.budget(row), []).append((number, matcher))
            elif not matcher.fill_next_token_bitmask(bitmask, number, max_tokens=self.budget(row)):
                bitmask[number] = -1
        for budget, pairs in rows_by_budget.items():
            fill_batch([matcher for _, matcher in pairs], bitmask, [number for number, _ in pairs], max_tokens=budget)
        return [number for number, _, _ in constrained_rows]

    def rows_with_same_prompt(self, number: int) -> range:
        """All rows that have the same prompt as this row. They are adjacent."""
        return self._rows_with_same_prompt[number]

    def allows_only_ends(self, bitmask_row: npt.NDArray[np.int32]) -> bool:
        """Whether a row of the bitmask allows only end tokens."""
        return not bool(np.any(bitmask_row & ~self._end_row))

    @cached_property
    def _end_row(self) -> npt.NDArray[np.int32]:
        vocabulary = next(grammar for grammar in self.grammars if grammar is not None).vocabulary
        return row_of(vocabulary.size, sorted(vocabulary.eos_token_ids))

    def _make_matcher(self, grammar: CompiledGrammar | None) -> ForkingMatcher | None:
        if grammar is None:
            return None
        matcher = GrammarMatcher(grammar)
        return matcher if self._spelling is None else CanonicalMatcher(matcher, self._spelling)

    def _may_continue(self, ids: Ids) -> bool:
        """Whether each row begins with its prompt and is longer."""
        if not self._rows or ids.shape[1] <= self._prompt_length:
            return False
        prompts = self._ids[:, : self._prompt_length]
        if len(ids) != len(self._rows):
            if not self._one_request:
                return False
            prompts = np.repeat(prompts[:1], len(ids), axis=0)
        return bool(np.array_equal(ids[:, : self._prompt_length], prompts))

    def _begin_generation(self, ids: Ids) -> None:
        row_count, prompts = len(ids), len(self.grammars)
        if row_count % prompts:
            row_text = "1 row" if row_count == 1 else f"{row_count} rows"
            raise GuidedError(
                f"{row_text} cannot be divided among {prompts} constraints: give one for each prompt of the batch; "
                "a choice among texts is a list"
            )
        rows_per_prompt = row_count // prompts
        prompt_rows = [Row(self._make_matcher(grammar)) for grammar in self.grammars]
        self._rows = (
            [row.fork() for row in prompt_rows for _ in range(rows_per_prompt)] if rows_per_prompt > 1 else prompt_rows
        )
        self._prompt_length = ids.shape[1]
        run_starts = [
            number
            for number in range(1, row_count)
            if number % rows_per_prompt == 0 or not np.array_equal(ids[number], ids[number - 1])
        ]
        runs = [range(*pair) for pair in pairwise([0, *run_starts, row_count])]
        self._rows_with_same_prompt = [run for run in runs for _ in run]

    def _regroup(self, ids: Ids, new_count: int) -> list[Row] | None:
        """Find the rows after some were copied, dropped or rolled back. None: the rows are other prompts."""
        rows, all_rows = list[Row](), range(len(self._rows))
        has_same_count = len(ids) == len(self._rows)
        for number, row_ids in enumerate(ids):
            candidates = self.rows_with_same_prompt(number) if has_same_count else all_rows
            common_lengths = {candidate: _common_length(row_ids, self._ids[candidate]) for candidate in candidates}
            parent = max(common_lengths, key=lambda candidate: (common_lengths[candidate], candidate == number))
            if common_lengths[parent] < len(row_ids) - 1:
                return None
            row = self._fork_row(parent, max(0, common_lengths[parent] - self._prompt_length))
            was_dead = row.is_dead
            row.read(row_ids[self._prompt_length + row.output_length :].tolist())
            if new_count < 1 and row.is_dead and not was_dead:
                return None
            rows.append(row)
        if not has_same_count:
            self._rows_with_same_prompt = [range(len(rows))] * len(rows)
        return rows

    def _fork_row(self, number: int, length: int) -> Row:
        """Copy a row of the previous step, in its state after `length` tokens."""
        row = self._rows[number]
        if row.output_length == length:
            return row.fork()
        grammar = self.grammars[number * len(self.grammars) // len(self._rows)]
        copied_row = Row(self._make_matcher(grammar))
        copied_row.read(self._ids[number, self._prompt_length : self._prompt_length + length].tolist())
        return copied_row


def warn_of_dead_row(number: int) -> None:
    """Warn that a row is dead."""
    warnings.warn(
        f"row {number} has a token that its constraint does not allow, and ends: another processor chose the token, or "
        "a beam had no allowed token",
        RuntimeWarning,
        stacklevel=4,
    )


def _common_length(first: Ids, second: Ids) -> int:
    """The length of the common prefix of two rows."""
    length = min(len(first), len(second))
    differences = np.flatnonzero(first[:length] != second[:length])
    return int(differences[0]) if len(differences) else length
