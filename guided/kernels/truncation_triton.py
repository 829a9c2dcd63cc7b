"""Chooses tokens by min-p, top-k and top-p, in two Triton kernels.

In: the statistics that `scan_kernel` and `rescan_kernel` have stored for each block, and the greatest logit of each
chunk of ids. Out: the token of each row, and whether top-p needs more than the `look` most likely tokens.
choose_batch.py computes the same result.

`min_p_kernel` has a program for each block of each row with min-p. It sums only the weights that min-p keeps; most
blocks have no such weight and are not read. `top_p_kernel` has a program for each row with top-k or top-p. Its keys are
the exponents `(logit - highest) / temperature`, mapped to integers in the same order. A key is reached by equal and
greater keys. The steps:

1. Bisection finds a key that at least `look` chunk maxima reach. So at least `look` tokens reach it, and the tokens
   above it lie in at most `look` chunks.
2. The chunks whose maximum reaches the key are listed and read. The keys above the found key are stored with their
   ids. Of the keys equal to it, the first `look` in id order are stored.
3. If too many keys are stored to sort them, bisection among them finds a higher key in the same way.
4. The keys are sorted in descending order; among equal keys, the lower id comes first. Top-k and top-p cut the sorted
   weights, and the uniform number draws among the remaining ones.

The first two steps follow "Dr. Top-k: Delegate-Centric Top-k on GPUs" (Gaihre et al., SC 2021), whose delegates are the
chunk maxima.

Cost: two launches; for each row the maxima of at most 4,096 chunks, and about `look` chunks from the L2 cache. Sums are
in float64.
"""

from __future__ import annotations

import triton
import triton.language as tl

from guided.kernels.row_triton import changed_logits, sum_of_exponentials

__all__ = ["min_p_kernel", "top_p_kernel"]

_BLOCK = tl.constexpr(2048)  # keys that are read at once
_NEVER_CHOSEN = tl.constexpr(-(2**31))  # the key of tokens that are never chosen
_LOWEST_KEY = tl.constexpr(-2139095040)  # the key of the lowest finite number
_ABOVE_ALL_KEYS = tl.constexpr(1)  # one above the key of 0.0, the greatest exponent
_LAST_ID = tl.constexpr(2**31 - 1)


@triton.jit
def min_p_kernel(
    logits: tl.tensor, stride: tl.tensor, masks: tl.tensor, rows: tl.tensor, allowed: tl.tensor, ramped: tl.tensor,
    ramps: tl.tensor, scales: tl.tensor, work: tl.tensor, work_stride: tl.tensor, slots: tl.tensor, min_ps: tl.tensor,
    min_p_rows: tl.tensor, stats: tl.tensor, size: tl.tensor, words: tl.tensor, blocks: tl.tensor, block: tl.constexpr,
    stat_count: tl.constexpr, padded: tl.constexpr,
) -> None:  # fmt: skip
    """Replace the sum of a block with the sum of the weights that min-p keeps. Grid: (rows, blocks)."""
    choice, block_index = tl.load(min_p_rows + tl.program_id(0)), tl.program_id(1)
    block_indices = tl.arange(0, padded)
    block_stats = stats + choice * blocks * stat_count
    highest = tl.max(
        tl.load(block_stats + block_indices * stat_count, mask=block_indices < blocks, other=-float("inf")), 0
    )
    greatest = tl.load(block_stats + block_index * stat_count)
    scale, floor, total = tl.load(scales + choice), tl.log(tl.load(min_ps + choice)), 0.0
    if (greatest - highest) * scale >= floor:
        slot = tl.load(slots + choice)
        offsets = block_index * block + tl.arange(0, block)
        y = changed_logits(
            logits + tl.load(rows + choice).to(tl.int64) * stride, work + slot.to(tl.int64) * work_stride, slot, masks,
            tl.load(allowed + choice), tl.load(ramped + choice), tl.load(ramps + choice), words, offsets,
            offsets < size,
        )  # fmt: skip
        y = tl.where((y - highest) * scale >= floor, y, -float("inf"))
        total = sum_of_exponentials(y, greatest, scale)
    tl.store(block_stats + block_index * stat_count + 2, total)


