"""`GrammarMatcher`: the state of one output under a compiled grammar, with xgrammar's methods.

It wraps a `guided.GrammarMatcher` and implements the differences: xgrammar's matcher ends after one stop token and then
refuses every token; it can end without a stop token; it can override the tokenizer's stop tokens; and it returns forced
text instead of forced tokens.

As in xgrammar, a stop token may also be a part of the output that completes it: a token that the grammar names
(stop_tokens.py), or the text of the token.
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
        self._ends_when_complete = terminate_without_stop_token
        self._default_temperature = _check_temperature(default_temperature)
        compiled = compiled_grammar._compiled_data.compile_for(stops)
        self._substep_counts: list[int] | None = [] if _counts_tokens(compiled) else None
        matcher = Matcher(compiled)
        matcher.captures_include_names = True
        size = compiled.vocabulary.size
        self._row_with_hidden = np.full((1, (size + 31) // 32), -1, np.int32) if size > tokens.size else None
        self._named_stops = frozenset(self._stops) - compiled.vocabulary.eos_token_ids
        self._end_step: int | None = None
        """The number of steps after a stop token that was a part of the output."""
        self._init_handle(matcher)

    def accept_token(self, token_id: int, *, debug_print: bool = False) -> bool:
        """Accept a token. False, with the state unchanged, if it is forbidden, not an id, or follows a stop token."""
        is_accepted, substep_count = False, 1
        if not self._has_ended() and 0 <= token_id < self._size:
            if token_id in self._stops:
                is_accepted, substep_count = self._accept_stop(token_id)
            else:
                is_accepted = accept_any_id(self._matcher, token_id)
        self._record_step(is_accepted, substep_count)
        if debug_print:
            print(f"accept_token({token_id}): {is_accepted}\n{self._debug_print_internal_state()}")
        return is_accepted

    def accept_string(self, input_str: str | bytes, *, debug_print: bool = False) -> bool:
        """Accept text or bytes as one step. False, with the state unchanged, if the text is not allowed.

        If the grammar counts tokens, the text counts as one token.
        """
        is_accepted, substep_count = (False, 1) if self._has_ended() else self._accept_text(input_str)
        self._record_step(is_accepted, substep_count)
        if debug_print:
            print(f"accept_string({input_str!r}): {is_accepted}\n{self._debug_print_internal_state()}")
        return is_accepted

    def _accept_text(self, text: str | bytes) -> tuple[bool, int]:
        """Accept text, and return whether it is allowed and how many steps of the inner matcher it takes."""
        if self._substep_counts is None:
            return self._matcher.accept_string(text), 1
        return _accept_as_token(self._matcher, bytes_of(text)), 2

    def _accept_stop(self, token_id: int) -> tuple[bool, int]:
        """Accept a stop token: as the end of a complete output, or as a part of the output that completes it."""
        matcher = self._matcher
        if not self._ends_when_complete and matcher.is_accepting():
            hidden_end = matcher.grammar.vocabulary.size - 1
            return accept_any_id(matcher, hidden_end if token_id in self._named_stops else token_id), 1
        is_accepted, substep_count = self._accept_part(token_id)
        if is_accepted:
            self._end_step = matcher.steps
        return is_accepted, substep_count

    def _accept_part(self, token_id: int) -> tuple[bool, int]:
        """Accept a stop token as a part of the output. False, with the state unchanged: this does not complete it."""
        matcher = self._matcher
        is_accepted, substep_count = token_id in self._named_stops and accept_any_id(matcher, token_id), 1
        text = self._tokens.tokens[token_id] if token_id < len(self._tokens.tokens) else b""
        if not is_accepted and text:
            is_accepted, substep_count = self._accept_text(text)
        if is_accepted and not matcher.is_accepting():
            matcher.rollback(substep_count)
            is_accepted = False
        return is_accepted, substep_count

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
        return not self._set_stops(rows[index]) or is_masked

    def _set_stops(self, row: np.ndarray[Any, Any]) -> bool:
        """Set the bits of the stop tokens in the mask of the current state. Returns whether all are allowed."""
        may_end = not self._ends_when_complete and self._matcher.is_accepting()
        if may_end and not self._named_stops:
            return True  # the inner matcher has set them
        are_allowed = True
        for stop in self._stops:
            is_allowed = may_end
            if not may_end:
                is_allowed, substep_count = self._accept_part(stop)
                if is_allowed:
                    self._matcher.rollback(substep_count)
            are_allowed &= is_allowed
            word, bit = int(row[stop // 32]), 1 << stop % 32
            if bool(word & bit) != is_allowed:
                row.view(np.uint32)[stop // 32] ^= np.uint32(bit)
        return are_allowed

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
        if num_tokens:
            self._end_step = None
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
        return self._has_ended() or (self._ends_when_complete and self._matcher.is_accepting())

    def is_completed(self) -> bool:
        """Whether the output is complete, with or without a stop token."""
        return self._matcher.is_accepting()

    def reset(self) -> None:
        """Return to the initial state."""
        self._matcher.reset()
        self._end_step = None
        if self._substep_counts is not None:
            self._substep_counts.clear()

    def fork(self) -> GrammarMatcher:
        """An independent matcher in the same state."""
        forked = GrammarMatcher._create_from_handle(self._matcher.fork())
        forked._tokens, forked._size, forked._stops = self._tokens, self._size, self._stops
        forked._substep_counts = None if self._substep_counts is None else [*self._substep_counts]
        forked._row_with_hidden = None if self._row_with_hidden is None else self._row_with_hidden.copy()
        forked._named_stops, forked._end_step = self._named_stops, self._end_step
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

    def _has_ended(self) -> bool:
        """Whether a stop token has been accepted."""
        return self._matcher.is_terminated() or self._end_step == self._matcher.steps

    def _check_running(self, action: str) -> None:
        if self._has_ended():
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
