"""`LLInterpreter`: a matcher for engines that call it before and after each token. In: a tokenizer and a grammar. Out:
before each token, a mask and the new output as JSON; after each token, the forced tokens that follow it.

It raises an exception where `LLMatcher` would enter its error state. It never takes tokens back, so `enable_backtrack`
has no effect.
"""

from __future__ import annotations

import json
from typing import Any

from guided.compat.llguidance.limits import LLParserLimits
from guided.compat.llguidance.matcher import LLMatcher, StopReason
from guided.compat.llguidance.tokenizer import LLTokenizer

__all__ = ["LLInterpreter"]


class LLInterpreter:
    """See the module docstring.

    Args:
        tokenizer: the model's tokenizer.
        grammar: as for `LLMatcher`.
        enable_backtrack: ignored.
        enable_ff_tokens: whether to return forced tokens, which the model need not compute.
        log_level: stored but otherwise ignored.
        limits: bounds on the grammar.

    Raises:
        ValueError: the grammar is invalid.
    """

    def __init__(
        self,
        tokenizer: LLTokenizer,
        grammar: str,
        enable_backtrack: bool = True,
        enable_ff_tokens: bool = True,
        log_level: int = 1,
        limits: LLParserLimits | None = None,
    ) -> None:
        self._matcher = LLMatcher(tokenizer, grammar, log_level=log_level, limits=limits)
        self._tokenizer, self._returns_forced_tokens, self.log_level = tokenizer, enable_ff_tokens, log_level
        self._output_tokens: list[int] = []
        self._reported_tokens = self._reported_captures = 0
        self._is_started = self._is_over = self._is_generated = self._may_end = False
        self._raise_error()

    def deep_copy(self) -> LLInterpreter:
        """An independent copy."""
        clone = object.__new__(LLInterpreter)
        clone.__dict__.update(self.__dict__)
        clone._matcher, clone._output_tokens = self._matcher.deep_copy(), list(self._output_tokens)
        return clone

    def is_accepting(self) -> bool:
        """Whether the output could have ended at the last call of `compute_mask`."""
        return self._may_end

    def stop_reason(self) -> StopReason:
        """See `LLMatcher.stop_reason`."""
        return self._matcher.stop_reason()

    def process_prompt(self, prompt: list[int]) -> list[int]:
        """Begin after a prompt. Returns the prompt, followed by the forced tokens at the beginning of the output."""
        self.start_without_prompt()
        return [*prompt, *self._accept_forced_tokens()]

    def start_without_prompt(self) -> None:
        """Begin without a prompt."""
        if self._is_started:
            raise ValueError("the interpreter has already started")
        self._is_started = True

    def validate_tokens_raw(self, tokens: list[int]) -> int:
        """The number of tokens, from the first one on, that would be accepted."""
        return self._matcher.validate_tokens(tokens)

    def compute_mask(self) -> tuple[bytes | None, str]:
        """Return the mask, with one byte for each id (200 if allowed, otherwise 0), or None if the output has stopped;
        and the new output as JSON.

        Raises:
            ValueError: there was an error, or an earlier call has already reported the stop.
        """
        progress = self._begin_step()
        return (None if self.has_pending_stop() else self._matcher.compute_logit_bias()), progress

    def compute_mask_into(self, trg: bytearray) -> str:
        """Like `compute_mask`, but write the mask into `trg`: one byte for each id if they fit, otherwise one bit."""
        progress = self._begin_step()
        bit_mask, byte_mask = self._matcher.compute_bitmask(), self._matcher.compute_logit_bias()
        mask = byte_mask if len(trg) >= len(byte_mask) else bit_mask
        trg[:] = mask[: len(trg)].ljust(len(trg), b"\0")
        return progress

    def unsafe_compute_mask_ptr(self, trg_pointer: int, trg_byte_size: int) -> str:
        """Like `compute_mask`, but write the mask's bits to an address. Errors: see `LLMatcher`'s method."""
        progress = self._begin_step()
        self._matcher.unsafe_compute_mask_ptr(trg_pointer, trg_byte_size)
        return progress

    def commit_token(self, sampled_token: int | None) -> tuple[int, list[int]]:
        """Accept the sampled token, or None if there was no mask. Returns 0 (the number of tokens to take back), and
        the tokens to continue with: the sampled token and the forced tokens after it.

        Raises:
            ValueError: the token is not allowed, or there was a mask but no token is given.
        """
        if self.has_pending_stop():
            return 0, []
        if sampled_token is None:
            raise ValueError("sampled_token is required when mask was present")
        self._is_generated = True
        self._matcher.consume_token(sampled_token)
        self._raise_error()
        self._output_tokens.append(sampled_token)
        return 0, [sampled_token, *self._accept_forced_tokens()]

    def has_pending_stop(self) -> bool:
        """Whether the output has stopped."""
        return self._matcher.is_stopped()

    def _accept_forced_tokens(self) -> list[int]:
        """Accept the forced tokens and return them."""
        tokens = self._matcher.compute_ff_tokens() if self._returns_forced_tokens else []
        self._matcher.consume_tokens(tokens)
        self._raise_error()
        self._output_tokens += tokens
        return tokens

    def _raise_error(self) -> None:
        if self._matcher.is_error():
            raise ValueError(self._matcher.get_error())

    def _begin_step(self) -> str:
        self._raise_error()
        if self._is_over:
            raise ValueError("compute_mask() called after stop")
        self._is_started, self._is_over = True, self.has_pending_stop()
        self._may_end = self._matcher.is_accepting()
        return json.dumps(
            {"progress": self._report_progress(), "stop": self._is_over, "temperature": self._temperature()}
        )

    def _temperature(self) -> float:
        return self._matcher.inner.temperature() or 0.0

    def _report_progress(self) -> list[dict[str, Any]]:
        """The output since the last call: text, captures and, at the end, the whole text."""
        end_ids = self._tokenizer.eos_tokens
        new_tokens, token_count = (
            self._output_tokens[self._reported_tokens :],
            len(self._output_tokens) - self._reported_tokens,
        )
        text = self._tokenizer.decode_bytes([token for token in new_tokens if token not in end_ids])
        token_fields = {"log_prob": 0.0, "num_tokens": token_count, "is_generated": self._is_generated, "stats": {}}
        out = [{"object": "text", **_text_fields(text), **token_fields}]
        captures = self._matcher.get_captures()
        for name, captured_text in captures[self._reported_captures :]:
            out.append({"object": "capture", "name": name, **_text_fields(captured_text), "log_prob": 0.0})
        self._reported_tokens, self._reported_captures, self._is_generated = (
            len(self._output_tokens),
            len(captures),
            False,
        )
        if self._is_over:
            output_text = self._tokenizer.decode_bytes([token for token in self._output_tokens if token not in end_ids])
            out.append({"object": "final_text", **_text_fields(output_text), "stop_reason": self.stop_reason()})
        return out


def _text_fields(data: bytes) -> dict[str, str]:
    return {"str": data.decode(errors="replace"), "hex": data.hex()}
