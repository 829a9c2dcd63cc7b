"""How many OS threads the model computes with, and how they wait for each other.

GNU's OpenMP, which PyTorch's builds for Linux use, lets a thread that waits for the next piece of work check for it in
a loop, 300,000 times before it sleeps. On a machine that has other work to do, these loops take the cores away from the
very threads that everyone waits for. SmolLM2 in tokens/s on two cores, idle and beside two busy processes:

    checks      300,000    5,000    1,000        0      (one thread: 79 and 74)
    idle         70-95     88-115   80-105    52-63
    busy          1-15     21-39    49-75     62-86

So a thread checks 1,000 times here, unless the environment says otherwise. OpenMP checks only 100 times where there are
more of its threads than cores, which is so when a program has run the model on two threads (each has helpers of its
own, which outlive the work): eight sequences then took a fifth longer. OMP_WAIT_POLICY=ACTIVE is what turns that off.
The settings are read once, when PyTorch is loaded; a program that has imported torch before guided keeps its own.

A thread that compiles specifications computes all the time, too, and holds Python's lock while it does. It gives way in
two respects. It has a low priority for the cores, the lowest once it has computed for some time (polite_pool.py); on
Linux each thread has its own. And it gives up the lock after 50 us (`SWITCH_SECONDS`, which a server sets), not after
Python's 5 ms, since a step of the model takes the lock some 400 times. Milliseconds between tokens, 50 streams of
SmolLM2 on two cores, beside a thread that always compiles:

    alone 113    with neither 870    with the lock given up early 348    with both 179

PyTorch counts the cores of the machine that this process may use. In a container it may be allowed less time than these
cores have (its quota): more threads than that only wait for each other.
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

    Without effect once PyTorch is loaded, or where OMP_WAIT_POLICY or GOMP_SPINCOUNT is set.
    """
    if os.environ.keys().isdisjoint(("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")):
        os.environ.update(OMP_WAIT_POLICY="ACTIVE", GOMP_SPINCOUNT=_CHECKS)


def asked_environment() -> dict[str, str]:
    """The environment of this process without the policy of waiting that `shorten_waiting` has put into it."""
    environment = dict(os.environ)
    if environment.get("GOMP_SPINCOUNT") == _CHECKS and environment.get("OMP_WAIT_POLICY") == "ACTIVE":
        del environment["OMP_WAIT_POLICY"]
    return environment


def give_way() -> None:
    """Let this thread have a tenth of the processor time that others get (on Linux; elsewhere nothing changes)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a sandbox may refuse it
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


def give_way_to_all(thread: int) -> bool:
    """Let a thread of this process, by its native id, have a core only while nobody else wants it, for good.

    Returns:
        Whether it does: elsewhere than on Linux, or where a sandbox refuses it, it does not.
    """
    if sys.platform != "linux":
        return False
    try:
        os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
    except OSError:
        return False
    return True


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
