"""Chooses tokens on CUDA, in a few Triton kernels.

In: logits, the `ChoiceTable` of a batch, and its `NeededOperations`. Out: a row of `Column`s for each choice, as in
choose_batch.py. Logits are only read. choose_batch.py handles lists of the most likely tokens (`logprobs` above 0) and
large top-k.

`scan_kernel` has a program for each choice and block of `BLOCK` ids. It stores the block's three greatest logits (the
model's, the model's among the tokens that the mask without a budget allows, and after mask and ramp), the ids of the
first and the third, and the sums of exponentials relative to these logits. `pick_kernel` has a program for each choice.
It merges the blocks and draws: first a block, by the cumulative sums of the blocks, then a token, for which it reads
this block again. Additions are in a fixed order, so a choice does not depend on the batch. One exception: under top-k
and top-p, the last bits of sums may depend on it, since the largest top-k in the batch decides how many tokens are
sorted.

Between the two kernels, penalties_triton.py applies bans, bias and penalties to `scan_kernel`'s copies of the affected
rows, and truncation_triton.py applies min-p. After `pick_kernel`, truncation_triton.py applies top-k and top-p, for
which `scan_kernel` also stores the greatest logit of each chunk of ids.

Cost: two launches, two more for bans, bias and penalties, one more for min-p, and one more for top-k and top-p; one
pass over the logits and the bitmask words (4 + 1/8 bytes per token), and 8 more bytes per token for a row with changes.
Sums within a block are in float32, sums of blocks in float64.
"""

from __future__ import annotations

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from guided.kernels.choice_table import ChoiceTable
from guided.kernels.choose_batch import Column, NeededOperations
from guided.kernels.penalties_triton import penalties_kernel, rescan_kernel
from guided.kernels.row_triton import allowed_by, changed_logits, masked_logits, sum_of_exponentials, weights_of
from guided.kernels.truncation_triton import min_p_kernel, top_p_kernel

__all__ = ["BLOCK", "choose_triton", "pick_kernel", "scan_kernel"]

BLOCK: Final = 2048
_STATS: Final = 12  # the number of values that `scan_kernel` stores for a block
_MAX_CHUNKS: Final = 4096  # per row; a power of two
_MIN_SORT_SIZE: Final = 512  # keys; a power of two


@triton.jit
def scan_kernel(
    logits: tl.tensor, stride: tl.tensor, masks: tl.tensor, rows: tl.tensor, allowed: tl.tensor, specified: tl.tensor,
    ramped: tl.tensor, ramps: tl.tensor, scales: tl.tensor, permitted: tl.tensor, slots: tl.tensor, work: tl.tensor,
    work_stride: tl.tensor, stats: tl.tensor, bests: tl.tensor, preferences: tl.tensor, tops: tl.tensor,
    width: tl.tensor, size: tl.tensor, words: tl.tensor, chunks: tl.tensor, block: tl.constexpr,
    stat_count: tl.constexpr, chunk: tl.constexpr, changes: tl.constexpr,
) -> None:  # fmt: skip
    """Compute the statistics of one block of a choice's logits for the other kernels. Grid: (choices, blocks).

    `chunk`: the number of ids per chunk, or 0 if no choice has top-k or top-p. `changes`: whether some choices have
    changes.
    """
    choice, block_index, blocks = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    offsets = block_index * block + tl.arange(0, block)
    is_inside = offsets < size
    row = tl.load(rows + choice).to(tl.int64)
    x = tl.load(logits + row * stride + offsets, mask=offsets < width, other=-float("inf")).to(tl.float32)
    mask, specified_mask = tl.load(allowed + choice), tl.load(specified + choice)
    ramp_mask, ramp, scale = tl.load(ramped + choice), tl.load(ramps + choice), tl.load(scales + choice)
    y = masked_logits(x, masks, mask, ramp_mask, ramp, words, offsets, is_inside)
    greatest, best = tl.max(y, 0, return_indices=True)
    max_of_all = tl.max(x, 0)
    max_of_model, preferred = tl.max(tl.where(is_inside, x, -float("inf")), 0, return_indices=True)
    out = stats + (choice * blocks + block_index) * stat_count
    total = sum_of_exponentials(y, greatest, 1.0)
    tl.store(out + 0, greatest)
    tl.store(out + 1, total)
    tl.store(out + 2, sum_of_exponentials(y, greatest, scale))
    tl.store(out + 3, tl.max((y != y).to(tl.float32), 0))
    tl.store(out + 4, max_of_all)
    tl.store(out + 5, sum_of_exponentials(x, max_of_all, 1.0))
    max_of_specified, sum_of_specified = greatest, total
    if (specified_mask != mask) | (ramp_mask != 1):
        z = tl.where(allowed_by(masks, specified_mask, words, offsets, is_inside), x, -float("inf"))
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
            y = tl.where(allowed_by(masks, tl.load(permitted + choice), words, offsets, is_inside), y, -float("inf"))
            tl.store(out + 10, tl.sum((y != -float("inf")).to(tl.float32), 0))
            tl.store(work + slot.to(tl.int64) * work_stride + offsets, y, mask=is_inside)


