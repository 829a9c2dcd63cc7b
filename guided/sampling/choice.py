"""What it takes to choose one token, and what comes of it.

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
        penalty: is subtracted from the logits of some tokens.
        bits: these tokens.
    """

    penalty: float
    bits: Bits


@dataclass(frozen=True, slots=True)
class Changes:
    """What a request changes in a row of logits besides its mask: bans, then bias, then penalties.

    Attributes:
        permitted: no other tokens may come; None: all may.
        banned: ids that may not come.
        ends: ids that may come only where nothing else may.
        biased, bias: int32 and float32 (n,): ids, and what is added to their logits.
        seen, counts: int32 and float32 (n,): ids in prompt or output, and how often each is in the output.
        repetition, presence, frequency: the penalties of `SamplingParams` for what was seen.
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


@dataclass(frozen=True, slots=True)
class Choice:
    """How a token is chosen from a row of logits.

    Attributes:
        params: temperature, top-k, top-p, min-p and seed.
        position: tokens of the output before it.
        size: of the vocabulary; no id from here on is chosen.
        allowed: the mask; None: everything is allowed.
        unbudgeted: the mask without its budget, where the budget removed something.
        ramp: of the budget, if there is one here.
        changes: bans, bias and penalties, if there are any.
        logprobs: the log probability of the token is wanted, and of so many of the most likely ones; None: none.
        raw: log probabilities by the model's own logits, not by those that the choice is made from.
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


@dataclass(frozen=True, slots=True)
class Chosen:
    """A token that was chosen.

    Attributes:
        token: its id.
        removed: -log of the probability of the tokens that the mask and the ramp left, by the model's logits.
        by_budget: the probability of what the specification allows and the budget or its ramp took; None where they
            took nothing.
        scores: log probabilities, if they were wanted.
    """

    token: int
    removed: float = 0.0
    by_budget: float | None = None
    scores: TokenLogprobs | None = None


class Choose(NamedTuple):
    """A request for tokens.

    Attributes:
        logits: float32 (n, width), which are only read.
        choices: one for each row; a row is chosen from as if the rows before it were.
    """

    logits: Tensor
    choices: Sequence[Choice]


class Answer(NamedTuple):
    """What comes of a request.

    Attributes:
        rows: for each row a token, or why there is none. There are no rows where a model drafts nothing.
        seconds: the request's share of the time that it took.
    """

    rows: Sequence[Chosen | GuidedError]
    seconds: float


def all_banned(position: int) -> GuidedError:
    """Why nothing can be chosen where a request has banned all that its mask allows."""
    return GuidedError(
        f"allowed_token_ids and bad_words forbid each token that could come here (after {position} tokens of output)"
    )
