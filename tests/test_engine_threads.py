"""The number of threads of the model, and how they wait."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from guided.engine import threads
from tests.server_support import small_engine

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 64),
        ({"cpu.max": "max 100000\n"}, 64),
        ({"cpu.max": "200000 100000\n"}, 2),
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "10000 100000\n"}, 1),
        ({"cpu.max": "9900000 100000\n"}, 64),
        ({"cpu.max": "nonsense"}, 64),
        ({"cpu.max": "0 0"}, 64),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 64),
    ],
)
def test_the_quota_of_a_container_limits_the_cores(tmp_path: Path, monkeypatch, files: dict[str, str], cores: int):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert threads.available_cores(tmp_path) == cores


def test_cores_are_limited_to_the_affinity_of_the_process(tmp_path: Path):
    assert threads.available_cores(tmp_path) == CORES


@pytest.mark.parametrize(("variable", "expected"), [(None, 1), ("8", 3)])
def test_no_more_threads_than_cores_unless_the_environment_sets_more(monkeypatch, variable, expected):
    monkeypatch.setattr(threads, "available_cores", lambda: 1)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if variable is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", variable)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        threads.limit_threads()
        assert torch.get_num_threads() == expected
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "ACTIVE 1000"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE None"),
        ({"OMP_WAIT_POLICY": "PASSIVE"}, "PASSIVE None"),
        ({"GOMP_SPINCOUNT": "5"}, "None 5"),
    ],
)
def test_threads_sleep_early_while_they_wait(given: dict[str, str], expected: str):
    """Set before torch is imported, and only if the caller has not set it."""
    code = """
import os, sys
class Spy:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print(os.environ.get("OMP_WAIT_POLICY"), os.environ.get("GOMP_SPINCOUNT"))
            raise SystemExit
sys.meta_path.insert(0, Spy())
import guided.engine
"""
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    environment = {name: value for name, value in os.environ.items() if name not in names} | given
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == expected, done.stderr


@pytest.mark.parametrize(
    ("given", "policy"),
    [({}, None), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE"), ({"GOMP_SPINCOUNT": "5"}, None)],
)
def test_other_processes_inherit_only_the_policy_of_the_caller(monkeypatch, given, policy):
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    threads.limit_spinning()
    assert threads.original_environment().get("OMP_WAIT_POLICY") == policy


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities of their own on Linux alone")
def test_threads_that_compile_give_way():
    """All other threads keep the priority of the process."""
    small = small_engine()
    own = os.getpriority(os.PRIO_PROCESS, 0)
    there = small._pool.submit(lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
    assert there.result() == 10 > own == os.getpriority(os.PRIO_PROCESS, 0)
