"""The decoder of most language models: Llama's decoder, with the variations of other models.

RMSNorm, rotary positions, grouped-query attention and a gated MLP, as in "LLaMA" (arXiv 2302.13971) and "GQA"
(2305.13245). `DecoderConfig` describes the variations: where norms are, biases, norms of queries and keys, each layer's
window, cap and rotary positions, and scales. An architecture (llama.py, gemma2.py, ...) consists of such a config, read
from a file, and its tensor names. Q, K and V are one matrix; so are gate and up. Weights are tensors in one dtype, or
matrices in the format of a GGUF file. Norms and softmax are computed in float32; logits are float32. Inference only.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from guided.kernels import geglu, rms_norm, rotate, softcap, swiglu
from guided.models.block_matrix import BlockMatrix
from guided.models.embedded import TokenEmbedding
from guided.models.linear import Embedding, Matrix, linear, without_adapters
from guided.models.model import DEFAULT_ATTENTION, Attend, AttentionKind, ModelConfig
from guided.models.parallel import WHOLE, Parallel
from guided.models.random_weights import RandomWeights
from guided.models.rotary import Rope, RotaryTables

__all__ = ["Decoder", "DecoderConfig", "Layer", "LayerKind", "caps_scores", "layer_shapes"]

Norms: TypeAlias = Literal["before", "after", "both"]


@dataclass(frozen=True, slots=True)
class LayerKind:
    """The properties that may differ between layers. `rope` None: the layer ignores positions."""

    attention: AttentionKind = DEFAULT_ATTENTION
    rope: Rope | None = Rope()  # noqa: RUF009 - immutable


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """The configuration of a decoder. The defaults describe a plain Llama.

    Attributes:
        kinds: one for each layer, or one for all layers.
        norms: whether norms come before attention and MLP, after them, or both.
        norm_offset: the gain of a norm is norm_offset + weight (Gemma: 1).
        qk_norm: queries and keys pass an RMSNorm before the rotation, over each head or over the whole projection.
        qkv_bias, output_bias: whether these projections of the attention add a bias.
        fused: whether transformers checkpoints store Q, K and V as one matrix, and gate and up as one matrix.
        activation: the activation of the gate.
        embedding_scale: embeddings are multiplied by this scale, rounded to their dtype.
        residual_scale: the outputs of attention and MLP are multiplied by this scale.
        logit_divisor: logits are divided by this number.
        logit_softcap: if not None, logits become logit_softcap * tanh(logit / logit_softcap).
    """

    layers: int
    dim: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    vocab_size: int
    context: int
    norm_eps: float = 1e-5
    kinds: tuple[LayerKind, ...] = (LayerKind(),)
    norms: Norms = "before"
    norm_offset: float = 0.0
    qk_norm: Literal["head", "projection"] | None = None
    qkv_bias: bool = False
    output_bias: bool = False
    fused: bool = False
    activation: Literal["silu", "gelu"] = "silu"
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logit_divisor: float = 1.0
    logit_softcap: float | None = None

    def kind(self, layer: int) -> LayerKind:
        """The kind of a layer."""
        return self.kinds[layer if len(self.kinds) > 1 else 0]


@dataclass(slots=True)
class Layer:
    """The weights of one block; matrices are (out, in). Q and K rows are in half-split rotary order."""

    attention_norm: Tensor | None
    qkv: Matrix
    output: Matrix
    ffn_norm: Tensor | None
    gate_up: Matrix
    down: Matrix
    q_norm: Tensor | None = None
    k_norm: Tensor | None = None
    qkv_bias: Tensor | None = None
    output_bias: Tensor | None = None
    attention_norm_after: Tensor | None = None
    ffn_norm_after: Tensor | None = None


def caps_scores(config: ModelConfig) -> bool:
    """Whether some layer soft-caps its scores."""
    return isinstance(config, DecoderConfig) and any(kind.attention.softcap is not None for kind in config.kinds)


def layer_shapes(c: DecoderConfig) -> dict[str, tuple[int, ...]]:
    """The shapes of a `Layer`'s weights under this config, by name."""
    q, kv = c.heads * c.head_dim, c.kv_heads * c.head_dim
    has_norm_before, has_norm_after, is_per_head = c.norms != "after", c.norms != "before", c.qk_norm == "head"
    shapes: dict[str, tuple[bool, tuple[int, ...]]] = {
        "attention_norm": (has_norm_before, (c.dim,)),
        "qkv": (True, (q + 2 * kv, c.dim)),
        "output": (True, (c.dim, q)),
        "ffn_norm": (has_norm_before, (c.dim,)),
        "gate_up": (True, (2 * c.hidden, c.dim)),
        "down": (True, (c.dim, c.hidden)),
        "q_norm": (c.qk_norm is not None, (c.head_dim if is_per_head else q,)),
        "k_norm": (c.qk_norm is not None, (c.head_dim if is_per_head else kv,)),
        "qkv_bias": (c.qkv_bias, (q + 2 * kv,)),
        "output_bias": (c.output_bias, (c.dim,)),
        "attention_norm_after": (has_norm_after, (c.dim,)),
        "ffn_norm_after": (has_norm_after, (c.dim,)),
    }
    return {name: shape for name, (is_present, shape) in shapes.items() if is_present}


