"""Chooses tokens on CUDA, in a few Triton kernels.

In: logits, the `ChoiceTable` of a batch, and its `NeededOperations`. Out: a row of `Column`s for each choice, as in
choose_batch.py. Logits are only read. choose_batch.py handles lists of the most likely tokens (`logprobs` above 0) and
large top-k.

`scan_kernel` has a program for each choice and block of `BLOCK` ids. It stores the block's greatest logits (over all
tokens, over the tokens that the mask without a budget allows, and after mask and ramp), the id of the third one, and
the sums of exponentials relative to these logits. `pick_kernel` has a program for each choice. It merges the blocks and
draws: first a block, by the cumulative sums of the blocks, then a token, for which it reads this block again. Additions
are in a fixed order, so a choice does not depend on the batch. One exception: under top-k and top-p the last bits of
sums may, since the largest top-k in the batch decides how many tokens are sorted.

Between the two kernels, change_triton.py applies bans, bias and penalties to `scan_kernel`'s copies of the affected
rows, and few_triton.py applies min-p. After `pick_kernel`, few_triton.py applies top-k and top-p. For these,
`scan_kernel` also stores the greatest logit of each chunk of ids.

Cost: two launches, two more for bans, bias and penalties, and one more for each of min-p and top-k or top-p; one pass
over the logits and the bitmask words (4 + 1/8 bytes per token), and 8 more bytes per token for a row with changes. Sums
within a block are in float32, sums of blocks in float64.
"""

from __future__ import annotations

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from guided.kernels.change_triton import change_kernel, rescan_kernel
from guided.kernels.choice_table import ChoiceTable
from guided.kernels.choose_batch import Column, NeededOperations
from guided.kernels.few_triton import few_kernel, thin_kernel
from guided.kernels.row_triton import allowed_by, changed_logits, masked_logits, sum_of_exponentials, weights_of

__all__ = ["BLOCK", "choose_triton", "pick_kernel", "scan_kernel"]

BLOCK: Final = 2048
_PARTS: Final = 12  # the number of values that `scan_kernel` stores for a block
_MAX_CHUNKS: Final = 4096  # per row; a power of two
_MIN_SORT_SIZE: Final = 512  # keys; a power of two


