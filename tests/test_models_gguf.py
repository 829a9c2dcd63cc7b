"""Whole models written to GGUF files and read back."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest
import torch

from guided.engine.pretrained import load_model
from guided.errors import GuidedError, ModelFileError, UnsupportedError
from guided.files.gguf import GgufFile
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.models.block_matrix import BlockMatrix
from guided.models.decoder import LayerKind
from guided.models.loading.gguf_loader import load_gguf
from guided.models.rotary import Rope
from tests.engine_support import Reader
from tests.test_models_llama import naive_logits
from tests.vocabulary_support import gguf_value

CONFIG = LlamaConfig(
    layers=2, dim=32, heads=4, kv_heads=2, head_dim=8, hidden=64, vocab_size=40, context=64, norm_eps=2.0**-17
)
F32, F16, Q8_0 = 0, 1, 8


def quantise(values: np.ndarray, kind: int) -> bytes:
    if kind == F32:
        return values.astype("<f4").tobytes()
    if kind == F16:
        return values.astype("<f2").tobytes()
    blocks = values.reshape(-1, 32)
    scale = (np.abs(blocks).max(1, keepdims=True) / 127).astype("<f2")
    q = np.rint(blocks / np.where(scale == 0, 1, scale).astype(np.float32)).clip(-127, 127).astype(np.int8)
    return b"".join(s.tobytes() + row.tobytes() for s, row in zip(scale, q, strict=True))


def write_gguf(path, metadata: dict, tensors: dict[str, tuple[np.ndarray, int]]) -> None:
    def text(s: str) -> bytes:
        return struct.pack("<Q", len(s.encode())) + s.encode()

    def value(v) -> bytes:
        if isinstance(v, str):
            return struct.pack("<I", 8) + text(v)
        if isinstance(v, bool | list):
            return gguf_value(v)
        return struct.pack("<If", 6, v) if isinstance(v, float) else struct.pack("<II", 4, v)

    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata))
    head += b"".join(text(k) + value(v) for k, v in metadata.items())
    data = b""
    for name, (array, kind) in tensors.items():
        head += text(name) + struct.pack("<I", array.ndim)
        head += b"".join(struct.pack("<Q", d) for d in reversed(array.shape)) + struct.pack("<IQ", kind, len(data))
        data += quantise(array, kind)
        data += bytes(-len(data) % 32)
    path.write_bytes(head + bytes(-len(head) % 32) + data)


def metadata_of(c: LlamaConfig, architecture: str = "llama") -> dict:
    fields = {
        "block_count": c.layers, "embedding_length": c.dim, "attention.head_count": c.heads,
        "attention.head_count_kv": c.kv_heads, "feed_forward_length": c.hidden, "context_length": c.context,
        "rope.freq_base": c.kind(0).rope.base, "attention.layer_norm_rms_epsilon": c.norm_eps,
    }  # fmt: skip
    return {"general.architecture": architecture} | {f"{architecture}.{k}": v for k, v in fields.items()}


def tensors_of(model: Llama, kind: int = F32, neighbours: bool = True) -> dict[str, tuple[np.ndarray, int]]:
    c = model.config
    q_rows, kv_rows = c.heads * c.head_dim, c.kv_heads * c.head_dim

    def interleaved(w: torch.Tensor, heads: int) -> torch.Tensor:  # pairs next to each other
        if not neighbours:
            return w
        out = torch.empty_like(w)
        for h in range(heads):
            for j in range(c.head_dim // 2):
                out[h * c.head_dim + 2 * j] = w[h * c.head_dim + j]
                out[h * c.head_dim + 2 * j + 1] = w[h * c.head_dim + c.head_dim // 2 + j]
        return out

    tensors = {"token_embd.weight": model.embedding, "output_norm.weight": model.norm}
    for i, layer in enumerate(model.layers):
        q, k, v = layer.qkv.split([q_rows, kv_rows, kv_rows])
        gate, up = layer.gate_up.chunk(2)
        parts = {
            "attn_q": interleaved(q, c.heads), "attn_k": interleaved(k, c.kv_heads), "attn_v": v, "ffn_gate": gate,
            "attn_output": layer.output, "attn_norm": layer.attention_norm, "ffn_norm": layer.ffn_norm,
            "ffn_up": up, "ffn_down": layer.down,
        }  # fmt: skip
        if layer.q_norm is not None:
            parts |= {"attn_q_norm": layer.q_norm, "attn_k_norm": layer.k_norm}
        tensors |= {f"blk.{i}.{name}.weight": w for name, w in parts.items()}
    return {name: (w.numpy(), kind if w.ndim == 2 else F32) for name, w in tensors.items()}


def load(path, dtype=torch.float32, keep_format=False) -> Llama:
    with GgufFile(path) as file:
        return load_gguf(file, dtype=dtype, device=torch.device("cpu"), keep_format=keep_format)


@pytest.mark.parametrize(("kind", "tolerance"), [(F32, 2e-5), (F16, 5e-3), (Q8_0, 0.2)])
def test_a_model_survives_its_file(tmp_path, kind, tolerance):
    model = Llama.random(CONFIG, seed=4)
    write_gguf(tmp_path / "m.gguf", metadata_of(CONFIG), tensors_of(model, kind))
    loaded = load(tmp_path / "m.gguf")
    assert loaded.config == CONFIG
    assert loaded.head is loaded.embedding
    tokens = [(5 * i) % 40 for i in range(20)]
    got = Reader(loaded, 20).forward(tokens, 20).numpy()
    np.testing.assert_allclose(got, naive_logits(model, tokens), atol=tolerance)
    assert load(tmp_path / "m.gguf", torch.bfloat16).dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_matrices_stay_quantised_on_request(tmp_path, dtype):
    """Including the embedding, which is also the head here. Without a whole block in a row, a matrix is dense."""
    model = Llama.random(CONFIG, seed=4)
    write_gguf(tmp_path / "m.gguf", metadata_of(CONFIG), tensors_of(model, Q8_0))
    exact, loaded = load(tmp_path / "m.gguf"), load(tmp_path / "m.gguf", dtype, keep_format=True)
    assert (loaded.dtype, loaded.device.type, loaded.config) == (dtype, "cpu", CONFIG)
    assert isinstance(loaded.embedding, BlockMatrix) and loaded.head is loaded.embedding
    matrices = [(exact.embedding, loaded.embedding)]
    for one, two in zip(exact.layers, loaded.layers, strict=True):
        matrices += [(getattr(one, name), getattr(two, name)) for name in ("qkv", "output", "gate_up", "down")]
    for want, found in matrices:
        assert isinstance(found, BlockMatrix) and found.shape == tuple(want.shape)
        assert torch.equal(found[torch.arange(len(found))], want.to(dtype))
    tokens = [(5 * i) % 40 for i in range(20)]
    want, got = Reader(exact, 20).forward(tokens, 20), Reader(loaded, 20).forward(tokens, 20)
    assert (got.float() - want).norm() < 0.03 * want.norm()
    dense = load(tmp_path / "m.gguf", dtype)
    assert isinstance(dense.embedding, torch.Tensor) and isinstance(dense.layers[0].qkv, torch.Tensor)
    assert loaded.kv_dtype == torch.bfloat16


@pytest.mark.parametrize("kind", [F32, F16])
def test_numbers_that_stand_alone_stay_as_they_are(tmp_path, kind):
    model = Llama.random(CONFIG, seed=4)
    write_gguf(tmp_path / "m.gguf", metadata_of(CONFIG), tensors_of(model, kind))
    exact, loaded = load(tmp_path / "m.gguf"), load(tmp_path / "m.gguf", keep_format=True)
    assert isinstance(loaded.embedding, BlockMatrix) and not loaded.embedding.is_quantised
    assert loaded.kv_dtype == torch.float32
    assert torch.equal(loaded.embedding[torch.arange(40)], exact.embedding)
    tokens = [(5 * i) % 40 for i in range(20)]
    want, got = Reader(exact, 20).forward(tokens, 20), Reader(loaded, 20).forward(tokens, 20)
    torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("kind", "asked", "dtype", "form"),
    [
        (Q8_0, None, torch.float32, BlockMatrix),
        (Q8_0, torch.bfloat16, torch.bfloat16, BlockMatrix),
        (Q8_0, torch.float32, torch.float32, torch.Tensor),
        (F16, torch.bfloat16, torch.bfloat16, BlockMatrix),
        (F16, None, torch.float32, BlockMatrix),
        (F32, torch.float32, torch.float32, torch.Tensor),
    ],
)
def test_the_form_of_weights_on_a_cpu(tmp_path, kind, asked, dtype, form):
    """They are unchanged unless float32 is requested."""
    write_gguf(tmp_path / "m.gguf", metadata_of(CONFIG), tensors_of(Llama.random(CONFIG, seed=4), kind))
    model = load_model(tmp_path / "m.gguf", dtype=asked, device=torch.device("cpu"))
    assert model.dtype == dtype and isinstance(model.embedding, form) and isinstance(model.head, form)
    assert {isinstance(layer.qkv, form) for layer in model.layers} == {True}
    assert {layer.attention_norm.dtype for layer in model.layers} == {dtype}


def test_a_separate_output_head_is_used(tmp_path):
    model = Llama.random(CONFIG, seed=4)
    head = model.embedding.flip(0).contiguous()
    write_gguf(tmp_path / "m.gguf", metadata_of(CONFIG), tensors_of(model) | {"output.weight": (head.numpy(), F32)})
    got = Reader(load(tmp_path / "m.gguf"), 4).forward([1, 2])
    torch.testing.assert_close(got, Reader(model, 4).forward([1, 2]).flip(1))


def test_qwen3(tmp_path):
    config = replace(CONFIG, qk_norm="head", head_dim=12)
    model = Llama.random(config, seed=5)
    metadata = metadata_of(config, "qwen3") | {"qwen3.attention.key_length": 12, "qwen3.attention.value_length": 12}
    write_gguf(tmp_path / "m.gguf", metadata, tensors_of(model, neighbours=False))
    loaded = load(tmp_path / "m.gguf")
    assert loaded.config == config
    tokens = [(5 * i) % 40 for i in range(20)]
    np.testing.assert_allclose(Reader(loaded, 20).forward(tokens, 20).numpy(), naive_logits(model, tokens), atol=2e-5)


@pytest.mark.parametrize("way", ["a table", "a factor"])
def test_rotary_scaling(tmp_path, way):
    factors = (1.0, 1.5, 4.0, 8.0) if way == "a table" else (4.0,) * 4
    model = Llama.random(replace(CONFIG, kinds=(LayerKind(rope=Rope(factors=factors)),)), seed=4)
    change = {} if way == "a table" else {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    extra = {"rope_freqs.weight": (np.array(factors, np.float32), F32)} if way == "a table" else {}
    write_gguf(tmp_path / "m.gguf", metadata_of(CONFIG) | change, tensors_of(model) | extra)
    loaded = load(tmp_path / "m.gguf")
    assert loaded.config == model.config
    tokens = [(5 * i) % 40 for i in range(20)]
    np.testing.assert_allclose(Reader(loaded, 20).forward(tokens, 20).numpy(), naive_logits(model, tokens), atol=2e-5)


@pytest.mark.parametrize(
    ("change", "extra", "error", "message"),
    [
        ({"general.architecture": "gemma"}, {}, UnsupportedError, "architecture 'gemma' is not supported"),
        ({"llama.rope.scaling.type": "yarn"}, {}, UnsupportedError, "RoPE scaling 'yarn'"),
        ({"llama.rope.dimension_count": 4}, {}, UnsupportedError, "RoPE dimensions"),
        ({"llama.block_count": 0}, {}, ModelFileError, "llama.block_count is 0"),
        ({"llama.attention.head_count": 3}, {}, ModelFileError, "3 heads and 2 KV heads"),
        ({"llama.attention.head_count": 0.5}, {}, ModelFileError, "attention.head_count is 0.5, but must be an int"),
        ({"llama.attention.head_count_kv": 0.5}, {}, ModelFileError, "head_count_kv is 0.5, but must be an integer"),
        ({"llama.context_length": 64.5}, {}, ModelFileError, "llama.context_length is 64.5, but must be an integer"),
        ({"llama.block_count": [1, 2]}, {}, ModelFileError, "llama.block_count is .*, but must be a positive number"),
        ({"llama.rope.scaling.type": [1, 2]}, {}, UnsupportedError, "RoPE scaling array.* is not supported"),
        ({"llama.block_count": 3}, {}, ModelFileError, "'blk.2.attn_norm.weight' is missing"),
        ({"llama.block_count": 1}, {}, UnsupportedError, "does not use the tensor"),
        ({"llama.feed_forward_length": 32}, {}, ModelFileError, r"ffn_gate.weight' has the shape \(64, 32\)"),
        ({"llama.rope.scaling.type": "linear"}, {}, ModelFileError, "llama.rope.scaling.factor is None"),
        (
            {"llama.context_length": 1 << 31},
            {},
            ModelFileError,
            "context of 2147483648 positions for heads of size 8 is too long",
        ),
        ({"llama.expert_count": 8}, {}, UnsupportedError, "llama.expert_count is not supported"),
        ({"llama.attention.sliding_window": 64}, {}, UnsupportedError, "llama.attention.sliding_window"),
        ({"general.architecture": "qwen3"}, {}, ModelFileError, "qwen3.embedding_length is None"),
        (
            {},
            {"rope_freqs.weight": (np.ones(5, np.float32), F32)},
            ModelFileError,
            r"'rope_freqs.weight' has the shape",
        ),
        ({}, {"rope_freqs.weight": (np.zeros(4, np.float32), F32)}, ModelFileError, "is not positive and finite"),
        ({}, {"token_embd.weight": (np.ones(4, np.float32), F32)}, ModelFileError, "but a matrix is expected"),
        ({}, {"blk.0.attn_q_norm.weight": (np.ones(8, np.float32), F32)}, UnsupportedError, "blk.0.attn_q_norm"),
        ({}, {"blk.0.attn_q.bias": (np.ones(32, np.float32), F32)}, UnsupportedError, "blk.0.attn_q.bias"),
    ],
)
def test_tensors_that_the_model_does_not_have_are_refused(tmp_path, change, extra, error, message):
    path = tmp_path / "m.gguf"
    write_gguf(path, metadata_of(CONFIG) | change, tensors_of(Llama.random(CONFIG, seed=4)) | extra)
    with pytest.raises(error, match=message) as caught:
        load(path)
    assert isinstance(caught.value, GuidedError)
