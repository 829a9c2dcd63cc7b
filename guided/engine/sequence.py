"""One output while it grows: what the constraint forces, masks and accepts, and what is chosen.

`Sequence.steps` is a coroutine. It yields `Forward`, the tokens that the model must read next, and is sent the logits;
and it yields `StreamEvent`s. So the rounds of an output stand here as plain code, one after the other, and whoever
drives it (scheduler.py) runs one sequence or a hundred.

One round: what the grammar forces is taken from it and joins the last token in **one** forward pass; the mask is
filled once that pass is launched (on an accelerator it runs meanwhile; on a CPU filling takes microseconds); the mask
is laid on the raw logits, so that top-k and top-p choose among what is allowed and nothing after it can allow a token
again; a token is chosen, and the matcher must accept it, or the output fails: never one that it has not agreed to.

The budget counts every output token, forced ones and the end token included. Every mask gets what is left of it,
forced tokens too are checked against such a mask, so that a constrained output is complete when the budget ends. Where
the output may end, the mask is filled first: if nothing but the end is allowed, it stops without a forward pass.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from guided.engine.result import FinishReason, Result, StreamEvent, Timings
from guided.errors import BudgetError, GuidedError
from guided.logits.apply import apply_token_bitmask_inplace
from guided.sampling.params import SamplingParams
from guided.sampling.sampler import choose, log_mass
from guided.vocabulary.vocabulary import Vocabulary

__all__ = ["Forward", "Matcher", "Sequence"]


class Matcher(Protocol):
    """What the loop asks of a `GrammarMatcher`."""

    def fill_next_token_bitmask(
        self, bitmask: npt.NDArray[np.int32], row: int = 0, *, max_tokens: int | None = None
    ) -> bool:
        """Write the mask of the next token; False: nothing is masked."""

    def accept_token(self, token: int, /) -> bool:
        """Go on by a token; False: refused."""

    def forced_tokens(self) -> list[int]:
        """What must come next."""

    def is_accepting(self) -> bool:
        """The output may end here."""

    def is_terminated(self) -> bool:
        """An end token was accepted."""

    def min_tokens_to_finish(self) -> int:
        """The shortest completion, the end token included."""


@dataclass(frozen=True, slots=True)
class Forward:
    """A request of a sequence: run the model over these tokens, which follow all that it has read.

    Attributes:
        tokens: ids, at least one.
        keep: how many of the last positions' logits are wanted.
    """

    tokens: list[int]
    keep: int = 1


Steps: TypeAlias = Generator[Forward | StreamEvent, Tensor | None, None]


class Sequence:
    """One output.

    Args:
        prompt: ids that the model reads first.
        max_tokens: the budget.
        score_forced: count the model's probability of forced tokens, too.
        parse: makes the value of the text.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        prompt: list[int],
        matcher: Matcher | None,
        params: SamplingParams,
        *,
        max_tokens: int,
        score_forced: bool = False,
        parse: Callable[[str], Any] | None = None,
    ) -> None:
        if matcher is not None and (needed := matcher.min_tokens_to_finish()) > max_tokens:
            raise BudgetError(needed, max_tokens)
        self.vocabulary, self.prompt, self.matcher, self.params = vocabulary, prompt, matcher, params
        self.max_tokens, self.parse = max_tokens, parse
        self.score_forced = score_forced and matcher is not None
        self.eos = sorted(vocabulary.eos_token_ids)
        self.bitmask = _bits(vocabulary.size, ())
        self.everything = _bits(vocabulary.size, range(vocabulary.size))
        self.only_end = _bits(vocabulary.size, self.eos)
        self.tokens: list[int] = []
        self.token_masks: list[int] = []
        self.removed: list[float] = []
        self.forced_log_mass = 0.0
        self.timings = Timings()
        self.prompt_is_read = False
        self.finish_reason: FinishReason | None = None
        self.text: list[str] = []
        self.utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def left(self) -> int:
        """What remains of the budget."""
        return self.max_tokens - len(self.tokens)

    def steps(self) -> Steps:
        """Rounds of: force, forward, mask, choose. The last event holds the result.

        Raises:
            GuidedError: the matcher refuses what its mask allowed, or the logits are not numbers.
        """
        fresh = self.prompt
        while True:
            forced = self.force()
            if forced:
                yield self.event(forced, sampled=False)
            masked = self.end_is_all()
            if self.finish_reason is not None and not self.score_forced:
                break
            logits = yield Forward([*fresh, *forced], 1 + len(forced) if self.score_forced else 1)
            assert logits is not None
            self.prompt_is_read = True
            if self.score_forced:
                self.score(logits, forced)
            if self.finish_reason is not None:
                break
            token = self.choose(logits[-1], masked)
            if token in self.vocabulary.eos_token_ids:
                self.finish_reason = "stop"
                break
            yield self.event([token], sampled=True)
            fresh = [token]
        yield self.last_event()

    @torch.inference_mode()
    def score(self, logits: Tensor, forced: list[int]) -> None:
        """Count what the model would have given for what was not left to it: forced tokens, an end without a choice."""
        for row, token in zip(logits, forced, strict=False):
            self.forced_log_mass += log_mass(row) - float(row[token])
        if self.finish_reason is not None:
            self.forced_log_mass += log_mass(logits[-1]) - log_mass(logits[-1, self.eos])

    def force(self) -> list[int]:
        """Take what the grammar forces, as far as the budget's mask agrees."""
        matcher = self.matcher
        if matcher is None:
            return []
        taken: list[int] = []
        for token in matcher.forced_tokens():
            if not self.allowed(token, self.left - len(taken)) or not matcher.accept_token(token):
                break
            if token in self.vocabulary.eos_token_ids:
                self.finish_reason = "stop"
                break
            taken.append(token)
        return taken

    def allowed(self, token: int, left: int) -> bool:
        """Whether the mask of this state and budget has the token."""
        assert self.matcher is not None
        if not self.matcher.fill_next_token_bitmask(self.bitmask, 0, max_tokens=left):
            return True
        return self.has(token)

    def has(self, token: int) -> bool:
        """Whether the mask that was filled last has the token."""
        return bool(self.bitmask[0, token // 32] >> (token % 32) & 1)

    def end_is_all(self) -> bool:
        """Set the finish reason where nothing but the end can follow. True: the mask was filled on the way."""
        if self.finish_reason is not None:
            return False
        if self.matcher is None:
            if self.left <= 0:
                self.finish_reason = "length"
            return False
        if self.matcher.is_terminated():
            self.finish_reason = "stop"
        elif self.matcher.is_accepting():
            self.fill()
            if not (self.bitmask & ~self.only_end).any():
                self.finish_reason = "stop"
            return True
        return False

    def fill(self) -> None:
        """The mask of the next token, under what is left of the budget."""
        assert self.matcher is not None
        if self.left <= 0:
            raise GuidedError("the grammar did not end within its budget: the matcher broke its promise")
        start = perf_counter()
        if not self.matcher.fill_next_token_bitmask(self.bitmask, 0, max_tokens=self.left):
            self.bitmask[:] = self.everything
        self.timings.mask.append(perf_counter() - start)

    @torch.inference_mode()
    def choose(self, logits: Tensor, masked: bool) -> int:
        """The next token; `masked`: the mask of this state is there already."""
        position = len(self.tokens)
        if self.matcher is None:
            start = perf_counter()
            logits[self.vocabulary.size :] = -float("inf")
            token = choose(logits, self.params, position)
            self.timings.sample.append(perf_counter() - start)
            self.removed.append(0.0)
            return token
        if not masked:
            self.fill()
        start = perf_counter()
        before = log_mass(logits)
        apply_token_bitmask_inplace(logits, self.bitmask)
        token = choose(logits, self.params, position)
        self.removed.append(max(0.0, before - log_mass(logits)))
        if not self.has(token) or not self.matcher.accept_token(token):
            raise GuidedError(
                f"token {token} was chosen, but the grammar refuses it: the mask and the matcher disagree"
            )
        self.timings.sample.append(perf_counter() - start)
        return token

    def event(self, tokens: list[int], *, sampled: bool) -> StreamEvent:
        """Append tokens to the output."""
        self.tokens += tokens
        self.token_masks += [int(sampled)] * len(tokens)
        text = self.utf8.decode(self.vocabulary.decode(tokens))
        self.text.append(text)
        return StreamEvent(tuple(tokens), text, not sampled)

    def last_event(self) -> StreamEvent:
        """The event that closes the output."""
        assert self.finish_reason is not None
        tail = self.utf8.decode(b"", final=True)
        text = "".join([*self.text, tail])
        result = Result(
            text=text,
            tokens=self.tokens,
            token_masks=self.token_masks,
            finish_reason=self.finish_reason,
            timings=self.timings,
            removed_log_masses=self.removed,
            removed_log_mass=sum(self.removed) + self.forced_log_mass,
            seed=self.params.seed,
            prompt_tokens=len(self.prompt),
            parse=self.parse,
        )
        return StreamEvent((), tail, result=result)


def _bits(size: int, ids: Iterable[int]) -> npt.NDArray[np.int32]:
    """A bitmask of one row over `size` tokens that allows `ids`."""
    bits = np.zeros((size + 31) // 32 * 32, np.uint8)
    bits[list(ids)] = 1
    return np.packbits(bits, bitorder="little").view("<i4").astype(np.int32)[None]
