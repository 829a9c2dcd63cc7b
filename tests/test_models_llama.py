"""The Llama forward pass compared with the formulas in numpy, and cached passes with full recomputation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.attention.sdpa import causal_mask, sdpa
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.models.decoder import LayerKind
from guided.models.rotary import Rope
from tests.effort import examples
from tests.engine_support import Reader

torch.set_num_threads(1)
CONFIG = LlamaConfig(layers=3, dim=24, heads=6, kv_heads=2, head_dim=8, hidden=40, vocab_size=50, context=96)
MODEL = Llama.random(CONFIG, seed=1)
EVERYTHING = replace(
    CONFIG, qk_norm="head", qkv_bias=True, output_bias=True,
    kinds=(LayerKind(rope=Rope(factors=(1.0, 1.0, 3.0, 8.0))),),
)  # fmt: skip
WITH_EVERYTHING = Llama.random(EVERYTHING, seed=1)
TOKENS = st.lists(st.integers(0, 49), min_size=1, max_size=40)


def naive_logits(model: Llama, tokens: list[int]) -> np.ndarray:
    """Logits after each token, in float64, one position and one head at a time."""
    c = model.config
    half = c.head_dim // 2
    frequency = c.kind(0).rope.base ** (-np.arange(half) / half) / (c.kind(0).rope.factors or (1,) * half)

    def norm(x, weight):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + c.norm_eps) * weight.double().numpy()

    def turn(x, position):
        z = (x[:half] + 1j * x[half:]) * np.exp(1j * position * frequency)
        return np.concatenate((z.real, z.imag))

    x = model.embedding.double().numpy()[tokens]
    q_rows, kv_rows = c.heads * c.head_dim, c.kv_heads * c.head_dim
    for layer in model.layers:
        h = norm(x, layer.attention_norm) @ layer.qkv.double().numpy().T
        if c.qkv_bias:
            h += layer.qkv_bias.double().numpy()
        q, k, v = h[:, :q_rows], h[:, q_rows : q_rows + kv_rows], h[:, q_rows + kv_rows :]
        out = np.zeros((len(tokens), q_rows))
        for head in range(c.heads):
            mine = slice(head * c.head_dim, (head + 1) * c.head_dim)
            group = head // (c.heads // c.kv_heads)
            shared = slice(group * c.head_dim, (group + 1) * c.head_dim)
            queries, keys = q[:, mine], k[:, shared]
            if c.qk_norm:
                queries, keys = norm(queries, layer.q_norm), norm(keys, layer.k_norm)
            keys = np.array([turn(row, p) for p, row in enumerate(keys)])
            for p in range(len(tokens)):
                score = keys[: p + 1] @ turn(queries[p], p) / np.sqrt(c.head_dim)
                weight = np.exp(score - score.max())
                out[p, mine] = weight / weight.sum() @ v[: p + 1, shared]
        x = x + out @ layer.output.double().numpy().T
        if c.qkv_bias:
            x += layer.output_bias.double().numpy()
        gate, up = np.split(norm(x, layer.ffn_norm) @ layer.gate_up.double().numpy().T, 2, axis=-1)
        x = x + (gate / (1 + np.exp(-gate)) * up) @ layer.down.double().numpy().T
    return norm(x, model.norm) @ model.head.double().numpy().T


@examples(20)
@given(TOKENS)
def test_logits_match_the_formulas(tokens):
    for model in (MODEL, WITH_EVERYTHING):
        got = Reader(model, 40).forward(tokens, len(tokens)).numpy()
        np.testing.assert_allclose(got, naive_logits(model, tokens), atol=2e-5)


@examples(40)
@given(TOKENS, st.lists(st.integers(1, 7), min_size=1, max_size=40))
def test_any_split_into_chunks_gives_the_logits_of_one_pass(tokens, cuts):
    whole = Reader(MODEL, 40).forward(tokens, len(tokens))
    runner, rows, start = Reader(MODEL, 40), [], 0
    while start < len(tokens):
        chunk = tokens[start : start + cuts[len(rows) % len(cuts)]]
        rows.append(runner.forward(chunk, len(chunk)))
        start += len(chunk)
    assert runner.length == len(tokens)
    torch.testing.assert_close(torch.cat(rows), whole, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cached_greedy_tokens_match_full_recompute(dtype):
    model = Llama.random(CONFIG, seed=2, dtype=dtype)
    runner, tokens = Reader(model, 80), [3, 1, 4, 1, 5]
    logits = runner.forward(tokens)
    for _ in range(64):
        naive = Reader(model, 80).forward(tokens)
        assert torch.equal(logits, naive)
        tokens.append(int(naive.argmax()))
        logits = runner.forward(tokens[-1:])


def test_truncate_forgets():
    runner = Reader(MODEL, 40)
    first = runner.forward([1, 2, 3])
    runner.forward([4, 5])
    runner.truncate(2)
    torch.testing.assert_close(runner.forward([3]), first, atol=1e-5, rtol=1e-5)


def test_bfloat16_is_near_float32():
    low = Llama.random(CONFIG, seed=1, dtype=torch.bfloat16)
    tokens = list(range(30))
    got, want = (Reader(m, 40).forward(tokens, 30) for m in (low, MODEL))
    assert (got - want).abs().max() < 0.15 < want.abs().max()
    assert got.dtype == torch.float32


def test_equal_to_transformers():
    transformers = pytest.importorskip("transformers")
    hf_config = transformers.LlamaConfig(
        vocab_size=50, hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=6, head_dim=8,
        num_key_value_heads=2, max_position_embeddings=96, rms_norm_eps=1e-5, tie_word_embeddings=True,
    )  # fmt: skip
    other = transformers.LlamaForCausalLM(hf_config).eval()
    weights = {
        "model.embed_tokens.weight": MODEL.embedding,
        "lm_head.weight": MODEL.head,
        "model.norm.weight": MODEL.norm,
    }
    for i, layer in enumerate(MODEL.layers):
        q, k, v = layer.qkv.split([48, 16, 16])
        gate, up = layer.gate_up.chunk(2)
        names = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj")
        names += ("mlp.up_proj", "mlp.down_proj", "input_layernorm", "post_attention_layernorm")
        values = (q, k, v, layer.output, gate, up, layer.down, layer.attention_norm, layer.ffn_norm)
        weights |= {f"model.layers.{i}.{n}.weight": w for n, w in zip(names, values, strict=True)}
    other.load_state_dict(weights)
    tokens = [(7 * i) % 50 for i in range(40)]
    with torch.inference_mode():
        want = other(torch.tensor([tokens])).logits[0]
    torch.testing.assert_close(Reader(MODEL, 40).forward(tokens, 40), want, atol=2e-5, rtol=1e-5)


@examples(30)
@given(st.integers(1, 6), st.integers(0, 6), st.sampled_from([(1, 1), (4, 2), (3, 3)]))
def test_attention_reads_every_key_up_to_the_query(new, before, heads):
    generator = torch.Generator().manual_seed(new * 10 + before)
    total = new + before
    q = torch.randn(new, heads[0], 4, generator=generator)
    k, v = (torch.randn(total, heads[1], 4, generator=generator) for _ in range(2))
    got = sdpa(q, k, v, causal_mask(new, total))
    for i in range(new):
        for h in range(heads[0]):
            g = h * heads[1] // heads[0]
            keys = k[: before + i + 1, g]
            weight = (keys @ q[i, h] / 2).softmax(0)
            torch.testing.assert_close(got[i, h], weight @ v[: before + i + 1, g], atol=1e-5, rtol=1e-5)
