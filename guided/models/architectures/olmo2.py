"""OLMo 2: norms after attention and MLP, and norms over all query heads and all key heads of a token (arXiv
2501.00656)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from guided.models.decoder import DecoderConfig
from guided.models.loading.architecture import decoder, gguf_decoder
from guided.models.loading.config_reader import ConfigReader
from guided.models.loading.decoder_weights import HUGGINGFACE_NAMES
from guided.models.loading.gguf_config import fixed_fields
from guided.models.loading.huggingface_config import attention_biases, kinds_of, read_rope, sizes

__all__ = ["ARCHITECTURE"]


def _read_config(reader: ConfigReader) -> DecoderConfig:
    reader.one_of("hidden_act", "silu", "silu", "swish")
    c = sizes(reader, norm_eps=1e-5)
    kinds = kinds_of(read_rope(reader, c["head_dim"], c["context"]), [None])
    return DecoderConfig(**c, **attention_biases(reader), kinds=kinds, norms="after", qk_norm="projection")


ARCHITECTURE: Final = decoder(
    "olmo2",
    "Olmo2ForCausalLM",
    _read_config,
    names=replace(
        HUGGINGFACE_NAMES,
        attention_norm_after="post_attention_layernorm",
        ffn_norm_after="post_feedforward_layernorm",
    ),
    gguf=gguf_decoder(fixed_fields(norms="after", qk_norm="projection")),
)
