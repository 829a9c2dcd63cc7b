"""One output while it grows: what the constraint forces, masks and accepts, and what is chosen.

`Sequence.steps` is a coroutine. It yields `Forward`, the tokens that the model must read next, and is sent the logits;
and it yields `StreamEvent`s. So the rounds of an output stand here as plain code, one after the other, and whoever
drives it (scheduler.py) runs one sequence or a hundred.

One round: what the grammar forces is taken from it and joins the last token in **one** forward pass; the mask is
filled once that pass is launched (on an accelerator it runs meanwhile; on a CPU filling takes microseconds); the mask
is laid on the raw logits, so that all else (penalties.py, sampler.py) is about what is allowed, and nothing can allow
a token again; a token is chosen, and the matcher must accept it, or the output fails: never one that it has not agreed
to.

The budget counts every output token, forced ones and the end token included. Every mask gets what is left of it,
forced tokens too are checked against such a mask, so that a constrained output is complete when the budget ends. Where
the output may end, the mask is filled first: if nothing but the end is allowed, it stops without a forward pass.

Tools (tool_calls.py) are called where the grammar's forced tokens are taken, and their results are taken with them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from guided.engine.result import FinishReason, Result, StreamEvent, Timings
from guided.engine.stopping import Stops
from guided.engine.tool_calls import ToolCalls
from guided.engine.transcript import Transcript
from guided.errors import BudgetError, GuidedError
from guided.logits.apply import apply_token_bitmask_inplace
from guided.sampling.logprobs import LogprobParams, TokenLogprobs, token_logprobs
from guided.sampling.params import SamplingParams
from guided.sampling.penalties import Penalties
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


_NO_STOPS: Final = Stops()
_NO_LOGPROBS: Final = LogprobParams()
_PIECE: Final = 128  # of a prompt that is scored: positions whose logits are held at once


class Sequence:
    """One output.

    Args:
        prompt: ids that the model reads first.
        max_tokens: the budget.
        score_forced: count the model's probability of forced tokens, too.
        stops: what ends it besides an end token.
        logprobs: which log probabilities are wanted.
        calls: of tools, for which the matcher's grammar has places.
        parse: makes the value of the text.

    Raises:
        BudgetError: no output fits. GuidedError: stops under a constraint. ValueError: ids that no token has.
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
        stops: Stops = _NO_STOPS,
        logprobs: LogprobParams = _NO_LOGPROBS,
        calls: ToolCalls | None = None,
        parse: Callable[[str], Any] | None = None,
    ) -> None:
        if matcher is not None and (needed := matcher.min_tokens_to_finish()) > max_tokens:
            raise BudgetError(needed, max_tokens)
        if matcher is not None and stops:
            raise GuidedError("a constraint says where its output ends: stops and ignore_eos go with none")
        stops.check(vocabulary.size)
        self.vocabulary, self.prompt, self.matcher, self.params = vocabulary, prompt, matcher, params
        self.max_tokens, self.calls, self.parse = max_tokens, calls, parse
        self.score_forced = score_forced and matcher is not None
        self.eos = sorted(vocabulary.eos_token_ids)
        self.stops, self.wanted = stops, logprobs
        self.prompt_logprobs: list[TokenLogprobs | None] | None = None if logprobs.prompt is None else [None]
        self.ends = frozenset(stops.token_ids).union(() if stops.ignore_eos else self.eos)
        self.penalties = None if params.keeps_logits else Penalties(params, prompt, self.ends, vocabulary.size)
        self.bitmask = _bits(vocabulary.size, [])
        self.everything = _bits(vocabulary.size, slice(vocabulary.size))
        self.only_end = _bits(vocabulary.size, self.eos)
        self.out = Transcript(vocabulary, stops)
        self.results: set[int] = set()  # where tokens of tools' results are in the output
        self.removed: list[float] = []
        self.forced_log_mass = 0.0
        self.timings = Timings()
        self.prompt_is_read = False
        self.finish_reason: FinishReason | None = None
        self.stop: str | int | None = None
        self.chosen_logprobs: TokenLogprobs | None = None  # of the last choice

    @property
    def left(self) -> int:
        """What remains of the budget."""
        return self.max_tokens - len(self.out.tokens)

    def steps(self) -> Steps:
        """Rounds of: force, forward, mask, choose. The last event holds the result.

        Raises:
            GuidedError: the matcher refuses what its mask allowed, or the logits are not numbers.
        """
        fresh = self.prompt
        if self.prompt_logprobs is not None:
            yield from self.score_prompt(self.prompt_logprobs)
            fresh = self.prompt[-1:]
        while True:
            forced = self.force()
            if forced:
                self.out.write(forced, sampled=False)
                yield self.out.event()
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
            self.write(token)
            if self.finish_reason is not None:
                break
            if (event := self.out.event()).tokens or event.text:
                yield event
            fresh = [token]
        self.out.close()
        if (event := self.out.event()).tokens:  # that were held back
            yield event
            event = self.out.event()
        yield replace(event, result=self.result())

    def score_prompt(self, scores: list[TokenLogprobs | None]) -> Steps:
        """Read the prompt but for its last token, and note the log probability of what comes after each."""
        for start in range(0, len(self.prompt) - 1, _PIECE):
            piece = self.prompt[start : min(start + _PIECE, len(self.prompt) - 1)]
            logits = yield Forward(piece, len(piece))
            assert logits is not None
            coming = self.prompt[start + 1 : start + 1 + len(piece)]
            scores += [self.scored(row, token, self.wanted.prompt) for row, token in zip(logits, coming, strict=True)]

    def scored(self, logits: Tensor, token: int, k: int | None) -> TokenLogprobs | None:
        """A token's log probabilities, if they are asked for."""
        return None if k is None else token_logprobs(logits, token, k, self.vocabulary.size)

    @torch.inference_mode()
    def score(self, logits: Tensor, forced: list[int]) -> None:
        """Count what the model would have given for what the grammar did not leave to it: forced tokens, an end."""
        begin = len(self.out.tokens) - len(forced)
        for at, (row, token) in enumerate(zip(logits, forced, strict=False), begin):
            if at not in self.results:
                self.forced_log_mass += log_mass(row) - float(row[token])
        if forced and (k := self.wanted.output) is not None:
            certain = self.wanted.mode == "masked"  # nothing else could come
            self.out.logprobs[-len(forced) :] = [
                TokenLogprobs(token, 0.0, ((token, 0.0),)[:k]) if certain else self.scored(row, token, k)
                for row, token in zip(logits, forced, strict=False)
            ]
        if self.finish_reason == "stop":
            self.forced_log_mass += log_mass(logits[-1]) - log_mass(logits[-1, self.eos])

    def force(self) -> list[int]:
        """Take what must come: the result of a call that has ended, what the grammar forces, and so on after calls."""
        taken: list[int] = []
        while self.matcher is not None:
            if self.calls is not None and self.calls.waiting:
                self.take_result(self.calls, taken)
            self.take_forced(self.matcher, taken)
            if self.calls is None or not self.calls.waiting:
                break
        return taken

    def take_result(self, calls: ToolCalls, taken: list[int]) -> None:
        """Run the tool, and take its result."""
        result = calls.answer(self.left - len(taken))
        begin = len(self.out.tokens) + len(taken)
        self.results.update(range(begin, begin + len(result)))
        taken += result

    def take_forced(self, matcher: Matcher, taken: list[int]) -> None:
        """Take what the grammar forces up to the end of a call, as far as the budget's mask and the bans agree."""
        for token in matcher.forced_tokens():
            if self.penalties is not None and self.penalties.forbids(token, [*self.out.tokens, *taken]):
                return
            if not self.allowed(token, self.left - len(taken)) or not matcher.accept_token(token):
                return
            if token in self.vocabulary.eos_token_ids:
                self.finish_reason = "stop"
                return
            taken.append(token)
            if self.calls is not None:
                self.calls.read(token, self.left - len(taken))
                if self.calls.waiting:
                    return

    def allowed(self, token: int, left: int) -> bool:
        """Whether the mask of this state and budget has the token."""
        return not self.mask_under(left) or self.has(token)

    def mask_under(self, left: int) -> bool:
        """Fill the mask under a budget, less what a call must leave for its result. False: nothing is masked."""
        assert self.matcher is not None
        reserved = 0 if self.calls is None else self.calls.reserved
        return self.matcher.fill_next_token_bitmask(self.bitmask, 0, max_tokens=left - reserved)

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
                free = self.calls is not None and self.calls.free  # then it was the budget that left nothing else
                self.finish_reason = "length" if free else "stop"
            return True
        return False

    def fill(self) -> None:
        """The mask of the next token, under what is left of the budget."""
        if self.left <= 0:
            raise GuidedError("the grammar did not end within its budget: the matcher broke its promise")
        start = perf_counter()
        if not self.mask_under(self.left):
            self.bitmask[:] = self.everything
        self.timings.mask.append(perf_counter() - start)

    @torch.inference_mode()
    def choose(self, logits: Tensor, masked: bool) -> int:
        """The next token; `masked`: the mask of this state is there already."""
        if self.matcher is not None and not masked:
            self.fill()
        start = perf_counter()
        scored = logits
        if self.wanted.output is not None and self.wanted.mode == "raw":
            scored = logits.clone()  # what follows changes them in place
        self.removed.append(self.mask(logits))
        if self.penalties is not None:
            self.penalties.apply(logits, self.out.tokens)
        token = choose(logits, self.params, len(self.out.tokens))
        self.chosen_logprobs = self.scored(scored, token, self.wanted.output)
        if self.matcher is not None and not (self.has(token) and self.matcher.accept_token(token)):
            raise GuidedError(
                f"token {token} was chosen, but the grammar refuses it: the mask and the matcher disagree"
            )
        self.timings.sample.append(perf_counter() - start)
        return token

    def mask(self, logits: Tensor) -> float:
        """Lay the mask on the logits; -log of the probability of what it leaves."""
        if self.matcher is None:
            logits[self.vocabulary.size :] = -float("inf")
            return 0.0
        before = log_mass(logits)
        apply_token_bitmask_inplace(logits, self.bitmask)
        return max(0.0, before - log_mass(logits))

    def write(self, token: int) -> None:
        """Append a chosen token, or end with it."""
        if token in self.ends:
            self.finish_reason = "stop"
            self.stop = token if token in self.stops.token_ids else None
            if self.stop is None or not self.stops.included:
                return
        if self.calls is not None:
            self.calls.read(token, self.left - 1)
        stoppable = len(self.out.tokens) >= self.params.min_tokens
        self.out.write([token], sampled=True, stoppable=stoppable, logprobs=self.chosen_logprobs)
        if self.out.found is not None:
            self.finish_reason, self.stop = "stop", self.out.found.stop

    def result(self) -> Result:
        """The whole of a finished output."""
        assert self.finish_reason is not None
        return Result(
            text=self.out.text,
            tokens=self.out.tokens,
            token_masks=self.out.token_masks,
            finish_reason=self.finish_reason,
            stop=self.stop,
            logprobs=None if self.wanted.output is None else self.out.logprobs,
            prompt_logprobs=self.prompt_logprobs,
            timings=self.timings,
            removed_log_masses=self.removed,
            removed_log_mass=sum(self.removed) + self.forced_log_mass,
            seed=self.params.seed,
            prompt_tokens=len(self.prompt),
            parse=self.parse,
            tool_calls=[] if self.calls is None else self.calls.done,
        )


def _bits(size: int, ids: list[int] | slice) -> npt.NDArray[np.int32]:
    """A bitmask of one row over `size` tokens that allows `ids`."""
    bits = np.zeros((size + 31) // 32 * 32, np.uint8)
    bits[ids] = 1
    return np.packbits(bits, bitorder="little").view("<i4").astype(np.int32)[None]
