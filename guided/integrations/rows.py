"""Finds the matcher of each row of a batch, for engines that pass only the rows' token ids at each step.

In: the grammar of each prompt; at each step the ids of all rows, including the prompts. Out: the matcher of each row,
which has accepted the row's ids after the prompt.

The calls do not say which generation they belong to. So `RowMatchers` keeps the rows of the latest 32 generations as of
their latest calls (generation.py), and compares their ids with the call's:

- If each row continues a row of a generation by a token, the call continues that generation. Several generations may
  alternate: threads that share a processor, or groups of beams. Each continues its own rows, in any order. A call may
  also pass a part of the rows.
- If the rows differ from those of the thread's previous call in more tokens, but begin with the same prompts, tokens
  were rolled back (assisted generation), and the call continues that generation.
- Otherwise the rows are prompts, and a new generation begins. The same prompts again always begin a new one: its state
  is the same.
- If the rows continue a generation that is no longer kept, the call is an error.

A new prompt may look like the continuation of an earlier generation. Engines request a mask before each token. So a row
whose last token the mask refused is a new prompt if the generation was rolled back, or if its thread has begun a
generation with other prompts since. Two cases are not detected: a new prompt that consists of the previous prompt, the
beginning of its answer and at most one more token; and one that consists of an earlier prompt, all of its answer that
the calls contained, and one more token that the grammar allows. `reset` is for these cases.

With a `Spelling`, the masks allow only tokens that the tokenizer itself would produce (matching/canonical/).

Threads may call `mask_rows` at the same time: each call runs under a lock.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from guided.errors import BudgetError, GuidedError
from guided.integrations.generation import Generation, Ids, Prompt, Row
from guided.integrations.lru_cache import LruCache
from guided.matching.bitmask import allocate_token_bitmask, fill_batch, row_of
from guided.matching.canonical.matcher import CanonicalMatcher
from guided.matching.canonical.spelling import Spelling
from guided.matching.compiled import CompiledGrammar
from guided.matching.matcher import GrammarMatcher
from guided.matching.protocol import ForkingMatcher
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Prompt", "Row", "RowMasks", "RowMatchers", "warn_of_dead_row"]

_MAX_GENERATIONS: Final = 32
_MAX_DROPPED_ROWS: Final = 65_536


@dataclass(frozen=True, slots=True)
class RowMasks:
    """The masks of a call.

    Attributes:
        rows: the rows.
        bitmask: int32 (rows, ceil(size / 32)). Rows without a constraint allow all tokens.
        constrained_rows: the numbers of the rows that have a constraint.
        end_row: the row of a bitmask that allows only the end tokens.
    """

    rows: list[Row]
    bitmask: npt.NDArray[np.int32]
    constrained_rows: list[int]
    end_row: npt.NDArray[np.int32]

    def rows_with_same_prompt(self, number: int) -> list[int]:
        """The numbers of all rows that have the same prompt as this row."""
        prompt = self.rows[number].prompt
        return [other for other, row in enumerate(self.rows) if row.prompt is prompt]

    def allows_only_ends(self, number: int) -> bool:
        """Whether the mask of a row allows only end tokens."""
        return not bool(np.any(self.bitmask[number] & ~self.end_row))


class RowMatchers:
    """See the module docstring.

    Args:
        grammars: the grammar of each prompt; None: the prompt is unconstrained. A single grammar is for all prompts.
            The rows of one prompt (several samples, beams) are adjacent.
        max_new_tokens: the budget of each row. The masks then leave enough tokens for the shortest completion. None: no
            budget.
        spelling: allow only tokens that the tokenizer itself would produce; None: any tokens.
        one_request: all rows are beams of one request, whose number may change.
        rolls_back: the engine may roll back tokens. If not, fewer new prompts look like a continuation.

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
        rolls_back: bool = True,
    ) -> None:
        if not grammars:
            raise ValueError("the list of constraints is empty: give one for each prompt, or None")
        self.grammars, self.max_new_tokens, self._spelling = list(grammars), max_new_tokens, spelling
        self._one_request, self._rolls_back = one_request, rolls_back
        self._generations = list[Generation]()
        """The latest generations, the most recently used first."""
        self._dropped_rows = LruCache[int, None](_MAX_DROPPED_ROWS)
        """Hashes of the ids of rows that were not continued and are no longer kept."""
        self._lock = threading.Lock()
        if max_new_tokens is not None:
            for grammar in filter(None, self.grammars):
                if (min_tokens := GrammarMatcher(grammar).min_tokens_to_finish() - 1) > max_new_tokens:
                    raise BudgetError(min_tokens, max_new_tokens)

    def reset(self) -> None:
        """Forget all generations, so that the next call begins a new one."""
        with self._lock:
            self._generations.clear()
            self._dropped_rows.clear()

    def mask_rows(self, ids: Ids) -> RowMasks:
        """Advance the rows to these ids, int64 (rows, length), and compute their masks. A dead row may only end.

        Raises:
            GuidedError: the number of rows is not a multiple of the number of prompts, or the rows continue a
                generation that is no longer kept.
            BudgetError: an output of a row cannot be completed within the budget.

        Warns:
            RuntimeWarning: a row is dead, and has not only been filled up with padding.
        """
        with self._lock:
            rows = self.follow(ids)
            bitmask = allocate_token_bitmask(len(rows), self._vocabulary_size)
            return RowMasks(rows, bitmask, self._fill(rows, bitmask), self._end_row)

    def force_first_tokens(self, masks: RowMasks, tokens: Sequence[int]) -> None:
        """Let the mask of each row allow only its forced first token, if that is part of the prompt (`Row.is_forced`).

        Raises:
            BudgetError: no output of a row's constraint fits the rest of the budget.
        """
        for number in masks.constrained_rows:
            row, token = masks.rows[number], tokens[number]
            if not row.is_forced(token):
                continue
            if row.matcher is not None and (budget := self.budget(row)) is not None:  # check the rest of the budget
                try:
                    row.matcher.fill_next_token_bitmask(masks.bitmask, number, max_tokens=budget - 1)
                except BudgetError as error:  # without the end token
                    raise BudgetError(error.needed - 1, budget - 2, is_exact=error.is_exact) from None
            masks.bitmask[number] = row_of(self._vocabulary_size, [token])

    def follow_sequence(self, ids: Ids) -> tuple[Row, bool]:
        """Advance the only row to these ids, (length,), and return it. False: it belongs to an earlier sequence than
        the row of the previous call. Raises GuidedError like `mask_rows`."""
        with self._lock:
            previous_prompts = self._generations[0].prompts if self._generations else None
            row = self.follow(ids[None])[0]
            return row, row.output_length == 0 or self._generations[0].prompts is previous_prompts

    def follow(self, ids: Ids) -> list[Row]:
        """Advance the rows to these ids, and return them; see `mask_rows`. For one thread at a time."""
        generation = self._find_generation(ids) or self._begin_generation(ids)
        generation.thread, generation.is_superseded = threading.get_ident(), False
        self._generations.insert(0, generation)
        for dropped_generation in self._generations[_MAX_GENERATIONS:]:
            self._drop_rows(dropped_generation)
        del self._generations[_MAX_GENERATIONS:]
        return generation.rows

    def budget(self, row: Row) -> int | None:
        """The number of tokens left to a row, plus one for the end token, which does not count toward the limit."""
        return None if self.max_new_tokens is None else max(1, self.max_new_tokens - row.output_length + 1)

    def _fill(self, rows: list[Row], bitmask: npt.NDArray[np.int32]) -> list[int]:
        """Write the masks of the rows that have a constraint, and return the numbers of these rows."""
        constrained_rows = [(number, row.matcher, row) for number, row in enumerate(rows) if row.matcher is not None]
        rows_by_budget: dict[int | None, list[tuple[int, GrammarMatcher]]] = {}
        for number, matcher, row in constrained_rows:
            if not row.is_dead and isinstance(matcher, GrammarMatcher):
                rows_by_budget.setdefault(self.budget(row), []).append((number, matcher))
            else:
                self._fill_row(number, matcher, row, bitmask)
        for budget, pairs in rows_by_budget.items():
            try:
                fill_batch(
                    [matcher for _, matcher in pairs], bitmask, [number for number, _ in pairs], max_tokens=budget
                )
            except BudgetError:  # in some of the rows
                for number, matcher in pairs:
                    self._fill_row(number, matcher, rows[number], bitmask)
        return [number for number, _, _ in constrained_rows]

    def _fill_row(self, number: int, matcher: ForkingMatcher, row: Row, bitmask: npt.NDArray[np.int32]) -> None:
        if not row.is_dead:
            try:
                if not matcher.fill_next_token_bitmask(bitmask, number, max_tokens=self.budget(row)):
                    bitmask[number] = -1
                return
            except BudgetError:
                if not row.output_length:
                    raise
                row.is_dead = True  # the mask forbade its last token, which is a draft or another processor's choice
        if row.padding is None:
            warn_of_dead_row(number)
        bitmask[number] = self._end_row

    @cached_property
    def _vocabulary_size(self) -> int:
        return 1 if self._vocabulary is None else self._vocabulary.size

    @cached_property
    def _vocabulary(self) -> Vocabulary | None:
        return next((grammar.vocabulary for grammar in self.grammars if grammar is not None), None)

    @cached_property
    def _end_row(self) -> npt.NDArray[np.int32]:
        ends = [] if self._vocabulary is None else sorted(self._vocabulary.eos_token_ids)
        return row_of(self._vocabulary_size, ends)

    def _make_matcher(self, grammar: CompiledGrammar | None) -> ForkingMatcher | None:
        if grammar is None:
            return None
        matcher = GrammarMatcher(grammar)
        return matcher if self._spelling is None else CanonicalMatcher(matcher, self._spelling)

    def _find_generation(self, ids: Ids) -> Generation | None:
        """Take the generation that the rows continue out of the list, advanced to these ids. None: there is none."""
        thread = threading.get_ident()
        own_generations = [generation for generation in self._generations if generation.thread == thread]
        found = self._find_next(own_generations, ids) or self._roll_back(own_generations[:1], ids)
        if found is None:
            found = self._find_next(self._generations, ids)
        if found is None and not own_generations:  # an engine may change the thread
            found = self._roll_back(self._generations[:1], ids)
        return found

    def _find_next(self, generations: Sequence[Generation], ids: Ids) -> Generation | None:
        """Find the generation that each row continues by a token."""
        for generation in generations:
            if generation.append_in_order(ids):
                self._generations.remove(generation)
                return generation
        for generation in generations:
            if ids.shape[1] == generation.ids.shape[1] + 1 and (found := self._branch(generation, ids)):
                branch, parents = found
                # Rows that have not been continued are dropped beams, unless the call is about a part of the rows.
                rest = generation.without(parents) if len(ids) < len(generation.rows) else None
                number = self._generations.index(generation)
                self._generations[number : number + 1] = [] if rest is None else [rest]
                return branch
        return None

    def _roll_back(self, generations: Sequence[Generation], ids: Ids) -> Generation | None:
        """Find the generation that begins with the rows, except for at most their last token."""
        for generation in generations if self._rolls_back else ():
            may_change_count = self._one_request or len(ids) == len(generation.rows)
            is_longer = ids.shape[1] > generation.ids.shape[1]
            if is_longer or not may_change_count or (found := self._branch(generation, ids)) is None:
                continue
            self._generations.remove(generation)
            self._drop_rows(generation)
            return found[0]
        return None

    def _branch(self, generation: Generation, ids: Ids) -> tuple[Generation, set[int]] | None:
        return generation.branch(ids, may_grow=self._one_request)

    def _drop_rows(self, generation: Generation) -> None:
        for row_ids in generation.ids:
            self._dropped_rows[hash(row_ids.tobytes())] = None

    def _begin_generation(self, ids: Ids) -> Generation:
        if len(ids) % len(self.grammars):
            row_text = "1 row" if len(ids) == 1 else f"{len(ids)} rows"
            raise GuidedError(
                f"{row_text} cannot be divided among {len(self.grammars)} constraints: give one for each prompt of "
                "the batch; a choice among texts is a list"
            )
        if self._dropped_rows and all(hash(row_ids[:-1].tobytes()) in self._dropped_rows for row_ids in ids):
            raise GuidedError(
                f"these rows continue a generation that is not among the latest {_MAX_GENERATIONS}, or whose tokens "
                "were rolled back: create a processor for each sequence, or, if they are new prompts, call reset()"
            )
        thread = threading.get_ident()
        for generation in self._generations:
            if generation.thread == thread and not np.array_equal(generation.prompts, ids):
                generation.is_superseded = True
        return Generation(ids, [self._make_matcher(grammar) for grammar in self.grammars], self._vocabulary)


def warn_of_dead_row(number: int) -> None:
    """Warn that a row is dead."""
    warnings.warn(
        f"row {number} has a token that its constraint does not allow, and ends: another processor chose the token, it "
        "is a draft, or a beam had no allowed token. If a new prompt continues an earlier answer, call reset() first",
        RuntimeWarning,
        stacklevel=5,
    )


def _common_length(first: Ids, second: Ids) -> int:
    """The length of the common prefix of two rows."""
    length = min(len(first), len(second))
    differences = np.flatnonzero(first[:length] != second[:length])
    return int(differences[0]) if len(differences) else length
