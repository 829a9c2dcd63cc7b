"""CUDA graphs for forward passes: one launch per pass instead of one per kernel.

In: the `ForwardBatch` of a pass over a paged cache. Out: hidden states. A graph is captured once for each of a few
sizes, over tensors with fixed addresses. For each pass, the batch is packed on the host, padded to the next larger
size, and sent to these tensors in one copy. Then the graph is replayed. There are two kinds of graphs:

- For batches in which each sequence has one new token. They use the kernel for single tokens. The size is the number of
  sequences.
- For batches in which some sequence has more (forced text, a chunk of a prompt). They use the kernel for chunks. The
  size is the number of tokens. The kernel's grid depends on the longest chunk, so there is one graph for chunks of up
  to `_FEW_TOKENS`, and one for longer chunks.

Padding tokens have slot -1, so nothing is stored for them. Padding sequences have length 0. They have no tokens, or, in
a batch of single tokens, one token that reads nothing. Kernels may return anything for them: models compute each row
independently, and `run` returns only the other rows. Logits, masks and sampling are not part of the graph.

The capture function is an argument: `CudaCapture`, or in tests a CPU function with the same signature. Cost: memory for
the activations of the largest batch, which all graphs share; when a size first occurs, two forward passes and a wait
for the device; for each pass, one copy and one launch on the host. If a capture fails, for example for lack of memory,
this batch and later batches of its size run without a graph.
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
from guided.engine.forward_batch import ForwardBatch
from guided.errors import brief
from guided.kernels.transfer import FixedTensors
from guided.kv.paged import PagedPlan
from guided.models.model import Model

__all__ = ["Capture", "CudaCapture", "StepGraphs"]

Capture: TypeAlias = Callable[[Callable[[], Tensor]], Callable[[], Tensor]]
"""Takes a function without arguments that launches kernels on fixed memory. Returns a function that launches the same
kernels again and always returns the same tensor."""

_SIZES: Final = (1, 2, 4, 8, *range(16, 513, 16))
_CHUNKED_SIZES: Final = (8, 16, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 384, 448, 512)
_FEW_TOKENS: Final = 64
_CAPTURE_LOCK: Final = Lock()  # a capture synchronises the device, which would break a concurrent capture


class _Shape(NamedTuple):
    """The shape of the batches that a graph can run.

    Attributes:
        size: the number of tokens, and the maximum number of sequences.
        max_queries: the maximum number of new tokens per sequence.
    """

    size: int
    max_queries: int


class _Graph(NamedTuple):
    inputs: FixedTensors
    replay: Callable[[], Tensor]


class StepGraphs:
    """The graphs of a model. They read the paged cache of `attention`, with its kernel."""

    def __init__(self, model: Model, attention: PagedAttention, capture: Capture) -> None:
        self._model, self._attention, self._capture = model, attention, capture
        self._block_size = attention.k.shape[2]
        self._max_blocks = -(-model.config.context // self._block_size)
        self._graphs: dict[_Shape, _Graph | None] = {}  # None: the capture failed

    def fits(self, batch: ForwardBatch) -> bool:
        """Whether a graph can run this batch: few enough tokens, and no sequence longer than the context."""
        sizes = _SIZES if max(batch.counts, default=0) == 1 else _CHUNKED_SIZES
        return (
            isinstance(batch.plan, PagedPlan)
            and 0 < len(batch.tokens) <= sizes[-1]
            and max(batch.lengths) <= self._max_blocks * self._block_size
        )

    def run(self, batch: ForwardBatch) -> Tensor | None:
        """Run a batch that fits. Return its hidden states (n, dim), valid until the next call; None if the graph could
        not be captured."""
        n, shape = len(batch.tokens), _smallest_shape(batch)
        if shape not in self._graphs:
            self._graphs[shape] = None
            try:
                self._graphs[shape] = self._capture_graph(shape)
            except RuntimeError as error:  # torch's errors for lack of memory and for CUDA errors
                warn(f"passes of {shape.size} tokens run without a CUDA graph: {brief(str(error))}", stacklevel=2)
        if (graph := self._graphs[shape]) is None:
            return None
        graph.inputs.send(self._pack(batch, shape))
        if batch.tokens_ahead is not None:
            graph.inputs["tokens"][n - len(batch.tokens_ahead) : n] = batch.tokens_ahead
        return graph.replay()[:n]

    def _capture_graph(self, shape: _Shape) -> _Graph:
        """Capture a graph. All rows are padding during the capture, so the passes store nothing."""
        inputs = FixedTensors(self._padding(shape), self._model.device)
        spans = None
        if shape.max_queries > 1:
            longest = self._max_blocks * self._block_size
            spans = Spans(inputs["queries"], inputs["keys"], shape.max_queries, longest, is_all_new=False)
        step = PagedStep(inputs["slots"], inputs["tables"], inputs["lengths"], spans)

        def forward() -> Tensor:
            attend = replace(self._attention, step=step)  # also captures the computation of the step's tensors
            return self._model.forward(inputs["tokens"], inputs["positions"], attend)

        return _Graph(inputs, self._capture(forward))

    def _padding(self, shape: _Shape) -> dict[str, npt.NDArray[Any]]:
        """The input tensors of a batch that is all padding."""
        size = shape.size
        inputs: dict[str, npt.NDArray[Any]] = {
            "tokens": np.zeros(size, np.int64),
            "positions": np.zeros(size, np.int64),
            "slots": np.full(size, -1, np.int64),
            "tables": np.zeros((size, self._max_blocks), np.int32),
            "lengths": np.zeros(size, np.int32),
        }
        if shape.max_queries > 1:
            inputs |= {"queries": np.zeros(size + 1, np.int32), "keys": np.zeros(size + 1, np.int32)}
        return inputs

    def _pack(self, batch: ForwardBatch, shape: _Shape) -> dict[str, npt.NDArray[Any]]:
        """The input tensors of a batch, padded to the shape."""
        assert isinstance(batch.plan, PagedPlan)
        inputs, tables = self._padding(shape), batch.plan.tables
        n, sequences, block_size = len(batch.tokens), len(tables), self._block_size
        counts, lengths = np.array(batch.counts), np.array(batch.lengths)
        sequence_indices = np.repeat(np.arange(sequences), counts)  # for each token
        ends = counts.cumsum()
        positions = np.arange(n) + (lengths - ends)[sequence_indices]
        widths = np.fromiter(map(len, tables), np.int64, sequences)
        is_used = np.arange(self._max_blocks) < widths[:, None]
        inputs["tables"][:sequences][is_used] = np.fromiter(chain.from_iterable(tables), np.int32, int(widths.sum()))
        inputs["tokens"][:n], inputs["positions"][:n] = batch.tokens, positions
        blocks = inputs["tables"][sequence_indices, positions // block_size].astype(np.int64)
        inputs["slots"][:n] = blocks * block_size + positions % block_size
        inputs["lengths"][:sequences] = lengths
        if shape.max_queries > 1:
            for name, values in (("queries", ends), ("keys", lengths.cumsum())):
                inputs[name][1 : sequences + 1] = values
                inputs[name][sequences + 1 :] = values[-1]
        return inputs


def _smallest_shape(batch: ForwardBatch) -> _Shape:
    """The shape of the smallest graph for a batch."""
    n, max_count = len(batch.tokens), max(batch.counts)
    if max_count == 1:
        return _Shape(_SIZES[bisect_left(_SIZES, n)], 1)
    size = _CHUNKED_SIZES[bisect_left(_CHUNKED_SIZES, n)]
    return _Shape(size, min(size, _FEW_TOKENS) if max_count <= _FEW_TOKENS else size)


class CudaCapture:
    """A `Capture` on the model's device. All graphs share one memory pool, since no two of them run at once."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: Any = None
        self._stream: torch.cuda.Stream | None = None

    def __call__(self, run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Run once on a separate stream to compile kernels and allocate workspaces. Then capture on this stream."""
        with _CAPTURE_LOCK, torch.cuda.device(self._device):
            current_stream = torch.cuda.current_stream()
            side_stream = self._stream = self._stream or _new_stream()  # torch's default stream is on the first device
            side_stream.wait_stream(current_stream)
            with torch.cuda.stream(side_stream):
                run()
            current_stream.wait_stream(side_stream)
            graph = torch.cuda.CUDAGraph()
            mode = "thread_local"  # other threads may use CUDA meanwhile
            with torch.cuda.graph(graph, pool=self._pool, stream=side_stream, capture_error_mode=mode):
                out = run()
            self._pool = self._pool or graph.pool()

        def replay() -> Tensor:
            graph.replay()
            return out

        return replay


def _new_stream() -> torch.cuda.Stream:
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]
