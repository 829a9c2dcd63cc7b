"""Small Llamas as checkpoints, for tests that load them in several ways."""

from __future__ import annotations

import json
import string
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from guided.files.dequantise import Blocks
from guided.models.architectures.llama import Llama, LlamaConfig
from guided.models.loading.decoder_weights import HUGGINGFACE_NAMES, load_decoder
from guided.models.loading.weights import Weights
from guided.models.parallel import WHOLE, Parallel
from guided.models.random_weights import RandomWeights

__all__ = ["LETTERS", "build", "checkpoint", "write_directory"]

LETTERS = string.ascii_lowercase + ' .,:"'


def checkpoint(config: LlamaConfig, *, tied: bool, seed: int = 0) -> dict[str, Tensor]:
    """Random weights under the names of transformers."""
    c, w = config, RandomWeights(seed, torch.float32)
    q, kv = c.heads * c.head_dim, c.kv_heads * c.head_dim
    found = {"model.embed_tokens.weight": w.matrix(c.vocab_size, c.dim), "model.norm.weight": w.vector(c.dim, 1)}
    if not tied:
        found["lm_head.weight"] = w.matrix(c.vocab_size, c.dim)
    for i in range(c.layers):
        layer = {"input_layernorm.weight": w.vector(c.dim, 1), "post_attention_layernorm.weight": w.vector(c.dim, 1)}
        for name, rows, columns in (
            ("self_attn.q_proj", q, c.dim),
            ("self_attn.k_proj", kv, c.dim),
            ("self_attn.v_proj", kv, c.dim),
            ("self_attn.o_proj", c.dim, q),
            ("mlp.gate_proj", c.hidden, c.dim),
            ("mlp.up_proj", c.hidden, c.dim),
            ("mlp.down_proj", c.dim, c.hidden),
        ):
            layer[f"{name}.weight"] = w.matrix(rows, columns)
            if c.qkv_bias and name.startswith("self_attn"):
                layer[f"{name}.bias"] = w.vector(rows, 0)
        if c.qk_norm:
            layer |= {f"self_attn.{name}_norm.weight": w.vector(c.head_dim, 1) for name in "qk"}
        found |= {f"model.layers.{i}.{name}": tensor for name, tensor in layer.items()}
    return found


class _Tensors:
    """A file in memory. Its matrices are quantised if `blocks` has them."""

    def __init__(self, tensors: Mapping[str, Tensor], blocks: Mapping[str, Blocks]) -> None:
        self._tensors, self._blocks = tensors, blocks

    def names(self) -> Collection[str]:
        return self._tensors.keys()

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._tensors[name].shape)

    def read(self, name: str) -> Tensor:
        return self._tensors[name].clone()

    def read_blocks(self, name: str) -> Blocks | None:
        return self._blocks.get(name)

    def forget(self, name: str) -> None:
        assert name in self._tensors


def build(
    config: LlamaConfig,
    tensors: Mapping[str, Tensor],
    parallel: Parallel = WHOLE,
    *,
    dtype: torch.dtype = torch.float32,
    blocks: Mapping[str, Blocks] | None = None,
) -> Llama:
    """The model of a checkpoint, or a part of it."""
    weights = Weights(_Tensors(tensors, blocks or {}), "checkpoint", dtype, torch.device("cpu"), keep_format=True)
    tied = "lm_head.weight" not in tensors
    return load_decoder(config, weights, HUGGINGFACE_NAMES, tied=tied, parallel=parallel)


def write_directory(path: Path, config: LlamaConfig, *, tied: bool, seed: int = 0) -> None:
    """A directory for `Engine.from_pretrained`, with `LETTERS` and an end token as tokens."""
    from safetensors.torch import save_file

    c = config
    assert c.vocab_size == len(LETTERS) + 1
    settings: dict[str, Any] = {
        "architectures": ["Qwen3ForCausalLM" if c.qk_norm else "LlamaForCausalLM"],
        "model_type": "qwen3" if c.qk_norm else "llama", "vocab_size": c.vocab_size, "hidden_size": c.dim,
        "intermediate_size": c.hidden, "num_hidden_layers": c.layers, "num_attention_heads": c.heads,
        "num_key_value_heads": c.kv_heads, "head_dim": c.head_dim, "max_position_embeddings": c.context,
        "rms_norm_eps": c.norm_eps, "rope_theta": c.kind(0).rope.base, "tie_word_embeddings": tied,
        "attention_bias": c.qkv_bias, "hidden_act": "silu", "eos_token_id": len(LETTERS), "bos_token_id": None,
    }  # fmt: skip
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    end = {"id": len(LETTERS), "content": "<|end|>", "special": True}
    end |= dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    vocab = {letter.replace(" ", "\u0120"): id for id, letter in enumerate(LETTERS)} | {"<|end|>": len(LETTERS)}
    tokenizer = {
        "version": "1.0", "added_tokens": [end], "pre_tokenizer": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
    }  # fmt: skip
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(settings))
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    save_file(checkpoint(c, tied=tied, seed=seed), path / "model.safetensors", metadata={"format": "pt"})
