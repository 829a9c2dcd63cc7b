"""A process that loads one part of a model, and runs the commands of rank 0 until rank 0 ends.

In: a `WorkerConfig` as JSON on standard input (processes.py starts the process). Out: on standard output, a line when
the worker is ready, and the reason if it ends before rank 0. Workers ignore Ctrl-C, which rank 0 handles.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import NoReturn

import torch

from guided.engine.forward_batch import ForwardBatch
from guided.engine.pretrained import load_model
from guided.engine.runner import ModelRunner, cache_shape
from guided.engine.tensor_parallel.commands import READY, CopySlots, OpenCache, Step, WorkerConfig, receive_command
from guided.engine.tensor_parallel.group import RankPosition, TorchGroup, connect
from guided.errors import GuidedError
from guided.kv.paged import BlockPool, PagedCache, PagedPlan
from guided.models.model import Model

__all__ = ["main", "serve"]

_POLL_SECONDS = 1.0  # between checks that rank 0 is still running
_EXIT_SECONDS = 0.2  # how long a process may take to end after it has closed its connections


def serve(all_ranks: TorchGroup, model: Model) -> None:
    """Run the commands of rank 0. Raises RuntimeError when the connection is closed."""
    command = receive_command(all_ranks)
    assert isinstance(command, OpenCache), "the first command must be OpenCache"
    pool = BlockPool(cache_shape(model), command.blocks, command.block_size)
    runner = ModelRunner(model, PagedCache(cache_shape(model), command.blocks, command.block_size, pool=pool))
    all_ranks.gather(torch.zeros(1))  # all ranks have allocated their memory
    while True:
        command = receive_command(all_ranks)
        if isinstance(command, CopySlots):
            source, target, count = command.source, command.target, command.count
            pool.copy(slice(source, source + count), slice(target, target + count))
        else:
            assert isinstance(command, Step), "OpenCache must not be repeated"
            plan = PagedPlan(pool, command.counts, command.tables, command.lengths)
            runner.run(ForwardBatch(command.tokens, command.counts, command.lengths, command.kept_positions, plan))


def main() -> None:
    """Run commands until rank 0 ends."""
    reports = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # other output goes to stderr: nobody would read it from the pipe, which would fill up
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    config = WorkerConfig(**json.loads(sys.stdin.readline()))
    threading.Thread(target=_exit_with_rank_0, args=(config,), daemon=True).start()
    try:
        device = torch.device(config.device)
        if device.type == "cuda":
            torch.cuda.set_device(device)
        print(READY, file=reports, flush=True)
        position = RankPosition(config.rank, config.tensor_size, config.pipeline_size)
        all_ranks, parallel = connect(Path(config.rendezvous), position, device)
        dtype = None if config.dtype is None else getattr(torch, config.dtype)
        serve(all_ranks, load_model(Path(config.path), dtype=dtype, device=device, parallel=parallel))
    except Exception as error:
        time.sleep(_EXIT_SECONDS)
        if os.getppid() != config.parent:
            _clean_up_and_exit(config)
        if not isinstance(error, GuidedError | MemoryError):
            traceback.print_exc()
        print(f"rank {config.rank}: {error or type(error).__name__}", file=reports, flush=True)
        sys.exit(1)


def _exit_with_rank_0(config: WorkerConfig) -> None:
    """Poll until rank 0 has ended, then exit.

    A closed connection also shows that rank 0 has ended, but only while this process uses the connection, and only if
    no child of rank 0 has inherited it.
    """
    while os.getppid() == config.parent:
        time.sleep(_POLL_SECONDS)
    _clean_up_and_exit(config)


def _clean_up_and_exit(config: WorkerConfig) -> NoReturn:
    """Remove the rendezvous directory, which rank 0 could not remove, and exit."""
    shutil.rmtree(Path(config.rendezvous).parent, ignore_errors=True)
    os._exit(0)
