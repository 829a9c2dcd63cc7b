"""Log probabilities of tokens: of the one that came, and of the k most likely that could have come.

In: a row of logits. Out: natural logarithms of softmax (temperature 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from guided.errors import OptionError, brief
from guided.sampling.sampler import log_mass

__all__ = ["LogprobParams", "LogprobsMode", "TokenLogprobs", "token_logprobs"]

LogprobsMode = Literal["raw", "masked"]


@dataclass(frozen=True, slots=True)
class LogprobParams:
    """Which log probabilities a request asks for.

    Attributes:
        output: of each token of the output, and of so many of the most likely ones in its place; None: none.
        prompt: the same of the prompt's tokens, always raw.
        mode: "raw": the model's own. "masked": of the logits that the choice is made from, after the mask, the bans,
            bias and penalties, before the temperature.
    """

    output: int | None = None
    prompt: int | None = None
    mode: LogprobsMode = "raw"

    def __post_init__(self) -> None:
        for name, number in (("logprobs", self.output), ("prompt_logprobs", self.prompt)):
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 0):
                raise OptionError(
                    f"{name} is {brief(number)}, it must be an integer of at least 0, or None", option=name
                )
        if self.mode not in get_args(LogprobsMode):
            raise OptionError(
                f"logprobs_mode is {brief(self.mode)}; known are 'raw' and 'masked'", option="logprobs_mode"
            )


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """A token among those that could have stood in its place.

    Attributes:
        token: its id.
        logprob: its log probability.
        top: (id, log probability) of the most likely ones, in order (the lower id first among equals), without those
            that were impossible; the token is among them only if it is one of them.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@torch.inference_mode()
def token_logprobs(logits: Tensor, token: int, k: int, size: int) -> TokenLogprobs:
    """Of `token` and the `k` most likely of the ids below `size`, by a row of logits, (vocab,)."""
    mass = log_mass(logits)
    values, ids = torch.topk(logits[:size], min(k, size))
    best = [(id, value - mass) for id, value in zip(ids.tolist(), values.tolist(), strict=True)]
    top = sorted((pair for pair in best if pair[1] > -float("inf")), key=lambda pair: (-pair[1], pair[0]))
    return TokenLogprobs(token, float(logits[token]) - mass, tuple(top))
