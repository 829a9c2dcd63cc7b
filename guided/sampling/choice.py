"""The input and the result of choosing one token.

`Choose` is the request of a sequence: rows of logits, and a `Choice` for each row. The `Answer` contains for each row a
`ChosenToken`, or an error if no token can be chosen. guided/kernels/choose.py answers the requests of a whole batch in
one call.
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

__all__ = ["Answer", "Bits", "Changes", "Choice", "Choose", "ChosenToken", "Ramp", "RunTokens", "all_banned_error"]

Bits: TypeAlias = npt.NDArray[np.int32]
"""A bitmask row, int32 (ceil(size / 32),), see guided/matching/bitmask.py."""


class Ramp(NamedTuple):
    """The budget ramp of a row: a penalty for tokens that make the output longer than necessary (engine/masks.py).

    Attributes:
        penalty: the amount that is subtracted from the logits of some tokens.
        bits: the bitmask of these tokens.
    """

    penalty: float
    bits: Bits


@dataclass(frozen=True, slots=True)
class Changes:
    """A request's changes to a row of logits in addition to the mask: bans, then bias, then penalties.

    Attributes:
        permitted: the bitmask of the only tokens that are allowed; None: all tokens.
        banned: forbidden ids.
        ends: ids that are allowed only if no other token is.
        biased, bias: int32 and float32 (n,): ids, and the bias that is added to their logits.
        seen, counts: int32 and float32 (n,): ids in the prompt or the output, and how often each occurs in the output.
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


@dataclass(slots=True)  # not frozen: one is created for each token, and frozen classes are five times as slow
class Choice:
    """How to choose a token from a row of logits.

    Attributes:
        params: temperature, top-k, top-p, min-p and seed.
        position: the number of output tokens before this token.
        size: the size of the vocabulary; larger ids are never chosen.
        allowed: the mask; None: all tokens are allowed.
        unbudgeted: the mask without its budget, if the budget removed tokens.
        ramp: the budget ramp, if there is one for this row.
        changes: bans, bias and penalties, if any.
        logprobs: the number of most likely tokens whose log probabilities are returned, in addition to the token's own;
            None: no log probabilities.
        raw: whether log probabilities are computed from the model's own logits, not from the changed ones.
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
        """The effective top-k: 0 if all tokens are candidates, for example because k is at least `size`."""
        top_k = self.params.top_k or 0
        return top_k if 0 < top_k < self.size else 0

    @property
    def needs_sorting(self) -> bool:
        """Whether top-k or top-p restricts the choice, so that tokens must be sorted."""
        top_p = self.params.top_p
        return self.params.temperature > 0 and (self.top_k > 0 or (top_p is not None and top_p < 1))


@dataclass(slots=True)  # not frozen, as above
class ChosenToken:
    """A chosen token.

    Attributes:
        token: the id of the token.
        removed: -log of the share of the model's total probability that remains after the mask and the ramp.
        budget_mass: the probability that the specification leaves, but the budget or its ramp removes; None if they
            remove nothing.
        scores: log probabilities, if requested.
        logprob: log of the model's probability of the token at temperature 1, before the mask; 0 if there is no mask.
        preferred: the model's most likely token, if the mask forbids it.
    """

    token: int
    removed: float = 0.0
    budget_mass: float | None = None
    scores: TokenLogprobs | None = None
    logprob: float = 0.0
    preferred: int | None = None


class Choose(NamedTuple):
    """A request for tokens. Requests from one pass share its tensor of logits, so that none of them needs to slice it.

    Attributes:
        logits: float32 (rows, width). They are not changed.
        choices: the choices for consecutive rows. A token is chosen for each row as if the drafts before it were
            accepted.
        first_row: the row of the first choice; None: there is one choice for each row.
    """

    logits: Tensor
    choices: Sequence[Choice]
    first_row: int | None = None


class RunTokens(NamedTuple):
    """The tokens of a run (engine/runs.py) before its last one. The matcher has accepted them.

    Attributes:
        tokens: ids.
        removed, logprobs, preferred: for each token, see `ChosenToken`.
        seconds: the mean computation time of a choice.
    """

    tokens: list[int]
    removed: list[float]
    logprobs: list[float]
    preferred: list[int | None]
    seconds: float


class Answer(NamedTuple):
    """The answer to a request.

    Attributes:
        rows: a token or an error for each row. Empty if a draft model drafts nothing.
        seconds: the request's share of the computation time.
        run: tokens that were chosen before that of the only row, without asking the sequence.
    """

    rows: Sequence[ChosenToken | GuidedError]
    seconds: float
    run: RunTokens | None = None


def all_banned_error(position: int) -> GuidedError:
    """The error for a request that forbids all tokens that its mask allows."""
    return GuidedError(
        f"allowed_token_ids and bad_words forbid every token that is possible after {position} tokens of output"
    )
