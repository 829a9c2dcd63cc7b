"""`LLMatcher`. In: a tokenizer and a grammar string. Out: the state of one output. Invalid grammars and tokens do not
raise exceptions: `is_error` and `get_error` report the error, which is permanent.

How: it wraps a `GrammarMatcher`. Forced text gets the tokens that the tokenizer produces: while text is
forced, the mask allows only the first of these tokens. An output *stops* when only an end token can follow.

Unlike in llguidance, an end token is a step like any other, so `rollback` can take it back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from guided.compat.llguidance.grammars import (
    compile_grammar,
    find_token_names,
    forces_tokens,
    format_error,
    has_ignored_text,
    read_definitions,
)
from guided.compat.llguidance.limits import LLParserLimits, to_guided_limits
from guided.compat.llguidance.options import JsonCompileOptions
from guided.compat.llguidance.tokenizer import LLTokenizer
from guided.compat.memory import check_address, rows_at
from guided.errors import GuidedError, VocabularyError, brief
from guided.matching.bitmask import allocate_token_bitmask, bits_of, row_of
from guided.matching.compiled import CompiledGrammar
from guided.matching.matcher import GrammarMatcher

__all__ = ["LLMatcher", "StopReason"]

StopReason: TypeAlias = Literal[
    "NotStopped", "MaxTokensTotal", "MaxTokensParser", "ParserTooComplex", "LexerTooComplex", "NoExtension",
    "NoExtensionBias", "EndOfSentence", "InternalError",
]  # fmt: skip
Row: TypeAlias = npt.NDArray[np.int32]

_MAX_FORCED_BYTES: Final = 4096
_ALLOWED_BIAS: Final = 200


class LLMatcher:
    """The state of one output under a grammar.

    Args:
        tokenizer: the model's tokenizer.
        grammar: a Lark grammar, or the result of a `grammar_from_...` function.
        log_level: ignored, since nothing is logged.
        limits: bounds on the grammar.
    """

    def __init__(
        self, tokenizer: LLTokenizer, grammar: str, *, log_level: int = 1, limits: LLParserLimits | None = None
    ) -> None:
        if not isinstance(tokenizer, LLTokenizer):
            raise TypeError(f"'{type(tokenizer).__name__}' object is not an instance of 'LLTokenizer'")
        self._tokenizer, self._error = tokenizer, ""
        self._end_reason: StopReason = "EndOfSentence"  # the reason for the stop, once an end token has been read
        self._matcher: GrammarMatcher | None = None
        # Allows no ignored text at the end. Decides whether the output has stopped.
        self._strict_matcher: GrammarMatcher | None = None
        self._warnings: list[str] = []
        self._bitmask, self._is_filled = allocate_token_bitmask(1, tokenizer.vocab_size), False
        self._is_verbose = limits is None or limits.verbose_errors
        try:
            compiled = compile_grammar(grammar, tokenizer, to_guided_limits(limits))
            self._matcher, self._forces_tokens = GrammarMatcher(compiled), forces_tokens(grammar)
            if has_ignored_text(grammar):
                self._strict_matcher = GrammarMatcher(
                    compile_grammar(grammar, tokenizer, to_guided_limits(limits), final_skip=False)
                )
            self._warnings = _format_warnings(compiled)
        except GuidedError as error:
            self._error = format_error(error, grammar)

    @staticmethod
    def validate_grammar(
        grammar: str, tokenizer: LLTokenizer | None = None, *, limits: LLParserLimits | None = None
    ) -> str:
        """Return the error in a grammar, or "". Without a tokenizer, names of tokens are not looked up."""
        is_error, messages = LLMatcher.validate_grammar_with_warnings(grammar, tokenizer, limits=limits)
        return messages[0] if is_error else ""

    @staticmethod
    def validate_grammar_with_warnings(
        grammar: str, tokenizer: LLTokenizer | None = None, *, limits: LLParserLimits | None = None
    ) -> tuple[bool, list[str]]:
        """Return whether a grammar is invalid, and a list with the error, or with the warnings if it is valid."""
        warnings: list[str] = []
        try:
            compiled = compile_grammar(grammar, tokenizer or LLTokenizer("byte"), to_guided_limits(limits))
        except VocabularyError as error:
            if tokenizer is not None:
                return True, [format_error(error, grammar)]
        except GuidedError as error:
            return True, [format_error(error, grammar)]
        else:
            warnings = _format_warnings(compiled)
        if tokenizer is None:
            warnings += [
                f"no tokenizer - can't validate {name}" for name in find_token_names(read_definitions(grammar))
            ]
        return False, warnings

    @staticmethod
    def grammar_from_json_schema(
        schema: str | dict[str, Any],
        defaults: JsonCompileOptions | None = None,
        overrides: JsonCompileOptions | None = None,
    ) -> str:
        """Convert a JSON Schema to a grammar. `overrides` take precedence over the schema's "x-guidance", which takes
        precedence over `defaults`.

        Raises:
            ValueError: the schema is not JSON, or its "x-guidance" is not an object.
        """
        schema_value = load_json(schema) if isinstance(schema, str) else schema
        if isinstance(schema_value, dict) and (defaults or overrides or "x-guidance" in schema_value):
            own_options = schema_value.get("x-guidance")
            if own_options is not None and not isinstance(own_options, Mapping):
                raise ValueError(f"x-guidance must be an object of options, not {brief(own_options)}")
            options = {**(defaults or {}), **(own_options or {}), **(overrides or {})}
            schema_value = {**schema_value, "x-guidance": options}
        return _wrap_grammar({"name": "json_schema", "json_schema": schema_value, "lark_grammar": None})

    @staticmethod
    def grammar_from_lark(lark: str) -> str:
        """Return the Lark grammar unchanged. It is not checked."""
        return lark

    @staticmethod
    def grammar_from_regex(regex: str) -> str:
        """Convert a regular expression in Rust's syntax to a grammar. It is not checked."""
        escaped_pattern = escape_for_slashes(regex)
        return _wrap_grammar({"name": "regex", "json_schema": None, "lark_grammar": f"start: /{escaped_pattern}/"})

    def is_error(self) -> bool:
        """Whether the grammar or a token was invalid. An error is permanent."""
        return bool(self._error)

    def get_error(self) -> str:
        """The error, or ""."""
        return self._error

    def get_grammar_warnings(self) -> list[str]:
        """The parts of the grammar that are not enforced."""
        return list(self._warnings)

    def deep_copy(self) -> LLMatcher:
        """An independent copy."""
        clone = object.__new__(LLMatcher)
        clone.__dict__.update(self.__dict__)
        clone._matcher = None if self._matcher is None else self._matcher.fork()
        clone._strict_matcher = None if self._strict_matcher is None else self._strict_matcher.fork()
        clone._bitmask, clone._warnings, clone._is_filled = self._bitmask.copy(), list(self._warnings), False
        return clone

    def is_accepting(self) -> bool:
        """Whether the output may end here."""
        return not self._error and self.inner.is_accepting()

    def is_stopped(self) -> bool:
        """Whether only an end token can follow, or there was an error."""
        return bool(self._error) or self.stop_reason() != "NotStopped"

    def stop_reason(self) -> StopReason:
        """Why the output stopped: "NoExtension", "EndOfSentence", "InternalError" (`get_error`); or "NotStopped"."""
        if self._error:
            return "InternalError"
        if self.inner.is_terminated():
            return self._end_reason
        matcher = self._strict_matcher or self.inner
        return "NoExtension" if matcher.is_accepting() and self._has_no_extension() else "NotStopped"

    def rollback(self, num_tokens: int) -> bool:
        """Take back the last tokens. False if there are fewer, which is an error."""
        return self._take_back(num_tokens)

    def reset(self) -> bool:
        """Take back all tokens."""
        return not self._error and self._take_back(self.inner.steps)

    def compute_ff_tokens(self) -> list[int]:
        """The tokens that must come next; empty if the output has ended, or if the grammar sets `no_forcing`."""
        if self._error or not self._forces_tokens or self.inner.is_terminated():
            return []
        return self.inner.forced_tokens()

    def compute_ff_bytes(self) -> bytes:
        """The bytes that must come next. A control token is written as 0xFF and its id in brackets."""
        if self._error or self.inner.is_terminated():
            return b""
        symbols = self.inner._forced(_MAX_FORCED_BYTES)
        return b"".join(bytes([symbol]) if symbol < 256 else b"\xff[%d]" % (symbol - 256) for symbol in symbols)

    def try_consume_tokens(self, tokens: list[int]) -> int:
        """Accept tokens up to the first forbidden one, and return how many were accepted."""
        if self._error or not self._are_ids(tokens):
            return 0
        accepted_count = 0
        while accepted_count < len(tokens) and not self.is_stopped() and self._accept_token(tokens[accepted_count]):
            accepted_count += 1
        return accepted_count

    def consume_token(self, sampled_token: int) -> bool:
        """Accept a token. False if it is not allowed, which is an error."""
        return self.consume_tokens([sampled_token])

    def consume_tokens(self, sampled_tokens: list[int]) -> bool:
        """Accept tokens. False if one of them is not allowed, which is an error."""
        if self._error or not self._are_ids(sampled_tokens):
            return False
        for token in sampled_tokens:
            if not self._accept_token(token):
                self._error = f"token {self._tokenizer.dbg_tokens([token])} doesn't satisfy the grammar"
                if self._is_verbose:
                    self._error += f"\n{self.inner.explain(token)}"
                return False
        return True

    def validate_tokens(self, tokens: list[int]) -> int:
        """The number of tokens, from the first one on, that would be accepted. The state does not change."""
        if self.is_stopped() or not self._are_ids(tokens):
            return 0
        eos_token_ids = self.inner.grammar.vocabulary.eos_token_ids
        first_end = next((index for index, token in enumerate(tokens) if token in eos_token_ids), len(tokens))
        if (
            self._strict_matcher is not None
            and (accepted_count := self._strict_matcher.validate_tokens(tokens[:first_end])) < first_end
        ):
            return accepted_count
        return self.inner.validate_tokens(tokens[: first_end + 1])

    def compute_bitmask(self) -> bytes:
        """The mask, with one bit for each id, in int32 words."""
        return self.row().tobytes()

    def compute_logit_bias(self) -> bytes:
        """The mask, with one byte for each id: 200 if it is allowed, otherwise 0."""
        bits = bits_of(self.row())[: self._tokenizer.vocab_size]
        return (bits * np.uint8(_ALLOWED_BIAS)).tobytes()

    def unsafe_compute_mask_ptr(self, trg_pointer: int, trg_byte_size: int) -> None:
        """Write the mask to an address.

        Raises:
            ValueError: the address is null or not a multiple of 4, or the size is not the size of one mask.
        """
        self._rows_at(trg_pointer, trg_byte_size, 1)[0] = self.row()

    def unsafe_compute_mask_ptr_with_draft_token(
        self, trg_pointer: int, trg_byte_size: int, draft_tokens: list[int]
    ) -> None:
        """Write the mask to an address, followed by the mask after each draft token, up to the first forbidden one.
        `trg_byte_size` is the size of one mask.

        Raises:
            ValueError: see `unsafe_compute_mask_ptr`.
        """
        self.write_rows(self._rows_at(trg_pointer, trg_byte_size, len(draft_tokens) + 1), draft_tokens)

    def write_rows(self, rows: Row, draft_tokens: Sequence[int]) -> None:
        """Write the current mask, and the mask after each allowed draft token, into int32 (drafts + 1, words)."""
        rows[0] = self.row()
        accepted_count = 0
        for token in draft_tokens:
            if self.is_stopped() or not 0 <= token < self._tokenizer.vocab_size or not self._accept_token(token):
                break
            accepted_count += 1
            rows[accepted_count] = self.row()
        if accepted_count:
            self._take_back(accepted_count)

    def get_capture(self, name: str) -> bytes | None:
        """The last text captured under a name, or None."""
        return next((text for captured_name, text in reversed(self.get_captures()) if captured_name == name), None)

    def get_captures(self) -> list[tuple[str, bytes]]:
        """All captures as (name, text), in the order in which they end."""
        return [] if self._error else self.inner.captures_by_end()

    @property
    def inner(self) -> GrammarMatcher:
        """The wrapped matcher, which exists only if the grammar is valid."""
        assert self._matcher is not None
        return self._matcher

    def _rows_at(self, pointer: int, mask_bytes: int, rows: int) -> Row:
        check_address(pointer)
        words = self._bitmask.shape[1]
        if mask_bytes != 4 * words:
            raise ValueError(f"Invalid buffer size: a mask has {4 * words} bytes, not {mask_bytes}")
        return rows_at(pointer, rows, words)

    def _are_ids(self, tokens: Sequence[int]) -> bool:
        """Whether all tokens are ids of the vocabulary; if not, enter the error state. OverflowError: an id is
        negative."""
        for token in tokens:
            if token < 0:
                raise OverflowError(f"{token} is not a token id")
            if token >= self._tokenizer.vocab_size:
                self._error = f"token id {token} out of range: there are {self._tokenizer.vocab_size} tokens"
        return not self._error

    def _accept_token(self, token: int) -> bool:
        is_end = token in self.inner.grammar.vocabulary.eos_token_ids
        reason_before = self.stop_reason() if is_end else "NotStopped"
        if self._strict_matcher is not None and not is_end and not self._strict_matcher.accept_token(token):
            return False
        is_accepted = self.inner.accept_token(token)
        if is_accepted:
            self._is_filled = False
            if is_end and self.inner.is_terminated():
                self._end_reason = "EndOfSentence" if reason_before == "NotStopped" else reason_before
        return is_accepted

    def _take_back(self, steps: int) -> bool:
        if self._error:
            return False
        if not 0 <= steps <= self.inner.steps:
            self._error = f"rollback: {steps} > {self.inner.steps}"
            return False
        self.inner.rollback(steps)
        if self._strict_matcher is not None:  # it never reads end tokens, so it may have fewer steps
            self._strict_matcher.rollback(max(0, self._strict_matcher.steps - self.inner.steps))
        self._is_filled = False
        return True

    def _fill_mask(self) -> Row:
        """The mask of everything that the grammar allows, whether or not tokens are forced."""
        row: Row = self._bitmask[0]
        if not self._is_filled:
            if not self.inner.fill_next_token_bitmask(self._bitmask):
                row[:] = row_of(self._tokenizer.vocab_size, slice(self._tokenizer.vocab_size))
            self.set_mask(row)
        return row

    @property
    def mask_words(self) -> int:
        """The number of int32 words in a mask."""
        return int(self._bitmask.shape[1])

    @property
    def needs_mask(self) -> bool:
        """Whether the mask of `inner` must be computed before the next call of `row`."""
        return not (self._error or self._is_filled)

    def set_mask(self, mask: Row) -> None:
        """Set the mask, int32 (words,), that was computed for `inner`."""
        self._bitmask[0] = mask
        if self._strict_matcher is not None:
            strict_mask = allocate_token_bitmask(1, self._tokenizer.vocab_size)
            if self._strict_matcher.fill_next_token_bitmask(strict_mask):
                self._bitmask[0] &= strict_mask[0] | row_of(self._tokenizer.vocab_size, self._tokenizer.eos_tokens)
        self._is_filled = True

    def _has_no_extension(self) -> bool:
        row = self._fill_mask()
        end_row = row_of(self._tokenizer.vocab_size, self._tokenizer.eos_tokens)
        return not (row & ~end_row).any()

    def row(self) -> Row:
        """The mask; after an error, it allows only the end tokens."""
        if self._error:
            return row_of(self._tokenizer.vocab_size, self._tokenizer.eos_tokens)
        row = self._fill_mask()
        forced_ids = self.inner.forced_tokens() if self._forces_tokens else []
        return row_of(self._tokenizer.vocab_size, forced_ids[:1]) if forced_ids else row


def escape_for_slashes(pattern: str) -> str:
    """Escape a pattern so that it can be written between slashes."""
    out, index = [], 0
    while index < len(pattern):
        if pattern[index] == "\\":
            out.append(pattern[index : index + 2])
            index += 2
        else:
            out.append({"/": "\\/", "\n": "\\n"}.get(pattern[index], pattern[index]))
            index += 1
    return "".join(out)


def load_json(text: str) -> Any:
    """Read JSON. ValueError: it is malformed, or nests too deeply for Python."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError(f"the JSON nests too deeply: {error}") from None


def _format_warnings(grammar: CompiledGrammar) -> list[str]:
    messages = [f"{finding.reason}: {finding.keyword} (at {finding.pointer})" for finding in grammar.findings]
    return [f"Unknown format: {text}" if ": format (" in text else text for text in messages]


def _wrap_grammar(grammar: Mapping[str, Any]) -> str:
    try:
        return json.dumps({"grammars": [grammar], "max_tokens": None}, separators=(",", ":"), ensure_ascii=False)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"the grammar cannot be written as JSON: {error}") from None
