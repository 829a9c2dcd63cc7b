"""Qwen2 and Qwen2.5: Llama with biases for Q, K and V, as in "Qwen2 Technical Report" (arXiv 2407.10671)."""

from __future__ import annotations

from typing import Final

from guided.models.decoder import DecoderConfig
from guided.models.loading.architecture import decoder, gguf_decoder
from guided.models.loading.config_reader import ConfigReader
from guided.models.loading.gguf_config import fixed_fields
from guided.models.loading.huggingface_config import kinds_of, optional_windows, read_rope, sizes

__all__ = ["ARCHITECTURE"]


def _read_config(reader: ConfigReader) -> DecoderConfig:
    reader.one_of("hidden_act", "silu", "silu", "swish")
    c = sizes(reader, kv_heads=32)
    kinds = kinds_of(read_rope(reader, c["head_dim"], c["context"]), optional_windows(reader, c["layers"]))
    return DecoderConfig(**c, kinds=kinds, qkv_bias=True)


ARCHITECTURE: Final = decoder("qwen2", "Qwen2ForCausalLM", _read_config, gguf=gguf_decoder(fixed_fields(qkv_bias=True)))