@triton.jit
def _compute_keys(exponents: tl.tensor, floor: tl.tensor) -> tl.tensor:
    """Map exponents to integers in the same order. NaN, -inf and exponents below `floor` become the lowest integer."""
    bits = tl.where(exponents == 0, 0.0, exponents).to(tl.int32, bitcast=True)  # -0.0 becomes 0.0
    is_candidate = (exponents >= floor) & (exponents > -float("inf"))
    return tl.where(is_candidate, bits ^ ((bits >> 31) & 0x7FFFFFFF), _NEVER_CHOSEN)


@triton.jit
def _list_chunks(keys: tl.tensor, chunk_list: tl.tensor, look: tl.tensor) -> tl.tensor:
    """Find a key that at least `look` chunks reach, and list these chunks. If fewer chunks have an allowed token, list
    all chunks that have one.

    Returns:
        The key, and the number of listed chunks.
    """
    low, high = tl.full((), _LOWEST_KEY, tl.int32), tl.full((), _ABOVE_ALL_KEYS, tl.int32)
    count = tl.sum((keys >= low).to(tl.int32), 0)
    while (count > look) & (high - low > 1):
        middle = low + ((high - low) >> 1)
        reached_count = tl.sum((keys >= middle).to(tl.int32), 0)
        has_enough = reached_count >= look
        low, high = tl.where(has_enough, middle, low), tl.where(has_enough, high, middle)
        count = tl.where(has_enough, reached_count, count)
    is_kept = keys >= low
    positions = tl.cumsum(is_kept.to(tl.int32), 0) - 1
    tl.store(chunk_list + positions, tl.arange(0, keys.shape[0]), mask=is_kept)
    return low, count


@triton.jit
def _store_some(
    target: tl.tensor, capacity: tl.tensor, packed: tl.tensor, keys: tl.tensor, is_inside: tl.tensor, low: tl.tensor,
    max_equal: tl.tensor, stored_count: tl.tensor, equal_count: tl.tensor,
) -> tl.tensor:  # fmt: skip
    """Append the keys above `low`, and the first `max_equal` keys equal to it, to the stored keys.

    Returns:
        The number of stored keys, and the number of keys equal to `low` so far.
    """
    is_equal = (is_inside & (keys == low)).to(tl.int32)
    is_kept = is_inside & ((keys > low) | ((is_equal > 0) & (equal_count + tl.cumsum(is_equal, 0) <= max_equal)))
    positions = stored_count + tl.cumsum(is_kept.to(tl.int32), 0) - 1
    tl.store(target + positions, packed, mask=is_kept & (positions < capacity))
    return stored_count + tl.sum(is_kept.to(tl.int32), 0), equal_count + tl.sum(is_equal, 0)


@triton.jit
def _raise_threshold(
    buffer: tl.tensor, stored_count: tl.tensor, low: tl.tensor, look: tl.tensor, sort_size: tl.tensor
) -> tl.tensor:
    """Find a key that between `look` and `sort_size` of the stored keys reach. Equal keys may make this impossible.

    Returns:
        The key, and the number of keys equal to it that are needed.
    """
    high, count, count_above = tl.full((), _ABOVE_ALL_KEYS, tl.int32), stored_count, tl.full((), 0, tl.int32)
    while (count > sort_size) & (high - low > 1):
        middle = low + ((high - low) >> 1)
        reached_count = tl.full((), 0, tl.int32)
        for begin in range(0, stored_count, _BLOCK):
            offsets = begin + tl.arange(0, _BLOCK)
            keys = (tl.load(buffer + offsets, mask=offsets < stored_count, other=0) >> 32).to(tl.int32)
            reached_count += tl.sum(((keys >= middle) & (offsets < stored_count)).to(tl.int32), 0)
        has_enough = reached_count >= look
        low, high = tl.where(has_enough, middle, low), tl.where(has_enough, high, middle)
        count, count_above = (
            tl.where(has_enough, reached_count, count),
            tl.where(has_enough, count_above, reached_count),
        )
    return low, tl.where(count > sort_size, look - count_above, sort_size)


