"""The GPT of nanoGPT and GPT-2, a common architecture of character-level models.

Learned positions, LayerNorm, full multi-head attention, GELU, biases everywhere, and a head tied to the embedding, as
in "Language Models are Unsupervised Multitask Learners" (2019). Positions are a table, so `context` is a hard limit.
Weights are plain tensors in one dtype; LayerNorm and softmax are computed in float32 internally. Inference only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from guided.kernels import gelu
from guided.models.embedded import TokenEmbedding
from guided.models.linear import Embedding, Matrix, linear
from guided.models.model import Attend
from guided.models.random_weights import RandomWeights

__all__ = ["GPT", "Affine", "GPTConfig", "GPTLayer"]

Affine: TypeAlias = tuple[Tensor, Tensor]  # a weight, (out, in) or (dim,), and its bias


@dataclass(frozen=True, slots=True)
class GPTConfig:
    """The configuration of a GPT. `gelu` is "tanh" (GPT-2's approximation) or "none" (exact)."""

    layers: int
    dim: int
    heads: int
    hidden: int
    vocab_size: int
    context: int
    norm_eps: float = 1e-5
    gelu: Literal["tanh", "none"] = "tanh"

    @property
    def kv_heads(self) -> int:
        """The number of KV heads, which equals the number of query heads."""
        return self.heads

    @property
    def head_dim(self) -> int:
        """The size of a head. The heads divide the hidden state evenly."""
        return self.dim // self.heads


@dataclass(slots=True)
class GPTLayer:
    """The weights of one block."""

    attention_norm: Affine
    qkv: Affine
    output: Affine
    ffn_norm: Affine
    up: Affine
    down: Affine


class GPT(TokenEmbedding):
    """A GPT with its weights; see `guided.models.model.Model`."""

    def __init__(
        self,
        config: GPTConfig,
        embedding: Embedding,
        position_embedding: Tensor,
        layers: list[GPTLayer],
        norm: Affine,
        head: Matrix,
    ) -> None:
        self.config, self.embedding, self.position_embedding = config, embedding, position_embedding
        self.layers, self.norm, self.head = layers, norm, head

    @classmethod
    def random(cls, config: GPTConfig, *, seed: int = 0, dtype: torch.dtype = torch.float32) -> GPT:
        """Random weights with a tied head, for tests and measurements."""
        w, c = RandomWeights(seed, dtype), config

        def affine(rows: int, columns: int) -> Affine:
            return w.matrix(rows, columns), w.vector(rows, 0)

        def norm() -> Affine:
            return w.vector(c.dim, 1), w.vector(c.dim, 0)

        layers = [
            GPTLayer(
                attention_norm=norm(),
                qkv=affine(3 * c.dim, c.dim),
                output=affine(c.dim, c.dim),
                ffn_norm=norm(),
                up=affine(c.hidden, c.dim),
                down=affine(c.dim, c.hidden),
            )
            for _ in range(c.layers)
        ]
        embedding = w.matrix(c.vocab_size, c.dim)
        return cls(c, embedding, w.matrix(c.context, c.dim), layers, norm(), embedding)

    def forward(self, tokens: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Hidden states after the last norm, (n, dim), for tokens (n,) at positions (n,)."""
        c = self.config
        x = self.embedding[tokens] + self.position_embedding[positions]
        for index, layer in enumerate(self.layers):
            qkv = linear(self._norm(x, layer.attention_norm), *layer.qkv)
            q, k, v = qkv.reshape(-1, 3, c.heads, c.head_dim).unbind(1)
            x = x + linear(attend(index, q, k, v).reshape(-1, c.dim), *layer.output)
            h = gelu(linear(self._norm(x, layer.ffn_norm), *layer.up), c.gelu)
            x = x + linear(h, *layer.down)
        return self._norm(x, self.norm)

    def _norm(self, x: Tensor, weights: Affine) -> Tensor:
        return F.layer_norm(x, (self.config.dim,), *weights, self.config.norm_eps)
