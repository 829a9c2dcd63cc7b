"""The metadata of GGUF files: what all decoders have in common.

Every number of the architecture is read, known to be without effect, or refused by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from guided.errors import ModelFileError, UnsupportedError, brief
from guided.models.config_reader import positive, size
from guided.models.decoder import DecoderConfig, LayerKind
from guided.models.rotary import Rope, linear_factors
from guided.models.weights import Weights, check_heads

__all__ = ["decoder_from_gguf"]

# Numbers of the architecture that are read, and those that say nothing about the results.
_READ = {
    "block_count", "embedding_length", "attention.head_count", "attention.head_count_kv", "attention.key_length",
    "attention.value_length", "attention.layer_norm_rms_epsilon", "feed_forward_length", "context_length",
    "rope.dimension_count", "rope.freq_base", "rope.scaling.type", "rope.scaling.factor",
}  # fmt: skip
_INERT = {"vocab_size", "tensor_data_layout", "rope.scaling.original_context_length", "rope.scaling.finetuned"}


def decoder_from_gguf(metadata: Mapping[str, Any], weights: Weights, **described: Any) -> DecoderConfig:
    """The decoder that metadata and tensors describe, or a refusal; `described`: what its architecture says of it."""
    where, architecture = weights.where, metadata["general.architecture"]
    _check_keys(metadata, f"{architecture}.", where)

    def number(key: str, default: float | None = None) -> float:
        key = f"{architecture}.{key}"
        return positive(metadata.get(key, default), key, where)

    def count(key: str, default: int | None = None) -> int:
        key = f"{architecture}.{key}"
        return size(metadata.get(key, default), key, where)

    dim, heads = count("embedding_length"), count("attention.head_count")
    head_dim = count("attention.key_length", max(1, dim // heads))
    if count("attention.value_length", head_dim) != head_dim or count("rope.dimension_count", head_dim) != head_dim:
        raise UnsupportedError("value length and RoPE dimensions must equal the head's dimension", pointer=where)
    kv_heads, context = count("attention.head_count_kv", heads), count("context_length")
    check_heads(where, heads=heads, kv_heads=kv_heads, head_dim=head_dim, context=context)
    scaling = metadata.get(f"{architecture}.rope.scaling.type", "none")
    if not isinstance(scaling, str) or scaling not in ("none", "linear"):
        raise UnsupportedError(
            f"RoPE scaling {brief(scaling)} is not supported", pointer=where, hint="none or linear is"
        )
    factors = linear_factors(number("rope.scaling.factor"), head_dim) if scaling == "linear" else None
    if "rope_freqs.weight" in weights:  # Llama 3.1 scales its frequencies by a table
        if factors is not None:
            raise UnsupportedError("RoPE scaling by a factor and by rope_freqs.weight", pointer=where)
        factors = _factors(weights, head_dim)
    rope = Rope(number("rope.freq_base", 10000.0), factors)
    return DecoderConfig(
        layers=count("block_count"),
        dim=dim,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        hidden=count("feed_forward_length"),
        vocab_size=weights.rows("token_embd.weight"),
        context=context,
        norm_eps=number("attention.layer_norm_rms_epsilon"),
        kinds=(LayerKind(rope=rope),),
        **described,
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
