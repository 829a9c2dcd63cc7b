"""Llama: the unmodified decoder ("LLaMA", arXiv 2302.13971; "The Llama 3 Herd of Models", 2407.21783).

In: transformers checkpoints and GGUF files. Mistral's GGUF files also name Llama as their architecture.
"""

from __future__ import annotations

from typing import Final

from guided.models.decoder import Decoder, DecoderConfig
from guided.models.loading.architecture import decoder, gguf_decoder
from guided.models.loading.config_reader import ConfigReader
from guided.models.loading.gguf_config import fixed_fields
from guided.models.loading.huggingface_config import attention_biases, kinds_of, read_rope, sizes

__all__ = ["ARCHITECTURE", "Llama", "LlamaConfig"]

Llama, LlamaConfig = Decoder, DecoderConfig  # all decoders share this forward pass and config


def _read_config(reader: ConfigReader) -> DecoderConfig:
    reader.one_of("hidden_act", "silu", "silu", "swish")
    c = sizes(reader)
    kinds = kinds_of(read_rope(reader, c["head_dim"], c["context"]), [None])
    return DecoderConfig(**c, **attention_biases(reader), kinds=kinds)


ARCHITECTURE: Final = decoder(
    "llama", "LlamaForCausalLM", _read_config, gguf=gguf_decoder(fixed_fields(), adjacent_pairs=True)
)
