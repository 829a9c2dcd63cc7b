"""Gemma 3, text-only models: one layer in six reads all positions, the others only a window (arXiv 2503.19786).

Like Gemma 2, but with norms over each head's queries and keys, without a cap on scores, and with another rotary base in
layers with a window.
"""

from __future__ import annotations

from typing import Any, Final

from guided.models.architectures.gemma import GEMMA_NAMES, gemma
from guided.models.decoder import DecoderConfig, LayerKind
from guided.models.loading.architecture import decoder, gguf_decoder
from guided.models.loading.config_reader import ConfigReader, positive
from guided.models.loading.gguf_config import GgufNumbers
from guided.models.loading.huggingface_config import attention_biases, layer_windows, read_rope, rope_from, sizes
from guided.models.model import AttentionKind
from guided.models.rotary import Rope

__all__ = ["ARCHITECTURE"]


def _read_config(reader: ConfigReader) -> DecoderConfig:
    reader.one_of("hidden_activation", "gelu_pytorch_tanh", "gelu_pytorch_tanh")
    c = sizes(reader, kv_heads=4, head_dim=256)
    interval = reader.size("sliding_window_pattern", reader.get("_sliding_window_pattern", 6))
    windows = layer_windows(reader, c["layers"], lambda layer: (layer + 1) % interval != 0, window=4096)
    scale = reader.number("query_pre_attn_scalar", 256) ** -0.5
    full_rope, window_rope = _ropes(reader, c["head_dim"], c["context"])

    def kind(window: int | None) -> LayerKind:
        return LayerKind(AttentionKind(window, scale=scale), full_rope if window is None else window_rope)

    logit_softcap = reader.number_or_none("final_logit_softcapping", None)
    fields = gemma(c["dim"], tuple(map(kind, windows))) | {"qk_norm": "head"}
    return DecoderConfig(**c, **attention_biases(reader), **fields, logit_softcap=logit_softcap)


def _describe(numbers: GgufNumbers, known_sizes: dict[str, Any], rope: Rope) -> dict[str, Any]:
    """GGUF files lack the scale of scores. Like llama.cpp, recognise the largest model by its number of layers. Files
    without a window have none in any layer."""
    layers, dim = known_sizes["layers"], known_sizes["dim"]
    scale = (dim / known_sizes["heads"] if layers == 62 else known_sizes["head_dim"]) ** -0.5
    window, has_window = numbers.number_or_none("attention.sliding_window"), numbers.has_window(layers, 6)
    window_rope = Rope(numbers.number("rope.freq_base_swa", 10000.0))
    full_kind = LayerKind(AttentionKind(scale=scale), rope)
    window_kind = full_kind
    if window is not None:
        window_kind = LayerKind(AttentionKind(numbers.count("attention.sliding_window"), scale=scale), window_rope)
    kinds = tuple(window_kind if flag else full_kind for flag in has_window)
    logit_softcap = numbers.number_or_none("final_logit_softcapping")
    return gemma(dim, kinds) | {"qk_norm": "head", "logit_softcap": logit_softcap}


def _ropes(reader: ConfigReader, head_dim: int, context: int) -> tuple[Rope, Rope]:
    """The rotary positions of layers without and with a window. Older configs have one key for each base."""
    base = positive(reader.get("rope_local_base_freq", 10000.0), "rope_local_base_freq", reader.location)
    parameters = reader.get("rope_parameters", {})
    if not isinstance(parameters, dict) or not {"full_attention", "sliding_attention"} & parameters.keys():
        return read_rope(reader, head_dim, context, 1e6), Rope(base)
    if reader.get("rope_scaling") or parameters.keys() - {"full_attention", "sliding_attention"}:
        raise reader.unsupported(
            "rope_parameters", "rotary positions of more than two kinds of layers are not supported"
        )
    full_base = positive(reader.get("rope_theta", 1e6), "rope_theta", reader.location)
    full_parameters, window_parameters = (parameters.get(key) or {} for key in ("full_attention", "sliding_attention"))
    return (
        rope_from(reader, "rope_parameters", full_parameters, head_dim, context, full_base),
        rope_from(reader, "rope_parameters", window_parameters, head_dim, context, base),
    )


ARCHITECTURE: Final = decoder(
    "gemma3_text",
    "Gemma3ForCausalLM",
    _read_config,
    names=GEMMA_NAMES,
    tied=True,
    gguf=gguf_decoder(_describe, name="gemma3"),
)
