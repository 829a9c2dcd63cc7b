"""Measures how long calls take, on the device and on the host.

Times on the device are between CUDA events in a full queue. The device first sleeps while the calls are launched, so
the launches cost nothing. On the CPU, in a dry run, the host's clock is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter
from typing import Any, Final

import torch

from scripts.gpu.report import Setting

__all__ = ["copies_for", "device_time", "host_time"]

_AT_ONCE: Final = 24  # calls in a full queue
_SLEEP: Final = 60_000_000  # cycles, about 30 ms
_CACHE: Final = 200_000_000  # bytes, several times the L2 cache


def device_time(setting: Setting, calls: Sequence[Callable[[], Any]], rounds: int = 3) -> float:
    """The median microseconds of a call. All `calls` do the same with different buffers; they are measured in turn."""
    if setting.dry:
        return host_time(setting, calls[0], 2)
    for call in calls:  # warm up, and evict the first buffers from the cache
        call()
    times = list[float]()
    for number in range(rounds):
        torch.cuda.synchronize()
        torch.cuda._sleep(_SLEEP)
        events = [torch.cuda.Event(enable_timing=True) for _ in range(_AT_ONCE + 1)]
        events[0].record()
        for at in range(_AT_ONCE):
            calls[(number * _AT_ONCE + at) % len(calls)]()
            events[at + 1].record()
        torch.cuda.synchronize()
        times += [1e3 * events[at].elapsed_time(events[at + 1]) for at in range(_AT_ONCE)]
    return median(times)


def host_time(setting: Setting, call: Callable[[], Any], rounds: int = 10) -> float:
    """The median microseconds from a call until the device has completed it."""
    call()
    times = list[float]()
    for _ in range(rounds):
        setting.wait()
        begin = perf_counter()
        call()
        setting.wait()
        times.append(1e6 * (perf_counter() - begin))
    return median(times)


def copies_for(setting: Setting, nbytes: int) -> int:
    """The number of buffers of this size that together exceed the L2 cache."""
    return setting.pick(min(320, max(2, -(-_CACHE // nbytes))), 2)
