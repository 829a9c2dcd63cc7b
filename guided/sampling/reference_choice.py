"""Chooses a token from a row of logits, in torch, on any device.

In: a row of logits, and a `Choice`. Out: a `ChosenToken`. The order is the same as in `SamplingParams`: first the mask
on the raw logits, then bans, bias and penalties, then the sampler. The CPU kernel (guided/kernels/choose.py) is tested
against this module.
"""

from __future__ import annotations

from math import exp

import torch
from torch import Tensor

from guided.logits.apply import apply_token_bitmask_inplace
from guided.matching.bitmask import bits_of, is_allowed
from guided.sampling.choice import Bits, Choice, ChosenToken
from guided.sampling.logprobs import token_logprobs
from guided.sampling.penalties import apply_changes
from guided.sampling.sampler import choose, log_mass

__all__ = ["apply_mask", "choose_row"]


@torch.inference_mode()
def choose_row(logits: Tensor, choice: Choice) -> ChosenToken:
    """Choose a token from `logits` (width,), which do not change.

    Raises:
        GuidedError: no token is allowed, or the greatest logit is not finite.
    """
    model_logits, logits = logits, logits.clone()
    removed, budget_mass = apply_mask(logits, choice)
    if choice.changes is not None:
        apply_changes(choice.changes, logits[: choice.size], choice.position)
    token = choose(logits[: choice.size], choice.params, choice.position)
    scored_logits = model_logits if choice.raw else logits
    scores = None if choice.logprobs is None else token_logprobs(scored_logits, token, choice.logprobs, choice.size)
    if choice.allowed is None:
        return ChosenToken(token, removed, budget_mass, scores)
    best = int(model_logits[: choice.size].argmax())
    preferred = None if is_allowed(choice.allowed, best) else best
    return ChosenToken(
        token, removed, budget_mass, scores, float(model_logits[token]) - log_mass(model_logits), preferred
    )


def apply_mask(logits: Tensor, choice: Choice) -> tuple[float, float | None]:
    """Apply the mask and the ramp to logits (width,), in place. Return `removed` and `budget_mass` of `ChosenToken`."""
    if choice.allowed is None:
        logits[choice.size :] = -float("inf")
        return 0.0, None
    total_mass = log_mass(logits)
    if choice.unbudgeted is None and choice.ramp is None:
        return max(0.0, total_mass - _mask_and_measure(logits, choice.allowed)), None
    specified_mass = _mask_and_measure(logits, choice.allowed if choice.unbudgeted is None else choice.unbudgeted)
    apply_token_bitmask_inplace(logits, choice.allowed)
    if choice.ramp is not None:
        ramp_ids = bits_of(choice.ramp.bits)[: len(logits)].nonzero()[0]
        logits[torch.from_numpy(ramp_ids).to(logits.device)] -= choice.ramp.penalty
    allowed_mass = log_mass(logits)
    budget_mass = max(0.0, exp(specified_mass - total_mass) - exp(allowed_mass - total_mass))
    return max(0.0, total_mass - allowed_mass), budget_mass


def _mask_and_measure(logits: Tensor, bits: Bits) -> float:
    apply_token_bitmask_inplace(logits, bits)
    return log_mass(logits)
