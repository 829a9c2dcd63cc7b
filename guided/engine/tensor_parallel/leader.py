"""Rank 0: starts the other ranks, and sends them a command for each operation that all ranks run together.

In: a model's file, and the number of parts. Out: `Ranks`, whose `parallel` determines the part that rank 0 loads, and
whose `runner` is the engine's runner. The other ranks are processes on this machine (worker.py). They end with this
process. Only rank 0 manages the blocks of the cache. The cache's memory is split like the model: each rank stores the
keys and values of its own heads and layers. On a CPU the ranks share the cores, so splitting a model does not make it
faster.
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

from guided.engine.forward_batch import ForwardBatch
from guided.engine.runner import ModelRunner, cache_shape
from guided.engine.tensor_parallel.commands import Command, CopySlots, OpenCache, Step, WorkerConfig, send_command
from guided.engine.tensor_parallel.group import RankPosition, check_backend, connect
from guided.engine.tensor_parallel.processes import Workers
from guided.errors import GuidedError
from guided.kv.cache import CacheShape
from guided.kv.paged import BlockPool, PagedCache, PagedPlan
from guided.models.model import Model

__all__ = ["Ranks"]


class Ranks:
    """All ranks of a model, for one engine.

    Attributes:
        count: the number of ranks.
        parallel: the position of rank 0 in the split model.
        device: the device of rank 0.
        workers: the processes of the other ranks.
    """

    def __init__(
        self,
        path: Path,
        *,
        dtype: torch.dtype | None,
        device: torch.device,
        tensor_size: int = 1,
        pipeline_size: int = 1,
    ) -> None:
        """Start the other ranks, which load their parts while rank 0 loads its own.

        Raises:
            GuidedError: a rank ended at once, or there are not enough devices.
        """
        devices = _choose_devices(device, tensor_size * pipeline_size)
        self.count, self.device, self._has_runner = len(devices), devices[0], False
        name = None if dtype is None else str(dtype).removeprefix("torch.")
        rendezvous = Path(tempfile.mkdtemp(prefix="guided-ranks-"))
        threads = torch.get_num_threads()
        threads_per_rank = max(1, threads // tensor_size)  # the stages of a pipeline compute one after the other
        configs = [
            WorkerConfig(
                str(path),
                name,
                str(rank_device),
                str(rendezvous / "store"),
                os.getpid(),
                rank,
                tensor_size,
                pipeline_size,
            )
            for rank, rank_device in enumerate(devices)
        ]
        try:
            self.workers = Workers(configs[1:], threads_per_rank)
        except BaseException:
            shutil.rmtree(rendezvous, ignore_errors=True)
            raise
        self._finalize = weakref.finalize(self, _clean_up, self.workers, rendezvous, threads)
        if self.device.type == "cpu":
            torch.set_num_threads(threads_per_rank)
        try:
            self.workers.wait_until_ready()
            self._all_ranks, self.parallel = connect(
                rendezvous / "store", RankPosition(0, tensor_size, pipeline_size), self.device
            )
        except RuntimeError as error:
            reason = self.abort(error)
            if reason is error:
                reason = GuidedError(f"the processes of this model could not connect: {str(error)[:200]}")
            raise reason from error
        except BaseException:
            self.close()
            raise

    def runner(self, model: Model, blocks: int, block_size: int) -> ModelRunner:
        """Make a runner of the part that rank 0 has loaded, with a paged cache in the memory of all ranks.

        Raises:
            GuidedError: a rank could not load its part, or does not have enough memory for its cache.
        """
        if self._has_runner:
            raise ValueError("these ranks already belong to an engine: make new ranks")
        self._has_runner = True
        pool = _Pool(self, cache_shape(model), blocks, block_size)
        with self.collective():
            self.send_command(OpenCache(blocks, block_size))
            self._all_ranks.gather(torch.zeros(1))  # all ranks have allocated their memory
        return _Runner(self, model, PagedCache(cache_shape(model), blocks, block_size, pool=pool))

    def send_command(self, command: Command) -> None:
        """Send a command to all ranks.

        Raises:
            GuidedError: a rank has ended.
        """
        if not self._finalize.alive:
            raise GuidedError("the processes of this model have ended: load it again")
        with self.collective():
            send_command(self._all_ranks, command)

    @contextmanager
    def collective(self) -> Iterator[None]:
        """Enclose an operation of all ranks. Ctrl-C is deferred to the end of the operation. After an error the ranks
        would be out of sync, so all of them are ended."""
        with _defer_interrupts():
            try:
                yield
            except BaseException as error:
                reason = self.abort(error)
                if reason is error:
                    raise
                raise reason from error

    def abort(self, error: BaseException) -> BaseException:
        """End all ranks, and return the error that explains why."""
        if not self._finalize.alive:
            message = "another thread has ended the processes of this model"
            return GuidedError(message) if isinstance(error, RuntimeError) else error
        reason = self.workers.exit_reason() if isinstance(error, RuntimeError) else None
        self.close()
        return error if reason is None else GuidedError(f"a process of this model ended: {reason}")

    def close(self) -> None:
        """End the other ranks. A second call does nothing."""
        self._finalize()


class _Pool(BlockPool):
    """The blocks of rank 0. `copy` copies the slots in all ranks."""

    def __init__(self, ranks: Ranks, shape: CacheShape, blocks: int, block_size: int) -> None:
        super().__init__(shape, blocks, block_size)
        self._ranks = ranks

    def copy(self, source: slice | Tensor, target: slice | Tensor) -> None:
        """See `SlotPool`."""
        assert isinstance(source, slice) and isinstance(target, slice)
        self._ranks.send_command(CopySlots(source.start, target.start, source.stop - source.start))
        super().copy(source, target)


class _Runner(ModelRunner):
    """Runs every forward pass on all ranks. The host sends the tokens to the other ranks before a pass, so a pass
    cannot begin before the host knows its tokens."""

    can_run_ahead = False

    def __init__(self, ranks: Ranks, model: Model, cache: PagedCache) -> None:
        super().__init__(model, cache)
        self._ranks = ranks

    def run(self, batch: ForwardBatch) -> Tensor:
        """See `ModelRunner`."""
        plan = batch.plan
        assert isinstance(plan, PagedPlan)
        with self._ranks.collective():
            self._ranks.send_command(Step(batch.tokens, batch.counts, batch.lengths, batch.kept_positions, plan.tables))
            return super().run(batch)


def _choose_devices(device: torch.device, count: int) -> list[torch.device]:
    """A device for each rank: the given GPU and the next ones, or the CPU.

    Raises:
        GuidedError: there are not enough GPUs, or the device is neither a CPU nor a GPU.
    """
    check_backend(device)
    if device.type == "cpu":
        return [device] * count
    first = torch.cuda.current_device() if device.index is None else device.index
    if (available := torch.cuda.device_count()) < first + count:
        raise GuidedError(
            f"{count} processes need {count} GPUs, the first of them cuda:{first}, but this machine has {available}: "
            "reduce tensor_parallel or pipeline_parallel"
        )
    return [torch.device("cuda", first + rank) for rank in range(count)]


@contextmanager
def _defer_interrupts() -> Iterator[None]:
    """Defer Ctrl-C to the end of the block. Does nothing on other threads than the main thread, which gets all
    signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupts = list[int]()
    previous_handler = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous_handler)
        if interrupts:
            signal.raise_signal(signal.SIGINT)


def _clean_up(workers: Workers, rendezvous: Path, threads: int) -> None:
    workers.end()
    shutil.rmtree(rendezvous, ignore_errors=True)
    torch.set_num_threads(threads)
