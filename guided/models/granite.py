"""Granite 3: Llama with multipliers of embeddings, scores, what layers add, and logits (arXiv 2404.05782)."""

from __future__ import annotations

from typing import Final

from guided.models.architecture import decoder
from guided.models.config_reader import ConfigReader
from guided.models.decoder import DecoderConfig, LayerKind
from guided.models.huggingface_config import attention_biases, read_rope, sizes
from guided.models.model import AttentionKind

__all__ = ["ARCHITECTURE"]


def _config(reader: ConfigReader) -> DecoderConfig:
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


ARCHITECTURE: Final = decoder("granite", "GraniteForCausalLM", _config)