@triton.jit
def _draw(
    packed: tl.tensor, is_valid: tl.tensor, top_k: tl.tensor, top_p: tl.tensor, uniform: tl.tensor,
    total_of_all: tl.tensor, is_complete: tl.tensor,
) -> tl.tensor:  # fmt: skip
    """Draw among sorted keys by top-k and top-p.

    Returns:
        The token, and whether top-p needs more tokens.
    """
    positions = tl.arange(0, packed.shape[0])
    ordered = (packed >> 32).to(tl.int32)
    exponents = (ordered ^ ((ordered >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
    is_valid = is_valid & ((top_k == 0) | (positions < top_k))
    weights = tl.where(is_valid, tl.exp(tl.where(is_valid, exponents, 0.0)), 0.0).to(tl.float64)
    cumulative, total = tl.cumsum(weights, 0), tl.sum(weights, 0)
    needed_mass = top_p * tl.where((top_k > 0) | is_complete, total, total_of_all)
    last = tl.min(tl.where(cumulative < needed_mass, packed.shape[0], positions), 0)
    last = tl.where(top_p < 1, last, packed.shape[0])
    weights = tl.where(positions <= last, weights, 0.0)
    has_weight = weights > 0
    is_reached = (cumulative > uniform * tl.sum(weights, 0)) & has_weight
    drawn = tl.min(tl.where(is_reached, positions, tl.max(tl.where(has_weight, positions, 0), 0)), 0)
    token = tl.sum(tl.where(positions == drawn, (packed & _LAST_ID).to(tl.int32) ^ _LAST_ID, 0), 0)
    return token, (top_p < 1) & (total < needed_mass)


@triton.jit
def top_p_kernel(
    logits: tl.tensor, stride: tl.tensor, masks: tl.tensor, rows: tl.tensor, allowed: tl.tensor, ramped: tl.tensor,
    ramps: tl.tensor, scales: tl.tensor, work: tl.tensor, work_stride: tl.tensor, slots: tl.tensor, min_ps: tl.tensor,
    top_ks: tl.tensor, top_ps: tl.tensor, uniform: tl.tensor, raw: tl.tensor, sorts: tl.tensor, stats: tl.tensor,
    tops: tl.tensor, chunk_list: tl.tensor, buffer: tl.tensor, out: tl.tensor, size: tl.tensor, words: tl.tensor,
    blocks: tl.tensor, chunks: tl.tensor, look: tl.tensor, capacity: tl.tensor, stat_count: tl.constexpr,
    padded: tl.constexpr, columns: tl.constexpr, chunk: tl.constexpr, max_chunks: tl.constexpr, sort_size: tl.constexpr,
) -> None:  # fmt: skip
    """Choose by top-k and top-p. Grid: (rows,). `buffer` has space for `capacity` + `sort_size` keys per row."""
    choice = tl.load(sorts + tl.program_id(0))
    chunk_list += tl.program_id(0) * max_chunks
    buffer += tl.program_id(0).to(tl.int64) * (capacity + sort_size)
    block_indices = tl.arange(0, padded)
    block_stats = stats + (choice * blocks + block_indices) * stat_count
    greatest = tl.load(block_stats + 0, mask=block_indices < blocks, other=-float("inf"))
    highest = tl.max(greatest, 0)
    scale, floor = tl.load(scales + choice), tl.log(tl.load(min_ps + choice))
    sums = tl.load(block_stats + 2, mask=block_indices < blocks, other=0.0).to(tl.float64)
    has_tokens = greatest > -float("inf")
    factors = tl.exp(tl.where(has_tokens, greatest - highest, 0.0) * scale).to(tl.float64)
    sums = tl.where(has_tokens, sums * factors, 0.0)

    index = tl.arange(0, max_chunks)
    chunk_max = tl.load(tops + choice * chunks + index, mask=index < chunks, other=-float("inf"))
    low, listed_count = _list_chunks(_compute_keys((chunk_max - highest) * scale, floor), chunk_list, look)
    is_lowest = low == _LOWEST_KEY
    tl.debug_barrier()
    slot, row = tl.load(slots + choice), logits + tl.load(rows + choice).to(tl.int64) * stride
    work += slot.to(tl.int64) * work_stride
    mask, ramp_mask, ramp = tl.load(allowed + choice), tl.load(ramped + choice), tl.load(ramps + choice)
    n_stored, n_equal = tl.full((), 0, tl.int32), tl.full((), 0, tl.int32)
    for begin in range(0, listed_count * chunk, _BLOCK):
        positions = begin + tl.arange(0, _BLOCK)
        is_valid = positions < listed_count * chunk
        offsets = tl.load(chunk_list + positions // chunk, mask=is_valid, other=0) * chunk + positions % chunk
        is_inside = is_valid & (offsets < size)
        y = changed_logits(row, work, slot, masks, mask, ramp_mask, ramp, words, offsets, is_inside)
        keys = _compute_keys((y - highest) * scale, floor)
        packed = (keys.to(tl.int64) << 32) | (offsets ^ _LAST_ID).to(tl.int64)
        n_stored, n_equal = _store_some(buffer, capacity, packed, keys, is_inside, low, look, n_stored, n_equal)
    n_stored = tl.minimum(n_stored, capacity)
    tl.debug_barrier()
    first = tl.full((), 0, tl.int32)
    if n_stored > sort_size:
        low, needed_count = _raise_threshold(buffer, n_stored, low, look, sort_size)
        n_unfiltered, first, n_stored, n_equal = n_stored, capacity, tl.full((), 0, tl.int32), tl.full((), 0, tl.int32)
        for begin in range(0, n_unfiltered, _BLOCK):
            offsets = begin + tl.arange(0, _BLOCK)
            packed = tl.load(buffer + offsets, mask=offsets < n_unfiltered, other=0)
            keys, is_stored, target = (packed >> 32).to(tl.int32), offsets < n_unfiltered, buffer + capacity
            n_stored, n_equal = _store_some(
                target, sort_size, packed, keys, is_stored, low, needed_count, n_stored, n_equal
            )
        tl.debug_barrier()
    positions = tl.arange(0, sort_size)
    packed = tl.load(buffer + first + positions, mask=positions < n_stored, other=-(2**63))
    packed = tl.sort(packed, descending=True)
    is_complete = is_lowest & (n_stored <= look) & (first == 0)
    token, is_short = _draw(
        packed, positions < tl.minimum(n_stored, look), tl.load(top_ks + choice), tl.load(top_ps + choice),
        tl.load(uniform + choice), tl.sum(sums, 0), is_complete,
    )  # fmt: skip
    token = tl.minimum(tl.maximum(token, 0), size - 1)  # a valid id even if no token can be chosen
    logit = tl.load(row + token).to(tl.float32)
    changed_logit = changed_logits(row, work, slot, masks, mask, ramp_mask, ramp, words, token, token < size)
    out_row = out + choice * columns
    tl.store(out_row + 0, token.to(tl.float64))
    tl.store(out_row + 5, tl.where(tl.load(raw + choice) > 0, logit, changed_logit).to(tl.float64))
    tl.store(out_row + 8, (is_short & (look < size)).to(tl.float64))
    tl.store(out_row + 9, logit.to(tl.float64))
