"""Processes that exchange tensors: torch's process groups (gloo on a CPU, NCCL on CUDA) as `Group`s.

In: the position of this process among the ranks, and a file through which they find one another. Out: its groups, and
the group of all ranks, always on the CPU, over which commands are sent. Groups are objects here; torch's global default
process group belongs to the caller and is not touched.
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

dist: Any = torch.distributed  # the names used here are not in its list of exports
_RENDEZVOUS = timedelta(minutes=1)  # all ranks have begun when they meet
_STEP = timedelta(minutes=10)  # for the other ranks to reach the same exchange
_FOREVER = timedelta(days=365)  # for the next command


@dataclass(frozen=True, slots=True)
class RankPosition:
    """The position of one of tensor * pipeline ranks, which are numbered stage by stage."""

    rank: int
    tensor: int
    pipeline: int

    @property
    def stage(self) -> int:
        """The stage of the pipeline that this rank computes."""
        return self.rank // self.tensor

    @property
    def part(self) -> int:
        """The number of this rank within its stage."""
        return self.rank % self.tensor


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
        """Overwrite x with the x of rank 0."""
        self._group.broadcast(x, 0).wait()
        return x


def connect(file: Path, at: RankPosition, device: torch.device) -> tuple[TorchGroup, Parallel]:
    """Wait for the other ranks; return the group of all ranks, and the groups that cut the model."""
    store = dist.FileStore(str(file), at.tensor * at.pipeline)
    everyone = TorchGroup(_gloo(dist.PrefixStore("all", store), at.rank, at.tensor * at.pipeline, _FOREVER))

    def group(name: str, rank: int, size: int) -> Group:
        if size == 1:
            return ALONE
        make = _nccl if device.type == "cuda" else _gloo
        return TorchGroup(make(dist.PrefixStore(name, store), rank, size, _STEP))

    tensor = group(f"stage {at.stage}", at.part, at.tensor)
    return everyone, Parallel(tensor, group(f"part {at.part}", at.stage, at.pipeline))


def check_backend(device: torch.device) -> None:
    """Check that this build of torch can exchange tensors between such devices.

    Raises:
        GuidedError: this build cannot.
    """
    backend = {"cpu": "gloo", "cuda": "nccl"}.get(device.type)
    if backend is None:
        raise GuidedError(f"models are cut among processes on cpu and cuda, not on {device.type}")
    if not dist.is_available() or not (dist.is_gloo_available() and (backend == "gloo" or dist.is_nccl_available())):
        raise GuidedError(f"this build of PyTorch has no {backend}: a model cannot be cut among processes with it")


def _gloo(store: Any, rank: int, size: int, patience: timedelta) -> Any:
    options = dist.ProcessGroupGloo._Options()
    options._devices = [dist.ProcessGroupGloo.create_device(hostname="127.0.0.1")]
    options._timeout = _RENDEZVOUS
    group = dist.ProcessGroupGloo(store, rank, size, options)
    TorchGroup(group).gather(torch.zeros(1))  # all ranks have arrived
    group._set_default_timeout(patience)
    return group


def _nccl(store: Any, rank: int, size: int, patience: timedelta) -> Any:
    options = dist.ProcessGroupNCCL.Options()
    options._timeout = patience
    return dist.ProcessGroupNCCL(store, rank, size, options)
