"""The free memory of a device, for caches whose size depends on it.

On Linux, the free memory of the host is the memory that new processes could use without swapping (`MemAvailable`), or
less if a cgroup limits this process, as in a container. Elsewhere it is the physical memory, if the system reports it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import torch

__all__ = ["free_memory"]

_UNKNOWN: Final = 8 << 30  # bytes, if the system reports nothing


def free_memory(device: torch.device) -> int:
    """The number of free bytes. On CUDA, this includes memory that torch has reserved but does not use."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return free_host_memory()


def free_host_memory(root: Path = Path("/")) -> int:
    """The number of free bytes of the host. `root`: the folder that contains `proc` and `sys`."""
    limits = [*_available_memory(root), *_cgroup_memory(root)]
    if not limits and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return max(0, min(limits, default=_UNKNOWN))


def _available_memory(root: Path) -> Iterator[int]:
    if kilobytes := _read_fields(root / "proc/meminfo").get("MemAvailable:"):
        yield kilobytes * 1024


def _cgroup_memory(root: Path) -> Iterator[int]:
    """What the limits of this process's cgroups leave. Files in the page cache do not count, since the kernel drops
    them when necessary."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2
            base, limit_name, usage_name, prefix = root / "sys/fs/cgroup", "memory.max", "memory.current", ""
        elif "memory" in controllers.split(","):
            base, prefix = root / "sys/fs/cgroup/memory", "total_"
            limit_name, usage_name = "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        folder = base / path.lstrip("/")
        while folder.is_relative_to(base):
            limit, usage = _read(folder / limit_name).strip(), _read(folder / usage_name).strip()
            if limit.isdecimal() and usage.isdecimal():
                fields = _read_fields(folder / "memory.stat")
                files = fields.get(f"{prefix}inactive_file", 0) + fields.get(f"{prefix}active_file", 0)
                yield int(limit) - int(usage) + files
            folder = folder.parent


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _read_fields(path: Path) -> dict[str, int]:
    """The numbers in a file whose lines are "name number ..."."""
    lines = (line.split() for line in _read(path).splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdecimal()}
