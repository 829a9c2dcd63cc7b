"""8-bit keys and values: a row's bytes, the numbers that are read back, and that they do not depend on its position.

test_kv_caches.py tests the caches themselves.
"""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.attention.sdpa import causal_mask, sdpa
from guided.attention.slots import SlotAttention
from guided.attention.step import StepAttention
from guided.engine.engine import Engine
from guided.engine.runner import cache_shape
from guided.kv import quantised as module
from guided.kv.cache import CacheShape, KVCache
from guided.kv.dense import DenseCache
from guided.kv.paged import PagedCache
from guided.kv.quantised import PackedKVView, QuantisedCache, pack, packed_shape, unpack
from tests.effort import examples
from tests.engine_support import Reader
from tests.json_schema_support import QUIET
from tests.test_engine_scheduler import CACHES, LOW, MODEL, VOCABULARY, in_any_batch
from tests.test_kernels import DTYPES, batches, each_dtype, noise
from tests.test_models_forward import MODELS, each_model

TINY = torch.finfo(torch.float32).tiny
NAN = float("nan")


def steps(rows: torch.Tensor) -> torch.Tensor:
    return rows[..., -4:].clone(memory_format=torch.contiguous_format).view(torch.float32)


# ---- rows
@each_dtype
@QUIET
@given(
    st.integers(0, 5), st.integers(1, 3), st.integers(1, 70), st.integers(-150, 126), st.integers(0, 99), st.booleans()
)
def test_an_error_is_half_a_step(dtype, n, heads, size, exponent, seed, strided):
    """For any magnitude. The kernel and torch agree, bit for bit."""
    x = torch.ldexp(noise(seed, n, heads + 1, size).clamp(-1.9, 1.9), torch.tensor(exponent)).to(dtype)
    x = x.transpose(1, 2).contiguous().transpose(1, 2)[:, :heads] if strided else x[:, 1:]
    rows = pack(x)
    assert (rows.shape, rows.dtype) == ((n, heads, size + 4), torch.int8)
    assert torch.equal(rows, module._pack_in_torch(x))
    step, error = steps(rows).double(), (unpack(rows, torch.float64) - x.double()).abs()
    assert (step >= TINY).all() and (
        step * 127 <= x.double().abs().amax(-1, keepdim=True).clamp_min(127 * TINY) * 1.00001
    ).all()
    assert (error <= step * 0.50002).all()
    assert (rows[..., :-4].abs().amax(-1, keepdim=True) == 127)[step > TINY].all(), "all bits are used"
    assert torch.equal(unpack(rows, dtype), unpack(rows, torch.float32).to(dtype))


@QUIET
@given(st.lists(st.integers(-127, 127), max_size=9), st.integers(-120, 120))
def test_whole_numbers_are_exact(numbers, exponent):
    x = torch.ldexp(torch.tensor([[[127.0, *numbers]]]), torch.tensor(exponent))
    assert torch.equal(unpack(pack(x), torch.float32), x)


@pytest.mark.parametrize("form", [pack, module._pack_in_torch])
def test_rows_with_values_that_are_not_finite_become_nan(form):
    inf = float("inf")
    rows = [[1.0, NAN, 0.0], [inf, 1.0, 2.0], [0.0, 0.0, -inf], [inf, -inf, NAN], [0.0, -0.0, 0.0], [3e38, 1.0, -3e38]]
    got = unpack(form(torch.tensor(rows).unsqueeze(1)), torch.float32).squeeze(1)
    assert got[:4].isnan().all()
    assert torch.equal(got[4], torch.zeros(3))
    torch.testing.assert_close(got[5], torch.tensor([3e38, 0.0, -3e38]))
    assert unpack(torch.full((1, 1, 7), -1, dtype=torch.int8), torch.float32).isnan().all(), "as spoiled by tests"


def test_rows_take_half_the_memory():
    shape = CacheShape(layers=30, kv_heads=3, head_dim=64, dtype=torch.bfloat16)
    assert packed_shape(shape).bytes_per_token == shape.bytes_per_token * 68 // 128
    engine = Engine(MODEL, VOCABULARY, kv_dtype="int8")
    cache = engine.scheduler.runner.cache
    assert isinstance(cache, QuantisedCache) and isinstance(cache.inner, PagedCache)
    assert cache.capacity == Engine(MODEL, VOCABULARY).scheduler.runner.cache.capacity
    assert len(engine.generate([1, 2], "[abc]{4}").text) == 4
    with pytest.raises(ValueError, match="kv_dtype is 'int4', but must be 'auto' or 'int8'"):
        Engine(MODEL, VOCABULARY, kv_dtype="int4")
    for other in ({"cache": cache}, {"ranks": object()}):
        with pytest.raises(ValueError, match="applies only to the default cache"):
            Engine(MODEL, VOCABULARY, **other, kv_dtype="int8")


# ---- attention
@each_dtype
@QUIET
@given(batches(), st.integers(0, 99))
def test_the_kernel_reads_packed_rows(dtype, batch, seed):
    """The kernel reads the same values as torch, and a sequence has the same result in any batch, bit for bit."""
    (heads, kv, size), rows = batch
    k, v = (pack(x.flatten(0, 1)).unflatten(0, (3, 70)) for x in noise(seed, 2, 3, 70, kv, size).to(dtype))
    slots = [slice(5, 5 + total) if some is None else torch.tensor(some) for some, total, _ in rows]
    views = [PackedKVView(k, v, some, dtype) for some in slots]
    ends = np.cumsum([new for _, _, new in rows]).tolist()
    spans = [(end - new, end) for end, (_, _, new) in zip(ends, rows, strict=True)]
    q = noise(seed + 1, ends[-1], heads + 1, size).to(dtype)[:, :heads]
    out = SlotAttention(heads, views, spans)(1, q)
    for some, view, (first, last) in zip(slots, views, spans, strict=True):
        keys, values = PackedKVView(k, v, some, torch.float64).read(1)
        want = sdpa(q[first:last].double(), keys, values, causal_mask(last - first, len(keys)))
        torch.testing.assert_close(out[first:last], want.to(dtype), **DTYPES[dtype])
        alone = SlotAttention(heads, [view], [(0, last - first)])(1, q[first:last])
        assert torch.equal(alone, out[first:last])