@triton.jit
def scan_kernel(
    logits: tl.tensor, stride: tl.tensor, masks: tl.tensor, rows: tl.tensor, allowed: tl.tensor, specified: tl.tensor,
    ramped: tl.tensor, ramps: tl.tensor, scales: tl.tensor, permitted: tl.tensor, slots: tl.tensor, work: tl.tensor,
    work_stride: tl.tensor, parts: tl.tensor, bests: tl.tensor, preferences: tl.tensor, tops: tl.tensor,
    width: tl.tensor, size: tl.tensor, words: tl.tensor, chunks: tl.tensor, block: tl.constexpr, count: tl.constexpr,
    chunk: tl.constexpr, changes: tl.constexpr,
) -> None:  # fmt: skip
    """Compute the statistics of one block of a choice's logits for the other kernels. Grid: (choices, blocks).

    `chunk`: the number of ids per chunk, or 0 if no choice has top-k or top-p. `changes`: whether some choices have
    changes.
    """
    choice, block_index, blocks = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    offsets = block_index * block + tl.arange(0, block)
    inside = offsets < size
    row = tl.load(rows + choice).to(tl.int64)
    x = tl.load(logits + row * stride + offsets, mask=offsets < width, other=-float("inf")).to(tl.float32)
    mask, specified_mask = tl.load(allowed + choice), tl.load(specified + choice)
    ramp_mask, ramp, scale = tl.load(ramped + choice), tl.load(ramps + choice), tl.load(scales + choice)
    y = masked_logits(x, masks, mask, ramp_mask, ramp, words, offsets, inside)
    greatest, best = tl.max(y, 0, return_indices=True)
    max_of_all = tl.max(x, 0)
    max_of_model, preferred = tl.max(tl.where(inside, x, -float("inf")), 0, return_indices=True)
    out = parts + (choice * blocks + block_index) * count
    total = sum_of_exponentials(y, greatest, 1.0)
    tl.store(out + 0, greatest)
    tl.store(out + 1, total)
    tl.store(out + 2, sum_of_exponentials(y, greatest, scale))
    tl.store(out + 3, tl.max((y != y).to(tl.float32), 0))
    tl.store(out + 4, max_of_all)
    tl.store(out + 5, sum_of_exponentials(x, max_of_all, 1.0))
    max_of_specified, sum_of_specified = greatest, total
    if (specified_mask != mask) | (ramp_mask != 1):
        z = tl.where(allowed_by(masks, specified_mask, words, offsets, inside), x, -float("inf"))
        max_of_specified = tl.max(z, 0)
        sum_of_specified = sum_of_exponentials(z, max_of_specified, 1.0)
    tl.store(out + 6, max_of_specified)
    tl.store(out + 7, sum_of_specified)
    tl.store(out + 8, greatest)
    tl.store(out + 9, total)
    tl.store(out + 11, max_of_model)
    tl.store(bests + choice * blocks + block_index, block_index * block + best)
    tl.store(preferences + choice * blocks + block_index, block_index * block + preferred)
    if chunk > 0:
        positions = block_index * (block // chunk) + tl.arange(0, block // chunk)
        chunk_max = tl.max(tl.reshape(y, [block // chunk, chunk]), 1)
        tl.store(tops + choice * chunks + positions, chunk_max, mask=positions < chunks)
    if changes:
        slot = tl.load(slots + choice)
        if slot >= 0:
            y = tl.where(allowed_by(masks, tl.load(permitted + choice), words, offsets, inside), y, -float("inf"))
            tl.store(out + 10, tl.sum((y != -float("inf")).to(tl.float32), 0))
            tl.store(work + slot.to(tl.int64) * work_stride + offsets, y, mask=inside)


@triton.jit
def _merge_blocks(greatest: tl.tensor, sums: tl.tensor) -> tl.tensor:
    """The log of the sum of exponentials over all blocks."""
    highest = tl.max(greatest, 0)
    inside = greatest > -float("inf")
    scaled_sums = tl.where(inside, sums * tl.exp(tl.where(inside, greatest - highest, 0.0)), 0.0)
    return highest + tl.log(tl.sum(scaled_sums, 0))


@triton.jit
def pick_kernel(
    logits: tl.tensor, stride: tl.tensor, masks: tl.tensor, rows: tl.tensor, allowed: tl.tensor, ramped: tl.tensor,
    ramps: tl.tensor, scales: tl.tensor, uniform: tl.tensor, raw: tl.tensor, work: tl.tensor, work_stride: tl.tensor,
    slots: tl.tensor, min_ps: tl.tensor, parts: tl.tensor, bests: tl.tensor, preferences: tl.tensor, out: tl.tensor,
    size: tl.tensor, words: tl.tensor, blocks: tl.tensor, block: tl.constexpr, count: tl.constexpr,
    padded: tl.constexpr, columns: tl.constexpr,
) -> None:  # fmt: skip
    """Merge the blocks of a choice, and choose a token. Grid: (choices,)."""
    choice = tl.program_id(0)
    number = tl.arange(0, padded)
    exists = number < blocks
    part = parts + (choice * blocks + number) * count
    greatest = tl.load(part + 0, mask=exists, other=-float("inf"))
    highest = tl.max(greatest, 0)
    best_block = tl.min(tl.where(exists & (greatest == highest), number, padded - 1), 0)
    token = tl.load(bests + choice * blocks + tl.minimum(best_block, blocks - 1))
    scale = tl.load(scales + choice)
    row = logits + tl.load(rows + choice).to(tl.int64) * stride
    mask, ramp_mask, ramp = tl.load(allowed + choice), tl.load(ramped + choice), tl.load(ramps + choice)
    slot = tl.load(slots + choice)
    work += slot.to(tl.int64) * work_stride
    if scale > 0:
        inside = exists & (greatest > -float("inf"))
        sums = tl.load(part + 2, mask=exists, other=0.0).to(tl.float64)
        sums = tl.where(inside, sums * tl.exp(tl.where(inside, greatest - highest, 0.0) * scale).to(tl.float64), 0.0)
        cumulative = tl.cumsum(sums, 0)
        target = tl.load(uniform + choice) * tl.sum(sums, 0)
        last = tl.max(tl.where(sums > 0, number, 0), 0)
        chosen = tl.min(tl.where((cumulative > target) & (sums > 0), number, last), 0)
        remaining_target = target - tl.sum(tl.where(number < chosen, sums, 0.0), 0)
        offsets = chosen * block + tl.arange(0, block)
        y = changed_logits(row, work, slot, masks, mask, ramp_mask, ramp, words, offsets, offsets < size)
        is_kept = (y - highest) * scale >= tl.log(tl.load(min_ps + choice))
        weights = tl.where(is_kept, weights_of(y, highest, scale), 0.0).to(tl.float64)
        positions = tl.arange(0, block)
        last = tl.max(tl.where(weights > 0, positions, 0), 0)
        # Adding in another order may change the last bits of the sums, so weights of 0 are excluded explicitly.
        is_reached = (tl.cumsum(weights, 0) > remaining_target) & (weights > 0)
        token = chosen * block + tl.min(tl.where(is_reached, positions, last), 0)
    token = tl.minimum(token, size - 1)  # if no token can be chosen
    logit = tl.load(row + token).to(tl.float32)
    all_mass = _merge_blocks(
        tl.load(part + 4, mask=exists, other=-float("inf")), tl.load(part + 5, mask=exists, other=0.0)
    )
    allowed_mass = _merge_blocks(
        tl.load(part + 8, mask=exists, other=-float("inf")), tl.load(part + 9, mask=exists, other=0.0)
    )
    mass = _merge_blocks(greatest, tl.load(part + 1, mask=exists, other=0.0))
    max_of_specified = tl.load(part + 6, mask=exists, other=-float("inf"))
    specified = _merge_blocks(max_of_specified, tl.load(part + 7, mask=exists, other=0.0))
    is_raw = tl.load(raw + choice) > 0
    changed_logit = changed_logits(row, work, slot, masks, mask, ramp_mask, ramp, words, token, token < size)
    has_nan = tl.max(tl.load(part + 3, mask=exists, other=0.0), 0) > 0
    out_row = out + choice * columns
    tl.store(out_row + 0, token.to(tl.float64))
    tl.store(out_row + 1, tl.where(has_nan, float("nan"), highest).to(tl.float64))
    tl.store(out_row + 2, all_mass.to(tl.float64))
    tl.store(out_row + 3, specified.to(tl.float64))
    tl.store(out_row + 4, allowed_mass.to(tl.float64))
    tl.store(out_row + 5, tl.where(is_raw, logit, changed_logit).to(tl.float64))
    tl.store(out_row + 6, tl.where(is_raw, all_mass, tl.maximum(mass, highest)).to(tl.float64))
    if slot < 0:
        tl.store(out_row + 7, 0.0)
    tl.store(out_row + 8, 0.0)
    tl.store(out_row + 9, logit.to(tl.float64))
    max_of_model = tl.load(part + 11, mask=exists, other=-float("inf"))
    first = tl.min(tl.where(exists & (max_of_model == tl.max(max_of_model, 0)), number, blocks - 1), 0)
    tl.store(out_row + 10, tl.load(preferences + choice * blocks + first).to(tl.float64))


def choose_triton(logits: Tensor, table: ChoiceTable, needs: NeededOperations) -> Tensor:
    """Choose a token for each choice of a table.

    Args:
        logits: (rows, width), of any floating type, contiguous in the last dimension.

    Returns:
        float64 (choices, len(Column)), see `Column`.
    """
    t, n, width, words = table, len(table.row), logits.shape[1], table.masks.shape[1]
    blocks, chunk = triton.cdiv(width, BLOCK), 0
    if needs.first_look:
        chunk = max(1, triton.next_power_of_2(t.size) // _MAX_CHUNKS)
    chunks, padded = triton.cdiv(t.size, chunk or 1), triton.next_power_of_2(blocks)
    stride, work_stride = logits.stride(0), triton.cdiv(t.size, 16) * 16

    def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=logits.device)

    parts, bests, preferences = empty(n, blocks, _PARTS), *(empty(n, blocks, dtype=torch.int32) for _ in range(2))
    out = empty(n, len(Column), dtype=torch.float64)
    changed, thinned, sorts = len(t.changed), len(t.thinned), len(t.sorts)
    work, tops = empty(max(1, changed), work_stride), empty(n, chunks if chunk else 1)
    with torch.cuda.device_of(logits):  # type: ignore[no-untyped-call]
        scan_kernel[(n, blocks)](
            logits, stride, t.masks, t.row, t.allowed, t.specified, t.ramped, t.ramp, t.scale, t.permitted, t.slot,
            work, work_stride, parts, bests, preferences, tops, width, t.size, words, chunks, BLOCK, _PARTS, chunk,
            changed > 0,
        )  # fmt: skip
        if changed:
            change_kernel[(changed,)](
                work, work_stride, t.changed, parts, out, t.banned.id, t.banned.start, t.ends.id, t.ends.start,
                t.biased.id, t.biased.number, t.biased.start, t.seen.id, t.seen.number, t.seen.start, t.repetition,
                t.presence, t.frequency, t.size, blocks, _PARTS, padded, len(Column),
            )  # fmt: skip
            rescan_kernel[(changed, blocks)](
                work, work_stride, t.changed, t.scale, parts, bests, tops, t.size, blocks, chunks, BLOCK, _PARTS, chunk,
            )  # fmt: skip
        row = (logits, stride, t.masks, t.row, t.allowed, t.ramped, t.ramp, t.scale)
        changes = (work, work_stride, t.slot, t.min_p)
        if thinned:
            thin_kernel[(thinned, blocks)](
                *row, *changes, t.thinned, parts, t.size, words, blocks, BLOCK, _PARTS, padded
            )
        pick_kernel[(n,)](
            *row, t.uniform, t.raw, *changes, parts, bests, preferences, out, t.size, words, blocks, BLOCK, _PARTS,
            padded, len(Column),
        )  # fmt: skip
        if sorts:
            look, capacity = needs.first_look, needs.first_look * (chunk + 1)
            sort_size = max(_MIN_SORT_SIZE, triton.next_power_of_2(look))
            few_kernel[(sorts,)](
                *row, *changes, t.top_k, t.top_p, t.uniform, t.raw, t.sorts, parts, tops,
                empty(sorts, _MAX_CHUNKS, dtype=torch.int32), empty(sorts, capacity + sort_size, dtype=torch.int64),
                out, t.size, words, blocks, chunks, look, capacity, _PARTS, padded, len(Column), chunk, _MAX_CHUNKS,
                sort_size, num_warps=8,
            )  # fmt: skip
    return out
