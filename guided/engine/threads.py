"""Limits how many OS threads the model uses, and how long they spin while they wait for each other.

In GNU's OpenMP, which PyTorch's builds for Linux use, a thread that waits for work spins: it checks for work 300,000
times before it sleeps. On a busy machine, the spinning threads take the cores from the threads that they wait for.
Tokens/s of SmolLM2 on two cores, on an idle machine and beside two busy processes:

    checks      300,000    5,000    1,000        0      (one thread: 79 and 74)
    idle         70-95     88-115   80-105    52-63
    busy          1-15     21-39    49-75     62-86

So guided lets a thread check 1,000 times, unless the environment says otherwise. By default, OpenMP checks only 100
times if it has more threads than cores. This happens after a program has run the model on two threads: each of them has
its own helper threads, which outlive the work. Eight sequences then took 20 % longer. OMP_WAIT_POLICY=ACTIVE disables
this. OpenMP reads the settings once, when PyTorch is loaded, so a program that imports torch before guided keeps its
own settings.

A thread that compiles specifications also computes all the time, and holds the GIL while it does. Two measures make it
yield. Its scheduling priority is low, and the lowest possible once it has computed for some time (polite_pool.py); on
Linux each thread has its own priority. And it releases the GIL after 50 us (`SWITCH_SECONDS`, which a server sets)
instead of Python's 5 ms, since a step of the model takes the GIL about 400 times. Milliseconds between tokens in 50
streams of SmolLM2 on two cores, without and beside a thread that compiles all the time:

    without 113    beside it: no measure 870    only the early release of the GIL 348    both measures 179

PyTorch counts the cores that this process may use, but a container may have a smaller quota of CPU time. With more
threads than the quota, threads only wait for each other.
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
    "available_cores",
    "limit_spinning",
    "limit_threads",
    "lower_priority",
    "original_environment",
    "set_idle_policy",
]

SWITCH_SECONDS: Final = 50e-6
"""An argument for `sys.setswitchinterval`: how long a thread may hold the GIL while another thread waits for it."""

_CGROUP: Final = Path("/sys/fs/cgroup")
_SPIN_COUNT: Final = "1000"
_NICENESS: Final = 10


def limit_spinning() -> None:
    """Let OpenMP's threads spin for a shorter time before they sleep.

    Has no effect once PyTorch is loaded, or if OMP_WAIT_POLICY or GOMP_SPINCOUNT is set.
    """
    if os.environ.keys().isdisjoint(("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")):
        os.environ.update(OMP_WAIT_POLICY="ACTIVE", GOMP_SPINCOUNT=_SPIN_COUNT)


def original_environment() -> dict[str, str]:
    """The environment of this process without the wait policy that `limit_spinning` added."""
    environment = dict(os.environ)
    if environment.get("GOMP_SPINCOUNT") == _SPIN_COUNT and environment.get("OMP_WAIT_POLICY") == "ACTIVE":
        del environment["OMP_WAIT_POLICY"]
    return environment


def lower_priority() -> None:
    """Lower the priority of this thread: it gets a tenth of the CPU time of others. Has no effect except on Linux."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a sandbox may forbid it
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


def set_idle_policy(thread: int) -> bool:
    """Run a thread of this process, given by its native id, only on cores that are otherwise idle. This is permanent.

    Returns:
        Whether this succeeded: False on systems other than Linux, or if a sandbox forbids it.
    """
    if sys.platform != "linux":
        return False
    try:
        os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
    except OSError:
        return False
    return True


def available_cores(cgroup: Path = _CGROUP) -> int:
    """The number of cores that this process may keep busy: its CPU affinity, or its container's quota if that is
    smaller."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _read_quota(cgroup)
    return cores if quota is None else max(1, min(cores, round(quota)))


def limit_threads() -> None:
    """Limit PyTorch's threads to the cores of this process, unless OMP_NUM_THREADS is set."""
    import torch

    if "OMP_NUM_THREADS" not in os.environ and torch.get_num_threads() > (cores := available_cores()):
        torch.set_num_threads(cores)


def _read_quota(cgroup: Path) -> float | None:
    """The number of cores that the container may use on average; None if there is no limit. Reads cgroups v2, else
    v1."""
    for files in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            quota, period = " ".join((cgroup / name).read_text() for name in files).split()
            if int(quota) > 0 and int(period) > 0:
                return int(quota) / int(period)
        except (OSError, ValueError):  # no such file; "max"
            continue
    return None