@QUIET
@given(st.integers(1, 60), st.integers(1, 20), st.sampled_from([(1, 1), (6, 2), (3, 3)]), st.sampled_from([4, 64, 80]),
       st.sampled_from([0.1, 1.0, 4.0]), st.integers(0, 99))  # fmt: skip
def test_attention_is_near_that_over_what_was_stored(past, new, all_heads, size, spread, seed):
    """Scores differ by at most |q|_1 step / (2 sqrt(size)) = e, shares by a factor of exp(2e), values by step / 2."""
    (heads, kv), total = all_heads, past + new
    shape = CacheShape(1, kv, size)
    cache = QuantisedCache(DenseCache(packed_shape(shape), 256), shape)
    lease = cache.open([])
    assert cache.reserve(lease, total)
    k, v, q = (
        noise(seed, total, kv, size) * spread,
        noise(seed + 1, total, kv, size),
        noise(seed + 2, total, heads, size),
    )
    StepAttention(cache.plan([lease], [past]), [past])(0, q[:past], k[:past], v[:past])
    cache.advance(lease, [0] * past)
    got = StepAttention(cache.plan([lease], [new]), [new])(0, q[past:], k[past:], v[past:]).double()
    keys, values = (x.double().repeat_interleave(heads // kv, 1) for x in (k, v))
    mask = causal_mask(new, total)
    want = sdpa(q[past:].double(), keys, values, mask)
    bound = sdpa(q[past:].double(), keys, values.abs(), mask)
    wide_k, wide_v = (steps(pack(x)).max().double() / 2 for x in (k, v))
    e = q[past:].double().abs().sum(-1, keepdim=True) * wide_k / size**0.5
    assert ((got - want).abs() <= (torch.exp(2 * e) - 1) * bound + wide_v + 1e-5).all()
    if spread == 1.0 and size == 64:
        assert (got - want).square().mean().sqrt() < 0.01, "numbers of magnitude 1, steps of 1 / 40"


@pytest.mark.parametrize("size", [16, 64])
@pytest.mark.parametrize("what", [NAN, float("inf")])
@pytest.mark.parametrize("which", ["k", "v"])
def test_attention_reports_values_that_are_not_numbers(size, what, which):
    x = {"k": torch.randn(8, 1, size), "v": torch.randn(8, 1, size)}
    x[which][3, 0, 2] = what
    k, v = (pack(x[name]).unsqueeze(0) for name in "kv")
    out = SlotAttention(1, [PackedKVView(k, v, slice(0, 8), torch.float32)], [(0, 8)])(0, torch.randn(8, 1, size))
    assert out.isnan().flatten(1).all(1).tolist() == [False] * 3 + [True] * 5


# ---- the engine
def around(make, shape: CacheShape, size: int) -> KVCache:
    return QuantisedCache(make(packed_shape(shape), size), shape)


dense = partial(around, DenseCache)


@pytest.mark.parametrize("name", CACHES)
@examples(12)
@given(st.randoms(use_true_random=False), st.sampled_from([3, 5, 60]), st.sampled_from([1, 7, 512]), st.booleans())
def test_any_batch_composition_cache_and_memory(name, rng, size, token_budget, low):
    model = LOW if low else MODEL
    in_any_batch(rng, around(CACHES[name], cache_shape(model), size), token_budget, model, dense)


@pytest.mark.parametrize("name", CACHES)
@examples(25)
@given(st.sampled_from(sorted(MODELS)), st.lists(st.integers(0, 26), min_size=2, max_size=30), st.randoms())
def test_however_a_prompt_is_read(name, architecture, tokens, rng):
    """In chunks, token by token, or after a cached prefix: the logits of one pass, for every architecture."""
    some = MODELS[architecture]
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        model = type(some).random(some.config, seed=1, dtype=dtype)
        shape = cache_shape(model)
        whole = Reader(model, cache=dense(shape, 256)).forward(tokens, len(tokens))
        reader, parts = Reader(model, cache=around(CACHES[name], shape, 16)), []
        while reader.length < len(tokens):
            chunk = tokens[reader.length :][: rng.choice([1, 3, 20])]
            parts.append(reader.forward(chunk, len(chunk)))
        assert torch.equal(torch.cat(parts), whole)
        cache = reader.runner.cache
        cache.close(reader.lease)
        reader.lease = cache.open(tokens)
        known = reader.length
        assert known == {"paged": (len(tokens) - 1) // 4 * 4, "radix": len(tokens) - 1}.get(name, 0)
        assert torch.equal(reader.forward(tokens[known:], len(tokens) - known), whole[known:])


@each_model
def test_logits_are_close_to_unpacked_keys(model):
    tokens = [random.Random(1).randrange(27) for _ in range(60)]
    plain = Reader(model).forward(tokens, len(tokens))
    packed = Reader(model, cache=dense(cache_shape(model), 256)).forward(tokens, len(tokens))
    error = (packed - plain).square().mean().sqrt() / plain.square().mean().sqrt()
    assert 0 < error < 0.02
