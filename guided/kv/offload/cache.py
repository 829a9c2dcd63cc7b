"""A cache in CPU memory, for contexts that exceed the memory of the compute device.

A sequence's blocks are on the CPU, except up to `device_blocks` blocks of all sequences together (manager.py). A
forward pass copies the blocks on the CPU to the device one after the other, through a ring of N slots (ring.py), and
attends to each block while the next blocks are being copied. This module determines the segments and their order
(`segments`). attention/segments.py attends to them and merges the results.

A step with fewer tokens than a block, all within one block, is a decoding step: the growing block stays in slot 0 from
step to step, and is copied to the CPU when it is full. A step with at least a block of tokens, or with tokens in
several blocks, is a prefill step: block i of the sequence is written to slot i mod N, and is copied to the CPU after
attention to it, layer by layer. Loads for the next layer begin before the current layer has ended.

Device memory: N + `device_blocks` blocks, independent of the number and lengths of sequences. Cost of a step: the keys
and values on the CPU cross the bus once. Within a layer, sequences use the ring one after the other. If several
sequences decode at the same time, they take turns in slot 0, so each sequence also stores its new positions and loads
its last block, in each layer and step. Prefixes are not reused; forks share blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

import torch
from torch import Tensor

from guided.keywords import check_integer
from guided.kv.cache import CacheShape, KVView, Lease, Segment, SegmentedPlan, check_cache
from guided.kv.offload.copy_engine import Block, CheckedCopies, CopyEngine
from guided.kv.offload.cuda_copies import CudaCopies
from guided.kv.offload.manager import BlockTable, HybridKVCacheManager
from guided.kv.offload.ring import Load, RingBuffer, Turn
from guided.kv.offload.slots import SlotTable

__all__ = ["OffloadCache"]


class OffloadCache:
    """`blocks` blocks on the CPU, `ring_slots` slots on the device, and `device_blocks` blocks that stay on the
    device."""

    def __init__(
        self,
        shape: CacheShape,
        blocks: int,
        ring_slots: int,
        block_size: int = 256,
        *,
        device_blocks: int = 0,
        copies: CopyEngine | None = None,
    ) -> None:
        check_cache(shape, blocks=blocks, ring_slots=ring_slots, block_size=block_size)
        check_integer("device_blocks", device_blocks, minimum=0)
        self.block_size, self.layers, self.ring = block_size, shape.layers, RingBuffer(ring_slots)
        self.device = shape.device
        if copies is None:
            engine = CudaCopies if shape.device.type == "cuda" else CheckedCopies
            copies = engine(shape, ring_slots + device_blocks, blocks, block_size)
        self.slots = SlotTable(copies, shape.layers)
        self.manager = HybridKVCacheManager(self.slots, self.ring, block_size, device_blocks, blocks)

    @property
    def capacity(self) -> int:
        """The total number of positions."""
        return self.manager.block_count * self.block_size

    @property
    def available(self) -> int:
        """The number of positions in unused blocks."""
        return self.manager.free_count * self.block_size

    def touch(self) -> None:
        """No effect: on CUDA the CPU memory is pinned, so it is committed on allocation."""

    def open(self, tokens: Sequence[int], *, keep: int = 1, salt: str = "") -> Lease:
        """Open an empty sequence."""
        return BlockTable(salt=salt)

    def reserve(self, lease: Lease, new: int) -> bool:
        """Allocate the missing blocks. Copy the block that is written next if other sequences share it."""
        assert isinstance(lease, BlockTable)
        if new == 0:
            return True
        missing_count = -(-(lease.length + new) // self.block_size) - len(lease.blocks)
        index, stop = divmod(lease.length, self.block_size)
        is_shared = index < len(lease.blocks) and lease.blocks[index].reference_count > 1
        if max(missing_count, 0) + is_shared > self.manager.free_count:
            return False
        if is_shared:
            lease.blocks[index] = self.manager.make_exclusive(lease.blocks[index], stop)
        lease.blocks += (self.manager.allocate() for _ in range(missing_count))
        return True

    def fork(self, lease: Lease) -> Lease:
        """Share all non-empty blocks."""
        assert isinstance(lease, BlockTable)
        blocks = lease.blocks[: -(-lease.length // self.block_size)]
        return BlockTable(list(lease.tokens), lease.salt, blocks=[self.manager.retain(block) for block in blocks])

    def truncate(self, lease: Lease, length: int) -> None:
        """Forget the positions from `length` on, and release their blocks."""
        assert isinstance(lease, BlockTable)
        lease.forget(length)
        self._release_after(lease, -(-length // self.block_size))

    def plan(self, leases: Sequence[Lease], counts: Sequence[int]) -> SegmentedPlan:
        """A plan that yields segments, one sequence after the other."""
        return _OffloadPlan(self, [lease for lease in leases if isinstance(lease, BlockTable)], counts)

    def advance(self, lease: Lease, tokens: Sequence[int]) -> None:
        """Record the tokens of the new positions."""
        assert isinstance(lease, BlockTable)
        lease.tokens += tokens
        self.manager.maybe_offload(lease)

    def close(self, lease: Lease) -> None:
        """Release the blocks."""
        assert isinstance(lease, BlockTable)
        lease.closed, lease.tokens = True, []
        self._release_after(lease, 0)

    def _release_after(self, table: BlockTable, kept_count: int) -> None:
        for block in reversed(table.blocks[kept_count:]):
            self.manager.release(block)
        del table.blocks[kept_count:]


@dataclass(frozen=True, slots=True)
class _Span:
    """New tokens of a sequence that are written to one block: tokens `begin_token` to `end_token` (exclusive), from
    position `start` of the block on.
    """

    block: Block
    slot: int
    start: int
    begin_token: int
    end_token: int

    @property
    def stop(self) -> int:
        return self.start + self.end_token - self.begin_token


@dataclass(frozen=True, slots=True)
class _SequencePlan:
    """The work of a forward pass for one sequence, which is the same in each layer."""

    count: int
    is_decode: bool
    spans: list[_Span]
    resident_slots: list[range]  # slots of full blocks on the device
    loaded_blocks: list[Block]  # full blocks on the CPU
    turns: list[Turn]  # the schedule of the loaded blocks in the ring
    resident_indices: list[int]  # the indices of the resident blocks in the sequence
    loaded_indices: list[int]  # the indices of the loaded blocks in the sequence
    length: int  # the number of positions, including new ones

    @property
    def initial_loads(self) -> int:
        """The number of loads that start before the first call of attention."""
        return sum(1 for _ in takewhile(lambda turn: isinstance(turn, Load), self.turns))


class _OffloadPlan:
    def __init__(self, cache: OffloadCache, tables: Sequence[BlockTable], counts: Sequence[int]) -> None:
        self._layers, self._slots, self._block_size = cache.layers, cache.slots, cache.block_size
        self._device = cache.device
        self._plans = [_make_sequence_plan(cache, table, count) for table, count in zip(tables, counts, strict=True)]
        self._started_load: tuple[int, int] | None = None  # the layer and sequence whose first loads have started
        self._slots.wait_unused_loads()

    @property
    def device(self) -> torch.device:
        """See `SegmentedPlan`."""
        return self._device

    @property
    def lengths(self) -> Sequence[int]:
        """See `SegmentedPlan`."""
        return [plan.length for plan in self._plans]

    def segments(self, layer: int, index: int, k: Tensor, v: Tensor) -> Iterator[Segment]:
        """See `SegmentedPlan`."""
        plan, slots, size, all_queries = self._plans[index], self._slots, self._block_size, slice(0, len(k))
        self._start_loads(layer, index)
        for span in plan.spans[:1]:
            self._write(layer, plan, span, k, v)
        resident_indices = iter(plan.resident_indices)
        for slot_range in plan.resident_slots:
            positions = self._block_positions(islice(resident_indices, len(slot_range)))
            yield Segment(all_queries, self._view_slots(slot_range, layer, len(slot_range) * size), positions)
        for turn in plan.turns[plan.initial_loads :]:
            if isinstance(turn, Load):
                slots.load(turn.slot, layer, plan.loaded_blocks[turn.item], size)
            else:
                positions = self._block_positions(plan.loaded_indices[item] for item in turn.items)
                yield Segment(all_queries, self._view_slots(turn.slots, layer, len(turn.slots) * size), positions)
        if index + 1 == len(self._plans) and layer + 1 < self._layers:
            self._start_loads(layer + 1, 0)
        for number, span in enumerate(plan.spans):
            if number:
                if not span.block.on_device:
                    slots.vacate(span.slot, layer)
                self._write(layer, plan, span, k, v)
            view = self._view_slots(range(span.slot, span.slot + 1), layer, span.stop)
            begin = plan.length - plan.count + span.begin_token - span.start
            positions = [range(begin, begin + span.stop)]
            yield Segment(slice(span.begin_token, span.end_token), view, positions, is_causal=True)
            if span.end_token < plan.count:
                yield Segment(slice(span.end_token, plan.count), view, positions)
            if not (plan.is_decode or span.block.on_device):
                slots.store(span.slot, layer, span.block, range(span.start, span.stop))

    def _view_slots(self, slot_range: range, layer: int, stop: int) -> KVView:
        k, v = self._slots.read(slot_range, layer, stop)
        return KVView(k.unsqueeze(0), v.unsqueeze(0), slice(0, len(k)))

    def _block_positions(self, block_indices: Iterable[int]) -> list[range]:
        return [range(index * self._block_size, (index + 1) * self._block_size) for index in block_indices]

    def _start_loads(self, layer: int, index: int) -> None:
        """Prepare the slot that is written first, and start the first loads."""
        if self._started_load == (layer, index):
            return
        self._started_load = layer, index
        plan, slots = self._plans[index], self._slots
        if not plan.is_decode:
            slots.vacate(RingBuffer.decode_slot, layer)
        for span in plan.spans[:1]:
            if span.block.on_device:
                continue
            if plan.is_decode:
                slots.hold(layer, span.block, span.start)
            elif span.start:
                slots.load(span.slot, layer, span.block, span.start)
            else:
                slots.vacate(span.slot, layer)
        for turn in plan.turns[: plan.initial_loads]:
            assert isinstance(turn, Load)
            slots.load(turn.slot, layer, plan.loaded_blocks[turn.item], self._block_size)

    def _write(self, layer: int, plan: _SequencePlan, span: _Span, k: Tensor, v: Tensor) -> None:
        # An empty write would mark the positions after `start` as unwritten, although a fork may have written them.
        if span.begin_token == span.end_token:
            return
        new = slice(span.begin_token, span.end_token)
        if plan.is_decode and not span.block.on_device:
            self._slots.write_held(layer, span.start, k[new], v[new])
        else:
            self._slots.write(span.slot, layer, span.start, k[new], v[new])


def _make_sequence_plan(cache: OffloadCache, table: BlockTable, count: int) -> _SequencePlan:
    size, ring, manager = cache.block_size, cache.ring, cache.manager
    start, end = table.length, table.length + count
    block_indices = range(start // size, -(-end // size))
    is_decode = len(block_indices) <= 1 and count < size
    spans = []
    for index in block_indices:
        block, begin = table.blocks[index], max(start, index * size)
        slot = block.number if block.on_device else ring.get_write_slot_for_prefill(index)
        if is_decode:
            slot = manager.get_write_slot_for_chunked_offload(table)
        spans.append(_Span(block, slot, begin - index * size, begin - start, min(end, (index + 1) * size) - start))
    full_blocks = manager.get_full_blocks(table)
    resident_indices = [i for i, block in enumerate(full_blocks) if block.on_device]
    loaded_indices = [i for i, block in enumerate(full_blocks) if not block.on_device]
    loaded_blocks = [full_blocks[i] for i in loaded_indices]
    write_slot = ring.get_write_slot_for_prefill(start // size)
    turns = ring.decode(len(loaded_blocks)) if is_decode else ring.prefill(len(loaded_blocks), write_slot)
    return _SequencePlan(
        count,
        is_decode,
        spans,
        _consecutive_ranges([full_blocks[i].number for i in resident_indices]),
        loaded_blocks,
        turns,
        resident_indices,
        loaded_indices,
        end,
    )


def _consecutive_ranges(numbers: Sequence[int]) -> list[range]:
    """The ranges of consecutive numbers, in order."""
    ends = [i for i, n in enumerate(numbers, 1) if i == len(numbers) or numbers[i] != n + 1]
    return [range(numbers[a], numbers[b - 1] + 1) for a, b in zip([0, *ends], ends, strict=False)]
