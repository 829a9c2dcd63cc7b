"""`GrammarMatcher`: the state of one output under a compiled grammar, with xgrammar's methods.

It wraps a `guided.GrammarMatcher` and implements the differences: xgrammar's matcher ends after one stop token and then
refuses every token; it can end without a stop token; it can override the tokenizer's stop tokens; and it returns forced
text instead of forced tokens.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from guided.automaton import _core
from guided.compat.xgrammar.arrays import as_rows, copy_visible_bits
from guided.compat.xgrammar.base import XGRObject
from guided.compat.xgrammar.compiler import CompiledGrammar
from guided.compat.xgrammar.draft_tree import traverse
from guided.compat.xgrammar.exception import as_xgrammar
from guided.compat.xgrammar.lark_text import HIDDEN
from guided.matching import CompiledGrammar as Compiled
from guided.matching import GrammarMatcher as Matcher
from guided.matching.explain.explanation import bytes_of
from guided.matching.protocol import accept_any_id
from guided.matching.regions.parse_paths import Capture

if TYPE_CHECKING:
    import torch

__all__ = ["GrammarMatcher"]

_MAX_FORCED_BYTES: Final = 65_536


class GrammarMatcher(XGRObject):
    """The state of one output.

    Args:
        compiled_grammar: the compiled grammar of the output.
        override_stop_tokens: the tokens that end the output, instead of the tokenizer's.
        terminate_without_stop_token: whether the output counts as ended whenever it is complete, and accepts no stop
            token. Other tokens may still be accepted.
        max_rollback_tokens: deprecated, since any number of steps can be taken back.
        default_temperature: the value of `temperature` if the grammar specifies none.

    Raises:
        ValueError: the grammar is not compiled. RuntimeError: a stop token is not a token id.
    """

    def __init__(
        self,
        compiled_grammar: CompiledGrammar,
        *,
        override_stop_tokens: int | list[int] | None = None,
        terminate_without_stop_token: bool = False,
        max_rollback_tokens: int = -1,
        default_temperature: float | None = None,
    ) -> None:
        if not isinstance(compiled_grammar, CompiledGrammar):
            raise ValueError("The grammar should be compiled before passing it to GrammarMatcher.")
        if max_rollback_tokens != -1:
            warnings.warn(
                "max_rollback_tokens is deprecated. You don't need to set it and it's always unlimited (-1).",
                DeprecationWarning,
                stacklevel=2,
            )
        tokens = compiled_grammar.tokenizer_info._tokens
        stops: tuple[int, ...] | None = None
        if override_stop_tokens is not None:
            stop_ids = [override_stop_tokens] if isinstance(override_stop_tokens, int) else list(override_stop_tokens)
            stops = tokens.check_stops(stop_ids)
        self._tokens = tokens
        self._size, self._stops = tokens.size, tokens.stops if stops is None else stops
        self._row_with_hidden = (
            np.full((1, (tokens.size + tokens.hidden_count + 31) // 32), -1, np.int32) if tokens.hidden_count else None
        )
        self._ends_when_complete = terminate_without_stop_token
        self._default_temperature = _check_temperature(default_temperature)
        compiled = compiled_grammar._compiled_data.compile_for(stops)
        self._substep_counts: list[int] | None = [] if _counts_tokens(compiled) else None
        matcher = Matcher(compiled)
        matcher.captures_include_names = True
        self._init_handle(matcher)

    def accept_token(self, token_id: int, *, debug_print: bool = False) -> bool:
        """Accept a token. False, with the state unchanged, if it is forbidden, not an id, or follows a stop token."""
        matcher = self._matcher
        if (
            matcher.is_terminated()
            or not 0 <= token_id < self._size
            or (self._ends_when_complete and token_id in self._stops)
        ):
            is_accepted = False
        else:
            is_accepted = accept_any_id(matcher, token_id)
        self._record_step(is_accepted, 1)
        if debug_print:
            print(f"accept_token({token_id}): {is_accepted}\n{self._debug_print_internal_state()}")
        return is_accepted

    def accept_string(self, input_str: str | bytes, *, debug_print: bool = False) -> bool:
        """Accept text or bytes as one step. False, with the state unchanged, if the text is not allowed.

        If the grammar counts tokens, the text counts as one token.
        """
        matcher, substep_count = self._matcher, 1
        if matcher.is_terminated():
            is_accepted = False
        elif self._substep_counts is None:
            is_accepted = matcher.accept_string(input_str)
        else:
            is_accepted, substep_count = _accept_as_token(matcher, bytes_of(input_str)), 2
        self._record_step(is_accepted, substep_count)
        if debug_print:
            print(f"accept_string({input_str!r}): {is_accepted}\n{self._debug_print_internal_state()}")
        return is_accepted

    def fill_next_token_bitmask(self, bitmask: Any, index: int = 0, *, debug_print: bool = False) -> bool:
        """Write the tokens that may come next into a row of a bitmask. The state does not change.

        Args:
            bitmask: int32 (batch, ceil(vocab_size / 32)) or (words,): a CPU tensor, an array, or an object with DLPack.
            index: the row.

        Returns:
            Whether some token is forbidden. If not, the row is all ones.

        Raises:
            RuntimeError: a stop token has been accepted, or the bitmask has a wrong type, shape or device.
        """
        self._check_running("find the next token mask")
        rows = as_rows(bitmask, self._size)
        if not 0 <= index < rows.shape[0]:
            raise RuntimeError(f"the bitmask has no row {index}: it has {rows.shape[0]} rows")
        is_masked = self._fill_row(rows, index)
        if debug_print:
            print(f"fill_next_token_bitmask: {'some tokens are masked' if is_masked else 'all tokens are allowed'}")
        return is_masked

    def _fill_row(self, rows: np.ndarray[Any, Any], index: int) -> bool:
        if self._row_with_hidden is None:
            is_masked = self._matcher.fill_next_token_bitmask(rows, index)
        elif is_masked := self._matcher.fill_next_token_bitmask(self._row_with_hidden):
            copy_visible_bits(self._row_with_hidden[0], rows[index], self._size)
        if not is_masked:
            rows[index] = -1
        return is_masked

    def traverse_draft_tree(
        self,
        retrieve_next_token: torch.Tensor,
        retrieve_next_sibling: torch.Tensor,
        draft_tokens: torch.Tensor,
        token_bitmask: torch.Tensor,
        time_threshold: float = -1.0,
        temperatures: torch.Tensor | None = None,
    ) -> bool:
        """Fill a row for each node of a tree of draft tokens, see `draft_tree.py`. The state does not change.

        Returns:
            False if `time_threshold` seconds were not enough, so that some rows are not filled. A threshold of 0 or
            less means no limit.

        Raises:
            RuntimeError: a tensor has a wrong type or shape, or the nodes do not form a tree.
        """
        return traverse(
            self, retrieve_next_token, retrieve_next_sibling, draft_tokens, token_bitmask, time_threshold, temperatures
        )

    def find_jump_forward_string(self) -> str:
        """The text with which every output must continue; empty if there is a choice. The state does not change.

        The text ends before a character of which only some bytes are forced, or whose first bytes have been accepted.

        RuntimeError: a stop token has been accepted.
        """
        self._check_running("get the jump forward string")
        forced_bytes = self._find_forced_bytes()
        try:
            return forced_bytes.decode()
        except UnicodeDecodeError as error:
            return forced_bytes[: error.start].decode()

    def find_jump_forward_tokens(self) -> list[int]:
        """The tokens for the text with which every output must continue, see `jump_forward.py`. The state does not
        change. Empty if there is a choice, or if the output is complete or has ended.
        """
        if self.is_terminated() or self.is_completed():
            return []
        return self._tokens.texts.split(self._find_forced_bytes(), self._stops, self.fork().accept_token)

    def _find_forced_bytes(self) -> bytes:
        symbols = self._matcher._forced(_MAX_FORCED_BYTES)
        end = next((index for index, symbol in enumerate(symbols) if symbol >= 256), None)  # a token without text
        return bytes(symbols[:end])

    def rollback(self, num_tokens: int = 1) -> None:
        """Take back the last `num_tokens` steps. RuntimeError, with the state unchanged: there are fewer steps, or the
        number is negative."""
        if num_tokens < 0:
            raise RuntimeError(f"Intended to rollback {num_tokens} tokens")
        substep_counts = self._substep_counts
        steps = self._matcher.steps if substep_counts is None else len(substep_counts)
        if num_tokens > steps:
            raise RuntimeError(
                f"Intended to rollback {num_tokens} tokens, but only the last {steps} steps of history are saved"
            )
        if substep_counts is None:
            self._matcher.rollback(num_tokens)
        else:
            self._matcher.rollback(sum(substep_counts[len(substep_counts) - num_tokens :]))
            del substep_counts[len(substep_counts) - num_tokens :]

    def get_captures(self, *, deduplicate: bool = True) -> list[tuple[str, bytes]]:
        """The captures of rules as (name, text), sorted by the ends of the rules.

        Each text is captured once, according to one parse of the output, so `deduplicate` has no effect.
        """
        with as_xgrammar():
            return _order_captures(*self._matcher.captures_with_offsets())

    def is_terminated(self) -> bool:
        """Whether the output has ended: after a stop token, or, with `terminate_without_stop_token`, once complete."""
        return self._matcher.is_accepting() if self._ends_when_complete else self._matcher.is_terminated()

    def is_completed(self) -> bool:
        """Whether the output is complete, with or without a stop token."""
        return self._matcher.is_accepting()

    def reset(self) -> None:
        """Return to the initial state."""
        self._matcher.reset()
        if self._substep_counts is not None:
            self._substep_counts.clear()

    def fork(self) -> GrammarMatcher:
        """An independent matcher in the same state."""
        forked = GrammarMatcher._create_from_handle(self._matcher.fork())
        forked._tokens, forked._size, forked._stops = self._tokens, self._size, self._stops
        forked._substep_counts = None if self._substep_counts is None else [*self._substep_counts]
        forked._row_with_hidden = None if self._row_with_hidden is None else self._row_with_hidden.copy()
        forked._ends_when_complete, forked._default_temperature = self._ends_when_complete, self._default_temperature
        return forked

    @property
    def max_rollback_tokens(self) -> int:
        """Deprecated: always -1, which means unlimited."""
        return -1

    @property
    def temperature(self) -> float | None:
        """The temperature for the next token: the grammar's, otherwise the default, otherwise None."""
        with as_xgrammar():
            temperature = self._matcher.temperature()
        return self._default_temperature if temperature is None else temperature

    @property
    def stop_token_ids(self) -> list[int]:
        """The tokens that end the output."""
        return list(self._stops)

    def _debug_print_internal_state(self) -> str:
        """The tokens that may come next, in a readable form."""
        return str(self._matcher.explain())

    @property
    def _matcher(self) -> Matcher:
        matcher: Matcher = self._handle
        return matcher

    def _record_step(self, is_accepted: bool, substep_count: int) -> None:
        if is_accepted and self._substep_counts is not None:
            self._substep_counts.append(substep_count)

    def _check_running(self, action: str) -> None:
        if self._matcher.is_terminated():
            raise RuntimeError(
                f"GrammarMatcher has terminated after accepting the stop token, but is trying to {action}"
            )


