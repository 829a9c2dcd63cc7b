"""Gemma 2: norms before and after attention and MLP, windows in every other layer, capped scores and logits (arXiv
2408.00118).

Gains are 1 + weight, embeddings are multiplied by the square root of their size, the gate is GELU in its tanh
approximation, and the config sets the scale of the scores.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from guided.models.architectures.gemma import GEMMA_NAMES, gemma
from guided.models.decoder import DecoderConfig, LayerKind
from guided.models.loading.architecture import decoder, gguf_decoder
from guided.models.loading.config_reader import ConfigReader
from guided.models.loading.gguf_config import GgufNumbers
from guided.models.loading.huggingface_config import attention_biases, layer_windows, read_rope, sizes
from guided.models.model import AttentionKind
from guided.models.rotary import Rope

__all__ = ["ARCHITECTURE"]


def _read_config(reader: ConfigReader) -> DecoderConfig:
    for key in ("hidden_activation", "hidden_act"):  # older configs have both
        reader.one_of(key, "gelu_pytorch_tanh", "gelu_pytorch_tanh")
    c = sizes(reader, kv_heads=4, head_dim=256)
    rope = read_rope(reader, c["head_dim"], c["context"])
    softcap = reader.number_or_none("attn_logit_softcapping", 50.0)
    scale = reader.number("query_pre_attn_scalar", 256) ** -0.5
    windows = layer_windows(reader, c["layers"], lambda layer: layer % 2 == 0, window=4096)
    kinds = tuple(LayerKind(AttentionKind(window, softcap, scale), rope) for window in windows)
    logit_softcap = reader.number_or_none("final_logit_softcapping", 30.0)
    return DecoderConfig(**c, **attention_biases(reader), **gemma(c["dim"], kinds), logit_softcap=logit_softcap)


def _describe(numbers: GgufNumbers, known_sizes: dict[str, Any], rope: Rope) -> dict[str, Any]:
    """GGUF files lack the scale of scores. Like llama.cpp, recognise the largest model by its number of layers."""
    layers, dim = known_sizes["layers"], known_sizes["dim"]
    scale = (dim / known_sizes["heads"] if layers == 46 else known_sizes["head_dim"]) ** -0.5
    window = numbers.count("attention.sliding_window", 4096)
    softcap = numbers.number_or_none("attn_logit_softcapping", 50.0)
    window_rope = replace(rope, base=numbers.number("rope.freq_base_swa", rope.base))
    kinds = tuple(
        LayerKind(AttentionKind(window, softcap, scale), window_rope)
        if has_window
        else LayerKind(AttentionKind(None, softcap, scale), rope)
        for has_window in numbers.has_window(layers, 2)
    )
    return gemma(dim, kinds) | {"logit_softcap": numbers.number_or_none("final_logit_softcapping", 30.0)}


ARCHITECTURE: Final = decoder(
    "gemma2",
    "Gemma2ForCausalLM",
    _read_config,
    names=GEMMA_NAMES,
    tied=True,
    gguf=gguf_decoder(_describe),
)
