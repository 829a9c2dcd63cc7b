"""CUDA graphs for forward passes: one launch for a pass, instead of one per kernel.

In: the `Batch` of a pass over a paged cache. Out: hidden states. A graph is captured once for each of a few sizes, over
tensors with fixed addresses. A batch is packed on the host, padded to the next larger size, sent to these tensors in
one copy, and the graph is replayed. There are two kinds of graphs:

- each sequence has one new token: the kernel for single tokens, as many sequences as the size
- some sequence has more (forced text, a chunk of a prompt): the kernel for chunks. The size counts tokens. The kernel's
  grid depends on the largest number of tokens of a sequence, so there is a graph for up to `_FEW`, and one for more

Padding tokens have slot -1, so nothing is stored for them. Padding sequences have length 0 and no tokens, or, among
single tokens, one token that reads nothing. Kernels may return anything for them: models compute each row by itself,
and `run` returns the other rows. Logits, masks and sampling are not part of the graph.

The capture function is an argument: `CudaCapture`, or in tests a CPU function with the same signature. Cost:
memory for the activations of the largest batch (all graphs share it), and when a size first occurs two forward passes
and a wait for the device. A pass costs the host one copy and one launch. A batch whose capture fails, for lack of
memory for instance, runs without a graph, and so do later ones of its size.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from threading import Lock
from typing import Any, Final, NamedTuple, TypeAlias
from warnings import warn

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from guided.attention.paged_step import PagedAttention, PagedStep, Spans
from guided.engine.forward_batch import Batch
from guided.errors import brief
from guided.kernels.transfer import FixedTensors
from guided.kv.paged import PagedPlan
from guided.models.model import Model

__all__ = ["Capture", "CudaCapture", "StepGraphs"]

Capture: TypeAlias = Callable[[Callable[[], Tensor]], Callable[[], Tensor]]
"""Takes a function without arguments that launches kernels on fixed memory, and returns a function that launches them
again and always returns the same tensor."""

_SIZES: Final = (1, 2, 4, 8, *range(16, 513, 16))
_CHUNKED_SIZES: Final = (8, 16, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 384, 448, 512)
_FEW: Final = 64
_CAPTURING: Final = Lock()  # a capture synchronises the device, which would break another one


class _Shape(NamedTuple):
    """What a graph is captured for.

    Attributes:
        size: tokens, and sequences.
        most: the largest number of new tokens of a sequence.
    """

    size: int
    most: int


class _Graph(NamedTuple):
    numbers: FixedTensors
    replay: Callable[[], Tensor]


class StepGraphs:
    """The graphs of a model over the paged cache that `attention` reads, with the same attention kernel."""

    def __init__(self, model: Model, attention: PagedAttention, capture: Capture) -> None:
        self._model, self._attention, self._capture = model, attention, capture
        self._block = attention.k.shape[2]
        self._blocks = -(-model.config.context // self._block)
        self._graphs: dict[_Shape, _Graph | None] = {}  # None: it could not be captured

    def fits(self, batch: Batch) -> bool:
        """Whether a graph can run this batch: few enough tokens, and no sequence longer than the context."""
        sizes = _SIZES if max(batch.counts, default=0) == 1 else _CHUNKED_SIZES
        return (
            isinstance(batch.plan, PagedPlan)
            and 0 < len(batch.tokens) <= sizes[-1]
            and max(batch.lengths) <= self._blocks * self._block
        )

    def run(self, batch: Batch) -> Tensor | None:
        """Hidden states (n, dim) of a batch that fits; valid until the next call. None: there is no graph for it."""
        n, shape = len(batch.tokens), _shape(batch)
        if shape not in self._graphs:
            self._graphs[shape] = None
            try:
                self._graphs[shape] = self._captured(shape)
            except RuntimeError as error:  # torch's errors of memory and of CUDA
                warn(f"passes of {shape.size} tokens run without a CUDA graph: {brief(str(error))}", stacklevel=2)
        if (graph := self._graphs[shape]) is None:
            return None
        graph.numbers.send(self._pack(batch, shape))
        if batch.ahead is not None:
            graph.numbers["tokens"][n - len(batch.ahead) : n] = batch.ahead
        return graph.replay()[:n]

    def _captured(self, shape: _Shape) -> _Graph:
        """A new graph. All of its rows are padding while it is captured, so the passes store nothing."""
        numbers = FixedTensors(self._padding(shape), self._model.device)
        spans = None
        if shape.most > 1:
            longest = self._blocks * self._block
            spans = Spans(numbers["queries"], numbers["keys"], shape.most, longest, fresh=False)
        step = PagedStep(numbers["slots"], numbers["tables"], numbers["lengths"], spans)

        def forward() -> Tensor:
            attend = replace(self._attention, step=step)  # computes tensors of the step, in the graph
            return self._model.forward(numbers["tokens"], numbers["positions"], attend)

        return _Graph(numbers, self._capture(forward))

    def _padding(self, shape: _Shape) -> dict[str, npt.NDArray[Any]]:
        """The numbers of a batch without sequences."""
        size = shape.size
        numbers: dict[str, npt.NDArray[Any]] = {
            "tokens": np.zeros(size, np.int64),
            "positions": np.zeros(size, np.int64),
            "slots": np.full(size, -1, np.int64),
            "tables": np.zeros((size, self._blocks), np.int32),
            "lengths": np.zeros(size, np.int32),
        }
        if shape.most > 1:
            numbers |= {"queries": np.zeros(size + 1, np.int32), "keys": np.zeros(size + 1, np.int32)}
        return numbers

    def _pack(self, batch: Batch, shape: _Shape) -> dict[str, npt.NDArray[Any]]:
        """The numbers of a batch, padded."""
        assert isinstance(batch.plan, PagedPlan)
        numbers, tables = self._padding(shape), batch.plan.tables
        n, sequences, block = len(batch.tokens), len(tables), self._block
        counts, lengths = np.array(batch.counts), np.array(batch.lengths)
        row = np.repeat(np.arange(sequences), counts)
        ends = counts.cumsum()
        positions = np.arange(n) + (lengths - ends)[row]
        widths = np.fromiter(map(len, tables), np.int64, sequences)
        there = np.arange(self._blocks) < widths[:, None]
        numbers["tables"][:sequences][there] = np.fromiter(chain.from_iterable(tables), np.int32, int(widths.sum()))
        numbers["tokens"][:n], numbers["positions"][:n] = batch.tokens, positions
        numbers["slots"][:n] = numbers["tables"][row, positions // block].astype(np.int64) * block + positions % block
        numbers["lengths"][:sequences] = lengths
        if shape.most > 1:
            for name, values in (("queries", ends), ("keys", lengths.cumsum())):
                numbers[name][1 : sequences + 1] = values
                numbers[name][sequences + 1 :] = values[-1]
        return numbers


def _shape(batch: Batch) -> _Shape:
    """The smallest graph for a batch."""
    n, most = len(batch.tokens), max(batch.counts)
    if most == 1:
        return _Shape(_SIZES[bisect_left(_SIZES, n)], 1)
    size = _CHUNKED_SIZES[bisect_left(_CHUNKED_SIZES, n)]
    return _Shape(size, min(size, _FEW) if most <= _FEW else size)


class CudaCapture:
    """`Capture` on the device of the model. The graphs share one memory pool, since no two of them run at once."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: Any = None
        self._stream: torch.cuda.Stream | None = None

    def __call__(self, run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Run once on a stream of the device to compile kernels and allocate workspaces, then capture on it."""
        with _CAPTURING, torch.cuda.device(self._device):
            here = torch.cuda.current_stream()
            side = self._stream = self._stream or _stream()  # torch's own would be on the first device of the process
            side.wait_stream(here)
            with torch.cuda.stream(side):
                run()
            here.wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            mode = "thread_local"  # other threads may use CUDA meanwhile
            with torch.cuda.graph(graph, pool=self._pool, stream=side, capture_error_mode=mode):
                out = run()
            self._pool = self._pool or graph.pool()

        def replay() -> Tensor:
            graph.replay()
            return out

        return replay


def _stream() -> torch.cuda.Stream:
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]
