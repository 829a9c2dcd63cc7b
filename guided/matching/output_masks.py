"""Recomputes the masks under which an output was written, from its tokens (`masks_of`).

In: a compiled grammar, the token ids of an output, and its budget if it had one. Out: `Masks`: which ids were allowed,
and the mask of each position. A trainer that has only the tokens of a sample needs the masks to compute probabilities
under the masked model. An audit uses them to check that an engine followed the grammar.

How: the core follows the ids (guided/automaton/native/matching/output_masks.hpp). Without a budget, `masks_of` only
takes steps, and the rows are computed on first use. Most positions share their row with others, so each distinct row is
stored once.

Cost: about 0.1 us for each id, and 3 us for each distinct row, if its state was visited before. Both run without the
GIL.

Limits: these are the masks of the grammar and the budget alone. An engine may remove more tokens: `canonical=True`,
bans, penalties. The rows of an output take at most the memory limit of the grammar (`Limits.memory`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from guided.automaton import _core
from guided.errors import BudgetError, OptionError, brief
from guided.keywords import accept_old_names, check_integer
from guided.matching.bitmask import bits_of
from guided.matching.compiled import CompiledGrammar
from guided.matching.explain.explanation import Explanation
from guided.matching.matcher import GrammarMatcher

__all__ = ["Masks", "masks_of"]

_MAX_TOKENS: Final = 1 << 62


@accept_old_names({"refused": "refused_at"})
@dataclass(frozen=True, eq=False, repr=False)
class Masks:
    """The masks of an output of n tokens. As an array: int32 (n, words), one bitmask row for each position.

    `masks[i]` is the row under which `ids[i]` was chosen; `np.asarray(masks)` creates an array of all rows. `rows` and
    `row_numbers` store each distinct row once; `indptr` and `indices` are the allowed ids as a sparse matrix. All of
    these are computed on first use.

    If an id is not allowed, the output has no state after it. So `allowed` is False from there on, and all rows after
    that position are empty.

    Attributes:
        grammar: the grammar.
        ids: int64 (n,).
        max_tokens: the budget, as given.
        refused_at: the position of the first id that is not allowed, or None.
        is_complete: whether the output may end after all of its ids, or has ended.
    """

    grammar: CompiledGrammar
    ids: npt.NDArray[np.int64]
    max_tokens: int | None
    refused_at: int | None
    is_complete: bool

    @property
    def allowed(self) -> npt.NDArray[np.bool_]:
        """Whether each id was allowed, bool (n,)."""
        allowed = np.zeros(len(self), np.bool_)
        allowed[: self.refused_at] = True  # all, if none was refused
        return allowed

    @cached_property
    def forced(self) -> npt.NDArray[np.bool_]:
        """Whether the mask of each position allowed exactly one id, bool (n,).

        These tokens have probability 1 under the mask. `Result.token_masks` can have more zeros: the engine also writes
        forced text without sampling if several tokens could spell it.
        """
        forced: npt.NDArray[np.bool_] = (self._counts == 1)[self.row_numbers]
        return forced

    @cached_property
    def _rows_and_numbers(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        rows, numbers = _core.Matcher(self.grammar.native)._output_masks(self.ids, _first_budget(self.max_tokens))
        return rows, numbers

    @property
    def rows(self) -> npt.NDArray[np.int32]:
        """The distinct rows, int32 (distinct, words), bit `id % 32` of word `id // 32`, 1 = allowed.

        Raises:
            LimitExceeded: they take more than the memory limit of the grammar. All members that need rows raise it,
                too.
        """
        return self._rows_and_numbers[0]

    @property
    def row_numbers(self) -> npt.NDArray[np.int32]:
        """The row of each position, an index of `rows`, int32 (n,)."""
        return self._rows_and_numbers[1]

    @cached_property
    def _row_ids(self) -> list[npt.NDArray[np.int32]]:
        """The ids that each distinct row allows, ascending."""
        return [np.flatnonzero(bits_of(row)).astype(np.int32) for row in self.rows]

    @property
    def _counts(self) -> npt.NDArray[np.int64]:
        return np.array([len(ids) for ids in self._row_ids], np.int64)

    @cached_property
    def indptr(self) -> npt.NDArray[np.int64]:
        """The offset in `indices` at which the allowed ids of each position begin, int64 (n + 1,)."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self._counts[self.row_numbers], dtype=np.int64)])

    @cached_property
    def indices(self) -> npt.NDArray[np.int32]:
        """The allowed ids of all positions, int32 (total,). `indices[indptr[i] : indptr[i + 1]]` are the ids of
        position i, ascending. Inside a string, they are most of the vocabulary."""
        return np.concatenate([np.zeros(0, np.int32), *(self._row_ids[number] for number in self.row_numbers)])

    def explain(self) -> Explanation | None:
        """Explain why the id at `refused_at` is not allowed. None if all ids are allowed."""
        if self.refused_at is None:
            return None
        matcher, token = GrammarMatcher(self.grammar), int(self.ids[self.refused_at])
        for id in self.ids[: self.refused_at].tolist():
            matcher.accept_token(id)
        size = self.grammar.vocabulary.size
        if not 0 <= token < size:
            reason = f"{token} is not an id of the vocabulary (0 to {size - 1})"
            return replace(matcher.explain(), accepted=False, reason=reason)
        explanation = matcher.explain(token)
        if not explanation.accepted or self.max_tokens is None:
            return explanation
        matcher.accept_token(token)
        tokens_left, needed = self.max_tokens - self.refused_at - 1, matcher.min_tokens_to_finish() - 1
        if tokens_left < 0:
            reason = f"the budget of {self.max_tokens} tokens is used up: only the end token may follow"
            return replace(explanation, accepted=False, reason=reason)
        reason = "the specification allows the token, but the budget does not"
        numbers = f"tokens left after it: {tokens_left}, shortest known completion: {needed}"
        return replace(explanation, accepted=False, reason=f"{reason} ({numbers})")

    @property
    def shape(self) -> tuple[int, int]:
        """(n, words)."""
        return len(self), (self.grammar.vocabulary.size + 31) // 32

    @property
    def dtype(self) -> np.dtype[np.int32]:
        """int32."""
        return np.dtype(np.int32)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, positions: Any) -> npt.NDArray[np.int32]:
        rows: npt.NDArray[np.int32] = self.rows[self.row_numbers[positions]]
        return rows

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("the rows of all positions do not exist as an array yet, so they must be copied")
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)

    def __repr__(self) -> str:
        where = "all allowed" if self.refused_at is None else f"refused at position {self.refused_at}"
        return f"Masks({len(self)} tokens, {where})"