class Decoder(TokenEmbedding):
    """A decoder with its weights; see `guided.models.model.Model`."""

    def __init__(
        self,
        config: DecoderConfig,
        embedding: Embedding,
        layers: list[Layer],
        norm: Tensor,
        head: Matrix,
        parallel: Parallel = WHOLE,
    ) -> None:
        """`config`: describes this process's part of the model, except that `vocab_size` is the whole vocabulary."""
        self.config, self.embedding, self.layers, self.norm, self.head = config, embedding, layers, norm, head
        self.parallel = parallel
        c, kinds = config, [config.kind(index) for index in range(config.layers)]
        ropes = list(dict.fromkeys(kind.rope for kind in kinds if kind.rope is not None))
        self._tables = [RotaryTables(rope, c.head_dim, c.context, embedding.dtype, embedding.device) for rope in ropes]
        self._kinds = [(kind.attention, None if kind.rope is None else ropes.index(kind.rope)) for kind in kinds]
        self._embedding_scale = float(torch.tensor(c.embedding_scale, dtype=embedding.dtype))
        self._gate = swiglu if c.activation == "silu" else geglu

    @classmethod
    def random(
        cls,
        config: DecoderConfig,
        *,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Decoder:
        """Random weights with a tied head, for tests and measurements."""
        w, c = RandomWeights(seed, dtype, device), config
        gain = 1 - c.norm_offset

        def weight(name: str, shape: tuple[int, ...]) -> Tensor:
            return (
                w.vector(shape[0], gain if "norm" in name else 0) if len(shape) == 1 else w.matrix(shape[0], shape[1])
            )

        def layer() -> Layer:
            weights: dict[str, Any] = {name: weight(name, shape) for name, shape in layer_shapes(c).items()}
            return Layer(**{"attention_norm": None, "ffn_norm": None} | weights)

        layers = [layer() for _ in range(c.layers)]
        embedding = w.matrix(c.vocab_size, c.dim)
        return cls(c, embedding, layers, w.vector(c.dim, gain), embedding)

    def forward(self, tokens: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Hidden states after the last norm, (n, dim), for tokens (n,) at positions (n,)."""
        parallel = self.parallel
        tables = [table.rows(positions) for table in self._tables]  # cos and sin, (n, 1, rotary_dim)
        x, kv_dtype = parallel.enter(self._embed(tokens)), self.kv_dtype
        for index, (layer, (kind, rope)) in enumerate(zip(self.layers, self._kinds, strict=True)):
            q, k, v = self._project_qkv(layer, x, *((None, None) if rope is None else tables[rope]))
            x = self._finish_block(layer, x, attend(index, q, k.to(kv_dtype), v.to(kv_dtype), kind))
        return self._norm(parallel.leave(x), self.norm)

    @property
    def kv_dtype(self) -> torch.dtype:
        """The dtype of keys and values: the dtype of activations, or bfloat16 if weights are quantised (a negligible
        loss)."""
        first = without_adapters(self.layers[0].qkv) if self.layers else None
        return torch.bfloat16 if isinstance(first, BlockMatrix) and first.is_quantised else self.dtype

    def logits(self, hidden: Tensor) -> Tensor:
        """See `TokenEmbedding`. Only the first stage of a pipeline computes logits; other stages return arbitrary
        values."""
        c = self.config
        if not self.parallel.is_first:
            return hidden.new_empty((len(hidden), c.vocab_size), dtype=torch.float32)
        out = self.parallel.join(super().logits(hidden), c.vocab_size)
        if c.logit_divisor != 1:
            out /= c.logit_divisor
        return out if c.logit_softcap is None else softcap(out, c.logit_softcap)

    def compile(self, **options: Any) -> Decoder:
        """Return a copy whose operations between attention calls are compiled by `torch.compile(**options)`."""
        compiled = copy.copy(self)
        compiled._project_qkv = torch.compile(self._project_qkv, **options)  # type: ignore[method-assign]
        compiled._finish_block = torch.compile(self._finish_block, **options)  # type: ignore[method-assign]
        return compiled

    def _embed(self, tokens: Tensor) -> Tensor:
        """The embeddings of tokens, (n, dim). Stages other than the first return arbitrary values."""
        if not self.parallel.is_first:
            return self.norm.new_empty(len(tokens), self.config.dim)
        x = self.embedding[tokens]
        return x if self._embedding_scale == 1 else x * self._embedding_scale

    def _project_qkv(
        self, layer: Layer, x: Tensor, cos: Tensor | None, sin: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (n, heads, head_dim), keys and values (n, kv_heads, head_dim); queries and keys are rotated."""
        c = self.config
        rotated_heads = c.heads + c.kv_heads
        h = x if layer.attention_norm is None else self._norm(x, layer.attention_norm)
        qkv = linear(h, layer.qkv, layer.qkv_bias).reshape(-1, rotated_heads + c.kv_heads, c.head_dim)
        qk, v = qkv[:, :rotated_heads], qkv[:, rotated_heads:]
        if layer.q_norm is not None and layer.k_norm is not None:
            q, k = self._norm_heads(qk[:, : c.heads], layer.q_norm), self._norm_heads(qk[:, c.heads :], layer.k_norm)
            return (q, k, v) if cos is None or sin is None else (rotate(q, cos, sin), rotate(k, cos, sin), v)
        if cos is not None and sin is not None:
            qk = rotate(qk, cos, sin)
        return qk[:, : c.heads], qk[:, c.heads :], v

    def _finish_block(self, layer: Layer, x: Tensor, attention_output: Tensor) -> Tensor:
        """Hidden states after the block, (n, dim). `x`: the hidden states before it; `attention_output`: see
        `Attend`."""
        out = linear(attention_output.flatten(1), layer.output, layer.output_bias)
        x = self._add(x, out, layer.attention_norm_after)
        h = x if layer.ffn_norm is None else self._norm(x, layer.ffn_norm)
        return self._add(x, linear(self._gate(linear(h, layer.gate_up)), layer.down), layer.ffn_norm_after)

    def _add(self, x: Tensor, output: Tensor, norm: Tensor | None) -> Tensor:
        """Add the output of attention or MLP, summed over the ranks, to the hidden states."""
        output = self.parallel.sum(output)
        if norm is not None:
            output = self._norm(output, norm)
        return x + (output if self.config.residual_scale == 1 else output * self.config.residual_scale)

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return rms_norm(x, weight, self.config.norm_eps, self.config.norm_offset)

    def _norm_heads(self, x: Tensor, weight: Tensor) -> Tensor:
        """Normalise x (n, heads, head_dim) over each head or over all heads, depending on the size of the weight."""
        return self._norm(x, weight) if len(weight) == x.shape[-1] else self._norm(x.flatten(1), weight).view(x.shape)
