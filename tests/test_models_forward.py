"""Guarantees of every architecture: how tokens are divided into passes, and other rows of the batch, change nothing."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guided.attention.sdpa import causal_mask, sdpa
from guided.models.architectures.gpt import GPT, GPTConfig
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.models.architectures.nanochat import NanoChat, NanoChatConfig
from guided.models.decoder import LayerKind
from guided.models.model import DEFAULT_ATTENTION, AttentionKind, Model
from guided.models.rotary import Rope
from tests.effort import every, examples
from tests.engine_support import Reader

torch.set_num_threads(1)
SIZES = {"layers": 2, "dim": 24, "heads": 6, "hidden": 40, "vocab_size": 50, "context": 64}
GROUPED = SIZES | {"kv_heads": 2, "head_dim": 8}
MODELS: dict[str, Model] = {
    "llama": Llama.random(LlamaConfig(**GROUPED, qkv_bias=True, output_bias=True), seed=1),
    "qwen3": Llama.random(
        LlamaConfig(**GROUPED, qk_norm="head", kinds=(LayerKind(rope=Rope(factors=(1.0, 2.0, 3.0, 4.0))),)), seed=2
    ),
    "windows": Llama.random(  # all kinds at once, and each kind in its own layer
        LlamaConfig(
            **GROUPED,
            kinds=(
                LayerKind(AttentionKind(window=5, softcap=2.0, scale=0.6), Rope(100.0, rotary_dim=4, gain=1.2)),
                LayerKind(AttentionKind(window=11), None),
            ),
            norms="both",
            norm_offset=1.0,
            qk_norm="projection",
            qkv_bias=True,
            activation="gelu",
            embedding_scale=3.0,
            residual_scale=0.7,
            logit_divisor=0.5,
            logit_softcap=5.0,
        ),
        seed=5,
    ),
    "nanochat": NanoChat.random(NanoChatConfig(**GROUPED), seed=3),
    "gpt": GPT.random(GPTConfig(**SIZES), seed=4),
}
TOKENS = st.lists(st.integers(0, 49), min_size=1, max_size=30)
each_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
close = {"atol": 2e-5, "rtol": 1e-5}


@each_model
@examples(15)
@given(tokens=TOKENS, cuts=st.lists(st.integers(1, 7), min_size=1, max_size=30))
def test_chunks_are_one_pass(model, tokens, cuts):
    whole = Reader(model, 30).forward(tokens, len(tokens))
    assert (whole.shape, whole.dtype) == ((len(tokens), 50), torch.float32)
    chunked, rows, start = Reader(model, 30), [], 0
    while start < len(tokens):
        chunk = tokens[start : start + cuts[len(rows) % len(cuts)]]
        rows.append(chunked.forward(chunk, len(chunk)))
        start += len(chunk)
    assert torch.equal(torch.cat(rows), whole)
    single = Reader(model, 30)
    assert torch.equal(torch.cat([single.forward([token]) for token in tokens]), whole)


@each_model
@examples(10)
@given(sequences=st.lists(TOKENS, min_size=1, max_size=4))
def test_flat_sequences_match_separate_ones(model, sequences):
    lengths = [len(tokens) for tokens in sequences]
    tokens = torch.tensor([token for tokens in sequences for token in tokens])
    positions = torch.cat([torch.arange(n) for n in lengths])

    def attend(layer, q, k, v, kind=DEFAULT_ATTENTION):
        rows = zip(*(part.split(lengths) for part in (q, k, v)), strict=True)
        masks = (causal_mask(n, n, window=kind.window) for n in lengths)
        return torch.cat([sdpa(*qkv, mask, kind) for qkv, mask in zip(rows, masks, strict=True)])

    with torch.inference_mode():
        flat = model.logits(model.forward(tokens, positions, attend)).split(lengths)
    for ids, got in zip(sequences, flat, strict=True):
        torch.testing.assert_close(got, Reader(model, 30).forward(ids, len(ids)), **close)


@each_model
def test_a_token_sees_nothing_after_it(model):
    first = Reader(model, 30).forward([1, 2, 3, 4, 5], 5)
    other = Reader(model, 30).forward([1, 2, 3, 40, 41], 5)
    torch.testing.assert_close(first[:3], other[:3], **close)
    assert (first[3:] - other[3:]).abs().max() > 0.01


@each_model
def test_positions_matter(model):
    assert (Reader(model, 30).forward([1, 2, 3]) - Reader(model, 30).forward([2, 1, 3])).abs().max() > 0.01


def test_bfloat16_is_near_float32():
    for model in MODELS.values():
        low = type(model).random(model.config, seed=5, dtype=torch.bfloat16)
        high = type(model).random(model.config, seed=5)
        got, want = (Reader(m, 30).forward(list(range(30)), 30) for m in (low, high))
        assert (got.dtype, low.dtype) == (torch.float32, torch.bfloat16)
        assert (got - want).abs().max() < 0.15 < want.abs().max()


def test_the_logits_of_nanochat_are_capped():
    logits = Reader(MODELS["nanochat"], 30).forward(list(range(30)), 30)
    assert 0 < logits.abs().max() < 15


@pytest.mark.parametrize("name", every(3, ["llama", "qwen3", "windows"]))
def test_torch_compile_computes_the_same(name):
    """With the backend that only traces, since others need a compiler. Each form becomes one graph."""
    model = MODELS[name]
    assert isinstance(model, Llama)
    compiled = model.compile(backend="eager", fullgraph=True, dynamic=True)
    tokens = [(7 * i * i + i) % 50 for i in range(30)]
    want, reader = Reader(model, 30).forward(tokens, 30), Reader(compiled, 30)
    rows = [reader.forward(tokens[:17], 17), *(reader.forward([token]) for token in tokens[17:])]
    torch.testing.assert_close(torch.cat(rows), want, **close)
    assert model.forward.__func__ is compiled.forward.__func__ and "_project_qkv" not in vars(model)
    torch.compiler.reset()
