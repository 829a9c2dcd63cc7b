"""Loads nanochat's GPT in transformers' format: config.json, and tensors by name."""

from __future__ import annotations

from typing import Final

from torch import Tensor

from guided.models.architectures.nanochat import NanoChat, NanoChatConfig, NanoChatLayer
from guided.models.loading.architecture import Architecture
from guided.models.loading.config_reader import ConfigReader
from guided.models.loading.huggingface_config import read_rope, sizes
from guided.models.loading.weights import Weights
from guided.models.parallel import Parallel

__all__ = ["ARCHITECTURE"]


def _read_config(reader: ConfigReader) -> NanoChatConfig:
    """Read a `NanoChatConfig` from config.json."""
    reader.one_of("hidden_act", "relu2", "relu2")
    c, softcap = sizes(reader), reader.number_or_none("final_logit_softcapping", 15.0)
    return NanoChatConfig(**c, rope=read_rope(reader, c["head_dim"], c["context"]), softcap=softcap)


def _build(c: NanoChatConfig, w: Weights, is_tied: bool, parallel: Parallel) -> NanoChat:
    """Build the model."""
    parallel.refuse_splitting(w.location)
    q_rows, kv_rows = c.heads * c.head_dim, c.kv_heads * c.head_dim

    def layer(i: int) -> NanoChatLayer:
        def matrix(name: str, rows: int, columns: int) -> Tensor:
            return w.take(f"model.layers.{i}.{name}.weight", rows, columns)

        rows_by_name = (("q", q_rows), ("k", kv_rows), ("v", kv_rows))
        return NanoChatLayer(
            qkv=w.put(*(matrix(f"self_attn.{name}_proj", rows, c.dim) for name, rows in rows_by_name)),
            output=w.put(matrix("self_attn.o_proj", c.dim, q_rows)),
            up=w.put(matrix("mlp.fc1", c.hidden, c.dim)),
            down=w.put(matrix("mlp.fc2", c.dim, c.hidden)),
        )

    embedding, head = w.embedding_and_head("model.embed_tokens.weight", "lm_head.weight", c.vocab_size, c.dim, is_tied)
    layers = [layer(i) for i in range(c.layers)]
    w.finish()
    return NanoChat(c, embedding, layers, head)


ARCHITECTURE: Final = Architecture("nanochat", "NanoChatForCausalLM", _read_config, _build)
