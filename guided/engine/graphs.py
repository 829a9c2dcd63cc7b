"""CUDA graphs for decoding: a forward pass of one token of each sequence is launched at once, not kernel by kernel.

In: tokens, positions, and the `FlashAttention` of a step of single tokens. Out: hidden states. A graph is captured once
for each of some batch sizes, over buffers that stay where they are; a step is copied into them, padded to the next of
these sizes, and replayed. Rows of padding have slot -1 and length 0: they store nothing and read nothing. Logits, masks
and choices are not part of it.

What captures is handed in: `CudaCapture`, or in tests something of the same signature on the CPU. Cost: memory for the
activations of the largest batch (graphs share it), and two forward passes when a size is first met.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor

from guided.attention.flash import FlashAttention, FlashStep
from guided.models.model import Model

__all__ = ["Capture", "CudaCapture", "DecodeGraphs"]

Capture: TypeAlias = Callable[[Callable[[], Tensor]], Callable[[], Tensor]]
"""Takes a function of no arguments that launches kernels on fixed memory; what it returns does the same again, and
returns the same tensor each time."""

_SIZES: Final = (1, 2, 4, 8, *range(16, 513, 16))


class DecodeGraphs:
    """The graphs of a model over a paged cache; k, v: (layers, blocks, block_size, kv_heads, head_dim)."""

    def __init__(self, model: Model, k: Tensor, v: Tensor, capture: Capture) -> None:
        self._model, self._k, self._v, self._capture = model, k, v, capture
        rows, blocks = _SIZES[-1], -(-model.config.context // k.shape[2])
        self._tokens = torch.zeros(rows, dtype=torch.int64, device=k.device)
        self._positions = torch.zeros_like(self._tokens)
        self._slots = torch.full_like(self._tokens, -1)
        self._tables = torch.zeros(rows, blocks, dtype=torch.int32, device=k.device)
        self._lengths = torch.zeros(rows, dtype=torch.int32, device=k.device)
        self._graphs: dict[int, Callable[[], Tensor]] = {}

    def fits(self, step: FlashStep) -> bool:
        """Whether there is a graph for it: single tokens, not too many."""
        rows, blocks = step.tables.shape
        return step.spans is None and rows <= len(self._tables) and blocks <= self._tables.shape[1]

    def run(self, tokens: Tensor, positions: Tensor, step: FlashStep) -> Tensor:
        """Hidden states (n, dim) of a step that fits; they hold until the next call."""
        n, blocks = step.tables.shape
        size = next(size for size in _SIZES if size >= n)
        self._slots[:size].fill_(-1)
        self._lengths[:size].zero_()
        if size not in self._graphs:  # while all rows are padding: what runs to be captured stores nothing
            self._graphs[size] = self._capture(lambda: self._forward(size))
        self._tokens[:n] = tokens
        self._positions[:n] = positions
        self._slots[:n] = step.slots
        self._tables[:n, :blocks] = step.tables
        self._lengths[:n] = step.lengths
        return self._graphs[size]()[:n]

    def _forward(self, size: int) -> Tensor:
        step = FlashStep(self._slots[:size], self._tables[:size], self._lengths[:size])
        attend = FlashAttention(self._k, self._v, step)
        return self._model.forward(self._tokens[:size], self._positions[:size], attend)


class CudaCapture:
    """`Capture` on the device of the model. Graphs share one pool of memory: they never run side by side."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: Any = None

    def __call__(self, run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Run once on a stream of its own (kernels are compiled and work spaces made), then capture."""
        with torch.cuda.device(self._device):
            here, side = torch.cuda.current_stream(), _stream()
            side.wait_stream(here)
            with torch.cuda.stream(side):
                run()
            here.wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool):
                out = run()
            self._pool = self._pool or graph.pool()

        def replay() -> Tensor:
            graph.replay()
            return out

        return replay


def _stream() -> torch.cuda.Stream:
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]
