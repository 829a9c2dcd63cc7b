"""CUDA graphs for decoding: one launch for a forward pass of one token per sequence, instead of one per kernel.

In: tokens, positions, and the `PagedStep` of a pass in which each sequence reads one token. Out: hidden states. A graph
is captured once for each of a few batch sizes, over buffers with fixed addresses. A step is copied into these buffers,
padded to the next larger size, and replayed. Padding rows have slot -1 and length 0, so they store and read nothing.
Kernels may return anything for them: models compute each row by itself, and `run` returns the other rows. Logits, masks
and sampling are not part of the graph.

The capture function is an argument: `CudaCapture`, or in tests a CPU function with the same signature. Cost:
memory for the activations of the largest batch (all graphs share it), and two forward passes when a size first occurs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor

from guided.attention.paged_step import PagedAttention, PagedStep
from guided.models.model import Model

__all__ = ["Capture", "CudaCapture", "DecodeGraphs"]

Capture: TypeAlias = Callable[[Callable[[], Tensor]], Callable[[], Tensor]]
"""Takes a function without arguments that launches kernels on fixed memory, and returns a function that launches them
again and always returns the same tensor."""

_SIZES: Final = (1, 2, 4, 8, *range(16, 513, 16))


class DecodeGraphs:
    """The graphs of a model over the paged cache that `attention` reads, with the same attention kernel."""

    def __init__(self, model: Model, attention: PagedAttention, capture: Capture) -> None:
        self._model, self._attention, self._capture = model, attention, capture
        k = attention.k
        rows, blocks = _SIZES[-1], -(-model.config.context // k.shape[2])
        self._tokens = torch.zeros(rows, dtype=torch.int64, device=k.device)
        self._positions = torch.zeros_like(self._tokens)
        self._slots = torch.full_like(self._tokens, -1)
        self._tables = torch.zeros(rows, blocks, dtype=torch.int32, device=k.device)
        self._lengths = torch.zeros(rows, dtype=torch.int32, device=k.device)
        self._graphs: dict[int, Callable[[], Tensor]] = {}

    def fits(self, step: PagedStep) -> bool:
        """Whether a graph can run this step: each sequence reads one token, and there are not too many sequences."""
        rows, blocks = step.tables.shape
        return step.spans is None and rows <= len(self._tables) and blocks <= self._tables.shape[1]

    def run(self, tokens: Tensor, positions: Tensor, step: PagedStep) -> Tensor:
        """Hidden states (n, dim) of a step that fits; valid until the next call."""
        n, blocks = step.tables.shape
        size = next(size for size in _SIZES if size >= n)
        self._slots[:size].fill_(-1)
        self._lengths[:size].zero_()
        if size not in self._graphs:  # all rows are padding now, so the captured passes store nothing
            self._graphs[size] = self._capture(lambda: self._forward(size))
        self._tokens[:n] = tokens
        self._positions[:n] = positions
        self._slots[:n] = step.slots
        self._tables[:n, :blocks] = step.tables
        self._lengths[:n] = step.lengths
        return self._graphs[size]()[:n]

    def _forward(self, size: int) -> Tensor:
        step = PagedStep(self._slots[:size], self._tables[:size], self._lengths[:size])
        attend = replace(self._attention, step=step)
        return self._model.forward(self._tokens[:size], self._positions[:size], attend)


class CudaCapture:
    """`Capture` on the device of the model. The graphs share one memory pool, since no two of them run at once."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: Any = None

    def __call__(self, run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Run once on a side stream to compile kernels and allocate workspaces, then capture."""
        with torch.cuda.device(self._device):
            here, side = torch.cuda.current_stream(), _stream()
            side.wait_stream(here)
            with torch.cuda.stream(side):
                run()
            here.wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):  # others may use CUDA
                out = run()
            self._pool = self._pool or graph.pool()

        def replay() -> Tensor:
            graph.replay()
            return out

        return replay


def _stream() -> torch.cuda.Stream:
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]
