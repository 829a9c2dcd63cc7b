"""Choose tokens greedily or at a temperature under bitmasks, in two Triton kernels that read the logits once.

In: logits, and the `ChoiceTable` of choices that have no filter (top-k, top-p, min-p) and change logits by mask and
ramp alone. Out: a row of `Column`s for each choice, as choose_batch.py has them. Logits are only read.

`scan` has a program for each choice and block of `BLOCK` ids. It stores the block's greatest logits (of all, of those
that the mask without a budget allows, of those that are left after mask and ramp), where the last of them is, and the
sums of exponentials relative to them. `pick` has a program for each choice. It merges the blocks and draws: first the
block, by the cumulative sums of the blocks, then the token, for which it reads that block again. Additions are in a
fixed order, so a choice does not depend on the batch.

Cost: two launches; one pass over the logits and the bitmask words, 4 + 1/8 bytes per token. Sums within a block are in
float32, those of blocks in float64.
"""

from __future__ import annotations

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from guided.kernels.choice_table import ChoiceTable
from guided.kernels.choose_batch import Column

__all__ = ["BLOCK", "choose_triton", "pick_kernel", "scan_kernel"]

BLOCK: Final = 2048
_PARTS: Final = 8  # numbers that `scan` stores of a block, in the order in which it stores them


@triton.jit
def _allowed(masks: tl.tensor, row: tl.tensor, words: tl.tensor, at: tl.tensor, inside: tl.tensor) -> tl.tensor:
    """Which ids a row of the bitmasks allows. Row 0 allows everything, and is not read."""
    word = tl.load(masks + row * words + (at >> 5), mask=tl.where(inside, row, 0) != 0, other=-1)
    return inside & (((word >> (at & 31)) & 1) != 0)


@triton.jit
def _sum_of_exponentials(x: tl.tensor, greatest: tl.tensor, scale: tl.tensor) -> tl.tensor:
    """The sum of e ** ((x - greatest) * scale); -inf counts for nothing, whatever the scale."""
    return tl.sum(_weights(x, greatest, scale), 0)


@triton.jit
def _weights(x: tl.tensor, greatest: tl.tensor, scale: tl.tensor) -> tl.tensor:
    nothing = x == -float("inf")
    return tl.where(nothing, 0.0, tl.exp((tl.where(nothing, 0.0, x) - tl.where(nothing, 0.0, greatest)) * scale))


@triton.jit
def _left(
    x: tl.tensor, masks: tl.tensor, allowed: tl.tensor, ramped: tl.tensor, ramp: tl.tensor, words: tl.tensor,
    at: tl.tensor, inside: tl.tensor,
) -> tl.tensor:  # fmt: skip
    """Logits after mask and ramp. Row 1 of the bitmasks allows nothing, and is not read for a ramp."""
    lowered = tl.where(inside, ramped, 1) != 1
    y = tl.where(_allowed(masks, ramped, words, at, lowered) & lowered, x - ramp, x)
    return tl.where(_allowed(masks, allowed, words, at, inside), y, -float("inf"))


@triton.jit
def scan_kernel(
    logits: tl.tensor, stride: tl.tensor, masks: tl.tensor, rows: tl.tensor, allowed: tl.tensor, specified: tl.tensor,
    ramped: tl.tensor, ramps: tl.tensor, scales: tl.tensor, parts: tl.tensor, bests: tl.tensor, width: tl.tensor,
    size: tl.tensor, words: tl.tensor, block: tl.constexpr, count: tl.constexpr,
) -> None:  # fmt: skip
    """Compute the input of `pick_kernel` for a block of ids of a choice. Grid: (choices, blocks)."""
    choice, number, blocks = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    at = number * block + tl.arange(0, block)
    inside = at < size
    row = tl.load(rows + choice).to(tl.int64)
    x = tl.load(logits + row * stride + at, mask=at < width, other=-float("inf")).to(tl.float32)
    mask, plain = tl.load(allowed + choice), tl.load(specified + choice)
    lowered, ramp, scale = tl.load(ramped + choice), tl.load(ramps + choice), tl.load(scales + choice)
    y = _left(x, masks, mask, lowered, ramp, words, at, inside)
    greatest, best = tl.max(y, 0, return_indices=True)
    of_all = tl.max(x, 0)
    out = parts + (choice * blocks + number) * count
    total = _sum_of_exponentials(y, greatest, 1.0)
    tl.store(out + 0, greatest)
    tl.store(out + 1, total)
    tl.store(out + 2, _sum_of_exponentials(y, greatest, scale))
    tl.store(out + 3, tl.max((y != y).to(tl.float32), 0))
    tl.store(out + 4, of_all)
    tl.store(out + 5, _sum_of_exponentials(x, of_all, 1.0))
    of_specified, sum_of_specified = greatest, total
    if (plain != mask) | (lowered != 1):
        z = tl.where(_allowed(masks, plain, words, at, inside), x, -float("inf"))
        of_specified = tl.max(z, 0)
        sum_of_specified = _sum_of_exponentials(z, of_specified, 1.0)
    tl.store(out + 6, of_specified)
    tl.store(out + 7, sum_of_specified)
    tl.store(bests + choice * blocks + number, number * block + best)


@triton.jit
def _merged(greatest: tl.tensor, sums: tl.tensor) -> tl.tensor:
    """The log of the sum of exponentials of all blocks."""
    most = tl.max(greatest, 0)
    inside = greatest > -float("inf")
    scaled = tl.where(inside, sums * tl.exp(tl.where(inside, greatest - most, 0.0)), 0.0)
    return most + tl.log(tl.sum(scaled, 0))


