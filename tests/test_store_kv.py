"""Storing keys and values by slots: torch's form and Triton's kernel against a loop over the rows."""

from __future__ import annotations

import importlib
import random
import sys

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from guided.kernels.store_kv import store_kv, store_kv_torch

torch.set_num_threads(1)
REASON = "Triton is not installed; its interpreter runs the kernel on a CPU"


@pytest.fixture
def store_by_triton(monkeypatch: pytest.MonkeyPatch):
    """The kernel as Triton's interpreter runs it: that is decided when it is made, so its module is imported afresh."""
    pytest.importorskip("triton", reason=REASON)
    name = "guided.kernels.store_kv_triton"
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module(name).store_kv_triton
    sys.modules.pop(name, None)


def check(store, rng: random.Random) -> None:
    rows, heads, head_dim, room = rng.randrange(1, 9), rng.randrange(1, 4), rng.choice([3, 8]), 12
    dtype = rng.choice([torch.float32, torch.bfloat16])
    slots = [slot if rng.random() < 0.7 else -1 for slot in rng.sample(range(room), rows)]
    made = torch.randn(rows, 2 * heads + 1, head_dim).to(dtype)
    k, v = made[:, :heads], made[:, -heads:]  # views, as models have them
    if rng.random() < 0.3:
        k = torch.randn(rows, head_dim, heads).to(dtype).transpose(1, 2)
    got = [torch.randn(room, heads, head_dim).to(dtype) for _ in range(2)]
    want = [cache.clone() for cache in got]
    for row, slot in enumerate(slots):
        if slot >= 0:
            want[0][slot], want[1][slot] = k[row], v[row]
    store(k, v, *got, torch.tensor(slots))
    assert torch.equal(got[0], want[0]) and torch.equal(got[1], want[1])


@settings(deadline=None, max_examples=200)
@given(st.randoms(use_true_random=False))
def test_rows_go_to_their_slots(rng: random.Random) -> None:
    check(store_kv_torch, rng)
    check(store_kv, rng)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.randoms(use_true_random=False))
def test_the_kernel_does_so_too(store_by_triton, rng: random.Random) -> None:
    check(store_by_triton, rng)


def test_the_kernel_compiles_for_cuda(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """To machine code; without a device it goes no further."""
    triton = pytest.importorskip("triton", reason=REASON)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from guided.kernels.store_kv_triton import store_kvcache_kernel

    signature = dict.fromkeys(("k", "v", "k_cache", "v_cache"), "*bf16")
    signature |= {"k_stride": "i32", "v_stride": "i32", "slots": "*i64", "size": "constexpr", "padded": "constexpr"}
    source = ASTSource(store_kvcache_kernel, signature, {"size": 192, "padded": 256})
    for capability in (80, 90):
        compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"enable_fp_fusion": True})
        assert "st.global" in compiled.asm["ptx"] and compiled.asm["cubin"]
