"""Weights out of GGUF files.

In: an open `GgufFile`. Out: float32 arrays (`dequantise`), or the `Llama` that the file describes (`load_llama`).
Formats: F32, F16, BF16, Q4_0, Q4_1, Q8_0 as ggml defines them (blocks of 32 values with one scale, and for Q4_1 one
offset): https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h. Cost: one pass over the bytes, one tensor at
a time. Everything in the file is used or refused: an unknown tensor, a RoPE scaling or another format is an error.
It does not keep weights quantised in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from guided.errors import UnsupportedError, VocabularyError
from guided.models.llama import Layer, Llama, LlamaConfig
from guided.vocabulary.gguf import GGML_TYPES, GgufFile

__all__ = ["dequantise", "llama_config", "load_llama"]

_F32, _F16, _Q4_0, _Q4_1, _Q8_0, _BF16 = 0, 1, 2, 3, 8, 30
_SUPPORTED = {_F32: (1, 4), _F16: (1, 2), _Q4_0: (32, 18), _Q4_1: (32, 20), _Q8_0: (32, 34), _BF16: (1, 2)}

Floats = npt.NDArray[np.float32]


def dequantise(raw: npt.NDArray[np.uint8], ggml_type: int, shape: tuple[int, ...], name: str = "") -> Floats:
    """The values of one tensor, float32, in `shape` (rows first).

    Raises:
        UnsupportedError: the format is none of those above.
        VocabularyError: the bytes are not as many as the shape asks for.
    """
    if ggml_type not in _SUPPORTED:
        known = GGML_TYPES[ggml_type][0] if ggml_type in GGML_TYPES else f"type {ggml_type}"
        hint = "requantise the file to F32, F16, BF16, Q8_0, Q4_1 or Q4_0"
        raise UnsupportedError(f"weights of format {known} are not read", pointer=name, hint=hint)
    block, nbytes = _SUPPORTED[ggml_type]
    count = int(np.prod(shape, dtype=np.int64))
    if count % block or raw.size != count // block * nbytes:
        raise VocabularyError(f"tensor {name!r}: {raw.size} bytes do not hold {count} values of its format")
    raw = np.ascontiguousarray(raw)
    if ggml_type == _F32:
        return raw.view("<f4").astype(np.float32).reshape(shape)
    if ggml_type == _F16:
        return raw.view("<f2").astype(np.float32).reshape(shape)
    if ggml_type == _BF16:
        return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32).reshape(shape)
    with np.errstate(all="ignore"):  # a broken file may hold infinite scales: its logits are refused when they are NaN
        return _blocks(raw.reshape(-1, nbytes), ggml_type).reshape(shape)


def _blocks(raw: npt.NDArray[np.uint8], ggml_type: int) -> Floats:
    """Blocks of 32 values, one a row: a float16 scale, for Q4_1 a float16 offset, then the numbers."""
    scale = np.ascontiguousarray(raw[:, :2]).view("<f2").astype(np.float32)
    out = np.empty((len(raw), 32), np.float32)
    if ggml_type == _Q8_0:
        np.multiply(raw[:, 2:].view(np.int8), scale, out=out)
        return out
    packed = raw[:, 4:] if ggml_type == _Q4_1 else raw[:, 2:]
    np.multiply(packed & 15, scale, out=out[:, :16])  # values 0..15 are the low halves, 16..31 the high ones
    np.multiply(packed >> 4, scale, out=out[:, 16:])
    out += np.ascontiguousarray(raw[:, 2:4]).view("<f2").astype(np.float32) if ggml_type == _Q4_1 else -8 * scale
    return out


def llama_config(metadata: Any, where: str = "GGUF") -> LlamaConfig:
    """The architecture that the metadata describes, or a refusal."""
    architecture = metadata.get("general.architecture")
    if architecture != "llama":
        raise UnsupportedError(f"the architecture {architecture!r} is not supported", pointer=where, hint="use llama")
    scaling = metadata.get("llama.rope.scaling.type", "none")
    if scaling != "none":
        raise UnsupportedError(f"RoPE scaling {scaling!r} is not supported", pointer=where)

    def field(key: str, default: Any = None) -> Any:
        value = metadata.get(f"llama.{key}", default)
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise VocabularyError(f"{where}: llama.{key} is {value!r}, a positive number is needed")
        return value

    dim, heads = int(field("embedding_length")), int(field("attention.head_count"))
    head_dim = int(field("attention.key_length", dim // heads))
    if field("attention.value_length", head_dim) != head_dim or field("rope.dimension_count", head_dim) != head_dim:
        raise UnsupportedError("value length and RoPE dimensions must equal the head's dimension", pointer=where)
    kv_heads = int(field("attention.head_count_kv", heads))
    if heads % kv_heads or head_dim % 2:
        raise VocabularyError(f"{where}: {heads} heads and {kv_heads} KV heads of size {head_dim} do not fit")
    return LlamaConfig(
        layers=int(field("block_count")),
        dim=dim,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        hidden=int(field("feed_forward_length")),
        vocab_size=0,  # the embedding's rows say
        context=int(field("context_length")),
        rope_base=float(field("rope.freq_base", 10000.0)),
        norm_eps=float(field("attention.layer_norm_rms_epsilon")),
    )


class _Weights:
    """Tensors by name, dequantised on the way to the device; remembers which were used."""

    def __init__(self, file: GgufFile, dtype: torch.dtype, device: torch.device) -> None:
        self.file, self.dtype, self.device = file, dtype, device
        self.unused = set(file.tensors)

    def floats(self, name: str, *shape: int) -> torch.Tensor:
        info = self.file.tensors.get(name)
        if info is None:
            raise VocabularyError(f"{self.file.path}: the tensor {name!r} is missing")
        if shape and info.shape != shape:
            raise VocabularyError(f"{self.file.path}: {name!r} has the shape {info.shape}, expected {shape}")
        self.unused.discard(name)
        return torch.from_numpy(dequantise(self.file.tensor_bytes(name), info.ggml_type, info.shape, name))

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(device=self.device, dtype=self.dtype).contiguous()

    def rotary(self, name: str, heads: int, head_dim: int, dim: int) -> torch.Tensor:
        """A Q or K projection with its rows back in half-split order (GGUF stores RoPE pairs next to each other)."""
        rows = self.floats(name, heads * head_dim, dim).view(heads, head_dim // 2, 2, dim)
        return rows.transpose(1, 2).reshape(heads * head_dim, dim)


def load_llama(file: GgufFile, *, dtype: torch.dtype, device: torch.device) -> Llama:
    """The model in the file, its weights in `dtype` on `device`.

    Raises:
        UnsupportedError: another architecture, a format that is not read, a tensor that this model has no place for.
        VocabularyError: a tensor is missing or has the wrong shape.
    """
    c = llama_config(file.metadata, str(file.path))
    w = _Weights(file, dtype, device)
    embedding = w.floats("token_embd.weight")
    if embedding.ndim != 2 or embedding.shape[1] != c.dim:
        raise VocabularyError(f"{file.path}: the embedding is {tuple(embedding.shape)}, expected (*, {c.dim})")
    config = c.with_vocab_size(int(embedding.shape[0]))
    q_rows, kv_rows = c.heads * c.head_dim, c.kv_heads * c.head_dim

    def layer(i: int) -> Layer:
        b = f"blk.{i}."
        q = w.rotary(b + "attn_q.weight", c.heads, c.head_dim, c.dim)
        k = w.rotary(b + "attn_k.weight", c.kv_heads, c.head_dim, c.dim)
        v = w.floats(b + "attn_v.weight", kv_rows, c.dim)
        gate = w.floats(b + "ffn_gate.weight", c.hidden, c.dim)
        up = w.floats(b + "ffn_up.weight", c.hidden, c.dim)
        return Layer(
            attention_norm=w.put(w.floats(b + "attn_norm.weight", c.dim)),
            qkv=w.put(torch.cat((q, k, v))),
            output=w.put(w.floats(b + "attn_output.weight", c.dim, q_rows)),
            ffn_norm=w.put(w.floats(b + "ffn_norm.weight", c.dim)),
            gate_up=w.put(torch.cat((gate, up))),
            down=w.put(w.floats(b + "ffn_down.weight", c.dim, c.hidden)),
        )

    layers = [layer(i) for i in range(c.layers)]
    norm = w.put(w.floats("output_norm.weight", c.dim))
    table = w.put(embedding)
    tied = "output.weight" not in file.tensors
    head = table if tied else w.put(w.floats("output.weight", config.vocab_size, c.dim))
    if w.unused:
        raise UnsupportedError("this Llama has no place for the tensor", pointer=min(w.unused))
    return Llama(config, table, layers, norm, head)
