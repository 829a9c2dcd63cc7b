"""Functions that the Triton kernels for choices share. They compute bitmasks, changed logits and weights.

In: pointers to logits, bitmasks and the columns of a `ChoiceTable`. Out: numbers in registers. They run in the kernels
of choose_triton.py, penalties_triton.py and truncation_triton.py, and launch nothing.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["allowed_by", "changed_logits", "masked_logits", "sum_of_exponentials", "weights_of"]


@triton.jit
def allowed_by(
    masks: tl.tensor, row: tl.tensor, words: tl.tensor, offsets: tl.tensor, is_inside: tl.tensor
) -> tl.tensor:
    """Whether a row of the bitmasks allows each id. Row 0 allows every id and is not read."""
    word = tl.load(masks + row * words + (offsets >> 5), mask=tl.where(is_inside, row, 0) != 0, other=-1)
    return is_inside & (((word >> (offsets & 31)) & 1) != 0)


@triton.jit
def masked_logits(
    x: tl.tensor, masks: tl.tensor, allowed: tl.tensor, ramped: tl.tensor, ramp: tl.tensor, words: tl.tensor,
    offsets: tl.tensor, is_inside: tl.tensor,
) -> tl.tensor:  # fmt: skip
    """Logits after mask and ramp. Row 1 of the bitmasks allows no id; as a ramp, it is not read."""
    has_ramp = tl.where(is_inside, ramped, 1) != 1
    y = tl.where(allowed_by(masks, ramped, words, offsets, has_ramp) & has_ramp, x - ramp, x)
    return tl.where(allowed_by(masks, allowed, words, offsets, is_inside), y, -float("inf"))


@triton.jit
def changed_logits(
    row: tl.tensor, work: tl.tensor, slot: tl.tensor, masks: tl.tensor, allowed: tl.tensor, ramped: tl.tensor,
    ramp: tl.tensor, words: tl.tensor, offsets: tl.tensor, is_inside: tl.tensor,
) -> tl.tensor:  # fmt: skip
    """Logits after all changes. `row` points to the model's logits, `work` to the changed logits if `slot` is not
    -1."""
    if slot >= 0:
        y = tl.load(work + offsets, mask=is_inside, other=-float("inf"))
    else:
        x = tl.load(row + offsets, mask=is_inside, other=-float("inf")).to(tl.float32)
        y = masked_logits(x, masks, allowed, ramped, ramp, words, offsets, is_inside)
    return y


@triton.jit
def weights_of(x: tl.tensor, greatest: tl.tensor, scale: tl.tensor) -> tl.tensor:
    """e ** ((x - greatest) * scale). The weight of -inf is 0 for any scale."""
    is_forbidden = x == -float("inf")
    return tl.where(
        is_forbidden, 0.0, tl.exp((tl.where(is_forbidden, 0.0, x) - tl.where(is_forbidden, 0.0, greatest)) * scale)
    )


@triton.jit
def sum_of_exponentials(x: tl.tensor, greatest: tl.tensor, scale: tl.tensor) -> tl.tensor:
    """The sum of `weights_of`."""
    return tl.sum(weights_of(x, greatest, scale), 0)
