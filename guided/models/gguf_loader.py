"""Models out of GGUF files.

In: an open `GgufFile`. Out: the `Llama` that it describes: architectures llama and qwen3, formats as in dequantise.py.
Cost: one pass over the bytes, one tensor at a time. Everything in the file is used or refused: an unknown tensor, an
unknown number of the architecture, another RoPE scaling or format is an error. On a CPU in bfloat16, weights of 4, 5
and 8 bits in groups of 32 stay quantised (int4.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from guided.errors import ModelFileError, UnsupportedError
from guided.files.dequantise import Grouped, dequantise, read_grouped
from guided.files.gguf import GgufFile
from guided.models.llama import Llama, LlamaConfig
from guided.models.llama_weights import GGUF_NAMES, build_llama
from guided.models.packed import PackedFile
from guided.models.parallel import WHOLE, Parallel
from guided.models.rotary import linear_factors
from guided.models.weights import Weights, check_heads

__all__ = ["llama_config", "load_gguf"]

_ARCHITECTURES = ("llama", "qwen3")
# Numbers of the architecture that are read, and those that say nothing about the results.
_READ = {
    "block_count", "embedding_length", "attention.head_count", "attention.head_count_kv", "attention.key_length",
    "attention.value_length", "attention.layer_norm_rms_epsilon", "feed_forward_length", "context_length",
    "rope.dimension_count", "rope.freq_base", "rope.scaling.type", "rope.scaling.factor",
}  # fmt: skip
_INERT = {"vocab_size", "tensor_data_layout", "rope.scaling.original_context_length", "rope.scaling.finetuned"}


class _Tensors:
    """The tensors of a GGUF file, dequantised as they are read."""

    def __init__(self, file: GgufFile) -> None:
        self._file = file

    def names(self) -> Collection[str]:
        return self._file.tensors.keys()

    def shape(self, name: str) -> tuple[int, ...]:
        return self._file.tensors[name].shape

    def read(self, name: str) -> Tensor:
        info = self._file.tensors[name]
        return torch.from_numpy(dequantise(self._file.tensor_bytes(name), info.ggml_type, info.shape, name))

    def read_grouped(self, name: str) -> Grouped | None:
        info = self._file.tensors[name]
        rows, columns = info.shape
        return read_grouped(self._file.tensor_bytes(name), info.ggml_type, (rows, columns), name)


def load_gguf(file: GgufFile, *, dtype: torch.dtype, device: torch.device, parallel: Parallel = WHOLE) -> Llama:
    """The model in the file, its weights in `dtype` on `device`; or this process's part of it.

    Raises:
        UnsupportedError: another architecture, a format that is not read, a tensor that this model has no place for.
        ModelFileError: a tensor is missing or has the wrong shape.
    """
    weights = Weights(_Tensors(file), str(file.path), dtype, device)
    config = llama_config(file.metadata, weights)
    packed = PackedFile.of(file) if weights.stay_quantised and parallel is WHOLE else None
    if packed is not None and (model := packed.load(config)) is not None:
        return model
    neighbours = file.metadata["general.architecture"] == "llama"
    model = build_llama(
        config, weights, GGUF_NAMES, tied="output.weight" not in weights, neighbours=neighbours, parallel=parallel
    )
    if packed is not None:
        packed.store(model)
    return model


def llama_config(metadata: Mapping[str, Any], weights: Weights) -> LlamaConfig:
    """The architecture that metadata and tensors describe, or a refusal."""
    where, architecture = weights.where, metadata.get("general.architecture")
    if architecture not in _ARCHITECTURES:
        hint = f"use {' or '.join(_ARCHITECTURES)}"
        raise UnsupportedError(f"the architecture {architecture!r} is not supported", pointer=where, hint=hint)
    _check_keys(metadata, f"{architecture}.", where)

    def field(key: str, default: Any = None) -> Any:
        value = metadata.get(f"{architecture}.{key}", default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise ModelFileError(f"{where}: {architecture}.{key} is {value!r}, a positive number is needed")
        return value

    dim, heads = int(field("embedding_length")), int(field("attention.head_count"))
    head_dim = int(field("attention.key_length", max(1, dim // heads)))
    if field("attention.value_length", head_dim) != head_dim or field("rope.dimension_count", head_dim) != head_dim:
        raise UnsupportedError("value length and RoPE dimensions must equal the head's dimension", pointer=where)
    kv_heads, context = int(field("attention.head_count_kv", heads)), int(field("context_length"))
    check_heads(where, heads=heads, kv_heads=kv_heads, head_dim=head_dim, context=context)
    scaling = metadata.get(f"{architecture}.rope.scaling.type", "none")
    if scaling not in ("none", "linear"):
        raise UnsupportedError(f"RoPE scaling {scaling!r} is not supported", pointer=where, hint="none or linear is")
    factors = linear_factors(float(field("rope.scaling.factor")), head_dim) if scaling == "linear" else None
    if "rope_freqs.weight" in weights:  # Llama 3.1 scales its frequencies by a table
        if factors is not None:
            raise UnsupportedError("RoPE scaling by a factor and by rope_freqs.weight", pointer=where)
        factors = _factors(weights, head_dim)
    return LlamaConfig(
        layers=int(field("block_count")),
        dim=dim,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        hidden=int(field("feed_forward_length")),
        vocab_size=weights.rows("token_embd.weight"),
        context=context,
        rope_base=float(field("rope.freq_base", 10000.0)),
        norm_eps=float(field("attention.layer_norm_rms_epsilon")),
        rope_factors=factors,
        qk_norm=architecture == "qwen3",
    )


def _check_keys(metadata: Mapping[str, Any], prefix: str, where: str) -> None:
    """A number that is not known is refused, unless it turns something off."""
    for key, value in metadata.items():
        known = key.removeprefix(prefix) in _READ | _INERT
        if key.startswith(prefix) and not known and not (isinstance(value, int | float) and value == 0):
            raise UnsupportedError(f"{key} is not supported", pointer=where)


def _factors(weights: Weights, head_dim: int) -> tuple[float, ...]:
    """What the file divides the rotary frequencies by."""
    factors: list[float] = weights.take("rope_freqs.weight", head_dim // 2).tolist()
    if not all(isfinite(factor) and factor > 0 for factor in factors):
        raise ModelFileError(f"{weights.where}: 'rope_freqs.weight' holds a number that no frequency is divided by")
    return tuple(factors)
