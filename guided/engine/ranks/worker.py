"""A process that has one part of a model: it loads it, and computes what rank 0 tells it until rank 0 is gone.

    python -m guided.engine.ranks.worker < order.json

In: an `Order` as JSON on standard input. Out, on standard output, a line each: that it is there; why it ends, if that
is not because rank 0 has ended.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from guided.engine.pretrained import load_pretrained
from guided.engine.ranks.commands import HERE, Copy, Open, Order, hear
from guided.engine.ranks.group import Standing, TorchGroup, connect
from guided.engine.runner import Batch, ModelRunner, cache_shape
from guided.errors import GuidedError
from guided.kv.paged import BlockPool, PagedCache, PagedPlan
from guided.models.model import Model

__all__ = ["main", "obey"]


def obey(everyone: TorchGroup, model: Model) -> None:
    """Compute what rank 0 tells; ends with the RuntimeError of a connection that is closed."""
    command = hear(everyone)
    assert isinstance(command, Open), "memory comes first"
    pool = BlockPool(cache_shape(model), command.blocks, command.block_size)
    runner = ModelRunner(model, PagedCache(cache_shape(model), command.blocks, command.block_size, pool=pool))
    while True:
        command = hear(everyone)
        if isinstance(command, Copy):
            source, target, count = command.source, command.target, command.count
            pool.copy(slice(source, source + count), slice(target, target + count))
        elif not isinstance(command, Open):
            plan = PagedPlan(pool, command.counts, command.tables, command.lengths)
            runner.run(Batch(command.tokens, command.counts, command.lengths, command.kept, plan))


def main() -> None:
    """Obey until rank 0 is gone."""
    order = Order(**json.loads(sys.stdin.readline()))
    print(HERE, flush=True)
    device = torch.device(order.device)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    at = Standing(order.rank, order.tensor, order.pipeline)
    everyone, parallel = connect(Path(order.meeting), at, device)
    dtype = None if order.dtype is None else getattr(torch, order.dtype)
    try:
        model = load_pretrained(Path(order.path), dtype=dtype, device=device, parallel=parallel).model
        obey(everyone, model)
    except (GuidedError, MemoryError, torch.OutOfMemoryError) as error:
        print(f"rank {order.rank}: {error}", flush=True)
        sys.exit(1)
    except RuntimeError as error:
        if "onnection" not in str(error):  # closed by rank 0, in the words of gloo
            print(f"rank {order.rank}: {error}", flush=True)
            sys.exit(1)


if __name__ == "__main__":
    main()
