"""Sets how many OS threads the model uses, and how they wait for each other.

In GNU's OpenMP, which PyTorch's builds for Linux use, a thread that waits for work checks for it in a loop, 300,000
times before it sleeps. On a busy machine, these loops take the cores away from the very threads that the others wait
for. SmolLM2 in tokens/s on two cores, idle and beside two busy processes:

    checks      300,000    5,000    1,000        0      (one thread: 79 and 74)
    idle         70-95     88-115   80-105    52-63
    busy          1-15     21-39    49-75     62-86

So a thread checks 1,000 times here, unless the environment says otherwise. OpenMP checks only 100 times if it has more
threads than cores. This happens when a program has run the model on two threads, since each has helpers of its own that
outlive the work; eight sequences then took a fifth longer. OMP_WAIT_POLICY=ACTIVE turns that off. The settings are read
once, when PyTorch is loaded; a program that imports torch before guided keeps its own.

A thread that compiles specifications also computes all the time, and holds the GIL meanwhile. It yields in two ways. It
has a low priority for the cores, the lowest once it has computed for some time (polite_pool.py); on Linux priorities
are per thread. And it gives up the GIL after 50 us (`SWITCH_SECONDS`, which a server sets), not after Python's 5 ms,
since a step of the model takes the GIL some 400 times. Milliseconds between tokens, 50 streams of SmolLM2 on two cores,
beside a thread that always compiles:

    alone 113    with neither 870    with the lock given up early 348    with both 179

PyTorch counts the cores that this process may use. A container may have a smaller quota of processor time. More threads
than the quota only wait for each other.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path
from typing import Final

__all__ = [
    "SWITCH_SECONDS",
    "asked_environment",
    "available_cores",
    "give_way",
    "give_way_to_all",
    "limit_threads",
    "shorten_waiting",
]

SWITCH_SECONDS: Final = 50e-6
"""For `sys.setswitchinterval`: how long a thread computes while another one waits for Python's lock."""

_CGROUP: Final = Path("/sys/fs/cgroup")
_CHECKS: Final = "1000"
_NICENESS: Final = 10


def shorten_waiting() -> None:
    """Let OpenMP's threads sleep early while they wait.

    Without effect once PyTorch is loaded, or if OMP_WAIT_POLICY or GOMP_SPINCOUNT is set.
    """
    if os.environ.keys().isdisjoint(("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")):
        os.environ.update(OMP_WAIT_POLICY="ACTIVE", GOMP_SPINCOUNT=_CHECKS)


def asked_environment() -> dict[str, str]:
    """The environment of this process without the wait policy that `shorten_waiting` has added."""
    environment = dict(os.environ)
    if environment.get("GOMP_SPINCOUNT") == _CHECKS and environment.get("OMP_WAIT_POLICY") == "ACTIVE":
        del environment["OMP_WAIT_POLICY"]
    return environment


def give_way() -> None:
    """Limit this thread to a tenth of the processor time of others (on Linux; elsewhere nothing changes)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a sandbox may refuse it
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


def give_way_to_all(thread: int) -> bool:
    """Run a thread of this process, by its native id, only on cores that are otherwise idle. This is permanent.

    Returns:
        Whether this succeeded: False on systems other than Linux, or if a sandbox refuses it.
    """
    if sys.platform != "linux":
        return False
    try:
        os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
    except OSError:
        return False
    return True


def available_cores(cgroup: Path = _CGROUP) -> int:
    """How many cores this process may keep busy: the cores it may run on, or the quota of its container if smaller."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota(cgroup)
    return cores if quota is None else max(1, min(cores, round(quota)))


def limit_threads() -> None:
    """Limit PyTorch's threads to the cores of this process, unless OMP_NUM_THREADS is set."""
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
