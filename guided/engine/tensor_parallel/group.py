"""Wraps torch's process groups (gloo on a CPU, NCCL on CUDA) as `Group`s, through which processes exchange tensors.

In: the position of this process among the ranks, and a file through which the ranks find each other. Out: the groups of
this process, and the group of all ranks, which sends commands and is always on the CPU. torch's global default process
group belongs to the application and is not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import Tensor

from guided.errors import GuidedError
from guided.models.parallel import ALONE, Group, Parallel

__all__ = ["RankPosition", "TorchGroup", "check_backend", "connect"]

dist: Any = torch.distributed  # `Any`, since torch does not export the names used here
_CONNECT_TIMEOUT = timedelta(minutes=1)  # for all ranks to connect; their processes are already running
_OPERATION_TIMEOUT = timedelta(minutes=10)  # for the other ranks to reach the same operation
_COMMAND_TIMEOUT = timedelta(days=365)  # for the next command


@dataclass(frozen=True, slots=True)
class RankPosition:
    """The position of a rank among `tensor_size * pipeline_size` ranks, numbered stage by stage."""

    rank: int
    tensor_size: int
    pipeline_size: int

    @property
    def stage(self) -> int:
        """The stage of the pipeline to which this rank belongs."""
        return self.rank // self.tensor_size

    @property
    def tensor_rank(self) -> int:
        """The index of this rank within its stage."""
        return self.rank % self.tensor_size


class TorchGroup:
    """See `Group`."""

    def __init__(self, group: Any) -> None:
        self._group = group
        self.rank: int = group.rank()
        self.size: int = group.size()

    def gather(self, x: Tensor) -> Sequence[Tensor]:
        """See `Group`."""
        parts = [torch.empty_like(x) for _ in range(self.size)]
        self._group.allgather([parts], [x]).wait()
        return parts

    def send(self, x: Tensor, rank: int) -> None:
        """See `Group`."""
        self._group.send([x], rank, 0).wait()

    def receive(self, out: Tensor, rank: int) -> Tensor:
        """See `Group`."""
        self._group.recv([out], rank, 0).wait()
        return out

    def broadcast(self, x: Tensor) -> Tensor:
        """Overwrite x with the value of x in rank 0."""
        self._group.broadcast(x, 0).wait()
        return x


def connect(file: Path, position: RankPosition, device: torch.device) -> tuple[TorchGroup, Parallel]:
    """Wait for the other ranks. Return the group of all ranks, and the groups across which the model is split."""
    store = dist.FileStore(str(file), count := position.tensor_size * position.pipeline_size)
    all_ranks = TorchGroup(_gloo(dist.PrefixStore("all", store), position.rank, count, _COMMAND_TIMEOUT))

    def make_group(name: str, rank: int, size: int) -> Group:
        if size == 1:
            return ALONE
        make = _nccl if device.type == "cuda" else _gloo
        return TorchGroup(make(dist.PrefixStore(name, store), rank, size, _OPERATION_TIMEOUT))

    tensor_group = make_group(f"stage {position.stage}", position.tensor_rank, position.tensor_size)
    return all_ranks, Parallel(
        tensor_group, make_group(f"part {position.tensor_rank}", position.stage, position.pipeline_size)
    )


def check_backend(device: torch.device) -> None:
    """Check that this build of torch can exchange tensors between devices of this type.

    Raises:
        GuidedError: it cannot; the message names the missing backend.
    """
    if device.type not in ("cpu", "cuda"):
        raise GuidedError(f"a model can be split across processes only on cpu and cuda, not on {device.type}")
    has_gloo = dist.is_available() and dist.is_gloo_available()
    if not has_gloo or (device.type == "cuda" and not dist.is_nccl_available()):
        raise GuidedError(f"this build of PyTorch has no {'nccl' if has_gloo else 'gloo'}: it cannot split a model")


def _gloo(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    options = dist.ProcessGroupGloo._Options()
    options._devices = [dist.ProcessGroupGloo.create_device(hostname="127.0.0.1")]
    options._timeout = _CONNECT_TIMEOUT
    group = dist.ProcessGroupGloo(store, rank, size, options)
    TorchGroup(group).gather(torch.zeros(1))  # wait until all ranks have connected
    group._set_default_timeout(timeout)
    return group


def _nccl(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    options = dist.ProcessGroupNCCL.Options()
    options._timeout = timeout
    return dist.ProcessGroupNCCL(store, rank, size, options)
