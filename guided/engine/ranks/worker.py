"""A process that has one part of a model: it loads it, and computes what rank 0 tells it until rank 0 is gone.

In: an `Order` as JSON on standard input (processes.py starts it). Out, on standard output, a line each: that it is
there; why it ends, if that is not because rank 0 has ended. Ctrl-C is rank 0's to hear.
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

from guided.engine.pretrained import load_model
from guided.engine.ranks.commands import HERE, Copy, Open, Order, Step, hear
from guided.engine.ranks.group import Standing, TorchGroup, connect
from guided.engine.runner import Batch, ModelRunner, cache_shape
from guided.errors import GuidedError
from guided.kv.paged import BlockPool, PagedCache, PagedPlan
from guided.models.model import Model

__all__ = ["main", "obey"]

_LOOK = 1.0  # seconds between looks at whether rank 0 is there
_GRACE = 0.2  # seconds in which a process that has closed its connections is gone


def obey(everyone: TorchGroup, model: Model) -> None:
    """Compute what rank 0 tells; ends with the RuntimeError of a connection that is closed."""
    command = hear(everyone)
    assert isinstance(command, Open), "memory comes first"
    pool = BlockPool(cache_shape(model), command.blocks, command.block_size)
    runner = ModelRunner(model, PagedCache(cache_shape(model), command.blocks, command.block_size, pool=pool))
    everyone.gather(torch.zeros(1))  # all have their memory
    while True:
        command = hear(everyone)
        if isinstance(command, Copy):
            source, target, count = command.source, command.target, command.count
            pool.copy(slice(source, source + count), slice(target, target + count))
        else:
            assert isinstance(command, Step), "memory is there"
            plan = PagedPlan(pool, command.counts, command.tables, command.lengths)
            runner.run(Batch(command.tokens, command.counts, command.lengths, command.kept, plan))


def main() -> None:
    """Obey until rank 0 is gone."""
    words = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what anybody else prints must not fill a pipe that nobody reads
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    order = Order(**json.loads(sys.stdin.readline()))
    threading.Thread(target=_end_with_rank_0, args=(order,), daemon=True).start()
    try:
        device = torch.device(order.device)
        if device.type == "cuda":
            torch.cuda.set_device(device)
        print(HERE, file=words, flush=True)
        at = Standing(order.rank, order.tensor, order.pipeline)
        everyone, parallel = connect(Path(order.meeting), at, device)
        dtype = None if order.dtype is None else getattr(torch, order.dtype)
        obey(everyone, load_model(Path(order.path), dtype=dtype, device=device, parallel=parallel))
    except Exception as error:
        time.sleep(_GRACE)
        if os.getppid() != order.parent:
            _leave(order)
        if not isinstance(error, GuidedError | MemoryError):
            traceback.print_exc()
        print(f"rank {order.rank}: {error or type(error).__name__}", file=words, flush=True)
        sys.exit(1)


def _end_with_rank_0(order: Order) -> None:
    """A closed connection says it, too, but not to who waits for something else, nor if a child of rank 0 has it."""
    while os.getppid() == order.parent:
        time.sleep(_LOOK)
    _leave(order)


def _leave(order: Order) -> NoReturn:
    """Rank 0 could not tidy up."""
    shutil.rmtree(Path(order.meeting).parent, ignore_errors=True)
    os._exit(0)
