"""The cache of rows: positions of each row, growth, prefill, and attention over rows of different lengths."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.attention.rows import RowAttention
from guided.kv.rows import RowCache
from tests.engine_support import Reader
from tests.test_models_forward import MODELS

torch.set_num_threads(1)
SHORT = settings(deadline=None, max_examples=25)


def cache_of(model, rows: int, positions: int = 0) -> RowCache:
    c = model.config
    return RowCache(c.layers, rows, c.kv_heads, c.head_dim, positions=positions)


def run(model, cache: RowCache, tokens: list[list[int]]) -> torch.Tensor:
    """Logits after each token, (rows, new, vocab_size). All rows grow by the same number."""
    new = len(tokens[0])
    positions = cache.cache_seqlens.long().unsqueeze(1) + torch.arange(new)
    with torch.inference_mode():
        ids = torch.tensor(tokens).flatten()
        logits = model.logits(model.forward(ids, positions.flatten(), RowAttention(cache, new)))
    cache.advance(new)
    return logits.unflatten(0, (len(tokens), new))


@pytest.mark.parametrize("name", MODELS)
@SHORT
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.data())
def test_rows_that_are_not_in_lockstep(name, lengths, data):
    """Prompts of different lengths, then tokens for all rows at once: each row reads only its own past."""
    model = MODELS[name]
    tokens = st.integers(0, model.config.vocab_size - 1)
    prompts = [data.draw(st.lists(tokens, min_size=n, max_size=n)) for n in lengths]
    longest = max(lengths)
    cache = cache_of(model, len(prompts))
    run(model, cache, [[*p, *[0] * (longest - len(p))] for p in prompts])  # data beyond the end of a row is overwritten
    cache.cache_seqlens[:] = torch.tensor(lengths)
    for _ in range(3):
        more = [[data.draw(tokens)] for _ in prompts]
        got = run(model, cache, more)
        prompts = [p + new for p, new in zip(prompts, more, strict=True)]
        for row, prompt in enumerate(prompts):
            want = Reader(model, 64).forward(prompt)
            torch.testing.assert_close(got[row, -1:], want, rtol=1e-4, atol=1e-4)
    assert cache.cache_seqlens.tolist() == [len(p) for p in prompts]
    assert cache.cache_seqlens.dtype == torch.int32


def filled(layers=2, rows=2, heads=3, size=4, length=5, positions=0) -> RowCache:
    cache = RowCache(layers, rows, heads, size, positions=positions)
    for layer in range(layers):
        k = torch.arange(rows * length * heads * size, dtype=torch.float64).view(rows, length, heads, size) + layer
        cache.insert_kv(layer, k, -k)
    cache.advance(length)
    return cache


def test_memory_comes_with_the_first_insert_in_its_type():
    cache = RowCache(2, 1, 3, 4)
    assert (cache.k_cache, cache.positions) == (None, 0)
    with pytest.raises(ValueError, match="no memory yet"):
        cache.get_layer_cache(0)
    keys, values = cache.insert_kv(1, torch.ones(1, 2, 3, 4).bfloat16(), torch.zeros(1, 2, 3, 4).bfloat16())
    assert (keys.dtype, tuple(keys.shape), cache.k_cache.shape[2]) == (torch.bfloat16, (1, 2, 3, 4), 1024)
    assert keys.data_ptr() == cache.k_cache[1].data_ptr()  # views
    assert not cache.k_cache[1, :, 2:].any() and not cache.v_cache.any()  # weights of 0 do not cancel NaN
    assert cache.get_pos() == 0  # until `advance`
    cache.advance(2)
    assert (cache.get_pos(), int(values.sum())) == (2, 0)


@pytest.mark.parametrize(("length", "room"), [(1, 1024), (1024, 1024), (1025, 2048), (2049, 3072)])
def test_growing_is_to_multiples_of_1024_and_scrambles_nothing(length, room):
    cache = filled(length=length)
    assert cache.k_cache.shape[2] == room
    before = [t.clone() for layer in range(2) for t in (x[:, :length] for x in cache.get_layer_cache(layer))]
    for layer in range(2):
        cache.insert_kv(layer, torch.zeros(2, 1500, 3, 4).double(), torch.zeros(2, 1500, 3, 4).double())
    assert cache.k_cache.shape[2] == -(-(length + 1500) // 1024) * 1024
    after = [t for layer in range(2) for t in (x[:, :length] for x in cache.get_layer_cache(layer))]
    assert all(map(torch.equal, before, after))


def test_prefill_copies_one_row_to_all_rows_and_leaves_slack():
    one, many = filled(rows=1, positions=50), RowCache(2, 4, 3, 4, positions=9)
    many.prefill(one)
    assert (many.positions, many.cache_seqlens.tolist()) == (9, [5] * 4)
    for layer in range(2):
        for mine, theirs in zip(many.get_layer_cache(layer), one.get_layer_cache(layer), strict=True):
            assert all(torch.equal(mine[row, :5], theirs[0, :5]) for row in range(4))
    many.insert_kv(0, torch.ones(4, 1, 3, 4).double(), torch.ones(4, 1, 3, 4).double())
    assert not one.get_layer_cache(0)[0][0, 5].eq(1).all()  # memory of its own
    many.reset()
    assert many.get_pos() == 0


def test_rows_that_differ_have_no_common_position():
    cache = filled()
    cache.advance(torch.tensor([0, 3]))
    assert [cache.get_pos(row) for row in (0, 1)] == [5, 8]
    with pytest.raises(ValueError, match=r"\[5, 8\]"):
        cache.get_pos()


def test_inputs_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="not empty"):
        filled().prefill(filled())
    for other in (filled(layers=3), filled(heads=1), filled(size=8), filled(rows=3)):
        with pytest.raises(ValueError, match="does not fit"):
            RowCache(2, 2, 3, 4).prefill(other)
    small = filled(length=1, positions=3)
    small.reset()
    with pytest.raises(ValueError, match="5 positions do not fit into 3"):
        small.prefill(filled())
    with pytest.raises(ValueError, match="do not fit the cache"):
        filled().insert_kv(0, torch.ones(2, 1, 3, 5), torch.ones(2, 1, 3, 5))
