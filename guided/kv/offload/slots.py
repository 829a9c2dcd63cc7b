"""Tracks the contents of each ring slot in each layer, and the pending copies, in order to wait only when necessary.

In: requests to load, write, read or store. Out: calls of a `CopyEngine`, with the waits that its rules require between
them, each as late as possible. Cost: O(1) per call, and at most one wait per copy.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from guided.kv.offload.copy_engine import Block, CopyEngine
from guided.kv.offload.ring import RingBuffer

__all__ = ["SlotTable"]


@dataclass(eq=False, slots=True)
class _HeldBlock:
    """The block whose first `stop` positions are in a layer's decode slot. `unsaved_rows`: positions not yet on the
    CPU."""

    block: Block
    stop: int
    unsaved_rows: range = range(0)


class SlotTable:
    """The slots of the ring, followed by the slots of blocks that stay on the device. The latter need no tracking."""

    def __init__(self, engine: CopyEngine, layers: int) -> None:
        self.engine = engine
        self._held_blocks: list[_HeldBlock | None] = [None] * layers
        self._pending_loads = set[tuple[int, int]]()  # (slot, layer) of loads that have not been waited for
        self._offloads_by_slot: dict[tuple[int, int], int] = {}  # (slot, layer) -> the block to which it is copied
        self._offloads_by_block: dict[tuple[int, int], int] = {}  # (block, layer) -> the slot that is copied to it

    # ---- slots
    def load(self, slot: int, layer: int, block: Block, stop: int) -> None:
        """Start loading the first `stop` positions of a block into the slot, replacing its contents."""
        self.vacate(slot, layer)
        self._wait_block_written(block.number, layer)
        self.engine.load_to_slot_layer(slot, layer, block.number, stop)
        self._pending_loads.add((slot, layer))

    def read(self, slots: range, layer: int, stop: int) -> tuple[Tensor, Tensor]:
        """Wait for the loads into these slots, then return their contents."""
        for slot in slots:
            self._wait_loaded(slot, layer)
        return self.engine.read(slots, layer, stop)

    def write(self, slot: int, layer: int, start: int, k: Tensor, v: Tensor) -> None:
        """Write new positions to a slot after its pending copies."""
        self._wait_loaded(slot, layer)
        self._wait_slot_copied(slot, layer)
        self.engine.write(slot, layer, start, k, v)

    def vacate(self, slot: int, layer: int) -> None:
        """Prepare a slot for other contents. If only this slot has some data, first store the data on the CPU."""
        if slot == RingBuffer.decode_slot:
            self._store_held(layer)
            self._held_blocks[layer] = None
        self._wait_loaded(slot, layer)
        self._wait_slot_copied(slot, layer)

    def store(self, slot: int, layer: int, block: Block, rows: range) -> None:
        """Start copying positions of a slot to their block."""
        self._wait_loaded(slot, layer)
        self._wait_slot_copied(slot, layer)
        self._wait_block_written(block.number, layer)
        self.engine.offload_slot_to_cpu(slot, block.number, rows, layer)
        self._offloads_by_slot[slot, layer] = block.number
        self._offloads_by_block[block.number, layer] = slot

    # ---- the decode slot
    def hold(self, layer: int, block: Block, stop: int) -> None:
        """Ensure that the decode slot holds the first `stop` positions of a block."""
        held_block = self._held_blocks[layer]
        # A fork may use only the beginning of the block.
        if held_block is not None and held_block.block is block and held_block.stop >= stop:
            return
        if stop:
            self.load(RingBuffer.decode_slot, layer, block, stop)
        else:
            self.vacate(RingBuffer.decode_slot, layer)
        self._held_blocks[layer] = _HeldBlock(block, stop)

    def write_held(self, layer: int, start: int, k: Tensor, v: Tensor) -> None:
        """Write new positions to the decode slot. They stay there until the block is full or the slot is needed."""
        held_block = self._held_blocks[layer]
        assert held_block is not None
        self.write(RingBuffer.decode_slot, layer, start, k, v)
        first = min(start, held_block.unsaved_rows.start) if held_block.unsaved_rows else start
        held_block.unsaved_rows = range(first, start + len(k))
        held_block.stop = start + len(k)

    def flush(self, block: Block) -> None:
        """Start storing, in all layers, the part of a block that only the decode slot has."""
        for layer, held_block in enumerate(self._held_blocks):
            if held_block is not None and held_block.block is block:
                self._store_held(layer)

    def forget(self, block: Block) -> None:
        """Drop the contents of an unused block."""
        self._held_blocks = [
            None if held_block is not None and held_block.block is block else held_block
            for held_block in self._held_blocks
        ]

    # ---- whole blocks
    def copy(self, source: Block, target: Block, stop: int) -> None:
        """Copy the first `stop` positions of a block."""
        self.wait_unused_loads()
        self.flush(source)
        for block in (source, target):
            if not block.on_device:
                for layer in range(len(self._held_blocks)):
                    self._wait_block_written(block.number, layer)
        self.engine.copy_block(source, target, stop)

    def wait_unused_loads(self) -> None:
        """Wait for loads that a failed forward pass started but did not use."""
        for slot, layer in list(self._pending_loads):
            self._wait_loaded(slot, layer)

    # ---- waits
    def _wait_loaded(self, slot: int, layer: int) -> None:
        if (slot, layer) in self._pending_loads:
            self._pending_loads.discard((slot, layer))
            self.engine.wait_slot_layer(slot, layer)

    def _wait_slot_copied(self, slot: int, layer: int) -> None:
        if (block := self._offloads_by_slot.pop((slot, layer), None)) is not None:
            del self._offloads_by_block[block, layer]
            self.engine.wait_offload_layer(slot, layer)

    def _wait_block_written(self, block: int, layer: int) -> None:
        if (slot := self._offloads_by_block.get((block, layer))) is not None:
            self._wait_slot_copied(slot, layer)

    def _store_held(self, layer: int) -> None:
        held_block = self._held_blocks[layer]
        if held_block is not None and held_block.unsaved_rows:
            self.store(RingBuffer.decode_slot, layer, held_block.block, held_block.unsaved_rows)
            held_block.unsaved_rows = range(0)
