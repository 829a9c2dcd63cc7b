"""The loop of levels 2 and 3: query the machine, mask, sample, advance; stop where nothing more can come.

The machine is asked what may come next and told what came. It runs beside the model and neither knows of the other: the
model's next logits are the same whether a mask was laid on the last ones or not. What a constraint costs follows from
that. Where one token is allowed, the model has no say; the fewer are allowed, the more of its probability is cut away,
and the stranger is, to the model, the text it goes on from.

A loop that ends after n tokens may end in the middle of a line, and then the format does not hold. So either the budget
is the machine's business, too (`within_budget`, the default: complete after n tokens, or refused before the first one),
or the result says that it is not complete.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from guided.levels.fsm import FSM
from guided.levels.masks import Choose, NextLogits, apply_token_mask, sample

__all__ = ["Generated", "generate_guided"]


class Generated(NamedTuple):
    """What came out.

    Attributes:
        idx: the prompt and the output, (1, T). An end token is no part of it.
        complete: the output is one of the format; False: the budget ended in the middle of it.
        ending: what ended it: the format (nothing could follow), an end token, or the budget.
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
) -> Generated:
    """Go on from `idx`, (1, T), as the machine allows.

    Args:
        model: see masks.py.
        fsm: is put back to its start first.
        max_new_tokens: of the output at most.
        within_budget: allow only what can still be completed in time. False: whatever the format allows, and the
            result says whether it was completed.
        choose: `sample` or `greedy`.

    Raises:
        BudgetError: with `within_budget`, where not even the shortest output fits.
        ValueError: more than one sequence (a machine follows one; `Engine.generate_batch` runs many), or a state from
            which nothing is allowed.
    """
    if idx.ndim != 2 or idx.shape[0] != 1:
        raise ValueError(f"idx is (1, T), not {tuple(idx.shape)}: one machine follows one sequence")
    fsm.reset()
    for left in range(max_new_tokens, -1, -1):
        allowed = fsm.allowed_tokens(left if within_budget else None)  # query
        if fsm.is_complete() and allowed <= set(fsm.end_tokens):
            return Generated(idx, True, "budget" if fsm.allowed_tokens() > allowed else "format")
        if left == 0:
            break
        logits = apply_token_mask(model(idx), allowed)  # mask
        token = choose(logits)  # sample
        fsm.advance(int(token))  # advance
        if int(token) in fsm.end_tokens:
            return Generated(idx, True, "end token")
        idx = torch.cat((idx, token), dim=1)
    return Generated(idx, fsm.is_complete(), "budget")
