"""Schedules the ring: which block each slot holds, and in which order blocks pass through. It only computes slot
numbers; other modules copy.

A slot holds one block of positions on the device, in all layers; each layer's part is used separately. In prefill, the
slots take turns: block i is written to slot i mod N, and the blocks before it are loaded into the N - 1 other slots. A
slot is reloaded right after attention to it, so up to N - 1 loads run at once. In decoding, slot 0 holds the growing
block. The other slots form two halves, which load the blocks before it: one kernel call attends to one half while the
other half is being loaded. A half has (N - 1) // 2 slots, but at least one. With N = 2, both halves are the same slot,
so blocks are loaded, waited for and attended to one by one.

`prefill_depth` and `get_load_slots_for_decode` describe this schedule (S2.10 in docs/requirements.md) for programs that
copy blocks themselves; the cache does not call them.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

__all__ = ["Attend", "Load", "RingBuffer", "Turn"]


class Load(NamedTuple):
    """Start copying an item into a slot."""

    slot: int
    item: int


class Attend(NamedTuple):
    """Wait for the loads into these consecutive slots, then attend to them."""

    slots: range
    items: range


Turn: TypeAlias = Load | Attend


class RingBuffer:
    """`slots` slots, at least two."""

    decode_slot = 0

    def __init__(self, slots: int) -> None:
        if slots < 2:
            raise ValueError(f"a ring of {slots} slots is too small: it needs one to write and one to load")
        self.slots = slots

    @property
    def prefill_depth(self) -> int:
        """The number of concurrent loads in prefill."""
        return self.slots - 1

    @property
    def decode_depth(self) -> int:
        """The number of slots in a half."""
        return max(1, (self.slots - 1) // 2)

    def get_write_slot_for_prefill(self, chunk: int) -> int:
        """The slot to which block number `chunk` of a sequence is written."""
        return chunk % self.slots

    def get_load_slots_for_prefill(self, write_slot: int) -> list[int]:
        """All slots except the one that is written."""
        return [slot for slot in range(self.slots) if slot != write_slot]

    def get_load_slots_for_decode(self) -> list[int]:
        """All slots except the one of the growing block."""
        return list(range(1, self.slots))

    def prefill(self, items: int, write_slot: int) -> list[Turn]:
        """The turns in which `items` blocks pass through the ring while `write_slot` is written."""
        slots = self.get_load_slots_for_prefill(write_slot)
        depth = len(slots)
        turns: list[Turn] = [Load(slot, item) for item, slot in zip(range(items), slots, strict=False)]
        for item in range(items):
            slot = slots[item % depth]
            turns.append(Attend(range(slot, slot + 1), range(item, item + 1)))
            if item + depth < items:
                turns.append(Load(slot, item + depth))
        return turns

    def decode(self, items: int) -> list[Turn]:
        """The turns in which `items` blocks pass through the two halves."""
        half = self.decode_depth
        halves = [range(1, 1 + half), range(1 + half, 1 + 2 * half)] if self.slots > 2 else [range(1, 2)] * 2
        turns, pending = list[Turn](), list[Turn]()
        for half_index, first in enumerate(range(0, items, half)):
            group = range(first, min(first + half, items))
            slots = halves[half_index % 2][: len(group)]
            loads = [Load(slot, item) for slot, item in zip(slots, group, strict=True)]
            turns += [*loads, *pending] if halves[0] != halves[1] else [*pending, *loads]
            pending = [Attend(slots, group)]
        return turns + pending
