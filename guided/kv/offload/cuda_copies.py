"""Copies for a CUDA device, with pinned memory, events, and a stream for each direction beside the compute stream.

There is an event for each slot and layer in each direction, so a layer waits only for its own data. Kernels that were
launched before a load may still read or write the load's target, so the load stream waits for them.

Unit tests simulate streams on a CPU; `make gpu` runs the copies on a device.
"""

from __future__ import annotations

import torch

from guided.kv.cache import CacheShape
from guided.kv.offload.copy_engine import Block, SlotStore

__all__ = ["CudaCopies"]


class CudaCopies(SlotStore):
    """See the module docstring and `CopyEngine`."""

    def __init__(self, shape: CacheShape, slots: int, blocks: int, block_size: int) -> None:
        super().__init__(shape, slots, blocks, block_size)
        self._device = shape.device
        self._load_stream, self._offload_stream = _new_stream(shape.device), _new_stream(shape.device)
        self.ring_slot_ready = _new_events(slots, shape.layers)
        self.ring_slot_offload_done = _new_events(slots, shape.layers)

    def load_to_slot_layer(self, slot: int, layer: int, block: int, stop: int) -> None:
        """See `CopyEngine`."""
        self._load_stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._load_stream):
            self.copy_to_device(slot, layer, block, stop)
        self.ring_slot_ready[slot][layer].record(self._load_stream)

    def wait_slot_layer(self, slot: int, layer: int) -> None:
        """See `CopyEngine`."""
        torch.cuda.current_stream(self._device).wait_event(self.ring_slot_ready[slot][layer])

    def offload_slot_to_cpu(self, slot: int, block: int, rows: range, layer: int | None = None) -> None:
        """See `CopyEngine`."""
        self._offload_stream.wait_stream(torch.cuda.current_stream(self._device))
        for layer_index in range(self.layers) if layer is None else [layer]:
            with torch.cuda.stream(self._offload_stream):
                self.copy_to_cpu(slot, layer_index, block, rows)
            self.ring_slot_offload_done[slot][layer_index].record(self._offload_stream)

    def wait_offload_layer(self, slot: int, layer: int) -> None:
        """See `CopyEngine`."""
        event = self.ring_slot_offload_done[slot][layer]
        torch.cuda.current_stream(self._device).wait_event(event)
        self._load_stream.wait_event(event)

    def copy_block(self, source: Block, target: Block, stop: int) -> None:
        """See `CopyEngine`. Synchronizes the device, since the CPU itself may access the block. Calls are rare."""
        torch.cuda.synchronize(self._device)
        super().copy_block(source, target, stop)
        torch.cuda.synchronize(self._device)


def _new_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def _new_events(slots: int, layers: int) -> list[list[torch.cuda.Event]]:
    return [[torch.cuda.Event() for _ in range(layers)] for _ in range(slots)]  # type: ignore[no-untyped-call]