@triton.jit
def _merge_blocks(greatest: tl.tensor, sums: tl.tensor) -> tl.tensor:
    """The log of the sum of exponentials over all blocks."""
    highest = tl.max(greatest, 0)
    has_tokens = greatest > -float("inf")
    scaled_sums = tl.where(has_tokens, sums * tl.exp(tl.where(has_tokens, greatest - highest, 0.0)), 0.0)
    return highest + tl.log(tl.sum(scaled_sums, 0))


@triton.jit
def pick_kernel(
    logits: tl.tensor, stride: tl.tensor, masks: tl.tensor, rows: tl.tensor, allowed: tl.tensor, ramped: tl.tensor,
    ramps: tl.tensor, scales: tl.tensor, uniform: tl.tensor, raw: tl.tensor, work: tl.tensor, work_stride: tl.tensor,
    slots: tl.tensor, min_ps: tl.tensor, stats: tl.tensor, bests: tl.tensor, preferences: tl.tensor, out: tl.tensor,
    size: tl.tensor, words: tl.tensor, blocks: tl.tensor, block: tl.constexpr, stat_count: tl.constexpr,
    padded: tl.constexpr, columns: tl.constexpr,
) -> None:  # fmt: skip
    """Merge the blocks of a choice, and choose a token. Grid: (choices,)."""
    choice = tl.program_id(0)
    block_indices = tl.arange(0, padded)
    is_block = block_indices < blocks
    block_stats = stats + (choice * blocks + block_indices) * stat_count
    greatest = tl.load(block_stats + 0, mask=is_block, other=-float("inf"))
    highest = tl.max(greatest, 0)
    best_block = tl.min(tl.where(is_block & (greatest == highest), block_indices, padded - 1), 0)
    token = tl.load(bests + choice * blocks + tl.minimum(best_block, blocks - 1))
    scale = tl.load(scales + choice)
    row = logits + tl.load(rows + choice).to(tl.int64) * stride
    mask, ramp_mask, ramp = tl.load(allowed + choice), tl.load(ramped + choice), tl.load(ramps + choice)
    slot = tl.load(slots + choice)
    work += slot.to(tl.int64) * work_stride
    if scale > 0:
        has_tokens = is_block & (greatest > -float("inf"))
        sums = tl.load(block_stats + 2, mask=is_block, other=0.0).to(tl.float64)
        sums = tl.where(
            has_tokens, sums * tl.exp(tl.where(has_tokens, greatest - highest, 0.0) * scale).to(tl.float64), 0.0
        )
        cumulative = tl.cumsum(sums, 0)
        target = tl.load(uniform + choice) * tl.sum(sums, 0)
        last_block = tl.max(tl.where(sums > 0, block_indices, 0), 0)
        chosen_block = tl.min(tl.where((cumulative > target) & (sums > 0), block_indices, last_block), 0)
        remaining_target = target - tl.sum(tl.where(block_indices < chosen_block, sums, 0.0), 0)
        offsets = chosen_block * block + tl.arange(0, block)
        y = changed_logits(row, work, slot, masks, mask, ramp_mask, ramp, words, offsets, offsets < size)
        is_kept = (y - highest) * scale >= tl.log(tl.load(min_ps + choice))
        weights = tl.where(is_kept, weights_of(y, highest, scale), 0.0).to(tl.float64)
        positions = tl.arange(0, block)
        last = tl.max(tl.where(weights > 0, positions, 0), 0)
        # Adding in another order may change the last bits of the sums, so weights of 0 are excluded explicitly.
        is_reached = (tl.cumsum(weights, 0) > remaining_target) & (weights > 0)
        token = chosen_block * block + tl.min(tl.where(is_reached, positions, last), 0)
    token = tl.minimum(token, size - 1)  # a valid id even if no token can be chosen
    logit = tl.load(row + token).to(tl.float32)
    all_mass = _merge_blocks(
        tl.load(block_stats + 4, mask=is_block, other=-float("inf")), tl.load(block_stats + 5, mask=is_block, other=0.0)
    )
    allowed_mass = _merge_blocks(
        tl.load(block_stats + 8, mask=is_block, other=-float("inf")), tl.load(block_stats + 9, mask=is_block, other=0.0)
    )
    mass = _merge_blocks(greatest, tl.load(block_stats + 1, mask=is_block, other=0.0))
    max_of_specified = tl.load(block_stats + 6, mask=is_block, other=-float("inf"))
    specified = _merge_blocks(max_of_specified, tl.load(block_stats + 7, mask=is_block, other=0.0))
    is_raw = tl.load(raw + choice) > 0
    changed_logit = changed_logits(row, work, slot, masks, mask, ramp_mask, ramp, words, token, token < size)
    has_nan = tl.max(tl.load(block_stats + 3, mask=is_block, other=0.0), 0) > 0
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
    max_of_model = tl.load(block_stats + 11, mask=is_block, other=-float("inf"))
    first = tl.min(tl.where(is_block & (max_of_model == tl.max(max_of_model, 0)), block_indices, blocks - 1), 0)
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

    stats, bests, preferences = empty(n, blocks, _STATS), *(empty(n, blocks, dtype=torch.int32) for _ in range(2))
    out = empty(n, len(Column), dtype=torch.float64)
    changed_count, min_p_count, sort_count = len(t.changed), len(t.min_p_rows), len(t.sorts)
    work, tops = empty(max(1, changed_count), work_stride), empty(n, chunks if chunk else 1)
    with torch.cuda.device_of(logits):  # type: ignore[no-untyped-call]
        scan_kernel[(n, blocks)](
            logits, stride, t.masks, t.row, t.allowed, t.specified, t.ramped, t.ramp, t.scale, t.permitted, t.slot,
            work, work_stride, stats, bests, preferences, tops, width, t.size, words, chunks, BLOCK, _STATS, chunk,
            changed_count > 0,
        )  # fmt: skip
        if changed_count:
            penalties_kernel[(changed_count,)](
                work, work_stride, t.changed, stats, out, t.banned.id, t.banned.start, t.ends.id, t.ends.start,
                t.biased.id, t.biased.number, t.biased.start, t.seen.id, t.seen.number, t.seen.start, t.repetition,
                t.presence, t.frequency, t.size, blocks, _STATS, padded, len(Column),
            )  # fmt: skip
            rescan_kernel[(changed_count, blocks)](
                work, work_stride, t.changed, t.scale, stats, bests, tops, t.size, blocks, chunks, BLOCK, _STATS, chunk,
            )  # fmt: skip
        row = (logits, stride, t.masks, t.row, t.allowed, t.ramped, t.ramp, t.scale)
        changes = (work, work_stride, t.slot, t.min_p)
        if min_p_count:
            min_p_kernel[(min_p_count, blocks)](
                *row, *changes, t.min_p_rows, stats, t.size, words, blocks, BLOCK, _STATS, padded
            )
        pick_kernel[(n,)](
            *row, t.uniform, t.raw, *changes, stats, bests, preferences, out, t.size, words, blocks, BLOCK, _STATS,
            padded, len(Column),
        )  # fmt: skip
        if sort_count:
            look, capacity = needs.first_look, needs.first_look * (chunk + 1)
            sort_size = max(_MIN_SORT_SIZE, triton.next_power_of_2(look))
            top_p_kernel[(sort_count,)](
                *row, *changes, t.top_k, t.top_p, t.uniform, t.raw, t.sorts, stats, tops,
                empty(sort_count, _MAX_CHUNKS, dtype=torch.int32),
                empty(sort_count, capacity + sort_size, dtype=torch.int64),
                out, t.size, words, blocks, chunks, look, capacity, _STATS, padded, len(Column), chunk, _MAX_CHUNKS,
                sort_size, num_warps=8,
            )  # fmt: skip
    return out