@triton.jit
def pick_kernel(
    logits: tl.tensor, stride: tl.tensor, masks: tl.tensor, rows: tl.tensor, allowed: tl.tensor, ramped: tl.tensor,
    ramps: tl.tensor, scales: tl.tensor, uniform: tl.tensor, raw: tl.tensor, parts: tl.tensor, bests: tl.tensor,
    out: tl.tensor, width: tl.tensor, size: tl.tensor, words: tl.tensor, blocks: tl.tensor, block: tl.constexpr,
    count: tl.constexpr, padded: tl.constexpr, columns: tl.constexpr,
) -> None:  # fmt: skip
    """Merge the blocks of a choice, and choose. Grid: (choices,)."""
    choice = tl.program_id(0)
    number = tl.arange(0, padded)
    there = number < blocks
    part = parts + (choice * blocks + number) * count
    greatest = tl.load(part + 0, mask=there, other=-float("inf"))
    highest = tl.max(greatest, 0)
    best_block = tl.min(tl.where(there & (greatest == highest), number, padded - 1), 0)
    token = tl.load(bests + choice * blocks + tl.minimum(best_block, blocks - 1))
    scale = tl.load(scales + choice)
    row = logits + tl.load(rows + choice).to(tl.int64) * stride
    mask, lowered, ramp = tl.load(allowed + choice), tl.load(ramped + choice), tl.load(ramps + choice)
    if scale > 0:
        inside = there & (greatest > -float("inf"))
        sums = tl.load(part + 2, mask=there, other=0.0).to(tl.float64)
        sums = tl.where(inside, sums * tl.exp(tl.where(inside, greatest - highest, 0.0) * scale).to(tl.float64), 0.0)
        cumulative = tl.cumsum(sums, 0)
        target = tl.load(uniform + choice) * tl.sum(sums, 0)
        last = tl.max(tl.where(sums > 0, number, 0), 0)
        chosen = tl.min(tl.where((cumulative > target) & (sums > 0), number, last), 0)
        rest = target - tl.sum(tl.where(number < chosen, sums, 0.0), 0)
        at = chosen * block + tl.arange(0, block)
        x = tl.load(row + at, mask=at < width, other=-float("inf")).to(tl.float32)
        weights = _weights(_left(x, masks, mask, lowered, ramp, words, at, at < size), highest, scale).to(tl.float64)
        place = tl.arange(0, block)
        last = tl.max(tl.where(weights > 0, place, 0), 0)
        reached = (tl.cumsum(weights, 0) > rest) & (weights > 0)  # sums in another order may differ in their last bits
        token = chosen * block + tl.min(tl.where(reached, place, last), 0)
    token = tl.minimum(token, size - 1)  # where nothing can be chosen
    logit = tl.load(row + token).to(tl.float32)
    all_mass = _merged(tl.load(part + 4, mask=there, other=-float("inf")), tl.load(part + 5, mask=there, other=0.0))
    after = _merged(greatest, tl.load(part + 1, mask=there, other=0.0))
    of_specified = tl.load(part + 6, mask=there, other=-float("inf"))
    specified = _merged(of_specified, tl.load(part + 7, mask=there, other=0.0))
    is_raw = tl.load(raw + choice) > 0
    dropped = tl.load(masks + lowered * words + (token >> 5), mask=lowered != 1, other=0)
    left = tl.where(((dropped >> (token & 31)) & 1) != 0, logit - ramp, logit)
    wrong = tl.max(tl.load(part + 3, mask=there, other=0.0), 0) > 0
    to = out + choice * columns
    tl.store(to + 0, token.to(tl.float64))
    tl.store(to + 1, tl.where(wrong, float("nan"), highest).to(tl.float64))
    tl.store(to + 2, all_mass.to(tl.float64))
    tl.store(to + 3, specified.to(tl.float64))
    tl.store(to + 4, after.to(tl.float64))
    tl.store(to + 5, tl.where(is_raw, logit, left).to(tl.float64))
    tl.store(to + 6, tl.where(is_raw, all_mass, tl.maximum(after, highest)).to(tl.float64))
    tl.store(to + 7, 0.0)
    tl.store(to + 8, 0.0)


def choose_triton(logits: Tensor, table: ChoiceTable) -> Tensor:
    """Choose a token for each choice of a table.

    Args:
        logits: (rows, width), of any floating type, contiguous in the last dimension.

    Returns:
        float64 (choices, len(Column)), see `Column`.
    """
    n, width, words = len(table.row), logits.shape[1], table.masks.shape[1]
    blocks = triton.cdiv(width, BLOCK)
    parts = torch.empty(n, blocks, _PARTS, dtype=torch.float32, device=logits.device)
    bests = torch.empty(n, blocks, dtype=torch.int32, device=logits.device)
    out = torch.empty(n, len(Column), dtype=torch.float64, device=logits.device)
    t = table
    with torch.cuda.device_of(logits):  # type: ignore[no-untyped-call]
        scan_kernel[(n, blocks)](
            logits, logits.stride(0), t.masks, t.row, t.allowed, t.specified, t.ramped, t.ramp, t.scale, parts, bests,
            width, t.size, words, BLOCK, _PARTS,
        )  # fmt: skip
        pick_kernel[(n,)](
            logits, logits.stride(0), t.masks, t.row, t.allowed, t.ramped, t.ramp, t.scale, t.uniform, t.raw, parts,
            bests, out, width, t.size, words, blocks, BLOCK, _PARTS, triton.next_power_of_2(blocks), len(Column),
        )  # fmt: skip
    return out
