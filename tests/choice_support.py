"""Whether two choices of tokens are equally good: sums and thresholds may differ in their last bits."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from guided.errors import GuidedError
from guided.sampling import sampler
from guided.sampling.choice import Choice, ChosenToken
from guided.sampling.reference_choice import choose_row

__all__ = ["close", "in_torch", "is_neighbour"]


def close(a: float | None, b: float | None) -> bool:
    return a == b or (a is not None and b is not None and math.isclose(a, b, rel_tol=1e-4, abs_tol=2e-3))


def in_torch(logits: torch.Tensor, choice: Choice) -> ChosenToken | GuidedError:
    try:
        return choose_row(logits, choice)
    except GuidedError as error:
        return error


def near(choice: Choice) -> list[Choice]:
    """Choices that differ from this one by the last bits of a threshold."""
    out = [choice]
    params = choice.params
    for name in ("top_p", "min_p"):
        value = getattr(params, name)
        if value:
            out += [
                replace(other, params=other.params._copy_with(name, min(1.0, value * factor)))
                for other in out
                for factor in (1 - 1e-5, 1 + 1e-5)
            ]
    return out


def is_neighbour(logits: torch.Tensor, choice: Choice, token: int) -> bool:
    """Whether a uniform number or a threshold that differs by its last bits would have led to this token."""
    plain = sampler.uniform
    try:
        for step in (-2e-6, 0.0, 2e-6):
            sampler.uniform = lambda seed, position, step=step: min(max(plain(seed, position) + step, 0.0), 1 - 2**-53)
            if any(choose_row(logits, other).token == token for other in near(choice)):
                return True
    finally:
        sampler.uniform = plain
    return False
