"""Allocates the blocks of sequences on the device and on the CPU.

Device blocks, if there are any, lie outside the ring, and their contents are never moved. They are allocated first, so
short sequences may stay on the device. Which blocks of a sequence are full follows from its length alone, since prefill
and decoding both fill them in order.

The methods that return ids of CPU blocks show programs what is stored there (S2.16 in docs/requirements.md). The cache
itself does not call them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from guided.kv.cache import Lease
from guided.kv.offload.copy_engine import Block
from guided.kv.offload.ring import RingBuffer
from guided.kv.offload.slots import SlotTable

__all__ = ["BlockTable", "HybridKVCacheManager"]


@dataclass(eq=False)
class BlockTable(Lease):
    """A sequence's blocks in order. Forks may share the last block until one of them writes it."""

    blocks: list[Block] = field(default_factory=list)


class HybridKVCacheManager:
    """`device_blocks` blocks in the slots after the ring, and `cpu_blocks` blocks on the CPU."""

    def __init__(
        self, slots: SlotTable, ring: RingBuffer, block_size: int, device_blocks: int, cpu_blocks: int
    ) -> None:
        self._slots, self._ring, self.block_size = slots, ring, block_size
        self.block_count = device_blocks + cpu_blocks
        self._free_device_blocks = [Block(ring.slots + i, on_device=True) for i in reversed(range(device_blocks))]
        self._free_cpu_blocks = [Block(i, on_device=False) for i in reversed(range(cpu_blocks))]

    @property
    def free_count(self) -> int:
        """The number of unused blocks."""
        return len(self._free_device_blocks) + len(self._free_cpu_blocks)

    def allocate(self) -> Block:
        """Allocate a device block, or a CPU block if no device block is free."""
        if not self._free_device_blocks:
            return self.allocate_cpu_only()
        return self.retain(self._free_device_blocks.pop())

    def allocate_cpu_only(self) -> Block:
        """Allocate a CPU block."""
        if not self._free_cpu_blocks:
            raise MemoryError("no block is free")
        return self.retain(self._free_cpu_blocks.pop())

    def retain(self, block: Block) -> Block:
        """Increment the block's reference count."""
        block.reference_count += 1
        return block

    def release(self, block: Block) -> None:
        """Decrement the block's reference count; free the block at zero."""
        block.reference_count -= 1
        if block.reference_count == 0:
            self._slots.forget(block)
            (self._free_device_blocks if block.on_device else self._free_cpu_blocks).append(block)

    def make_exclusive(self, block: Block, stop: int) -> Block:
        """Return a copy of the first `stop` positions of a shared block, and release the shared block."""
        new = self.allocate()
        self._slots.copy(block, new, stop)
        self.release(block)
        return new

    def get_cpu_block_ids(self, table: BlockTable) -> list[int]:
        """The ids of a sequence's CPU blocks, in order."""
        return [block.number for block in table.blocks if not block.on_device]

    def get_full_blocks(self, table: BlockTable) -> list[Block]:
        """The full blocks in order. Later positions attend to every position in them."""
        return table.blocks[: table.length // self.block_size]

    def get_full_cpu_block_ids(self, table: BlockTable) -> list[int]:
        """The ids of the full CPU blocks, which must be loaded for any new position."""
        return [block.number for block in self.get_full_blocks(table) if not block.on_device]

    def get_write_slot_for_chunked_offload(self, table: BlockTable) -> int:
        """The slot for a decoding step's tokens: the decode slot, or the block's own slot if it stays on the device."""
        block = table.blocks[table.length // self.block_size]
        return block.number if block.on_device else self._ring.decode_slot

    def maybe_offload(self, table: BlockTable) -> None:
        """Start copying the last written block to the CPU if it is full."""
        if table.length and table.length % self.block_size == 0:
            self._slots.flush(table.blocks[table.length // self.block_size - 1])
