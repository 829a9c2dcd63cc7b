"""Granite 3: Llama with multipliers for embeddings, scores, residuals and logits (arXiv 2404.05782)."""

from __future__ import annotations

from typing import Any, Final

from guided.models.decoder import DecoderConfig, LayerKind
from guided.models.loading.architecture import decoder, gguf_decoder
from guided.models.loading.config_reader import ConfigReader
from guided.models.loading.gguf_config import GgufNumbers
from guided.models.loading.huggingface_config import attention_biases, read_rope, sizes
from guided.models.model import AttentionKind
from guided.models.rotary import Rope

__all__ = ["ARCHITECTURE"]


def _read_config(reader: ConfigReader) -> DecoderConfig:
    reader.one_of("hidden_act", "silu", "silu", "swish")
    c = sizes(reader)
    rope = read_rope(reader, c["head_dim"], c["context"])
    return DecoderConfig(
        **c,
        **attention_biases(reader),
        kinds=(LayerKind(AttentionKind(scale=reader.number("attention_multiplier", 1.0)), rope),),
        embedding_scale=reader.number("embedding_multiplier", 1.0),
        residual_scale=reader.number("residual_multiplier", 1.0),
        logit_divisor=reader.number("logits_scaling", 1.0),
    )


def _describe(numbers: GgufNumbers, known_sizes: dict[str, Any], rope: Rope) -> dict[str, Any]:
    """Read the multipliers. A missing multiplier is 1; a missing scale of scores is 1 / sqrt(head_dim)."""
    return {
        "kinds": (LayerKind(AttentionKind(scale=numbers.number_or_none("attention.scale")), rope),),
        "embedding_scale": numbers.number_or_none("embedding_scale") or 1.0,
        "residual_scale": numbers.number_or_none("residual_scale") or 1.0,
        "logit_divisor": numbers.number_or_none("logit_scale") or 1.0,
    }


ARCHITECTURE: Final = decoder(
    "granite", "GraniteForCausalLM", _read_config, gguf=gguf_decoder(_describe, adjacent_pairs=True)
)
