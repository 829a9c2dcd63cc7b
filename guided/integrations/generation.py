"""The rows of one generation, as of its latest call, and how a call continues them.

In: the token ids of all rows at each call, prompts included. Out: the matcher of each row, which has accepted the row's
ids after the prompt.

Engines copy, reorder and drop rows (beam search), and roll tokens back (assisted generation). So a row may continue any
row of the previous call. `Generation` chooses the one with the longest common prefix, rolls back the tokens that
differ, and accepts the new tokens. Rows that continue the same row get forks of its matcher.

Cost: if all rows grow by a token, one comparison of the batch and one accepted token per row. Otherwise, each row is
compared with the rows of its prompt in the previous call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from guided.errors import GuidedError
from guided.matching.protocol import ForkingMatcher, accept_any_id
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Generation", "Ids", "Prompt", "Row"]

Ids = npt.NDArray[np.int64]
_END_LENGTH: Final = 16  # the last ids of a row, by which it is looked up


@dataclass(frozen=True, eq=False, slots=True)
class Prompt:
    """The prompt of one or more rows.

    Attributes:
        length: the number of its ids, padding included.
        vocabulary: the tokens; None: no row is constrained.
    """

    length: int
    vocabulary: Vocabulary | None

    def is_control(self, token: int) -> bool:
        """Whether a token is a control token, which has no text."""
        vocabulary = self.vocabulary
        return vocabulary is not None and 0 <= token < vocabulary.size and vocabulary.token_bytes(token) is None


@dataclass(eq=False, slots=True)
class Row:
    """A row of the batch.

    Attributes:
        matcher: the matcher of its constraint; None: the row is unconstrained.
        start: the matcher at the end of the prompt, shared by all rows of the constraint; it does not change.
        prompt: the same object for all rows with the same prompt.
        output_length: how many tokens follow the prompt.
        is_dead: whether the row has a token that its constraint refuses, or after which its budget is too small. This
            happens only to drafts, to a beam without allowed tokens, or if another processor changes the choice.
        padding: if all tokens since the refused one are the same control token: this token. The engine has ended the
            row, for example at a stop string, and fills it up.
    """

    matcher: ForkingMatcher | None
    start: ForkingMatcher | None
    prompt: Prompt
    output_length: int = 0
    is_dead: bool = False
    padding: int | None = None

    @classmethod
    def at_prompt(cls, start: ForkingMatcher | None, prompt: Prompt) -> Row:
        """A row that consists of its prompt."""
        return cls(None if start is None else start.fork(), start, prompt)

    def read(self, tokens: Sequence[int]) -> None:
        """Accept tokens. Tokens after an end token are padding."""
        for token in map(int, tokens):
            is_forced = self.is_forced(token)
            self.output_length += 1
            if self.matcher is None or is_forced or self.matcher.is_terminated():
                continue
            if self.is_dead:
                self.padding = token if token == self.padding else None
            elif not accept_any_id(self.matcher, token):
                self.is_dead, self.padding = True, token if self.prompt.is_control(token) else None

    def is_forced(self, token: int) -> bool:
        """Whether a token is a forced first token of a decoder (`forced_bos_token_id`), which belongs to the prompt: a
        control token after a prompt of one token, which the constraint does not allow."""
        return (
            self.output_length == 0
            and self.prompt.length == 1
            and self.start is not None
            and self.prompt.is_control(token)
            and not accept_any_id(self.start.fork(), token)
        )

    def fork(self) -> Row:
        """An independent copy."""
        return replace(self, matcher=None if self.matcher is None else self.matcher.fork())


class Generation:
    """See the module docstring.

    Args:
        ids: the prompts, int64 (rows, length). The rows of one prompt are adjacent.
        starts: the matcher of each constraint at the end of the prompt, or None. The rows are divided among them
            evenly, in order.
        vocabulary: the tokens; None: no row is constrained.
    """

    def __init__(self, ids: Ids, starts: Sequence[ForkingMatcher | None], vocabulary: Vocabulary | None) -> None:
        rows_per_start = len(ids) // len(starts)
        run_starts = [
            number
            for number in range(1, len(ids))
            if number % rows_per_start == 0 or not np.array_equal(ids[number], ids[number - 1])
        ]
        self.rows = list[Row]()
        for begin, end in pairwise([0, *run_starts, len(ids)]):
            prompt = Prompt(ids.shape[1], vocabulary)
            self.rows += [Row.at_prompt(starts[begin // rows_per_start], prompt) for _ in range(begin, end)]
        self.ids = self.prompts = ids.copy()
        self.thread = threading.get_ident()
        self.is_superseded = False
        """Whether its thread has begun a generation with other prompts since."""

    @property
    def prompt_length(self) -> int:
        """The length of the prompts, padding included."""
        return int(self.prompts.shape[1])

    def append_in_order(self, ids: Ids) -> bool:
        """Advance the rows if each one grows by a token, in the same order. False, with no change: they do not."""
        if ids.shape[1] != self.ids.shape[1] + 1 or not np.array_equal(ids[:, :-1], self.ids):
            return False
        tokens = ids[:, -1].tolist()
        if self.is_superseded and all(map(_is_refused, self.rows, tokens)):
            return False
        for row, token in zip(self.rows, tokens, strict=True):
            row.read((token,))
        self.ids = ids.copy()
        return True

    def branch(self, ids: Ids, *, may_grow: bool = False) -> tuple[Generation, set[int]] | None:
        """Find the rows after some were copied, reordered, dropped or rolled back. This generation does not change.

        Args:
            may_grow: all rows belong to one request, whose number of beams may grow.

        Returns:
            The rows, and the numbers of the rows that they continue. None: these are rows of other prompts.

        Raises:
            GuidedError: it is unclear which constraint a row has.
        """
        new_count = ids.shape[1] - self.ids.shape[1]
        if ids.shape[1] <= self.prompt_length or new_count > 1 or (len(ids) > len(self.rows) and not may_grow):
            return None
        find_parent = self._find_common_parent if new_count < 1 else self._parent_finder(len(ids))
        rows, parents = list[Row](), set[int]()
        for number, row_ids in enumerate(ids):
            parent, length = find_parent(number, row_ids)
            if length < max(len(row_ids) - 1, self.prompt_length):
                return None
            row = self._fork_row(parent, length)
            was_dead = row.is_dead
            row.read(row_ids[length:].tolist())
            if new_count < 1 and row.is_dead and not was_dead:
                return None  # the engine had the mask for this token, and would not have chosen it
            rows.append(row)
            parents.add(parent)
        if self.is_superseded and all(row.is_dead for row in rows):
            return None
        branch = copy(self)
        branch.rows, branch.ids = rows, ids.copy()
        return branch, parents

    def without(self, numbers: set[int]) -> Generation | None:
        """The other rows; None: there are no others."""
        kept = [number for number in range(len(self.rows)) if number not in numbers]
        if not kept:
            return None
        rest = copy(self)
        rest.rows, rest.ids = [self.rows[number] for number in kept], self.ids[kept]
        return rest

    def _parent_finder(self, row_count: int) -> Callable[[int, Ids], tuple[int, int]]:
        """A function that finds the row that a row continues by a token, and the length of that row."""
        numbers_by_end: dict[bytes, list[int]] = {}
        for number, row_ids in enumerate(self.ids):
            numbers_by_end.setdefault(row_ids[-_END_LENGTH:].tobytes(), []).append(number)

        def find_parent(number: int, row_ids: Ids) -> tuple[int, int]:
            previous_ids = row_ids[:-1]
            candidates = numbers_by_end.get(previous_ids[-_END_LENGTH:].tobytes(), [])
            candidates = [candidate for candidate in candidates if np.array_equal(self.ids[candidate], previous_ids)]
            if not candidates:
                return 0, 0
            if row_count == len(self.rows):
                return max(candidates, key=lambda candidate: self._fitness(candidate, number)), len(row_ids) - 1
            if len({id(self.rows[candidate].start) for candidate in candidates}) > 1:
                raise GuidedError(
                    "equal prompts have different constraints, so the constraints of a part of the rows are unknown: "
                    "pass all rows at each step"
                )
            return candidates[0], len(row_ids) - 1

        return find_parent

    def _find_common_parent(self, number: int, row_ids: Ids) -> tuple[int, int]:
        """Find the row with the longest common prefix, and the length of this prefix."""
        common_lengths = [_common_length(row_ids, ids) for ids in self.ids]
        parent = max(
            range(len(self.rows)), key=lambda candidate: (common_lengths[candidate], self._fitness(candidate, number))
        )
        return parent, common_lengths[parent]

    def _fitness(self, candidate: int, number: int) -> tuple[bool, bool]:
        """How well a row fits as the one that row `number` of the next call continues, if the ids fit."""
        is_same_prompt = number < len(self.rows) and self.rows[candidate].prompt is self.rows[number].prompt
        return is_same_prompt, candidate == number

    def _fork_row(self, number: int, length: int) -> Row:
        """Copy a row, in its state after `length` ids."""
        row = self.rows[number]
        if self.prompt_length + row.output_length == length:
            return row.fork()
        copied_row = Row.at_prompt(row.start, row.prompt)
        copied_row.read(self.ids[number, self.prompt_length : length].tolist())
        return copied_row


def _is_refused(row: Row, token: int) -> bool:
    """Whether the row has no constraint, or cannot continue with this token."""
    return (
        row.matcher is None
        or row.is_dead
        or row.matcher.is_terminated()
        or not (row.is_forced(token) or accept_any_id(row.matcher.fork(), token))
    )


def _common_length(first: Ids, second: Ids) -> int:
    """The length of the common prefix of two rows."""
    length = min(len(first), len(second))
    differences = np.flatnonzero(first[:length] != second[:length])
    return int(differences[0]) if len(differences) else length
