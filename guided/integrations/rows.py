"""A matcher for each row of a batch, where an engine tells nothing but the rows' token ids at each step.

In: at each step the ids of all rows, prompts included. Out: for each row its matcher, moved to where the row is.

Engines copy, reorder, and drop rows (beam search), take tokens back (assisted generation), and begin anew without a
word. So nothing is assumed of how the rows came about: each row goes on from that row of the step before with which it
has the most ids in common, by taking back what differs and accepting what is new. Rows that go on from the same one get
forks of its matcher. The first step's rows are the prompts. Engines ask for a mask before each token, so all of a row
but its last token was there a step before; where it was not, these rows are other prompts, and a generation begins. So
does one where tokens were taken back and the last token is refused, since the mask of its place was known.

What it cannot tell: a prompt that is the prompt before with the beginning of its answer and at most one token more.

With a `Spelling` the masks admit only what the tokenizer itself would write (matching/canonical/).

Cost: where rows only grow, one comparison of the batch and one accepted token for each row; else a comparison of each
row with those of the step before.
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
from guided.matching.protocol import ForkingMatcher

__all__ = ["Row", "RowMatchers", "warn_of_dead"]

Ids = npt.NDArray[np.int64]


@dataclass(eq=False, slots=True)
class Row:
    """A row of the batch.

    Attributes:
        matcher: of its constraint; None: it has none.
        written: how many tokens follow the prompt.
        is_dead: it has a token that its constraint refuses, which only an engine's beam without a way on may have.
    """

    matcher: ForkingMatcher | None
    written: int = 0
    is_dead: bool = False

    def read(self, tokens: Sequence[int]) -> None:
        """Go on with tokens; what follows an end token is padding."""
        self.written += len(tokens)
        for token in tokens:
            if self.matcher is None or self.is_dead or self.matcher.is_terminated():
                return
            self.is_dead = not self.matcher.accept_token(int(token))

    def fork(self) -> Row:
        """A copy that moves by itself."""
        return Row(None if self.matcher is None else self.matcher.fork(), self.written, self.is_dead)


class RowMatchers:
    """See the head.

    Args:
        grammars: of each prompt, None for a free one; a single one may be that of several prompts. The rows of one
            prompt (several samples, beams) are neighbours.
        max_new_tokens: of each row; its mask then leaves room for the end of the shortest completion. None: no budget.
        spelling: of the tokenizer, whose tokens alone are allowed; None: any spelling.

    Raises:
        BudgetError: no output of a constraint fits `max_new_tokens`.
    """

    def __init__(
        self,
        grammars: Sequence[CompiledGrammar | None],
        max_new_tokens: int | None = None,
        spelling: Spelling | None = None,
    ) -> None:
        if not grammars:
            raise ValueError("there is no constraint: give one for each prompt, or None")
        self.grammars, self.max_new_tokens, self._spelling = list(grammars), max_new_tokens, spelling
        self._rows: list[Row] = []
        self._ids: Ids = np.zeros((0, 0), np.int64)
        self._prompt = 0  # its length
        self._prompt_of: list[range] = []
        if max_new_tokens is not None:
            for grammar in filter(None, self.grammars):
                if (least := GrammarMatcher(grammar).min_tokens_to_finish() - 1) > max_new_tokens:
                    raise BudgetError(least, max_new_tokens)

    def follow(self, ids: Ids) -> list[Row]:
        """The rows whose ids these are, int64 (rows, length).

        Raises:
            GuidedError: the rows cannot be shared out among the prompts.
        """
        before, grown = self._ids, ids.shape[1] - self._ids.shape[1]
        if grown == 1 and ids.shape[0] == len(self._rows) and np.array_equal(ids[:, :-1], before):
            for row, token in zip(self._rows, ids[:, -1].tolist(), strict=True):
                row.read((token,))
        elif self._may_go_on(ids) and (regrouped := self._regrouped(ids, grown)) is not None:
            self._rows = regrouped
        else:
            self._begin(ids)
        self._ids = ids.copy()
        return self._rows

    def budget(self, row: Row) -> int | None:
        """Tokens that are left to a row, an end token that need not be written counted."""
        return None if self.max_new_tokens is None else max(1, self.max_new_tokens - row.written + 1)

    def fill(self, bitmask: npt.NDArray[np.int32]) -> list[int]:
        """Fill the rows that have a constraint, as they are now; a dead one may end.

        Args:
            bitmask: int32 (rows, ceil(size / 32)); others stay as they are.

        Returns:
            Which rows have a constraint.

        Raises:
            BudgetError: a row cannot be completed any more.

        Warns:
            RuntimeWarning: a row is dead.
        """
        guided = [(number, row.matcher, row) for number, row in enumerate(self._rows) if row.matcher is not None]
        by_budget: dict[int | None, list[tuple[int, GrammarMatcher]]] = {}
        for number, matcher, row in guided:
            if row.is_dead:
                warn_of_dead(number)
                bitmask[number] = self._ends
            elif isinstance(matcher, GrammarMatcher):
                by_budget.setdefault(self.budget(row), []).append((number, matcher))
            elif not matcher.fill_next_token_bitmask(bitmask, number, max_tokens=self.budget(row)):
                bitmask[number] = -1
        for budget, each in by_budget.items():
            fill_batch([matcher for _, matcher in each], bitmask, [number for number, _ in each], max_tokens=budget)
        return [number for number, _, _ in guided]

    def prompt_of(self, number: int) -> range:
        """The rows of the prompt that a row belongs to, this one among them: neighbours that begin alike."""
        return self._prompt_of[number]

    def allows_only_ends(self, row: npt.NDArray[np.int32]) -> bool:
        """Whether no token but end tokens is allowed by a row of the bitmask."""
        return not bool(np.any(row & ~self._ends))

    @cached_property
    def _ends(self) -> npt.NDArray[np.int32]:
        vocabulary = next(grammar for grammar in self.grammars if grammar is not None).vocabulary
        return row_of(vocabulary.size, sorted(vocabulary.eos_token_ids))

    def _matcher(self, grammar: CompiledGrammar | None) -> ForkingMatcher | None:
        if grammar is None:
            return None
        matcher = GrammarMatcher(grammar)
        return matcher if self._spelling is None else CanonicalMatcher(matcher, self._spelling)

    def _may_go_on(self, ids: Ids) -> bool:
        """Whether each row begins with the prompt of one of its group, and has more."""
        if not self._rows or len(ids) != len(self._rows) or ids.shape[1] <= self._prompt:
            return False
        return bool(np.array_equal(ids[:, : self._prompt], self._ids[:, : self._prompt]))

    def _begin(self, ids: Ids) -> None:
        count, prompts = len(ids), len(self.grammars)
        if count % prompts:
            rows = "1 row" if count == 1 else f"{count} rows"
            raise GuidedError(
                f"{rows} cannot be shared out among {prompts} constraints: give one for each prompt of the batch; a "
                "choice among texts is a list"
            )
        each = count // prompts
        made = [Row(self._matcher(grammar)) for grammar in self.grammars]
        self._rows = [row.fork() for row in made for _ in range(each)] if each > 1 else made
        self._prompt = ids.shape[1]
        borders = [row for row in range(1, count) if row % each == 0 or not np.array_equal(ids[row], ids[row - 1])]
        runs = [range(*pair) for pair in pairwise([0, *borders, count])]
        self._prompt_of = [run for run in runs for _ in run]

    def _regrouped(self, ids: Ids, grown: int) -> list[Row] | None:
        """The rows after some were copied, dropped, or taken back; None: they are other prompts."""
        rows = list[Row]()
        for number, own in enumerate(ids):
            common = {at: _common(own, self._ids[at]) for at in self.prompt_of(number)}
            parent = max(common, key=lambda at: (common[at], at == number))
            if common[parent] < len(own) - 1:
                return None
            row = self._cut(parent, max(0, common[parent] - self._prompt))
            was_dead = row.is_dead
            row.read(own[self._prompt + row.written :].tolist())
            if grown < 1 and row.is_dead and not was_dead:
                return None
            rows.append(row)
        return rows

    def _cut(self, number: int, kept: int) -> Row:
        """A copy of a row of the step before, as it was after `kept` tokens."""
        row = self._rows[number]
        if row.written == kept:
            return row.fork()
        grammar = self.grammars[number * len(self.grammars) // len(self._rows)]
        again = Row(self._matcher(grammar))
        again.read(self._ids[number, self._prompt : self._prompt + kept].tolist())
        return again


def warn_of_dead(number: int) -> None:
    """Say that a row is dead."""
    warnings.warn(
        f"row {number} has a token that its constraint does not allow, and ends: another processor chose it, or a beam "
        "had no other way on",
        RuntimeWarning,
        stacklevel=4,
    )


def _common(one: Ids, other: Ids) -> int:
    """How many ids both begin with."""
    length = min(len(one), len(other))
    differ = np.flatnonzero(one[:length] != other[:length])
    return int(differ[0]) if len(differ) else length
