"""The loop of levels 2 and 3: query the machine, mask, sample, advance. It stops when nothing more can follow.

The machine runs next to the model, and neither knows about the other: the model's logits depend only on the tokens so
far, not on any mask. This explains the cost of a constraint. If only one token is allowed, the model has no choice. The
fewer tokens are allowed, the more of the model's probability is removed, and the less likely is the text that it then
has to continue.

A loop that ends after n tokens may end in the middle of a line, and then the output violates the format. So there are
two options. With `within_budget`, the default, the machine respects the budget: the output is complete after at most n
tokens, or an error is raised before the first one. Otherwise, the result says that the output is incomplete.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from guided.levels.fsm import FSM
from guided.levels.masks import Choose, NextLogits, apply_token_mask, sample

__all__ = ["GuidedOutput", "generate_guided"]


class GuidedOutput(NamedTuple):
    """The output of `generate_guided`.

    Attributes:
        idx: the prompt and the output, (1, T), without an end token.
        complete: whether the output satisfies the format; False if the budget ended in the middle of it.
        ending: what ended the output: the format (nothing could follow), an end token, or the budget.
    """

    idx: Tensor
    complete: bool
    ending: Literal["format", "end token", "budget"]


def generate_guided(
    model: NextLogits,
    idx: Tensor,
    fsm: FSM,
    max_new_tokens: int,
    *,
    within_budget: bool = True,
    choose: Choose = sample,
) -> GuidedOutput:
    """Continue `idx`, (1, T), with tokens that the machine allows.

    Args:
        model: see masks.py.
        fsm: the machine; it is reset first.
        max_new_tokens: the maximum number of tokens of the output.
        within_budget: allow only tokens after which the output can be completed in time. False: allow all tokens that
            the format allows; the result says whether the output is complete.
        choose: `sample` or `greedy`.

    Raises:
        BudgetError: with `within_budget`, if not even the shortest output fits.
        ValueError: there is more than one sequence (a machine follows one; `Engine.generate_batch` runs many), or a
            state allows nothing.
    """
    if idx.ndim != 2 or idx.shape[0] != 1:
        raise ValueError(f"idx must have the shape (1, T), not {tuple(idx.shape)}: a machine follows one sequence")
    fsm.reset()
    for tokens_left in range(max_new_tokens, -1, -1):
        allowed = fsm.allowed_tokens(tokens_left if within_budget else None)  # query
        if fsm.is_complete() and allowed <= set(fsm.end_tokens):
            return GuidedOutput(idx, True, "budget" if fsm.allowed_tokens() > allowed else "format")
        if tokens_left == 0:
            break
        logits = apply_token_mask(model(idx), allowed)  # mask
        token = choose(logits)  # sample
        fsm.advance(int(token))  # advance
        if int(token) in fsm.end_tokens:
            return GuidedOutput(idx, True, "end token")
        idx = torch.cat((idx, token), dim=1)
    return GuidedOutput(idx, fsm.is_complete(), "budget")
