"""Loads GPT-2 in transformers' format: config.json, and tensors by name."""

from __future__ import annotations

from typing import Final, Literal

from guided.errors import ModelFileError
from guided.models.architectures.gpt import GPT, Affine, GPTConfig, GPTLayer
from guided.models.loading.architecture import Architecture
from guided.models.loading.config_reader import ConfigReader
from guided.models.loading.weights import Weights
from guided.models.parallel import Parallel

__all__ = ["ARCHITECTURE"]


def _read_config(reader: ConfigReader) -> GPTConfig:
    """Read a `GPTConfig` from config.json."""
    dim, heads = reader.size("n_embd"), reader.size("n_head")
    if dim % heads:
        raise ModelFileError(f"{reader.location}: n_embd ({dim}) is not a multiple of n_head ({heads})")
    if not reader.flag("scale_attn_weights", True):
        raise reader.unsupported("scale_attn_weights", "unscaled attention scores are not supported")
    gelu: Literal["tanh", "none"] = "tanh"
    if reader.one_of("activation_function", "gelu_new", "gelu_new", "gelu_pytorch_tanh", "gelu") == "gelu":
        gelu = "none"
    return GPTConfig(
        layers=reader.size("n_layer"),
        dim=dim,
        heads=heads,
        hidden=reader.size("n_inner", 4 * dim),
        vocab_size=reader.size("vocab_size"),
        context=reader.size("n_positions"),
        norm_eps=reader.number("layer_norm_epsilon", 1e-5),
        gelu=gelu,
    )


def _build(c: GPTConfig, w: Weights, is_tied: bool, parallel: Parallel) -> GPT:
    """Build the model. GPT-2 stores matrices as (in, out), so they are transposed. The first GPT-2 checkpoints omit the
    prefix "transformer." from tensor names.
    """
    parallel.refuse_splitting(w.location)
    prefix = "transformer." if "transformer.wte.weight" in w else ""
    w.skip(r"\.attn\.(masked_)?bias")  # the causal mask

    def norm(name: str) -> Affine:
        return w.put(w.take(f"{prefix}{name}.weight", c.dim)), w.put(w.take(f"{prefix}{name}.bias", c.dim))

    def affine(name: str, rows: int, columns: int) -> Affine:
        weight = w.take(f"{prefix}{name}.weight", columns, rows).t()
        return w.put(weight), w.put(w.take(f"{prefix}{name}.bias", rows))

    def layer(i: int) -> GPTLayer:
        return GPTLayer(
            attention_norm=norm(f"h.{i}.ln_1"),
            qkv=affine(f"h.{i}.attn.c_attn", 3 * c.dim, c.dim),
            output=affine(f"h.{i}.attn.c_proj", c.dim, c.dim),
            ffn_norm=norm(f"h.{i}.ln_2"),
            up=affine(f"h.{i}.mlp.c_fc", c.hidden, c.dim),
            down=affine(f"h.{i}.mlp.c_proj", c.dim, c.hidden),
        )

    embedding, head = w.embedding_and_head(f"{prefix}wte.weight", "lm_head.weight", c.vocab_size, c.dim, is_tied)
    positions = w.put(w.take(f"{prefix}wpe.weight", c.context, c.dim))
    layers = [layer(i) for i in range(c.layers)]
    final_norm = norm("ln_f")
    w.finish()
    return GPT(c, embedding, positions, layers, final_norm, head)


ARCHITECTURE: Final = Architecture("gpt2", "GPT2LMHeadModel", _read_config, _build, tied=True)
