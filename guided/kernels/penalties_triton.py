"""Applies bans, bias and penalties to a batch, in two Triton kernels.

In: the rows that `scan_kernel` (choose_triton.py) has copied, and the lists of ids in a `ChoiceTable`. The copies
already include the table's mask, ramp (a penalty on some tokens) and `permitted`, the mask of the only tokens that the
request allows (`allowed_token_ids`). Out: the changed rows, and the statistics of their blocks for `pick_kernel`
(choose_triton.py). The rules and their order are the same as in `_change_logits` in choose_batch.py.

`penalties_kernel` has a program for each row with changes. It reads the row's lists in order, with a barrier before
each, because an id may be in several lists. It counts the allowed logits that it removes, so it need not read the row
to know whether tokens remain. `rescan_kernel` has a program for each block of these rows, and reads the block once
more.

Cost: two launches; one pass over the copies, and one read and one write for each id in a list. Ids outside of the
vocabulary are skipped. An id must not occur twice in one list; `Penalties` ensures this.
"""

from __future__ import annotations

import triton
import triton.language as tl

from guided.kernels.row_triton import sum_of_exponentials

__all__ = ["penalties_kernel", "rescan_kernel"]

_IDS = tl.constexpr(1024)  # the number of ids that are read at once


@triton.jit
def _forbid(row: tl.tensor, ids: tl.tensor, begin: tl.tensor, end: tl.tensor, size: tl.tensor) -> None:
    """Forbid the ids of a list."""
    for first in range(begin, end, _IDS):
        offsets = first + tl.arange(0, _IDS)
        id = tl.load(ids + offsets, mask=offsets < end, other=-1)
        tl.store(row + id, -float("inf"), mask=(id >= 0) & (id < size))


@triton.jit
def _count(row: tl.tensor, ids: tl.tensor, begin: tl.tensor, end: tl.tensor, size: tl.tensor) -> tl.tensor:
    """Count the ids of a list that are allowed."""
    count = tl.full((), 0, tl.int32)
    for first in range(begin, end, _IDS):
        offsets = first + tl.arange(0, _IDS)
        id = tl.load(ids + offsets, mask=offsets < end, other=-1)
        x = tl.load(row + id, mask=(id >= 0) & (id < size), other=-float("inf"))
        count += tl.sum((x != -float("inf")).to(tl.int32), 0)
    return count


@triton.jit
def penalties_kernel(
    work: tl.tensor, work_stride: tl.tensor, changed: tl.tensor, stats: tl.tensor, out: tl.tensor, banned: tl.tensor,
    banned_starts: tl.tensor, ends: tl.tensor, end_starts: tl.tensor, biased: tl.tensor, biases: tl.tensor,
    bias_starts: tl.tensor, seen: tl.tensor, counts: tl.tensor, seen_starts: tl.tensor, repetitions: tl.tensor,
    presences: tl.tensor, frequencies: tl.tensor, size: tl.tensor, blocks: tl.tensor, stat_count: tl.constexpr,
    padded: tl.constexpr, columns: tl.constexpr,
) -> None:  # fmt: skip
    """Apply the lists of a choice to its row. Grid: (rows of `work`,)."""
    slot = tl.program_id(0)
    choice = tl.load(changed + slot)
    row = work + slot.to(tl.int64) * work_stride
    block_indices = tl.arange(0, padded)
    block_stats = stats + (choice * blocks + block_indices) * stat_count
    greatest = tl.load(block_stats + 0, mask=block_indices < blocks, other=-float("inf"))
    has_nan = tl.load(block_stats + 3, mask=block_indices < blocks, other=0.0)
    was_allowed = tl.max(((greatest > -float("inf")) | (has_nan > 0)).to(tl.int32), 0)
    allowed_left = tl.sum(tl.load(block_stats + 10, mask=block_indices < blocks, other=0.0), 0).to(tl.int32)

    begin, end = tl.load(banned_starts + choice), tl.load(banned_starts + choice + 1)
    allowed_left -= _count(row, banned, begin, end, size)
    tl.debug_barrier()
    _forbid(row, banned, begin, end, size)
    tl.debug_barrier()
    tl.store(out + choice * columns + 7, tl.where((was_allowed > 0) & (allowed_left == 0), 1.0, 0.0).to(tl.float64))
    begin, end = tl.load(end_starts + choice), tl.load(end_starts + choice + 1)
    only_ends = _count(row, ends, begin, end, size) == allowed_left
    tl.debug_barrier()
    _forbid(row, ends, begin, tl.where(only_ends, begin, end), size)
    tl.debug_barrier()

    end = tl.load(bias_starts + choice + 1)
    for first in range(tl.load(bias_starts + choice), end, _IDS):
        offsets = first + tl.arange(0, _IDS)
        id = tl.load(biased + offsets, mask=offsets < end, other=-1)
        is_inside = (id >= 0) & (id < size)
        x = tl.load(row + id, mask=is_inside, other=0.0)
        tl.store(row + id, x + tl.load(biases + offsets, mask=offsets < end, other=0.0), mask=is_inside)
    tl.debug_barrier()

    repetition, presence = tl.load(repetitions + choice), tl.load(presences + choice)
    frequency, end = tl.load(frequencies + choice), tl.load(seen_starts + choice + 1)
    for first in range(tl.load(seen_starts + choice), end, _IDS):
        offsets = first + tl.arange(0, _IDS)
        id = tl.load(seen + offsets, mask=offsets < end, other=-1)
        occurrences = tl.load(counts + offsets, mask=offsets < end, other=0.0)
        is_inside = (id >= 0) & (id < size)
        x = tl.load(row + id, mask=is_inside, other=0.0)
        x = tl.where(x > 0, tl.div_rn(x, repetition + tl.zeros_like(x)), x * repetition)
        tl.store(row + id, x - (frequency * occurrences + presence * (occurrences > 0).to(tl.float32)), mask=is_inside)


@triton.jit
def rescan_kernel(
    work: tl.tensor, work_stride: tl.tensor, changed: tl.tensor, scales: tl.tensor, stats: tl.tensor, bests: tl.tensor,
    tops: tl.tensor, size: tl.tensor, blocks: tl.tensor, chunks: tl.tensor, block: tl.constexpr,
    stat_count: tl.constexpr, chunk: tl.constexpr,
) -> None:  # fmt: skip
    """Recompute the statistics that `scan_kernel` stored for a block, after all changes. Grid: (rows, blocks)."""
    slot, block_index = tl.program_id(0), tl.program_id(1)
    choice = tl.load(changed + slot)
    offsets = block_index * block + tl.arange(0, block)
    y = tl.load(work + slot.to(tl.int64) * work_stride + offsets, mask=offsets < size, other=-float("inf"))
    greatest, best = tl.max(y, 0, return_indices=True)
    out = stats + (choice * blocks + block_index) * stat_count
    tl.store(out + 0, greatest)
    tl.store(out + 1, sum_of_exponentials(y, greatest, 1.0))
    tl.store(out + 2, sum_of_exponentials(y, greatest, tl.load(scales + choice)))
    tl.store(out + 3, tl.max((y != y).to(tl.float32), 0))
    tl.store(bests + choice * blocks + block_index, block_index * block + best)
    if chunk > 0:
        positions = block_index * (block // chunk) + tl.arange(0, block // chunk)
        chunk_max = tl.max(tl.reshape(y, [block // chunk, chunk]), 1)
        tl.store(tops + choice * chunks + positions, chunk_max, mask=positions < chunks)
