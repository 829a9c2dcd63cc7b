"""SmolLM3: Llama, but some layers have no rotary positions (NoPE; "RoPE to NoPE and Back Again", arXiv 2501.18795)."""

from __future__ import annotations

from typing import Any, Final

from guided.models.decoder import DecoderConfig, LayerKind
from guided.models.loading.architecture import decoder, gguf_decoder
from guided.models.loading.config_reader import ConfigReader
from guided.models.loading.gguf_config import GgufNumbers
from guided.models.loading.huggingface_config import attention_biases, layer_windows, read_rope, sizes
from guided.models.model import AttentionKind
from guided.models.rotary import Rope

__all__ = ["ARCHITECTURE"]


def _read_config(reader: ConfigReader) -> DecoderConfig:
    reader.one_of("hidden_act", "silu", "silu", "swish")
    c = sizes(reader, kv_heads=4)
    rope, rotation_flags = (
        read_rope(reader, c["head_dim"], c["context"], 2e6),
        _read_rotation_flags(reader, c["layers"]),
    )
    has_windows = reader.flag("use_sliding_window", False)
    windows = layer_windows(reader, c["layers"], lambda layer: has_windows and not rotation_flags[layer])
    if not has_windows and any(windows):
        raise reader.unsupported("layer_types", "layers have windows, but use_sliding_window is off")
    layers = zip(windows, rotation_flags, strict=True)
    kinds = tuple(LayerKind(AttentionKind(window), rope if has_rope else None) for window, has_rope in layers)
    return DecoderConfig(**c, **attention_biases(reader), kinds=kinds)


def _read_rotation_flags(reader: ConfigReader, layers: int) -> list[bool]:
    """Whether each layer rotates queries and keys. Despite its name, `no_rope_layers` has a 1 for layers that do."""
    interval = reader.size("no_rope_layer_interval", 4)
    flags: Any = reader.get("no_rope_layers", [int((layer + 1) % interval != 0) for layer in range(layers)])
    if not isinstance(flags, list) or len(flags) < layers or not all(number in (0, 1) for number in flags):
        raise reader.unsupported(
            "no_rope_layers", f"no_rope_layers is not a list with 0 or 1 for each of {layers} layers"
        )
    return [bool(number) for number in flags[:layers]]


def _describe(numbers: GgufNumbers, known_sizes: dict[str, Any], rope: Rope) -> dict[str, Any]:
    """GGUF files do not say which layers have no rotary positions. Like llama.cpp, assume every fourth layer."""
    return {"kinds": tuple(LayerKind(rope=rope if (layer + 1) % 4 else None) for layer in range(known_sizes["layers"]))}


ARCHITECTURE: Final = decoder(
    "smollm3", "SmolLM3ForCausalLM", _read_config, tied=True, gguf=gguf_decoder(_describe, adjacent_pairs=True)
)
