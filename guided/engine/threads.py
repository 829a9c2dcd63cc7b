"""How many OS threads the model computes with, and how they wait for each other.

GNU's OpenMP, which PyTorch's builds for Linux use, lets a thread that waits for the next piece of work check for it in
a loop, 300,000 times before it sleeps. On a machine that has other work to do, these loops take the cores away from the
very threads that everyone waits for. SmolLM2 in tokens/s on two cores, idle and beside two busy processes:

    checks      300,000    5,000    1,000        0      (one thread: 79 and 74)
    idle         70-95     88-115   80-105    52-63
    busy          1-15     21-39    49-75     62-86

So a thread checks 1,000 times here, unless the environment says otherwise. The setting is read once, when PyTorch is
loaded; a program that has imported torch before guided keeps its own.

PyTorch counts the cores of the machine that this process may use. In a container it may be allowed less time than these
cores have (its quota): more threads than that only wait for each other.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

__all__ = ["available_cores", "limit_threads", "shorten_waiting"]

_CGROUP: Final = Path("/sys/fs/cgroup")
_CHECKS: Final = "1000"


def shorten_waiting() -> None:
    """Let OpenMP's threads sleep early while they wait.

    Without effect once PyTorch is loaded, or where OMP_WAIT_POLICY or GOMP_SPINCOUNT is set.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _CHECKS)


def available_cores(cgroup: Path = _CGROUP) -> int:
    """How many cores this process may keep busy: those that it may run on, or the quota of its container if less."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota(cgroup)
    return cores if quota is None else max(1, min(cores, round(quota)))


def limit_threads() -> None:
    """Let PyTorch use no more threads than there are cores for this process, unless OMP_NUM_THREADS is set."""
    import torch

    if "OMP_NUM_THREADS" not in os.environ and torch.get_num_threads() > (cores := available_cores()):
        torch.set_num_threads(cores)


def _quota(cgroup: Path) -> float | None:
    """Cores that the container may use on average (cgroups version 2, else 1); None if there is no limit."""
    for files in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            quota, period = " ".join((cgroup / name).read_text() for name in files).split()
            if int(quota) > 0 and int(period) > 0:
                return int(quota) / int(period)
        except (OSError, ValueError):  # no such file; "max"
            continue
    return None
