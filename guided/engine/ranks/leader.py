"""Rank 0: starts the other ranks, and has them compute along.

In: a model's file, and into how many parts it is cut. Out: `Ranks`, whose `parallel` says what rank 0 loads, and whose
`runner` is the engine's. The others are processes of this machine (worker.py), which end with this one. The cache's
bookkeeping is rank 0's; memory is cut like the model: each rank keeps the keys and values of its own heads and layers.
On a CPU the ranks share its cores: this makes room for a model, not speed.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from guided.engine.ranks.commands import Command, Copy, Open, Order, Step, tell
from guided.engine.ranks.group import Standing, check_backend, connect
from guided.engine.ranks.processes import Workers
from guided.engine.runner import Batch, ModelRunner, cache_shape
from guided.errors import GuidedError
from guided.kv.cache import CacheShape
from guided.kv.paged import BlockPool, PagedCache, PagedPlan
from guided.models.model import Model

__all__ = ["Ranks"]


class Ranks:
    """All ranks of a model, for one engine.

    Attributes:
        parallel: the part of rank 0.
        device: where rank 0 computes.
        workers: the other ranks.
    """

    def __init__(
        self, path: Path, *, dtype: torch.dtype | None, device: torch.device, tensor: int = 1, pipeline: int = 1
    ) -> None:
        """Start the others; they load their parts while rank 0 loads its own.

        Raises:
            GuidedError: one of them ends at once; there are not as many devices.
        """
        places = _places(device, tensor * pipeline)
        self.device, self._opened = places[0], False
        name = None if dtype is None else str(dtype).removeprefix("torch.")
        meeting = Path(tempfile.mkdtemp(prefix="guided-ranks-"))
        threads = torch.get_num_threads()
        share = max(1, threads // tensor)  # stages work one after the other
        orders = [
            Order(str(path), name, str(place), str(meeting / "store"), os.getpid(), rank, tensor, pipeline)
            for rank, place in enumerate(places)
        ]
        try:
            self.workers = Workers(orders[1:], share)
        except BaseException:
            shutil.rmtree(meeting, ignore_errors=True)
            raise
        self._finalize = weakref.finalize(self, _end, self.workers, meeting, threads)
        if self.device.type == "cpu":
            torch.set_num_threads(share)
        try:
            self.workers.wait_until_here()
            self._everyone, self.parallel = connect(meeting / "store", Standing(0, tensor, pipeline), self.device)
        except RuntimeError as error:
            reason = self.lost(error)
            if reason is error:
                reason = GuidedError(f"the processes of this model did not meet: {str(error)[:200]}")
            raise reason from error
        except BaseException:
            self.close()
            raise

    def runner(self, model: Model, blocks: int, block_size: int) -> ModelRunner:
        """The part that rank 0 has loaded, over a paged cache in the memory of all ranks.

        Raises:
            GuidedError: a rank could not load its part, or has no memory for its cache.
        """
        if self._opened:
            raise ValueError("these ranks have a cache already: they are for one engine")
        self._opened = True
        pool = _Pool(self, cache_shape(model), blocks, block_size)
        with self.together():
            self.tell(Open(blocks, block_size))
            self._everyone.gather(torch.zeros(1))  # all have their memory
        return _Runner(self, model, PagedCache(cache_shape(model), blocks, block_size, pool=pool))

    def tell(self, command: Command) -> None:
        """Tell all ranks.

        Raises:
            GuidedError: one of them has ended.
        """
        if not self._finalize.alive:
            raise GuidedError("the processes of this model have ended: load it again")
        with self.together():
            tell(self._everyone, command)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Around what all ranks do: Ctrl-C waits until it is done; where it breaks off, no rank knows any more where
        the others are, and all are ended."""
        with _uninterrupted():
            try:
                yield
            except BaseException as error:
                reason = self.lost(error)
                if reason is error:
                    raise
                raise reason from error

    def lost(self, error: BaseException) -> BaseException:
        """End all ranks, and say why."""
        if not self._finalize.alive:
            ended = "the processes of this model were ended meanwhile"
            return GuidedError(ended) if isinstance(error, RuntimeError) else error
        words = self.workers.last_words() if isinstance(error, RuntimeError) else None
        self.close()
        return error if words is None else GuidedError(f"a process of this model was lost: {words}")

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
        with self._ranks.together():
            self._ranks.tell(Step(batch.tokens, batch.counts, batch.lengths, batch.kept, plan.tables))
            return super().run(batch)


def _places(device: torch.device, count: int) -> list[torch.device]:
    """A device for each rank: GPUs from the one that is named on.

    Raises:
        GuidedError: there are not so many; or of another kind.
    """
    check_backend(device)
    if device.type == "cpu":
        return [device] * count
    first = torch.cuda.current_device() if device.index is None else device.index
    if (there := torch.cuda.device_count()) < first + count:
        raise GuidedError(
            f"{count} processes need as many GPUs from cuda:{first} on, {there} are there: "
            "lower tensor_parallel or pipeline_parallel"
        )
    return [torch.device("cuda", first + rank) for rank in range(count)]


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C comes after it. (Python tells the main thread alone.)"""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = list[int]()
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pressed:
            signal.raise_signal(signal.SIGINT)


def _end(workers: Workers, meeting: Path, threads: int) -> None:
    workers.end()
    shutil.rmtree(meeting, ignore_errors=True)
    torch.set_num_threads(threads)
