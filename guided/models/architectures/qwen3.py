"""Qwen3: Llama with a norm over each head's queries and keys, as in "Qwen3 Technical Report" (arXiv 2505.09388)."""

from __future__ import annotations

from typing import Final

from guided.models.decoder import DecoderConfig
from guided.models.loading.architecture import decoder, gguf_decoder
from guided.models.loading.config_reader import ConfigReader
from guided.models.loading.gguf_config import fixed_fields
from guided.models.loading.huggingface_config import attention_biases, kinds_of, optional_windows, read_rope, sizes

__all__ = ["ARCHITECTURE"]


def _read_config(reader: ConfigReader) -> DecoderConfig:
    reader.one_of("hidden_act", "silu", "silu", "swish")
    c = sizes(reader, kv_heads=32, head_dim=128)
    kinds = kinds_of(read_rope(reader, c["head_dim"], c["context"]), optional_windows(reader, c["layers"]))
    return DecoderConfig(**c, **attention_biases(reader), kinds=kinds, qk_norm="head")


ARCHITECTURE: Final = decoder(
    "qwen3", "Qwen3ForCausalLM", _read_config, gguf=gguf_decoder(fixed_fields(qk_norm="head"))
)
