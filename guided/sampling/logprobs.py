"""Log probabilities of the chosen token and of the k most likely tokens.

In: a row of logits. Out: natural logarithms of softmax (temperature 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from guided.errors import OptionError, brief
from guided.keywords import to_int
from guided.sampling.sampler import log_mass

__all__ = ["LogprobParams", "LogprobsMode", "TokenLogprobs", "token_logprobs"]

LogprobsMode = Literal["raw", "masked"]


@dataclass(frozen=True, slots=True)
class LogprobParams:
    """The log probabilities that a request returns.

    Attributes:
        output: for each token of the output, the number of most likely tokens to report with it; None: no log
            probabilities.
        prompt: like `output`, for the tokens of the prompt, but always raw.
        mode: "raw": computed from the model's logits. "masked": computed after mask, bans, bias and penalties, before
            the temperature.
    """

    output: int | None = None
    prompt: int | None = None
    mode: LogprobsMode = "raw"

    def __post_init__(self) -> None:
        for name in ("output", "prompt"):
            object.__setattr__(self, name, to_int(getattr(self, name)))
        for name, number in (("logprobs", self.output), ("prompt_logprobs", self.prompt)):
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 0):
                raise OptionError(
                    f"{name} is {brief(number)}, but must be an integer of at least 0, or None", option=name
                )
        if self.mode not in get_args(LogprobsMode):
            raise OptionError(
                f"logprobs_mode is {brief(self.mode)}, but must be 'raw' or 'masked'", option="logprobs_mode"
            )


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """A token and its most likely alternatives.

    Attributes:
        token: the id of the token.
        logprob: the log probability of the token.
        top: (id, log probability) of the most likely tokens in order (among equals, the lower id first), without
            impossible tokens. It contains the token itself only if that is one of the most likely.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@torch.inference_mode()
def token_logprobs(logits: Tensor, token: int, k: int, size: int) -> TokenLogprobs:
    """Log probabilities of `token` and the `k` most likely ids below `size`, from a row of logits, (vocab,)."""
    mass = log_mass(logits)
    values, ids = torch.topk(logits[:size], min(k, size))
    best = [(id, value - mass) for id, value in zip(ids.tolist(), values.tolist(), strict=True)]
    top = sorted((pair for pair in best if pair[1] > -float("inf")), key=lambda pair: (-pair[1], pair[0]))
    return TokenLogprobs(token, float(logits[token]) - mass, tuple(top))
