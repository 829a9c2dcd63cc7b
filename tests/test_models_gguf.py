"""Dequantisation against a reading of one value at a time, and a whole model written to a GGUF file and read back."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.engine.runner import ModelRunner
from guided.errors import GuidedError, UnsupportedError, VocabularyError
from guided.models.gguf_loader import dequantise, load_llama
from guided.models.llama import Llama, LlamaConfig
from guided.vocabulary.gguf import GgufFile
from tests.test_models_llama import naive_logits

CONFIG = LlamaConfig(
    layers=2, dim=32, heads=4, kv_heads=2, head_dim=8, hidden=64, vocab_size=40, context=64, norm_eps=2.0**-17
)
F32, F16, Q4_0, Q4_1, Q8_0, BF16 = 0, 1, 2, 3, 8, 30
BYTES = {F32: (1, 4), F16: (1, 2), Q4_0: (32, 18), Q4_1: (32, 20), Q8_0: (32, 34), BF16: (1, 2)}


def one_value(raw: bytes, kind: int, i: int) -> float:
    if kind == F32:
        return struct.unpack_from("<f", raw, 4 * i)[0]
    if kind == F16:
        return struct.unpack_from("<e", raw, 2 * i)[0]
    if kind == BF16:
        return struct.unpack("<f", b"\0\0" + raw[2 * i : 2 * i + 2])[0]
    block = raw[i // 32 * BYTES[kind][1] :][: BYTES[kind][1]]
    (d,), i = struct.unpack_from("<e", block), i % 32
    if kind == Q8_0:
        return np.float32(d) * np.float32(struct.unpack_from("<b", block, 2 + i)[0])
    packed = block[-16:]
    q = packed[i] & 15 if i < 16 else packed[i - 16] >> 4
    if kind == Q4_0:
        return d * (q - 8)
    return np.float32(d) * np.float32(q) + np.float32(struct.unpack_from("<e", block, 2)[0])


@settings(deadline=None)
@given(st.sampled_from(sorted(BYTES)), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_dequantise(kind, rows, seed):
    block, size = BYTES[kind]
    count = rows * 64
    raw = np.random.default_rng(seed).integers(0, 256, count // block * size, dtype=np.uint8)
    got = dequantise(raw, kind, (rows, 64))
    assert (got.shape, got.dtype) == ((rows, 64), np.float32)
    with np.errstate(all="ignore"):  # scales may be inf or NaN
        want = np.array([one_value(raw.tobytes(), kind, i) for i in range(count)], np.float32).reshape(rows, 64)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_other_formats_and_wrong_sizes_are_refused():
    with pytest.raises(UnsupportedError, match=r"format Q4_K are not read \(at blk.0\)\nhint: requantise"):
        dequantise(np.zeros(144, np.uint8), 12, (256,), "blk.0")
    with pytest.raises(VocabularyError, match="17 bytes do not hold 32 values"):
        dequantise(np.zeros(17, np.uint8), Q4_0, (32,))


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


def metadata_of(c: LlamaConfig) -> dict:
    fields = {
        "block_count": c.layers, "embedding_length": c.dim, "attention.head_count": c.heads,
        "attention.head_count_kv": c.kv_heads, "feed_forward_length": c.hidden, "context_length": c.context,
        "rope.freq_base": c.rope_base, "attention.layer_norm_rms_epsilon": c.norm_eps,
    }  # fmt: skip
    return {"general.architecture": "llama"} | {f"llama.{k}": v for k, v in fields.items()}


def tensors_of(model: Llama, kind: int = F32) -> dict[str, tuple[np.ndarray, int]]:
    c = model.config
    q_rows, kv_rows = c.heads * c.head_dim, c.kv_heads * c.head_dim

    def interleaved(w: torch.Tensor, heads: int) -> torch.Tensor:  # as the file has it: pairs next to each other
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
        tensors |= {f"blk.{i}.{name}.weight": w for name, w in parts.items()}
    return {name: (w.numpy(), kind if w.ndim == 2 else F32) for name, w in tensors.items()}


def load(path, dtype=torch.float32) -> Llama:
    with GgufFile(path) as file:
        return load_llama(file, dtype=dtype, device=torch.device("cpu"))


@pytest.mark.parametrize(("kind", "tolerance"), [(F32, 2e-5), (F16, 5e-3), (Q8_0, 0.2)])
def test_a_model_survives_its_file(tmp_path, kind, tolerance):
    model = Llama.random(CONFIG, seed=4)
    write_gguf(tmp_path / "m.gguf", metadata_of(CONFIG), tensors_of(model, kind))
    loaded = load(tmp_path / "m.gguf")
    assert loaded.config == CONFIG
    assert loaded.head is loaded.embedding
    tokens = [(5 * i) % 40 for i in range(20)]
    got = ModelRunner(loaded, 20).forward(tokens, 20).numpy()
    np.testing.assert_allclose(got, naive_logits(model, tokens), atol=tolerance)
    assert load(tmp_path / "m.gguf", torch.bfloat16).dtype == torch.bfloat16


def test_an_output_head_of_its_own_is_used(tmp_path):
    model = Llama.random(CONFIG, seed=4)
    head = model.embedding.flip(0).contiguous()
    write_gguf(tmp_path / "m.gguf", metadata_of(CONFIG), tensors_of(model) | {"output.weight": (head.numpy(), F32)})
    got = ModelRunner(load(tmp_path / "m.gguf"), 4).forward([1, 2])
    torch.testing.assert_close(got, ModelRunner(model, 4).forward([1, 2]).flip(1))


@pytest.mark.parametrize(
    ("change", "extra", "error", "message"),
    [
        ({"general.architecture": "gemma"}, {}, UnsupportedError, "architecture 'gemma' is not supported"),
        ({"llama.rope.scaling.type": "yarn"}, {}, UnsupportedError, "RoPE scaling 'yarn'"),
        ({"llama.rope.dimension_count": 4}, {}, UnsupportedError, "RoPE dimensions"),
        ({"llama.block_count": 0}, {}, VocabularyError, "llama.block_count is 0"),
        ({"llama.attention.head_count": 3}, {}, VocabularyError, "3 heads and 2 KV heads"),
        ({"llama.block_count": 3}, {}, VocabularyError, "'blk.2.attn_q.weight' is missing"),
        ({"llama.block_count": 1}, {}, UnsupportedError, "no place for the tensor"),
        ({"llama.feed_forward_length": 32}, {}, VocabularyError, r"ffn_gate.weight' has the shape \(64, 32\)"),
        ({}, {"rope_freqs.weight": (np.ones(4, np.float32), F32)}, UnsupportedError, "rope_freqs.weight"),
        ({}, {"blk.0.attn_q.bias": (np.ones(32, np.float32), F32)}, UnsupportedError, "blk.0.attn_q.bias"),
    ],
)
def test_what_the_model_does_not_have_is_refused(tmp_path, change, extra, error, message):
    path = tmp_path / "m.gguf"
    write_gguf(path, metadata_of(CONFIG) | change, tensors_of(Llama.random(CONFIG, seed=4)) | extra)
    with pytest.raises(error, match=message) as caught:
        load(path)
    assert isinstance(caught.value, GuidedError)
