"""The tables of rotary positions: the numbers of one computation, whenever and in whichever order they are computed."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.models.rotary import Rope, RotaryTables, llama3_factors, rotary_frequencies
from tests.json_schema_support import QUIET

CONTEXT, SIZE, CPU = 20_000, 16, torch.device("cpu")
FACTORS = llama3_factors(5e5, SIZE, factor=8, low=1, high=4, original_context=8192)
ROPES = [Rope(), Rope(5e5, FACTORS), Rope(1e6, rotary_dim=8, gain=1.19)]
each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


def whole_tables(rope: Rope, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin of all positions in one computation."""
    frequency = rotary_frequencies(rope.base, rope.rotary_dim or SIZE)
    frequency = frequency / torch.tensor(rope.factors or 1.0, dtype=torch.float64)
    angle = torch.arange(CONTEXT, dtype=torch.float64).outer(frequency)
    cos = torch.cat((angle.cos(), angle.cos()), dim=-1) * rope.gain
    sin = torch.cat((-angle.sin(), angle.sin()), dim=-1) * rope.gain
    return cos.to(dtype).unsqueeze(1), sin.to(dtype).unsqueeze(1)


@each_dtype
@QUIET
@given(st.sampled_from(ROPES), st.lists(st.integers(0, CONTEXT - 1), min_size=1, max_size=6))
def test_rows_are_those_of_one_computation(dtype, rope, starts):
    tables, (cos, sin) = RotaryTables(rope, SIZE, CONTEXT, dtype, CPU), whole_tables(rope, dtype)
    for start in starts:
        positions = torch.arange(start, min(start + 3, CONTEXT)).flip(0)
        rows = tables.rows(positions)
        assert torch.equal(rows[0], cos[positions]) and torch.equal(rows[1], sin[positions])


@each_dtype
def test_all_positions_in_growing_steps(dtype):
    tables, (cos, sin) = RotaryTables(ROPES[1], SIZE, CONTEXT, dtype, CPU), whole_tables(ROPES[1], dtype)
    for start, stop in pairwise([0, 1, 4096, 4097, 9000, 15_000, CONTEXT]):
        rows = tables.rows(torch.arange(start, stop))
        assert torch.equal(rows[0], cos[start:stop]) and torch.equal(rows[1], sin[start:stop])


def test_memory_follows_the_positions_in_use():
    tables = RotaryTables(Rope(), SIZE, 1 << 40, torch.float32, CPU)  # 64 TiB for each complete table
    tables.rows(torch.tensor([5]))
    assert len(tables._tables[0]) <= 4096
    assert tables.rows(torch.empty(0, dtype=torch.int64))[0].shape == (0, 1, SIZE)


def test_a_position_beyond_the_context_is_an_error():
    tables = RotaryTables(Rope(), SIZE, 5000, torch.float32, CPU)
    tables.rows(torch.tensor([4999]))
    with pytest.raises(IndexError):
        tables.rows(torch.tensor([5000]))


def test_tables_grow_in_and_outside_of_inference_mode():
    with torch.inference_mode():
        tables = RotaryTables(Rope(), SIZE, CONTEXT, torch.float32, CPU)
        tables.rows(torch.tensor([10]))
    first = tables.rows(torch.tensor([7000]))
    with torch.inference_mode():
        tables.rows(torch.tensor([CONTEXT - 1]))
    assert torch.equal(first[0], tables.rows(torch.tensor([7000]))[0])


def test_tables_of_other_devices_are_complete_and_never_move():
    """CUDA graphs read these addresses, and the host does not see the positions of their passes."""
    tables = RotaryTables(Rope(), SIZE, CONTEXT, torch.float32, torch.device("meta"))
    before = tables._tables
    tables.rows(torch.empty(3, dtype=torch.int64, device="meta"))
    assert tables._tables is before and len(before[0]) == len(before[1]) == CONTEXT


def test_threads_share_tables():
    tables, (cos, sin) = RotaryTables(Rope(), SIZE, CONTEXT, torch.float32, CPU), whole_tables(Rope(), torch.float32)
    wrong = list[int]()

    def read(first: int) -> None:
        for start in range(first, CONTEXT, 997):
            rows = tables.rows(torch.tensor([start]))
            if not (torch.equal(rows[0], cos[[start]]) and torch.equal(rows[1], sin[[start]])):
                wrong.append(start)

    threads = [threading.Thread(target=read, args=(first,)) for first in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
