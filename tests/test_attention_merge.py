"""Attention over parts of the keys, merged, is attention over all of them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.attention import merge
from guided.attention.merge import attention_with_lse, merge_attention_outputs
from guided.attention.sdpa import sdpa
from tests.effort import examples

SIZES = st.tuples(st.integers(1, 5), st.sampled_from([(1, 1), (2, 1), (4, 2), (3, 3)]), st.sampled_from([1, 8, 10]))
close = {"atol": 1e-5, "rtol": 1e-5}


@pytest.fixture(params=["kernel", "plain"])
def each_way(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr(merge, "_CPU_FLASH_ATTENTION", None)


def defined(q, k, v, mask=None):
    """By definition, query by query, in float64."""
    n, heads, dim = q.shape
    out, lse = torch.zeros(n, heads, dim).double(), torch.full((n, heads), -torch.inf).double()
    for i in range(n):
        for h in range(heads):
            keys, values = (x[:, h // (heads // x.shape[1])].double() for x in (k, v))
            read = torch.ones(len(k), dtype=torch.bool) if mask is None else mask[i]
            if read.any():
                scores = (keys[read] @ q[i, h].double()) * dim**-0.5
                out[i, h], lse[i, h] = scores.softmax(0) @ values[read], scores.logsumexp(0)
    return out, lse


@pytest.mark.usefixtures("each_way")
def test_attention_and_its_lse_are_the_definition():
    @examples(60)
    @given(SIZES, st.integers(0, 9), st.integers(0, 99), st.booleans(), st.permutations(range(3)))
    def check(sizes, keys, seed, masked, order):
        torch.manual_seed(seed)
        n, (heads, kv_heads), dim = sizes
        q, k, v = torch.randn(n, heads, dim) * 3, torch.randn(keys, kv_heads, dim), torch.randn(keys, kv_heads, dim)
        q, k, v = (x.permute(order).contiguous().permute([order.index(i) for i in range(3)]) for x in (q, k, v))
        mask = torch.rand(n, keys) < 0.5 if masked else None
        got = attention_with_lse(q, k, v, mask)
        for one, want in zip(got, defined(q, k, v, mask), strict=True):
            torch.testing.assert_close(one.double(), want, **close)

    check()


@pytest.mark.usefixtures("each_way")
def test_any_parts_make_the_whole():
    @examples(60)
    @given(SIZES, st.lists(st.integers(0, 6), min_size=1, max_size=7), st.integers(0, 99), st.randoms())
    def check(sizes, lengths, seed, rng):
        torch.manual_seed(seed)
        n, (heads, kv_heads), dim = sizes
        lengths = [*lengths, 1]
        q = torch.randn(n, heads, dim) * 4
        k, v = (torch.randn(sum(lengths), kv_heads, dim) for _ in "kv")
        parts = [attention_with_lse(q, a, b) for a, b in zip(k.split(lengths), v.split(lengths), strict=True)]
        whole = sdpa(q, k, v, torch.ones(n, len(k), dtype=torch.bool))
        while len(parts) > 1:  # in any order
            rng.shuffle(parts)
            parts.append(merge_attention_outputs(*parts.pop(), *parts.pop()))
        torch.testing.assert_close(parts[0][0], whole, **close)
        torch.testing.assert_close(parts[0][1].double(), defined(q, k, v)[1], **close)

    check()


def test_an_empty_part_changes_nothing():
    torch.manual_seed(1)
    o, lse = attention_with_lse(torch.randn(3, 2, 4), torch.randn(5, 1, 4), torch.randn(5, 1, 4))
    nothing = torch.full((3, 2), -torch.inf)
    for garbage in (0.0, 7.0, torch.inf, torch.nan):
        empty = torch.full((3, 2, 4), garbage)
        for got in (merge_attention_outputs(o, lse, empty, nothing), merge_attention_outputs(empty, nothing, o, lse)):
            assert torch.equal(got[0], o) and torch.equal(got[1], lse)
        out, both = merge_attention_outputs(empty, nothing, empty, nothing)
        assert torch.equal(out, torch.zeros(3, 2, 4)) and torch.equal(both, nothing)


def test_some_queries_may_have_read_nothing():
    o, lse = torch.ones(2, 1, 1), torch.tensor([[0.0], [-torch.inf]])
    out, merged = merge_attention_outputs(o, lse, 3 * o, torch.zeros(2, 1))
    assert out.flatten().tolist() == [2.0, 3.0]
    torch.testing.assert_close(merged.flatten(), torch.tensor([2.0, 1.0]).log())


def test_shares_far_apart_do_not_overflow():
    o = torch.ones(1, 1, 1)
    out, lse = merge_attention_outputs(o, torch.tensor([[5000.0]]), 2 * o, torch.tensor([[-5000.0]]))
    assert (out.item(), lse.item()) == (1.0, 5000.0)


def test_parts_in_bfloat16_are_merged_in_float32():
    q, k, v = (torch.randn(4, 2, 8, dtype=torch.bfloat16) for _ in "qkv")
    out, lse = merge_attention_outputs(*attention_with_lse(q, k, v), *attention_with_lse(q, k, v))
    assert (out.dtype, lse.dtype) == (torch.float32, torch.float32)
    torch.testing.assert_close(out, defined(q, k, v)[0].float(), atol=0.02, rtol=0.02)
