"""The Llama architecture, and Qwen3, which is Llama with a norm over each head's queries and keys.

RMSNorm, rotary positions, grouped-query attention, SwiGLU, as in "LLaMA" (arXiv 2302.13971), "GQA" (2305.13245) and
"Qwen3 Technical Report" (2505.09388). Q, K and V are one matrix, and so are gate and up. Weights are plain tensors in
one dtype; norms and softmax are computed in float32 inside, logits are returned as float32. Inference only.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from guided.kernels import rms_norm, rotate, swiglu
from guided.models.embedded import Embedded
from guided.models.linear import Matrix, linear
from guided.models.model import Attend
from guided.models.parallel import WHOLE, Parallel
from guided.models.random_weights import RandomWeights
from guided.models.rotary import rotary_tables

__all__ = ["Layer", "Llama", "LlamaConfig"]


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """The numbers that make a Llama.

    Attributes:
        rope_factors: what each of the head_dim / 2 rotary frequencies is divided by (None: nothing), see rotary.py.
        qk_norm: queries and keys pass an RMSNorm over their head before they are turned (Qwen3).
        attention_bias: the four projections of attention add a bias.
    """

    layers: int
    dim: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    vocab_size: int
    context: int
    rope_base: float = 10000.0
    norm_eps: float = 1e-5
    rope_factors: tuple[float, ...] | None = None
    qk_norm: bool = False
    attention_bias: bool = False


@dataclass(slots=True)
class Layer:
    """The weights of one block; matrices are (out, in). Q and K rows are in half-split rotary order."""

    attention_norm: Tensor
    qkv: Matrix
    output: Matrix
    ffn_norm: Tensor
    gate_up: Matrix
    down: Matrix
    q_norm: Tensor | None = None
    k_norm: Tensor | None = None
    qkv_bias: Tensor | None = None
    output_bias: Tensor | None = None


class Llama(Embedded):
    """A Llama with its weights; see `guided.models.model.Model`."""

    def __init__(
        self,
        config: LlamaConfig,
        embedding: Tensor,
        layers: list[Layer],
        norm: Tensor,
        head: Matrix,
        parallel: Parallel = WHOLE,
    ) -> None:
        """`config`: of the part of the model that these weights are; its vocabulary is whole."""
        self.config, self.embedding, self.layers, self.norm, self.head = config, embedding, layers, norm, head
        self.parallel = parallel
        c = config
        self._cos, self._sin = rotary_tables(
            c.rope_base, c.head_dim, c.context, c.rope_factors, embedding.dtype, embedding.device
        )

    @classmethod
    def random(cls, config: LlamaConfig, *, seed: int = 0, dtype: torch.dtype = torch.float32) -> Llama:
        """Random weights with a tied head, for tests and measurements."""
        w = RandomWeights(seed, dtype)
        c, q, kv = config, config.heads * config.head_dim, config.kv_heads * config.head_dim
        layers = [
            Layer(
                attention_norm=w.vector(c.dim, 1),
                qkv=w.matrix(q + 2 * kv, c.dim),
                output=w.matrix(c.dim, q),
                ffn_norm=w.vector(c.dim, 1),
                gate_up=w.matrix(2 * c.hidden, c.dim),
                down=w.matrix(c.dim, c.hidden),
                q_norm=w.vector(c.head_dim, 1) if c.qk_norm else None,
                k_norm=w.vector(c.head_dim, 1) if c.qk_norm else None,
                qkv_bias=w.vector(q + 2 * kv, 0) if c.attention_bias else None,
                output_bias=w.vector(c.dim, 0) if c.attention_bias else None,
            )
            for _ in range(c.layers)
        ]
        embedding = w.matrix(c.vocab_size, c.dim)
        return cls(c, embedding, layers, w.vector(c.dim, 1), embedding)

    def forward(self, tokens: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Hidden states after the last norm, (n, dim), of tokens (n,) at positions (n,)."""
        c, parallel = self.config, self.parallel
        cos, sin = self._cos[positions], self._sin[positions]  # (n, 1, head_dim)
        x = parallel.enter(self.embedding[tokens] if parallel.is_first else self.norm.new_empty(len(tokens), c.dim))
        for index, layer in enumerate(self.layers):
            q, k, v = self._before(layer, x, cos, sin)
            x = self._after(layer, x, attend(index, q, k, v))
        return rms_norm(parallel.leave(x), self.norm, c.norm_eps)

    def logits(self, hidden: Tensor) -> Tensor:
        """See `Embedded`. Of the stages of a pipeline the first has them; elsewhere they are anything."""
        if not self.parallel.is_first:
            return hidden.new_empty((len(hidden), self.config.vocab_size), dtype=torch.float32)
        return self.parallel.join(super().logits(hidden), self.config.vocab_size)

    def compiled(self, **options: Any) -> Llama:
        """The same model, with what stands between two attentions fused by `torch.compile(**options)`."""
        other = copy.copy(self)
        other._before = torch.compile(self._before, **options)  # type: ignore[method-assign]
        other._after = torch.compile(self._after, **options)  # type: ignore[method-assign]
        return other

    def _before(self, layer: Layer, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (n, heads, head_dim), keys and values (n, kv_heads, head_dim); queries and keys are turned."""
        c = self.config
        turning = c.heads + c.kv_heads
        h = rms_norm(x, layer.attention_norm, c.norm_eps)
        qkv = linear(h, layer.qkv, layer.qkv_bias).reshape(-1, turning + c.kv_heads, c.head_dim)
        qk, v = qkv[:, :turning], qkv[:, turning:]
        if layer.q_norm is not None and layer.k_norm is not None:
            q, k = qk[:, : c.heads], qk[:, c.heads :]
            q = rms_norm(q, layer.q_norm, c.norm_eps)
            k = rms_norm(k, layer.k_norm, c.norm_eps)
            return rotate(q, cos, sin), rotate(k, cos, sin), v
        qk = rotate(qk, cos, sin)
        return qk[:, : c.heads], qk[:, c.heads :], v

    def _after(self, layer: Layer, x: Tensor, read: Tensor) -> Tensor:
        """Hidden states after the block, (n, dim), from those before it and what its attention has read."""
        out = read.reshape(len(x), -1)
        x = x + self.parallel.sum(linear(out, layer.output, layer.output_bias))
        h = rms_norm(x, layer.ffn_norm, self.config.norm_eps)
        return x + self.parallel.sum(linear(swiglu(linear(h, layer.gate_up)), layer.down))
