"""Storing keys and values by slots: torch's form and Triton's kernel compared with a loop over the rows."""

from __future__ import annotations

import random

import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.kernels.store_kv import store_kv, store_kv_torch
from tests.effort import examples
from tests.triton_support import import_kernels

torch.set_num_threads(1)


def check(store, rng: random.Random) -> None:
    rows, heads, head_dim, room = rng.randrange(1, 9), rng.randrange(1, 4), rng.choice([3, 8]), 12
    dtype = rng.choice([torch.float32, torch.bfloat16])
    slots = [slot if rng.random() < 0.7 else -1 for slot in rng.sample(range(room), rows)]
    made = torch.randn(rows, 2 * heads + 1, head_dim).to(dtype)
    k, v = made[:, :heads], made[:, -heads:]  # views, as in models
    if rng.random() < 0.3:
        k = torch.randn(rows, head_dim, heads).to(dtype).transpose(1, 2)
    got = [torch.randn(room, heads, head_dim).to(dtype) for _ in range(2)]
    want = [cache.clone() for cache in got]
    for row, slot in enumerate(slots):
        if slot >= 0:
            want[0][slot], want[1][slot] = k[row], v[row]
    store(k, v, *got, torch.tensor(slots))
    assert torch.equal(got[0], want[0]) and torch.equal(got[1], want[1])


@examples(200)
@given(st.randoms(use_true_random=False))
def test_rows_go_to_their_slots(rng: random.Random) -> None:
    check(store_kv_torch, rng)
    check(store_kv, rng)


@examples(25)
@given(st.randoms(use_true_random=False))
def test_the_kernel_does_so_too(rng: random.Random) -> None:
    check(import_kernels("guided.kernels.store_kv_triton").store_kv_triton, rng)
