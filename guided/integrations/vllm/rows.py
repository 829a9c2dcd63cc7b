"""The rows that a logits processor masks: one sequence for each request that asks for it. It does not import vLLM.

In: what a request asks (`extra_args["guided"]` of its `SamplingParams`), and the tokens it has written so far, at each
step. Out: rows of a bitmask. vLLM may preempt a request and begin it anew with what it wrote, and reject drafts, so a
sequence follows the tokens as they are said to be, forth and back.

What goes wrong here can be told to nobody: an error would end vLLM's worker. So it ends the request, whose mask then
allows end tokens alone, and is logged.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from guided.errors import GuidedError, SpecError, VocabularyError, brief
from guided.integrations.vllm.backend import begin
from guided.integrations.vllm.compilers import Compilers, without_tokenizer
from guided.integrations.vllm.grammar import GuidedGrammar
from guided.integrations.vllm.settings import Settings
from guided.integrations.vllm.specification import Specification
from guided.logits import apply_token_bitmask_inplace
from guided.matching.bitmask import allocate_token_bitmask, row_of

__all__ = ["ARGUMENT", "Masked", "Sequences", "check", "specification_of"]

ARGUMENT: Final = "guided"
"""The name in `extra_args`, and in `vllm_xargs` of a request over HTTP, whose value is then JSON text."""
_log = logging.getLogger("vllm.guided")


def specification_of(params: Any) -> Specification | None:
    """What a `SamplingParams` asks of a logits processor; None: nothing.

    Raises:
        SpecError: it is malformed, or the request also asks for `structured_outputs`.
    """
    given = (params.extra_args or {}).get(ARGUMENT)
    if given is None:
        return None
    if params.structured_outputs is not None:
        raise SpecError(f"structured_outputs and extra_args[{ARGUMENT!r}] both say what the text must be: give one")
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise SpecError(f"extra_args[{ARGUMENT!r}] is not JSON: {error}") from None
    if not isinstance(given, Mapping):
        raise SpecError(f"extra_args[{ARGUMENT!r}] is an object, not {brief(given)}", hint='write {"json": {...}}')
    return Specification.from_fields(given, max_tokens=params.max_tokens)


def check(params: Any, settings: Settings) -> None:
    """Refuse a request before it is queued, for what is wrong with any tokenizer; vLLM tells no tokenizer here.

    Raises:
        GuidedError: its specification.
    """
    specification = specification_of(params)
    if specification is None:
        return
    try:
        specification.compile(without_tokenizer(), settings)
    except VocabularyError:  # a control token that the model may have
        if not settings.allow_special_tokens:
            raise


class Masked:
    """A request and what it has written.

    Args:
        specification: what it asks, its budget as it was given.
        ends: its end tokens.
        compilers: of the model.
        room: tokens that the context leaves to it.

    Attributes:
        output: V1: what it has written, a list that vLLM appends to.
    """

    def __init__(
        self,
        specification: Specification,
        ends: Sequence[int],
        compilers: Compilers,
        settings: Settings,
        room: int | None = None,
    ) -> None:
        self.ends = sorted(ends) or sorted(compilers.vocabulary.eos_token_ids)
        self.output: list[int] = []
        self._written: list[int] = []
        self._grammar: GuidedGrammar | None = None
        bounds = [bound for bound in (specification.max_tokens, room) if bound is not None]
        try:
            budget = min(bounds, default=None)
            self._grammar = begin(specification.with_budget(budget), compilers, ends, settings)
        except GuidedError as error:
            _log.error("a request ends before its first token: %s", error)

    def follow(self, tokens: Sequence[int]) -> None:
        """It has written just these tokens."""
        new = list(tokens)
        if new[: len(self._written)] != self._written:  # some were taken back
            self._written = []
            if self._grammar is not None:
                self._grammar.reset()
        self.accept(new[len(self._written) :])

    def accept(self, tokens: Sequence[int]) -> None:
        """It goes on with these tokens."""
        self._written += tokens
        if self._grammar is not None and not self._grammar.accept_tokens("", list(tokens)):
            _log.error("a request ends: a token was chosen that its grammar does not allow, by another processor")
            self._grammar = None

    @property
    def written(self) -> int:
        """How many tokens it has written."""
        return len(self._written)

    def fill(self, bitmask: Any, row: int) -> None:
        """The tokens that may come next."""
        if self._grammar is None:
            bitmask[row] = row_of(32 * bitmask.shape[1], self.ends)
        else:
            self._grammar.fill_bitmask(bitmask, row)

    def fill_behind(self, drafts: Sequence[int], bitmask: Any, rows: Sequence[int]) -> None:
        """A row before the first draft, and one behind each. The state stays.

        Behind a draft that the mask forbids the rows are never used: they repeat the last one.
        """
        allowed = self._grammar.validate_tokens(list(drafts)) if self._grammar is not None else []
        self.fill(bitmask, rows[0])
        for count, row in enumerate(rows[1:]):
            if self._grammar is None or count >= len(allowed):
                bitmask[row] = bitmask[rows[count]]
            else:
                self._grammar.accept_tokens("", [allowed[count]])
                self._grammar.fill_bitmask(bitmask, row)
        if self._grammar is not None:
            self._grammar.rollback(min(len(allowed), len(rows) - 1))


class Sequences:
    """The requests of a batch that ask for a mask, by their place in it."""

    def __init__(self, compilers: Callable[[], Compilers], settings: Settings) -> None:
        self._make, self._settings = compilers, settings
        self.at: dict[int, Masked] = {}

    def begin(self, place: int, params: Any, room: int | None = None) -> bool:
        """A request enters, in the place of whatever was there. Returns whether it asks for a mask."""
        self.at.pop(place, None)
        specification = specification_of(params)  # it was checked before
        if specification is None:
            return False
        self.at[place] = Masked(specification, params.all_stop_token_ids, self._make(), self._settings, room)
        return True

    def move(self, start: int, to: int, swap: bool) -> None:
        """A request moves to another place, or two change theirs."""
        moved, other = self.at.pop(start, None), self.at.pop(to, None)
        if moved is not None:
            self.at[to] = moved
        if swap and other is not None:
            self.at[start] = other

    def apply(self, logits: Any, rows: Sequence[int], fill: Callable[[Any], None]) -> None:
        """Mask some rows of the logits, in place.

        Args:
            logits: (rows, vocabulary), a tensor on any device.
            rows: which of them.
            fill: writes the bitmask, int32 (len(rows), words), whose rows are those.
        """
        bitmask = allocate_token_bitmask(len(rows), self._make().size)
        fill(bitmask)
        if len(rows) == len(logits) and list(rows) == list(range(len(logits))):
            apply_token_bitmask_inplace(logits, bitmask)
            return
        part = logits[list(rows)]
        apply_token_bitmask_inplace(part, bitmask)
        logits[list(rows)] = part
