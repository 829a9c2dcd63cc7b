"""Copies blocks between the CPU and the slots of the device, and defines the required order of these copies.

A copy starts, runs asynchronously, and must be waited for, layer by layer. Rules for the caller:

- wait with `wait_slot_layer` before you read or overwrite loaded data;
- while a slot is copied to a block, wait with `wait_offload_layer` before you overwrite the slot, load the block, or
  copy to the block again.

There are no other rules: the engine ensures that a load overwrites a slot only after computations with the slot have
ended. `CheckedCopies` checks that callers follow these rules; `CudaCopies` (cuda_copies.py) uses streams and events.

Layout, on both sides: (layers, blocks, block_size, kv_heads, head_dim), so a layer's part of a block is
contiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

from guided.kv.cache import CacheShape

__all__ = ["Block", "CheckedCopies", "CopyEngine", "CopyOrderError", "SlotStore"]


@dataclass(eq=False, slots=True)
class Block:
    """Space for a block of positions: a device slot outside the ring, or a CPU block."""

    number: int
    on_device: bool
    reference_count: int = 0


class CopyEngine(Protocol):
    """Owns the memory on both sides. `rows` are positions in a block."""

    def write(self, slot: int, layer: int, start: int, k: Tensor, v: Tensor) -> None:
        """Write new keys and values to a slot."""

    def read(self, slots: range, layer: int, stop: int) -> tuple[Tensor, Tensor]:
        """Views of the first `stop` positions in consecutive slots: (positions, kv_heads, head_dim)."""

    def load_to_slot_layer(self, slot: int, layer: int, block: int, stop: int) -> None:
        """Start copying the first `stop` positions of a CPU block to a slot."""

    def wait_slot_layer(self, slot: int, layer: int) -> None:
        """Make later computations wait for the load."""

    def offload_slot_to_cpu(self, slot: int, block: int, rows: range, layer: int | None = None) -> None:
        """Start copying positions of a slot to a CPU block, in one layer or in all layers."""

    def wait_offload_layer(self, slot: int, layer: int) -> None:
        """Make later computations and loads wait for the copy from the slot."""

    def copy_block(self, source: Block, target: Block, stop: int) -> None:
        """Copy the first `stop` positions of a block in all layers. The copy is complete on return."""


class SlotStore:
    """The tensors, and operations on them that do not check the order of copies."""

    def __init__(self, shape: CacheShape, slots: int, blocks: int, block_size: int) -> None:
        size, pinned = (block_size, shape.kv_heads, shape.head_dim), shape.device.type == "cuda"
        on_device, on_cpu = (shape.layers, slots, *size), (shape.layers, blocks, *size)
        self.layers = shape.layers
        self.k_device = torch.empty(on_device, dtype=shape.dtype, device=shape.device)
        self.v_device = torch.empty_like(self.k_device)
        self.k_cpu = torch.empty(on_cpu, dtype=shape.dtype, pin_memory=pinned)
        self.v_cpu = torch.empty(on_cpu, dtype=shape.dtype, pin_memory=pinned)

    def write(self, slot: int, layer: int, start: int, k: Tensor, v: Tensor) -> None:
        """See `CopyEngine`."""
        self.k_device[layer, slot, start : start + len(k)] = k
        self.v_device[layer, slot, start : start + len(v)] = v

    def read(self, slots: range, layer: int, stop: int) -> tuple[Tensor, Tensor]:
        """See `CopyEngine`."""
        span = slice(slots.start, slots.stop)
        return self.k_device[layer, span].flatten(0, 1)[:stop], self.v_device[layer, span].flatten(0, 1)[:stop]

    def copy_block(self, source: Block, target: Block, stop: int) -> None:
        """See `CopyEngine`."""
        for device, cpu in ((self.k_device, self.k_cpu), (self.v_device, self.v_cpu)):
            old, new = (device if block.on_device else cpu for block in (source, target))
            new[:, target.number, :stop].copy_(old[:, source.number, :stop])

    def copy_to_device(self, slot: int, layer: int, block: int, stop: int) -> None:
        """Copy to the device, possibly asynchronously."""
        self.k_device[layer, slot, :stop].copy_(self.k_cpu[layer, block, :stop], non_blocking=True)
        self.v_device[layer, slot, :stop].copy_(self.v_cpu[layer, block, :stop], non_blocking=True)

    def copy_to_cpu(self, slot: int, layer: int, block: int, rows: range) -> None:
        """Copy to the CPU, possibly asynchronously."""
        span = slice(rows.start, rows.stop)
        self.k_cpu[layer, block, span].copy_(self.k_device[layer, slot, span], non_blocking=True)
        self.v_cpu[layer, block, span].copy_(self.v_device[layer, slot, span], non_blocking=True)


_Copies: TypeAlias = dict[tuple[int, int], tuple[int, Callable[[], None]]]  # (slot, layer) -> block, pending copy


class CopyOrderError(RuntimeError):
    """A wait is missing, so the operation would race with a copy."""


class CheckedCopies(SlotStore):
    """Copies for tests and for machines without an accelerator, where the device is the CPU itself.

    A copy is executed as late as possible: when the caller waits for it. When it starts, its target is filled with NaN;
    in packed integer rows all bits are set, so that their scale is NaN. A violation of the rules raises
    `CopyOrderError`. `executes_at_once` is called for each copy. If it returns True, the copy is executed when it
    starts. An accelerator may do either.
    """

    def __init__(
        self,
        shape: CacheShape,
        slots: int,
        blocks: int,
        block_size: int,
        executes_at_once: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(shape, slots, blocks, block_size)
        self._poison = torch.nan if shape.dtype.is_floating_point else -1
        for tensor in (self.k_device, self.v_device, self.k_cpu, self.v_cpu):
            tensor.fill_(self._poison)
        self._executes_at_once = executes_at_once
        self._loads: _Copies = {}
        self._offloads: _Copies = {}

    def write(self, slot: int, layer: int, start: int, k: Tensor, v: Tensor) -> None:
        """See `CopyEngine`."""
        self._check_slot_is_idle(slot, layer, "written")
        super().write(slot, layer, start, k, v)

    def read(self, slots: range, layer: int, stop: int) -> tuple[Tensor, Tensor]:
        """See `CopyEngine`."""
        for slot in slots:
            _raise_if((slot, layer) in self._loads, f"slot {slot} is read in layer {layer} while it is loaded")
        return super().read(slots, layer, stop)

    def load_to_slot_layer(self, slot: int, layer: int, block: int, stop: int) -> None:
        """See `CopyEngine`."""
        self._check_slot_is_idle(slot, layer, "loaded")
        self._check_block_is_not_written(block, [layer], "loaded")
        self.k_device[layer, slot] = self.v_device[layer, slot] = self._poison
        self._start_copy(self._loads, slot, layer, block, partial(self.copy_to_device, slot, layer, block, stop))

    def wait_slot_layer(self, slot: int, layer: int) -> None:
        """See `CopyEngine`."""
        self._loads.pop((slot, layer), _NO_COPY)[1]()

    def offload_slot_to_cpu(self, slot: int, block: int, rows: range, layer: int | None = None) -> None:
        """See `CopyEngine`."""
        for layer_index in range(self.layers) if layer is None else [layer]:
            self._check_slot_is_idle(slot, layer_index, "copied")
            self._check_block_is_not_written(block, [layer_index], "copied to")
            self._check_block_is_not_read(block, [layer_index])
            self.k_cpu[layer_index, block, rows.start : rows.stop] = self._poison
            self.v_cpu[layer_index, block, rows.start : rows.stop] = self._poison
            self._start_copy(
                self._offloads, slot, layer_index, block, partial(self.copy_to_cpu, slot, layer_index, block, rows)
            )

    def wait_offload_layer(self, slot: int, layer: int) -> None:
        """See `CopyEngine`."""
        self._offloads.pop((slot, layer), _NO_COPY)[1]()

    def copy_block(self, source: Block, target: Block, stop: int) -> None:
        """See `CopyEngine`."""
        for block in (source, target):
            if not block.on_device:
                self._check_block_is_not_written(block.number, range(self.layers), "copied")
        if not target.on_device:
            self._check_block_is_not_read(target.number, range(self.layers))
        super().copy_block(source, target, stop)

    # ---- the rules
    def _start_copy(self, copies: _Copies, slot: int, layer: int, block: int, copy: Callable[[], None]) -> None:
        if self._executes_at_once():
            copy()
            copy = _do_nothing
        copies[slot, layer] = block, copy

    def _check_slot_is_idle(self, slot: int, layer: int, operation: str) -> None:
        for copies, pending in ((self._loads, "loaded"), (self._offloads, "copied from")):
            _raise_if((slot, layer) in copies, f"slot {slot} is {operation} in layer {layer} while it is {pending}")

    def _check_block_is_not_written(self, block: int, layers: Iterable[int], operation: str) -> None:
        blocks_in_use = {(copy[0], layer) for (_, layer), copy in self._offloads.items()}
        for layer in layers:
            _raise_if(
                (block, layer) in blocks_in_use, f"block {block} is {operation} in layer {layer} while it is copied to"
            )

    def _check_block_is_not_read(self, block: int, layers: Iterable[int]) -> None:
        blocks_in_use = {(copy[0], layer) for (_, layer), copy in self._loads.items()}
        for layer in layers:
            _raise_if(
                (block, layer) in blocks_in_use, f"block {block} is overwritten in layer {layer} while it is loaded"
            )


def _do_nothing() -> None:
    """The pending part of a copy that is already complete."""


_NO_COPY = -1, _do_nothing


def _raise_if(is_violated: bool, message: str) -> None:
    if is_violated:
        raise CopyOrderError(message)