def _counts_tokens(compiled: Compiled) -> bool:
    return isinstance(compiled.native, _core.CompiledRules) and compiled.native.limits_tokens


def _accept_as_token(matcher: Matcher, data: bytes) -> bool:
    """Accept text as a token, in two steps: the text and the end of the token. False, with the state unchanged, if it
    is not allowed."""
    if not matcher._accept_part(data):
        return False
    if matcher._end_token():
        return True
    matcher.rollback(1)
    return False


def _check_temperature(temperature: float | None) -> float | None:
    if temperature is None:
        return None
    value = float(temperature)
    if not 0 <= value < math.inf:
        raise RuntimeError(f"default_temperature must be a finite non-negative number, not {value}")
    return value


def _order_captures(captures: Sequence[Capture], text: bytes) -> list[tuple[str, bytes]]:
    """Convert captures to (name, text), in xgrammar's order: by the ends of their rules (after any `suffix`), inner
    ones first. The text of a `stop` (`lark_text.py`) belongs only to its own capture.

    `captures` is sorted by start.
    """
    hidden_captures = [capture for capture in captures if capture.name.startswith(HIDDEN)]
    ordered_captures = [*reversed(captures)]
    ordered_captures.sort(key=lambda capture: (capture.rule_end, -capture.start))
    named_texts = [
        (capture.name.removeprefix(HIDDEN), _cut_hidden_texts(capture, hidden_captures, text))
        for capture in ordered_captures
    ]
    return [each for each in named_texts if each[0]]


def _cut_hidden_texts(capture: Capture, hidden_captures: Sequence[Capture], text: bytes) -> bytes:
    out, offset = bytearray(), capture.start
    for hidden_capture in hidden_captures:
        if hidden_capture is not capture and offset <= hidden_capture.start and hidden_capture.end <= capture.end:
            out += text[offset : hidden_capture.start]
            offset = hidden_capture.end
    return bytes(out + text[offset : capture.end])
