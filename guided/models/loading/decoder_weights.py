"""Builds a decoder from named tensors, with the names in GGUF files or in transformers checkpoints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

import numpy as np
from torch import Tensor

from guided.errors import UnsupportedError
from guided.models.decoder import Decoder, DecoderConfig, Layer, layer_shapes
from guided.models.loading.weights import Rows, Weights, count_rows, reorder_rows
from guided.models.parallel import WHOLE, Parallel

__all__ = ["GGUF_NAMES", "HUGGINGFACE_NAMES", "Names", "load_decoder", "own_config_of"]


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the tensors, without ".weight" and ".bias". `block` is the prefix of a layer's names.

    `qkv` and `gate_up` are for files that store Q, K and V, or gate and up, as one matrix (`DecoderConfig.fused`).
    """

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
    qkv: str
    gate_up: str
    attention_norm_after: str
    ffn_norm_after: str


GGUF_NAMES: Final = Names(
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
    qkv="attn_qkv",
    gate_up="ffn_up",
    attention_norm_after="post_attention_norm",
    ffn_norm_after="post_ffw_norm",
)
HUGGINGFACE_NAMES: Final = Names(
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
    qkv="self_attn.qkv_proj",
    gate_up="mlp.gate_up_proj",
    attention_norm_after="",  # Llama has no such norms; other architectures set the names
    ffn_norm_after="",
)


def load_decoder(
    config: DecoderConfig,
    w: Weights,
    names: Names,
    *,
    tied: bool,
    adjacent_pairs: bool = False,
    gain_offset: float = 0.0,
    parallel: Parallel = WHOLE,
) -> Decoder:
    """Load the model, or this process's part of it.

    Args:
        adjacent_pairs: whether the file stores the two rows of a rotary pair in Q and K next to each other.
        gain_offset: the offset that the file has already added to the weights of norms.

    Raises:
        ModelFileError: a tensor is missing or has the wrong shape. UnsupportedError: a tensor is unused, or the model
            cannot be split into this many parts.
    """
    c, p, own_config = config, parallel, own_config_of(config, parallel, w.location)
    own_layers = p.layers(c.layers, w.location)
    norm = w.put(w.take(f"{names.norm}.weight", c.dim) - gain_offset)
    if p.is_first:  # load the largest matrices first, while memory is free
        end_names = (f"{names.embedding}.weight", f"{names.head}.weight")
        embedding, head = w.embedding_and_head(*end_names, c.vocab_size, c.dim, tied, part=p.head)
    else:
        embedding = head = norm.new_empty(0, c.dim)
        for name in (names.embedding, names.head):
            w.skip(f"{re.escape(name)}.weight")
    layers = [_Block(c, w, names, p, adjacent_pairs, gain_offset, i).layer() for i in own_layers]
    for foreign_layer in set(range(c.layers)).difference(own_layers):
        w.skip(f"^{re.escape(names.block.format(foreign_layer))}.*")
    w.finish()
    return Decoder(own_config, embedding, layers, norm, head, p)


