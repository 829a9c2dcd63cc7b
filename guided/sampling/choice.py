"""The input and the result of choosing one token.

`Choose` is the request of a sequence: rows of logits, and a `Choice` for each. The answer has a `Chosen` for each, or
the error that leaves no choice. guided/kernels/choose.py answers the requests of a whole batch in one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor

from guided.errors import GuidedError
from guided.sampling.logprobs import TokenLogprobs
from guided.sampling.params import SamplingParams

__all__ = ["Answer", "Bits", "Changes", "Choice", "Choose", "Chosen", "Ramp", "all_banned"]

Bits: TypeAlias = npt.NDArray[np.int32]
"""A bitmask row, int32 (ceil(size / 32),), see guided/matching/bitmask.py."""


class Ramp(NamedTuple):
    """The budget ramp of a row.

    Attributes:
        penalty: subtracted from the logits of some tokens.
        bits: these tokens.
    """

    penalty: float
    bits: Bits


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a request to a row of logits besides the mask: bans, then bias, then penalties.

    Attributes:
        permitted: the only tokens that are allowed; None: all.
        banned: ids that are not allowed.
        ends: ids that are allowed only if nothing else is.
        biased, bias: int32 and float32 (n,): ids, and the bias of their logits.
        seen, counts: int32 and float32 (n,): ids in prompt or output, and how often each is in the output.
        repetition, presence, frequency: the penalties of `SamplingParams` for seen ids.
    """

    permitted: Bits | None
    banned: list[int]
    ends: list[int]
    biased: npt.NDArray[np.int32]
    bias: npt.NDArray[np.float32]
    seen: npt.NDArray[np.int32]
    counts: npt.NDArray[np.float32]
    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0


@dataclass(slots=True)  # not frozen: one is made for each token, which takes a frozen class five times as long
class Choice:
    """How to choose a token from a row of logits.

    Attributes:
        params: temperature, top-k, top-p, min-p and seed.
        position: tokens of the output before it.
        size: of the vocabulary; larger ids are never chosen.
        allowed: the mask; None: everything is allowed.
        unbudgeted: the mask without its budget, if the budget removed tokens.
        ramp: the budget ramp, if there is one here.
        changes: bans, bias and penalties, if any.
        logprobs: return the log probabilities of the token and of this many of the most likely ones; None: none.
        raw: whether log probabilities are by the model's own logits, not by the changed ones.
    """

    params: SamplingParams
    position: int
    size: int
    allowed: Bits | None = None
    unbudgeted: Bits | None = None
    ramp: Ramp | None = None
    changes: Changes | None = None
    logprobs: int | None = None
    raw: bool = True

    @property
    def top_k(self) -> int:
        """How many of the most likely tokens it is drawn from; 0: all. A request may have any number."""
        top_k = self.params.top_k or 0
        return top_k if 0 < top_k < self.size else 0

    @property
    def sorts(self) -> bool:
        """Whether it is drawn from the most likely tokens, by top-k or top-p."""
        top_p = self.params.top_p
        return self.params.temperature > 0 and (self.top_k > 0 or (top_p is not None and top_p < 1))


@dataclass(slots=True)  # not frozen, as above
class Chosen:
    """A chosen token.

    Attributes:
        token: its id.
        removed: -log of the probability of the tokens that the mask and the ramp left, by the model's logits.
        by_budget: the probability that the budget or its ramp removed from the tokens of the specification; None if
            they removed nothing.
        scores: log probabilities, if requested.
    """

    token: int
    removed: float = 0.0
    by_budget: float | None = None
    scores: TokenLogprobs | None = None


class Choose(NamedTuple):
    """A request for tokens. Requests from one pass share its tensor of logits, so none of them slices it.

    Attributes:
        logits: float32 (rows, width), not changed.
        choices: for consecutive rows. A token is chosen from every one, as if the drafts before it were right.
        first: the row of the first choice; None: there is one choice for each row.
    """

    logits: Tensor
    choices: Sequence[Choice]
    first: int | None = None


class Answer(NamedTuple):
    """The answer to a request.

    Attributes:
        rows: for each row a token, or the error. There are no rows if a model drafts nothing.
        seconds: the request's share of the time.
    """

    rows: Sequence[Chosen | GuidedError]
    seconds: float


def all_banned(position: int) -> GuidedError:
    """The error if a request has banned all tokens that its mask allows."""
    return GuidedError(
        f"allowed_token_ids and bad_words forbid each token that could come here (after {position} tokens of output)"
    )
