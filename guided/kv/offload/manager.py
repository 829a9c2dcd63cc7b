"""The blocks of each sequence, on the device and on the CPU.

Device blocks, if there are any, lie outside the ring, and their contents are never moved. They are allocated first, so
short sequences never leave the device. The length of a sequence alone determines which blocks are full; a separate
list, filled during prefill, would miss the blocks that decoding fills.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from guided.kv.cache import Lease
from guided.kv.offload.copy_engine import Block
from guided.kv.offload.ring import RingBuffer
from guided.kv.offload.slots import SlotTable

__all__ = ["HybridKVCacheManager", "Table"]


@dataclass(eq=False)
class Table(Lease):
    """A sequence's blocks, in order. Forks may share the last one until it is written."""

    blocks: list[Block] = field(default_factory=list)


class HybridKVCacheManager:
    """`device_blocks` blocks in the slots after the ring, and `cpu_blocks` blocks on the CPU."""

    def __init__(
        self, slots: SlotTable, ring: RingBuffer, block_size: int, device_blocks: int, cpu_blocks: int
    ) -> None:
        self._slots, self._ring, self.block_size = slots, ring, block_size
        self.blocks = device_blocks + cpu_blocks
        self._device = [Block(ring.slots + i, on_device=True) for i in reversed(range(device_blocks))]
        self._cpu = [Block(i, on_device=False) for i in reversed(range(cpu_blocks))]

    @property
    def free_count(self) -> int:
        """The number of unused blocks."""
        return len(self._device) + len(self._cpu)

    def allocate(self) -> Block:
        """A device block, or a CPU block if no device block is free."""
        if not self._device:
            return self.allocate_cpu_only()
        return self.use(self._device.pop())

    def allocate_cpu_only(self) -> Block:
        """A CPU block."""
        if not self._cpu:
            raise MemoryError("no block is free")
        return self.use(self._cpu.pop())

    def use(self, block: Block) -> Block:
        """Increment the block's reference count."""
        block.user_count += 1
        return block

    def release(self, block: Block) -> None:
        """Decrement the block's reference count; free the block at zero."""
        block.user_count -= 1
        if block.user_count == 0:
            self._slots.forget(block)
            (self._device if block.on_device else self._cpu).append(block)

    def make_exclusive(self, block: Block, stop: int) -> Block:
        """Replace a shared block, for one sequence, with a copy of its first `stop` positions."""
        new = self.allocate()
        self._slots.copy(block, new, stop)
        self.release(block)
        return new

    def get_all_cpu_blocks(self, table: Table) -> list[int]:
        """The numbers of a sequence's CPU blocks, in order."""
        return [block.number for block in table.blocks if not block.on_device]

    def get_prefilled_blocks(self, table: Table) -> list[Block]:
        """The full blocks, in order. Later positions attend to every slot in them."""
        return table.blocks[: table.length // self.block_size]

    def get_prefilled_cpu_blocks(self, table: Table) -> list[int]:
        """The numbers of the full CPU blocks, which must be loaded for any new position."""
        return [block.number for block in self.get_prefilled_blocks(table) if not block.on_device]

    def get_write_slot_for_chunked_offload(self, table: Table) -> int:
        """The slot for a decoding step's tokens: the decode slot, or the block itself if it stays on the device."""
        block = table.blocks[table.length // self.block_size]
        return block.number if block.on_device else self._ring.decode_slot

    def may_offload(self, table: Table) -> None:
        """Start to copy the last written block to the CPU, if it is full."""
        if table.length and table.length % self.block_size == 0:
            self._slots.flush(table.blocks[table.length // self.block_size - 1])