@dataclass(frozen=True, slots=True)
class _Block:
    """The tensors of one layer in a file."""

    config: DecoderConfig
    weights: Weights
    names: Names
    parallel: Parallel
    adjacent_pairs: bool
    gain_offset: float
    index: int

    def layer(self) -> Layer:
        """This process's part of the layer."""
        c, w, names, p = self.config, self.weights, self.names, self.parallel
        q, kv = c.heads * c.head_dim, c.kv_heads * c.head_dim
        biases = self._qkv_bias((q, kv, kv)) if c.qkv_bias else []
        output_bias = w.put(self._vector(names.output, c.dim, "bias")) if c.output_bias else None
        norms = {"attention_norm": names.attention_norm, "ffn_norm": names.ffn_norm}
        norms |= {"q_norm": names.q_norm, "k_norm": names.k_norm}
        norms |= {"attention_norm_after": names.attention_norm_after, "ffn_norm_after": names.ffn_norm_after}
        shapes = layer_shapes(c)
        weights: dict[str, Tensor | None] = dict.fromkeys(norms)
        for key, name in norms.items():
            if key in shapes:
                weights[key] = w.put(self._vector(name, shapes[key][0]) - self.gain_offset)
        return Layer(
            qkv=w.matrix(*map(p.rows, self._qkv((q, kv, kv)))),
            output=w.matrix(p.columns(w.take_rows(self._name(names.output), c.dim, q))),
            gate_up=w.matrix(*map(p.rows, self._gate_up())),
            down=w.matrix(p.columns(w.take_rows(self._name(names.down), c.dim, c.hidden))),
            qkv_bias=w.put(*map(p.entries, biases)) if biases else None,
            output_bias=output_bias if p.tensor_group.rank == 0 else None,  # added once in the sum over ranks
            **weights,
        )

    def _name(self, field: str, kind: str = "weight") -> str:
        return f"{self.names.block.format(self.index)}{field}.{kind}"

    def _vector(self, field: str, size: int, kind: str = "weight") -> Tensor:
        return self.weights.take(self._name(field, kind), size)

    def _qkv(self, sizes: tuple[int, ...]) -> list[Rows]:
        """The rows of Q, of K and of V."""
        c, names = self.config, self.names
        if c.fused:
            return _split_rows(self.weights.take_rows(self._name(names.qkv), sum(sizes), c.dim), sizes)
        names_and_sizes = zip((names.q, names.k, names.v), sizes, strict=True)
        q, k, v = (self.weights.take_rows(self._name(name), size, c.dim) for name, size in names_and_sizes)
        return [self._split_rotary_pairs(q), self._split_rotary_pairs(k), v]

    def _split_rotary_pairs(self, rows: Rows) -> Rows:
        """Reorder the rows of Q or K so that the two rows of each rotary pair are half a head apart."""
        if not self.adjacent_pairs:
            return rows
        size = self.config.head_dim
        order = np.arange(count_rows(rows)).reshape(-1, size // 2, 2)
        return reorder_rows(rows, order.transpose(0, 2, 1).reshape(-1))

    def _qkv_bias(self, sizes: tuple[int, ...]) -> list[Tensor]:
        names = self.names
        biases = [self._vector(name, n, "bias") for name, n in zip((names.q, names.k, names.v), sizes, strict=True)]
        if not self.adjacent_pairs:
            return biases
        size = self.config.head_dim
        return [bias.view(-1, size // 2, 2).transpose(1, 2).reshape(-1) for bias in biases[:2]] + biases[2:]

    def _gate_up(self) -> list[Rows]:
        c, w, names = self.config, self.weights, self.names
        if c.fused:
            return _split_rows(w.take_rows(self._name(names.gate_up), 2 * c.hidden, c.dim), (c.hidden, c.hidden))
        return [w.take_rows(self._name(name), c.hidden, c.dim) for name in (names.gate, names.up)]


def _split_rows(rows: Rows, sizes: Sequence[int]) -> list[Rows]:
    """Split a matrix by rows."""
    ends = accumulate(sizes)
    return [reorder_rows(rows, np.arange(end - size, end)) for size, end in zip(sizes, ends, strict=True)]


def own_config_of(config: DecoderConfig, parallel: Parallel, location: str) -> DecoderConfig:
    """The config of this process's part of the model.

    Raises:
        UnsupportedError: the model cannot be split into this many parts.
    """
    c, ranks = config, parallel.tensor_group.size
    if ranks > 1 and c.qk_norm == "projection":
        reason, hint = "norms over all heads cannot be split across ranks", "use pipeline_parallel instead"
        raise UnsupportedError(reason, pointer=location, hint=hint)
    parallel.check({"heads": c.heads, "heads of keys and values": c.kv_heads, "hidden units": c.hidden}, location)
    own_layers = parallel.layers(c.layers, location)
    return replace(
        c,
        layers=len(own_layers),
        kinds=c.kinds[own_layers.start : own_layers.stop] if len(c.kinds) > 1 else c.kinds,
        heads=c.heads // ranks,
        kv_heads=c.kv_heads // ranks,
        hidden=c.hidden // ranks,
    )