def masks_of(
    grammar: CompiledGrammar, ids: Sequence[int] | npt.NDArray[np.integer[Any]], max_tokens: int | None = None
) -> Masks:
    """The masks under which an output was written, computed again from its tokens.

    For many outputs, call it on several threads: it releases the GIL, and threads share a grammar.

    Args:
        grammar: the grammar of the output.
        ids: the tokens of the output, (n,): a list, an array, a tensor on the CPU. The end token may be among them.
        max_tokens: the budget of the output, as in `Engine.generate`: it counts the tokens of the text, and the end
            token costs nothing. Each mask is computed for the budget that remains at its position. None: no budget.

    Raises:
        BudgetError: not even the shortest output fits into `max_tokens`.
        LimitExceeded: a step or a mask exceeds a limit of the grammar.
        OptionError: `max_tokens` is negative, or not an integer. TypeError: `ids` are not a sequence of integers.
    """
    if not isinstance(grammar, CompiledGrammar):
        raise TypeError(f"grammar is a CompiledGrammar, not {brief(grammar)}")
    check_integer("max_tokens", max_tokens, minimum=0, optional=True)
    max_tokens = None if max_tokens is None else min(int(max_tokens), _MAX_TOKENS)  # also accepts numpy integers
    output = _read_ids(ids)
    matcher = _core.Matcher(grammar.native)
    if max_tokens is not None and (needed := matcher.min_tokens_to_finish() - 1) > max_tokens:
        raise BudgetError(needed, max_tokens)
    accepted = matcher._accept_output(output, _first_budget(max_tokens))
    refused_at = accepted if accepted < len(output) else None
    return Masks(grammar, output, max_tokens, refused_at, refused_at is None and matcher.is_accepting())


def _first_budget(max_tokens: int | None) -> int | None:
    """The budget of the first mask: a matcher's budget includes the end token."""
    return None if max_tokens is None else max_tokens + 1


def _read_ids(ids: object) -> npt.NDArray[np.int64]:
    try:
        array = np.asarray(ids)
    except ValueError:  # lists of different lengths
        array = np.zeros((0, 0))
    if array.ndim == 1 and array.size == 0:
        return np.zeros(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"ids are a sequence of integers, not {brief(ids)}")
    if array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
        raise OptionError(f"ids contain {array.max()}, which is more than a 64-bit integer", option="ids")
    copy = np.array(array, np.int64, order="C")  # rows are computed later, when a caller may have reused its array
    copy.setflags(write=False)
    return copy
