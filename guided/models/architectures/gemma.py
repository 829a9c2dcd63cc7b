"""The common part of the Gemma models: tensor names, and fields of a `DecoderConfig`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from guided.models.decoder import LayerKind
from guided.models.loading.decoder_weights import HUGGINGFACE_NAMES

__all__ = ["GEMMA_NAMES", "gemma"]

GEMMA_NAMES: Final = replace(
    HUGGINGFACE_NAMES,
    attention_norm_after="post_attention_layernorm",
    ffn_norm="pre_feedforward_layernorm",
    ffn_norm_after="post_feedforward_layernorm",
)


def gemma(dim: int, kinds: tuple[LayerKind, ...]) -> dict[str, Any]:
    """The fields of `DecoderConfig` that all Gemma models share, regardless of the file format."""
    return {
        "kinds": kinds,
        "norms": "both",
        "norm_offset": 1.0,
        "activation": "gelu",
        "embedding_scale": dim**0.5,
    }
