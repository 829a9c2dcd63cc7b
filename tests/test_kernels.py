"""CPU kernels compared with torch's definitions. test_models_block_matrix.py tests products with quantised matrices."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from guided.attention.sdpa import causal_mask, sdpa
from guided.attention.slots import SlotAttention
from guided.kernels import gelu, rms_norm, rotate, swiglu
from guided.kv.cache import KVView
from guided.models.model import DEFAULT_ATTENTION, AttentionKind
from guided.models.rotary import Rope, rotary_tables
from tests.json_schema_support import QUIET

DTYPES = {torch.float32: {"rtol": 1e-5, "atol": 2e-6}, torch.bfloat16: {"rtol": 1e-2, "atol": 1e-2}}
each_dtype = pytest.mark.parametrize("dtype", DTYPES)
sizes = st.integers(1, 70)


def noise(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@each_dtype
@QUIET
@given(sizes, sizes, st.integers(0, 99), st.booleans())
def test_rms_norm(dtype, rows, size, seed, weighted):
    x = noise(seed, rows, size).to(dtype) * 3
    weight = noise(seed + 1, size).to(dtype) if weighted else None
    want = F.rms_norm(x.double(), (size,), None if weight is None else weight.double(), 1e-5)
    torch.testing.assert_close(rms_norm(x, weight, 1e-5), want.to(dtype), **DTYPES[dtype])


@each_dtype
@QUIET
@given(sizes, sizes, st.integers(0, 99))
def test_swiglu(dtype, rows, size, seed):
    x = noise(seed, rows, 2 * size).to(dtype) * 8
    gate, up = x.double().chunk(2, dim=-1)
    torch.testing.assert_close(swiglu(x), (F.silu(gate) * up).to(dtype), **DTYPES[dtype])


@each_dtype
@pytest.mark.parametrize("approximate", ["tanh", "none"])
@QUIET
@given(sizes, sizes, st.integers(0, 99))
def test_gelu(dtype, approximate, rows, size, seed):
    x = noise(seed, rows, size).to(dtype) * 4
    want = F.gelu(x.double(), approximate=approximate).to(dtype)
    torch.testing.assert_close(gelu(x, approximate), want, **DTYPES[dtype])


@pytest.mark.parametrize("approximate", ["tanh", "none"])
def test_gelu_of_large_numbers_and_nan(approximate):
    x = torch.tensor([[-1e10, 1e10, 0.0, float("nan"), -200.0, 200.0]])
    want = torch.tensor([[0.0, 1e10, 0.0, float("nan"), 0.0, 200.0]])
    torch.testing.assert_close(gelu(x, approximate), want, equal_nan=True)


def test_swiglu_of_large_numbers_and_nan():
    x = torch.tensor([[-1e30, 1e30, 0.0, float("nan"), -200.0, 1.0, 1.0, 2.0, 1.0, 1.0]])
    torch.testing.assert_close(swiglu(x), torch.tensor([[0.0, 1e30, 0.0, float("nan"), 0.0]]), equal_nan=True)


@each_dtype
@QUIET
@given(sizes, st.integers(1, 5), st.integers(1, 40), st.integers(0, 99), st.booleans())
def test_rotate(dtype, rows, heads, half, seed, strided):
    cos, sin = rotary_tables(Rope(), 2 * half, range(rows), dtype)
    whole = noise(seed, rows, heads + 2, 2 * half).to(dtype)
    if strided:  # the heads of a row are not contiguous
        whole = whole.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    rest, x = whole[:, heads:].clone(), whole[:, :heads]
    a, b = x.double().chunk(2, dim=-1)
    c, s = cos.double()[..., :half], sin.double()[..., half:]
    want = torch.cat((a * c - b * s, b * c + a * s), dim=-1)
    assert rotate(x, cos, sin).data_ptr() == whole.data_ptr()
    torch.testing.assert_close(x.double(), want, rtol=1e-2, atol=1e-2 if dtype == torch.bfloat16 else 1e-6)
    assert torch.equal(whole[:, heads:], rest)


@st.composite
def batches(draw):
    """(heads, KV heads, head size), and for each sequence (slots or None, positions, new positions)."""
    kv = draw(st.integers(1, 3))
    shape = (kv * draw(st.integers(1, 4)), kv, draw(st.sampled_from([1, 2, 20, 64, 80, 128])))
    rows = []
    for _ in range(draw(st.integers(1, 4))):
        total = draw(st.integers(1, 60))
        slots = draw(st.permutations(range(60)))[:total] if draw(st.booleans()) else None
        rows.append((slots, total, draw(st.integers(1, min(total, draw(st.sampled_from([9, 60])))))))
    return shape, rows


@each_dtype
@QUIET
@given(batches(), st.integers(0, 99))
def test_attention_over_slots(dtype, batch, seed):
    """Equal to torch's, and the same for each sequence in any batch, bit for bit."""
    (heads, kv, size), rows = batch
    k, v = noise(seed, 2, 3, 70, kv, size).to(dtype)
    views = [KVView(k, v, slice(5, 5 + total) if slots is None else torch.tensor(slots)) for slots, total, _ in rows]
    ends = np.cumsum([new for _, _, new in rows]).tolist()
    spans = [(end - new, end) for end, (_, _, new) in zip(ends, rows, strict=True)]
    q = noise(seed + 1, ends[-1], heads + 1, size).to(dtype)[:, :heads]  # the stride of rows exceeds their length
    out = SlotAttention(heads, views, spans)(1, q)
    for view, (first, last) in zip(views, spans, strict=True):
        keys, values = view.read(1)
        mask = causal_mask(last - first, len(keys))
        want = sdpa(*(t.double() for t in (q[first:last], keys, values)), mask)
        torch.testing.assert_close(out[first:last], want.to(dtype), **DTYPES[dtype])
        alone = SlotAttention(heads, [view], [(0, last - first)])(1, q[first:last])
        assert torch.equal(alone, out[first:last])


def test_attention_reports_values_that_are_not_numbers():
    k = torch.randn(1, 8, 1, 16)
    k[0, 3, 0, 2] = float("nan")
    out = SlotAttention(1, [KVView(k, k, slice(0, 8))], [(0, 8)])(0, torch.randn(8, 1, 16))
    assert out.isnan().flatten(1).any(1).tolist() == [False] * 3 + [True] * 5


@pytest.mark.parametrize("new", [1, 5, 40])
@pytest.mark.parametrize("size", [16, 64, 72])
def test_queries_of_float32_over_bfloat16_are_over_the_same_numbers(new: int, size: int) -> None:
    """Bit for bit the same as when the keys and values are stored in float32."""
    generator = torch.Generator().manual_seed(size + new)
    q = torch.randn(new, 4, size, generator=generator)
    k, v = (torch.randn(2, 90, 2, size, generator=generator).bfloat16() for _ in range(2))
    slots = torch.randperm(90, generator=generator)[:60]
    kinds = DEFAULT_ATTENTION, AttentionKind(window=7, softcap=20.0)
    for where in (slice(10, 70), slots):
        narrow = SlotAttention(4, [KVView(k, v, where)], [(0, new)], torch.float32)
        wide = SlotAttention(4, [KVView(k.float(), v.float(), where)], [(0, new)])
        for kind in kinds:
            assert torch.equal(narrow(1, q, kind), wide(1, q, kind))
    with pytest.raises(ValueError, match="float32"):
        SlotAttention(4, [KVView(k.float(), v.float(), slice(0, 60))], [(0, new)], torch.bfloat16)
