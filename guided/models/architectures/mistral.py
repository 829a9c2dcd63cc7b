"""Mistral: Llama, optionally with a window in all layers, as in "Mistral 7B" (arXiv 2310.06825).

Its GGUF files name Llama as their architecture.
"""

from __future__ import annotations

from typing import Final

from guided.models.decoder import DecoderConfig
from guided.models.loading.architecture import decoder
from guided.models.loading.config_reader import ConfigReader
from guided.models.loading.huggingface_config import kinds_of, one_window, read_rope, sizes

__all__ = ["ARCHITECTURE"]


def _read_config(reader: ConfigReader) -> DecoderConfig:
    reader.one_of("hidden_act", "silu", "silu", "swish")
    c = sizes(reader, kv_heads=8)
    windows = one_window(reader, c["layers"], window=4096)
    return DecoderConfig(**c, kinds=kinds_of(read_rope(reader, c["head_dim"], c["context"]), windows))


ARCHITECTURE: Final = decoder("mistral", "MistralForCausalLM", _read_config)
