"""Rank 0: starts the other ranks, and has them compute along.

In: a model's file, and into how many parts it is cut. Out: `Ranks`, whose `parallel` says what rank 0 loads, and whose
`runner` is the engine's. The others are processes of this machine (worker.py), which end with this one. The cache's
bookkeeping is rank 0's; memory is cut like the model: each rank keeps the keys and values of its own heads and layers.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import weakref
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

import guided
from guided.engine.ranks.commands import HERE, Command, Copy, Open, Order, Step, tell
from guided.engine.ranks.group import Standing, connect
from guided.engine.runner import Batch, ModelRunner, cache_shape
from guided.errors import GuidedError
from guided.kv.cache import CacheShape
from guided.kv.paged import BlockPool, PagedCache, PagedPlan
from guided.models.model import Model

__all__ = ["Ranks"]

_LAST_WORDS = 2.0  # seconds for a rank to say why it ends


class Ranks:
    """All ranks of a model.

    Attributes:
        parallel: the part of rank 0.
        processes: the other ranks.
    """

    def __init__(
        self, path: Path, *, dtype: torch.dtype | None, device: torch.device, tensor: int = 1, pipeline: int = 1
    ) -> None:
        """Start the others; they load their parts while rank 0 loads its own.

        Raises:
            GuidedError: one of them ends at once; there are not as many devices.
        """
        if device.type == "cuda" and torch.cuda.device_count() < tensor * pipeline:
            raise GuidedError(
                f"{tensor * pipeline} ranks need as many GPUs, {torch.cuda.device_count()} are there: "
                "lower tensor_parallel or pipeline_parallel"
            )
        meeting = Path(tempfile.mkdtemp(prefix="guided-ranks-"))
        self.processes: list[subprocess.Popen[str]] = []
        self._finalize = weakref.finalize(self, _end, self.processes, meeting)
        try:
            for rank in range(1, tensor * pipeline):
                name = None if dtype is None else str(dtype).removeprefix("torch.")
                place = f"cuda:{rank}" if device.type == "cuda" else str(device)
                order = Order(str(path), name, place, str(meeting / "store"), rank, tensor, pipeline)
                self.processes.append(_start(order, tensor * pipeline))
            for process in self.processes:
                assert process.stdout is not None
                if process.stdout.readline().strip() != HERE:
                    raise GuidedError("a rank of the model ended before it began; standard error says why")
            self._everyone, self.parallel = connect(meeting / "store", Standing(0, tensor, pipeline), device)
        except BaseException:
            self.close()
            raise

    def runner(self, model: Model, blocks: int, block_size: int) -> ModelRunner:
        """The part that rank 0 has loaded, over a paged cache in the memory of all ranks."""
        pool = _Pool(self, cache_shape(model), blocks, block_size)
        self.tell(Open(blocks, block_size))
        return _Runner(self, model, PagedCache(cache_shape(model), blocks, block_size, pool=pool))

    def tell(self, command: Command) -> None:
        """Tell all ranks.

        Raises:
            GuidedError: one of them has ended.
        """
        if not self._finalize.alive:
            raise GuidedError("the processes of this model have ended: load it again")
        try:
            tell(self._everyone, command)
        except BaseException as error:
            raise self.lost(error) from error

    def lost(self, error: BaseException) -> BaseException:
        """End all ranks, for they do not know where they are any more; why."""
        words = []
        for process in self.processes:
            try:
                process.wait(_LAST_WORDS)
            except subprocess.TimeoutExpired:
                continue
            words += [line for line in (process.stdout or ()) if line.strip()]
        self.close()
        if not isinstance(error, RuntimeError):
            return error
        return GuidedError(f"a process of this model was lost: {(''.join(words) or str(error)).strip()}")

    def close(self) -> None:
        """End the other ranks. Closing twice does nothing."""
        self._finalize()


class _Pool(BlockPool):
    """Rank 0's memory: what is copied in it is copied everywhere."""

    def __init__(self, ranks: Ranks, shape: CacheShape, blocks: int, block_size: int) -> None:
        super().__init__(shape, blocks, block_size)
        self._ranks = ranks

    def copy(self, source: slice | Tensor, target: slice | Tensor) -> None:
        """See `SlotPool`."""
        assert isinstance(source, slice) and isinstance(target, slice)
        self._ranks.tell(Copy(source.start, target.start, source.stop - source.start))
        super().copy(source, target)


class _Runner(ModelRunner):
    """Every forward pass is one of all ranks."""

    def __init__(self, ranks: Ranks, model: Model, cache: PagedCache) -> None:
        super().__init__(model, cache)
        self._ranks = ranks

    def run(self, batch: Batch) -> Tensor:
        """See `ModelRunner`."""
        plan = batch.plan
        assert isinstance(plan, PagedPlan)
        self._ranks.tell(Step(batch.tokens, batch.counts, batch.lengths, batch.kept, plan.tables))
        try:
            return super().run(batch)
        except BaseException as error:
            raise self._ranks.lost(error) from error


def _start(order: Order, ranks: int) -> subprocess.Popen[str]:
    """A worker that imports this very package."""
    above = str(Path(guided.__file__).parents[1])
    paths = [above, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    if torch.device(order.device).type == "cpu":
        environment["OMP_NUM_THREADS"] = str(max(1, torch.get_num_threads() // ranks))
    process = subprocess.Popen(
        [sys.executable, "-m", "guided.engine.ranks.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(asdict(order)) + "\n")
    process.stdin.close()
    return process


def _end(processes: list[subprocess.Popen[str]], meeting: Path) -> None:
    for process in processes:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    shutil.rmtree(meeting, ignore_errors=True)
