"""Processes that exchange tensors: torch's process groups (gloo on a CPU, NCCL on CUDA) as `Group`s.

In: where this process stands among the ranks, and a file through which they find one another. Out: its groups, and the
one of all ranks over which commands go, always on the CPU. Groups are objects here; the process group that torch keeps
for a whole program is the caller's, and is not touched.
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

__all__ = ["Standing", "TorchGroup", "check_backend", "connect"]

dist: Any = torch.distributed  # the names used here are not among those it says it exports
_MEETING = timedelta(minutes=1)  # all ranks have begun when they meet
_STEP = timedelta(minutes=10)  # in which a rank comes as far as the others
_FOREVER = timedelta(days=365)  # for a command


@dataclass(frozen=True, slots=True)
class Standing:
    """One of tensor * pipeline ranks: those of the first stage first."""

    rank: int
    tensor: int
    pipeline: int

    @property
    def stage(self) -> int:
        """Of the pipeline."""
        return self.rank // self.tensor

    @property
    def part(self) -> int:
        """Among the ranks of its stage."""
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
        """Fill x with what rank 0 has in it."""
        self._group.broadcast(x, 0).wait()
        return x


def connect(file: Path, at: Standing, device: torch.device) -> tuple[TorchGroup, Parallel]:
    """The group of all ranks, and what cuts the model; waits for the other ranks."""
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
    """Whether this torch has what tensors travel by between such devices.

    Raises:
        GuidedError: it has not.
    """
    backend = {"cpu": "gloo", "cuda": "nccl"}.get(device.type)
    if backend is None:
        raise GuidedError(f"models are cut among processes on cpu and cuda, not on {device.type}")
    if not dist.is_available() or not (dist.is_gloo_available() and (backend == "gloo" or dist.is_nccl_available())):
        raise GuidedError(f"this build of PyTorch has no {backend}: a model cannot be cut among processes with it")


def _gloo(store: Any, rank: int, size: int, patience: timedelta) -> Any:
    options = dist.ProcessGroupGloo._Options()
    options._devices = [dist.ProcessGroupGloo.create_device(hostname="127.0.0.1")]
    options._timeout = _MEETING
    group = dist.ProcessGroupGloo(store, rank, size, options)
    TorchGroup(group).gather(torch.zeros(1))  # all are there
    group._set_default_timeout(patience)
    return group


def _nccl(store: Any, rank: int, size: int, patience: timedelta) -> Any:
    options = dist.ProcessGroupNCCL.Options()
    options._timeout = patience
    return dist.ProcessGroupNCCL(store, rank, size, options)
