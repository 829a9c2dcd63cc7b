"""Fills the rows that a logits processor masks: one for each request with a constraint.

In: the constraint of a request (`extra_args["guided"]` of its `SamplingParams`), and at each step the tokens it has
written so far. Out: rows of a bitmask. vLLM may reject drafts, or preempt a request and restart it with its written
tokens. So a request's matcher follows the tokens that vLLM reports, forward and backward.

Errors cannot be reported, since an exception would end vLLM's worker. So an error is logged and ends the request: its
mask then allows only end tokens. This module does not import vLLM.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from guided.errors import GuidedError, SpecError, VocabularyError, brief
from guided.integrations.vllm.backend import begin_request
from guided.integrations.vllm.compilers import Compilers, get_byte_compiler
from guided.integrations.vllm.grammar import GuidedGrammar
from guided.integrations.vllm.settings import Settings
from guided.integrations.vllm.specification import Specification
from guided.logits import apply_token_bitmask_inplace
from guided.matching.bitmask import allocate_token_bitmask, row_of

__all__ = ["ARGUMENT", "MaskedRequest", "MaskedRequests", "check_request", "specification_of"]

ARGUMENT: Final = "guided"
"""The key in `extra_args`, and in `vllm_xargs` of an HTTP request, where its value is JSON text."""
_log = logging.getLogger("vllm.guided")


def specification_of(params: Any) -> Specification | None:
    """Read the constraint for the logits processor from a `SamplingParams`; None if there is none.

    Raises:
        SpecError: the constraint is malformed, or the request also has `structured_outputs`.
    """
    specification = (params.extra_args or {}).get(ARGUMENT)
    if specification is None:
        return None
    if params.structured_outputs is not None:
        raise SpecError(f"structured_outputs and extra_args[{ARGUMENT!r}] both constrain the text: give only one")
    if isinstance(specification, str):
        try:
            specification = json.loads(specification)
        except (ValueError, RecursionError) as error:
            raise SpecError(f"extra_args[{ARGUMENT!r}] is not JSON: {error}") from None
    if not isinstance(specification, Mapping):
        raise SpecError(
            f"extra_args[{ARGUMENT!r}] must be an object, not {brief(specification)}", hint='write {"json": {...}}'
        )
    return Specification.from_fields(specification, max_tokens=params.max_tokens)


def check_request(params: Any, settings: Settings) -> None:
    """Refuse a request that is invalid for every tokenizer, before it is queued. vLLM passes no tokenizer here.

    Raises:
        GuidedError: the request's specification is invalid.
    """
    specification = specification_of(params)
    if specification is None:
        return
    try:
        specification.compile(get_byte_compiler(), settings)
    except VocabularyError:  # a control token that the model may have
        if not settings.allow_special_tokens:
            raise


class MaskedRequest:
    """A request with a constraint, and the tokens that it has written.

    Args:
        specification: the constraint, with the budget of the request.
        end_ids: the request's end tokens.
        compilers: the model's compilers.
        settings: the operator's settings.
        context_left: the number of tokens left in the context after the prompt; None: unknown.

    Attributes:
        output: with the V1 runner, the written tokens; vLLM appends to this list.
    """

    def __init__(
        self,
        specification: Specification,
        end_ids: Sequence[int],
        compilers: Compilers,
        settings: Settings,
        context_left: int | None = None,
    ) -> None:
        self.end_ids = sorted(end_ids) or sorted(compilers.vocabulary.eos_token_ids)
        self.output: list[int] = []
        self._written_tokens: list[int] = []
        self._grammar: GuidedGrammar | None = None
        bounds = [bound for bound in (specification.max_tokens, context_left) if bound is not None]
        try:
            budget = min(bounds, default=None)
            self._grammar = begin_request(specification.with_budget(budget), compilers, end_ids, settings)
        except GuidedError as error:
            _log.error("a request ends before its first token: %s", error)

    def follow(self, tokens: Sequence[int]) -> None:
        """Move to the state after exactly these tokens, forward or backward."""
        new_tokens = list(tokens)
        if new_tokens[: len(self._written_tokens)] != self._written_tokens:  # some tokens were rolled back
            self._written_tokens = []
            if self._grammar is not None:
                self._grammar.reset()
        self.accept(new_tokens[len(self._written_tokens) :])

    def accept(self, tokens: Sequence[int]) -> None:
        """Accept further tokens."""
        self._written_tokens += tokens
        if self._grammar is not None and not self._grammar.accept_tokens("", list(tokens)):
            _log.error("a request ends: another processor chose a token that its grammar does not allow")
            self._grammar = None

    @property
    def output_length(self) -> int:
        """The number of written tokens."""
        return len(self._written_tokens)

    def fill(self, bitmask: Any, row: int) -> None:
        """Write the tokens that may come next into a row of the bitmask."""
        if self._grammar is None:
            bitmask[row] = row_of(32 * bitmask.shape[1], self.end_ids)
        else:
            self._grammar.fill_bitmask(bitmask, row)

    def fill_with_drafts(self, drafts: Sequence[int], bitmask: Any, rows: Sequence[int]) -> None:
        """Fill a row before the first draft and one after each draft. The state is unchanged.

        Rows after a forbidden draft are never used. They repeat the previous row.
        """
        allowed_drafts = self._grammar.validate_tokens(list(drafts)) if self._grammar is not None else []
        self.fill(bitmask, rows[0])
        for index, row in enumerate(rows[1:]):
            if self._grammar is None or index >= len(allowed_drafts):
                bitmask[row] = bitmask[rows[index]]
            else:
                self._grammar.accept_tokens("", [allowed_drafts[index]])
                self._grammar.fill_bitmask(bitmask, row)
        if self._grammar is not None:
            self._grammar.rollback(min(len(allowed_drafts), len(rows) - 1))


class MaskedRequests:
    """The requests of a batch that have a constraint, by position in the batch."""

    def __init__(self, compilers: Callable[[], Compilers], settings: Settings) -> None:
        self._get_compilers, self._settings = compilers, settings
        self.by_position: dict[int, MaskedRequest] = {}

    def add(self, position: int, params: Any, context_left: int | None = None) -> bool:
        """Put a request at a position, replacing any other. Return whether it has a constraint."""
        self.by_position.pop(position, None)
        specification = specification_of(params)  # already validated
        if specification is None:
            return False
        end_ids, compilers = params.all_stop_token_ids, self._get_compilers()
        self.by_position[position] = MaskedRequest(specification, end_ids, compilers, self._settings, context_left)
        return True

    def move(self, start: int, target: int, swap: bool) -> None:
        """Move a request to another position, or swap two."""
        moved_request, replaced_request = self.by_position.pop(start, None), self.by_position.pop(target, None)
        if moved_request is not None:
            self.by_position[target] = moved_request
        if swap and replaced_request is not None:
            self.by_position[start] = replaced_request

    def apply(self, logits: Any, rows: Sequence[int], fill: Callable[[Any], None]) -> None:
        """Mask some rows of the logits, in place.

        Args:
            logits: (rows, vocabulary), a tensor on any device.
            rows: the rows to mask.
            fill: writes the bitmask of these rows, int32 (len(rows), words).
        """
        bitmask = allocate_token_bitmask(len(rows), self._get_compilers().size)
        fill(bitmask)
        if len(rows) == len(logits) and list(rows) == list(range(len(logits))):
            apply_token_bitmask_inplace(logits, bitmask)
            return
        selected_logits = logits[list(rows)]
        apply_token_bitmask_inplace(selected_logits, bitmask)
        logits[list(rows)] = selected_logits
