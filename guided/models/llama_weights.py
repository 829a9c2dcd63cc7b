"""A Llama (or Qwen3) out of named tensors, as GGUF files and transformers' checkpoints name them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from torch import Tensor

from guided.models.llama import Layer, Llama, LlamaConfig
from guided.models.parallel import WHOLE, Parallel
from guided.models.weights import Rows, Weights, in_order

__all__ = ["GGUF_NAMES", "HUGGINGFACE_NAMES", "LlamaNames", "llama_of_gguf", "llama_of_huggingface"]


@dataclass(frozen=True, slots=True)
class LlamaNames:
    """What the tensors are called, without ".weight" and ".bias"; `block` is put before the names of a layer."""

    embedding: str
    norm: str
    head: str
    block: str
    attention_norm: str
    q: str
    k: str
    v: str
    output: str
    q_norm: str
    k_norm: str
    ffn_norm: str
    gate: str
    up: str
    down: str


GGUF_NAMES: Final = LlamaNames(
    embedding="token_embd",
    norm="output_norm",
    head="output",
    block="blk.{}.",
    attention_norm="attn_norm",
    q="attn_q",
    k="attn_k",
    v="attn_v",
    output="attn_output",
    q_norm="attn_q_norm",
    k_norm="attn_k_norm",
    ffn_norm="ffn_norm",
    gate="ffn_gate",
    up="ffn_up",
    down="ffn_down",
)
HUGGINGFACE_NAMES: Final = LlamaNames(
    embedding="model.embed_tokens",
    norm="model.norm",
    head="lm_head",
    block="model.layers.{}.",
    attention_norm="input_layernorm",
    q="self_attn.q_proj",
    k="self_attn.k_proj",
    v="self_attn.v_proj",
    output="self_attn.o_proj",
    q_norm="self_attn.q_norm",
    k_norm="self_attn.k_norm",
    ffn_norm="post_attention_layernorm",
    gate="mlp.gate_proj",
    up="mlp.up_proj",
    down="mlp.down_proj",
)


def llama_of_gguf(config: LlamaConfig, weights: Weights, parallel: Parallel) -> Llama:
    """The model in a GGUF file, or this process's part of it. Raises as `_build`."""
    tied, neighbours = "output.weight" not in weights, not config.qk_norm  # Qwen3's files keep half-split order
    return _build(config, weights, GGUF_NAMES, tied=tied, neighbours=neighbours, parallel=parallel)


def llama_of_huggingface(config: LlamaConfig, weights: Weights, tied: bool, parallel: Parallel) -> Llama:
    """The model in a checkpoint of transformers, or this process's part of it. Raises as `_build`."""
    weights.skip(r"\.rotary_emb\.inv_freq")
    return _build(config, weights, HUGGINGFACE_NAMES, tied=tied, parallel=parallel)


def _build(
    config: LlamaConfig,
    w: Weights,
    names: LlamaNames,
    *,
    tied: bool,
    neighbours: bool = False,
    parallel: Parallel = WHOLE,
) -> Llama:
    """The model, or this process's part of it; `neighbours`: the file keeps the two rows of a rotary pair in Q and K
    next to each other.

    Raises:
        ModelFileError: a tensor is missing or has the wrong shape. UnsupportedError: one is left over; or the model
        cannot be cut into so many parts.
    """
    c, p, own = config, parallel, part_of(config, parallel, w.where)
    q_rows, kv_rows = c.heads * c.head_dim, c.kv_heads * c.head_dim

    def rotary(name: str, heads: int) -> Rows:
        rows = w.take_rows(name, heads * c.head_dim, c.dim)
        if not neighbours:
            return rows
        order = np.arange(heads * c.head_dim).reshape(heads, c.head_dim // 2, 2)
        return in_order(rows, order.transpose(0, 2, 1).reshape(-1))

    def layer(i: int) -> Layer:
        def name(field: str, kind: str = "weight") -> str:
            return f"{names.block.format(i)}{field}.{kind}"

        def vector(field: str, size: int, kind: str = "weight") -> Tensor:
            return w.take(name(field, kind), size)

        q, k = rotary(name(names.q), c.heads), rotary(name(names.k), c.kv_heads)
        v = w.take_rows(name(names.v), kv_rows, c.dim)
        sizes = ((names.q, q_rows), (names.k, kv_rows), (names.v, kv_rows)) if c.attention_bias else ()
        biases = [p.entries(vector(field, size, "bias")) for field, size in sizes]
        last_bias = w.put(vector(names.output, c.dim, "bias")) if c.attention_bias else None
        return Layer(
            attention_norm=w.put(vector(names.attention_norm, c.dim)),
            qkv=w.matrix(*map(p.rows, (q, k, v))),
            output=w.matrix(p.columns(w.take_rows(name(names.output), c.dim, q_rows))),
            ffn_norm=w.put(vector(names.ffn_norm, c.dim)),
            gate_up=w.matrix(*(p.rows(w.take_rows(name(field), c.hidden, c.dim)) for field in (names.gate, names.up))),
            down=w.matrix(p.columns(w.take_rows(name(names.down), c.dim, c.hidden))),
            q_norm=w.put(vector(names.q_norm, c.head_dim)) if c.qk_norm else None,
            k_norm=w.put(vector(names.k_norm, c.head_dim)) if c.qk_norm else None,
            qkv_bias=w.put(*biases) if biases else None,
            output_bias=last_bias if p.tensor.rank == 0 else None,  # once in the sum
        )

    mine = p.layers(c.layers, w.where)
    layers = [layer(i) for i in mine]
    norm = w.put(w.take(f"{names.norm}.weight", c.dim))
    if p.is_first:
        ends = (f"{names.embedding}.weight", f"{names.head}.weight")
        embedding, head = w.ends(*ends, c.vocab_size, c.dim, tied, cut=p.head)
    else:
        embedding = head = norm.new_empty(0, c.dim)
        for end in (names.embedding, names.head):
            w.skip(f"{re.escape(end)}.weight")
    for other in set(range(c.layers)).difference(mine):
        w.skip(f"^{re.escape(names.block.format(other))}.*")
    w.finish()
    return Llama(own, embedding, layers, norm, head, p)


def part_of(config: LlamaConfig, parallel: Parallel, where: str) -> LlamaConfig:
    """The numbers of this process's part.

    Raises:
        UnsupportedError: the model cannot be cut into so many.
    """
    c, ranks = config, parallel.tensor.size
    parallel.check({"heads": c.heads, "heads of keys and values": c.kv_heads, "hidden units": c.hidden}, where)
    return replace(
        c,
        layers=len(parallel.layers(c.layers, where)),
        heads=c.heads // ranks,
        kv_heads=c.kv_heads // ranks,
        hidden=c.hidden // ranks,
    )
