"""nanochat's GPT (https://github.com/karpathy/nanochat): a modern small GPT without gains or biases.

Differences from Llama: RMSNorm has no weights and is also applied to the embedding. Queries and keys are rotated
backwards (by minus the angle), which changes scores, and are normed after the rotation. The activation of the MLP is
ReLU squared. The head is a separate matrix, and the logits are soft-capped: cap * tanh(logits / cap). This module
follows transformers' `NanoChat`. Weights are plain tensors in one dtype. Inference only.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from guided.kernels import rms_norm, rotate, softcap
from guided.models.embedded import TokenEmbedding
from guided.models.linear import Embedding, Matrix, linear
from guided.models.model import Attend
from guided.models.random_weights import RandomWeights
from guided.models.rotary import Rope, RotaryTables

__all__ = ["NanoChat", "NanoChatConfig", "NanoChatLayer"]


@dataclass(frozen=True, slots=True)
class NanoChatConfig:
    """The configuration of a nanochat GPT. `softcap` None: logits are not capped."""

    layers: int
    dim: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    vocab_size: int
    context: int
    rope: Rope = Rope()  # noqa: RUF009 - immutable
    norm_eps: float = 1e-6
    softcap: float | None = 15.0


@dataclass(slots=True)
class NanoChatLayer:
    """The weights of one block; matrices are (out, in)."""

    qkv: Matrix
    output: Matrix
    up: Matrix
    down: Matrix


class NanoChat(TokenEmbedding):
    """A nanochat GPT with its weights; see `guided.models.model.Model`."""

    def __init__(self, config: NanoChatConfig, embedding: Embedding, layers: list[NanoChatLayer], head: Matrix) -> None:
        self.config, self.embedding, self.layers, self.head = config, embedding, layers, head
        c = config
        self._tables = RotaryTables(c.rope, c.head_dim, c.context, embedding.dtype, embedding.device)

    @classmethod
    def random(cls, config: NanoChatConfig, *, seed: int = 0, dtype: torch.dtype = torch.float32) -> NanoChat:
        """Random weights, for tests and measurements."""
        w = RandomWeights(seed, dtype)
        c, q, kv = config, config.heads * config.head_dim, config.kv_heads * config.head_dim
        layers = [
            NanoChatLayer(
                qkv=w.matrix(q + 2 * kv, c.dim),
                output=w.matrix(c.dim, q),
                up=w.matrix(c.hidden, c.dim),
                down=w.matrix(c.dim, c.hidden),
            )
            for _ in range(c.layers)
        ]
        return cls(c, w.matrix(c.vocab_size, c.dim), layers, w.matrix(c.vocab_size, c.dim))

    def forward(self, tokens: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Hidden states after the last norm, (n, dim), for tokens (n,) at positions (n,)."""
        c = self.config
        rotated_heads = c.heads + c.kv_heads
        cos, sin = self._tables.rows(positions)  # (n, 1, head_dim)
        x = self._norm(self.embedding[tokens])
        for index, layer in enumerate(self.layers):
            qkv = linear(self._norm(x), layer.qkv).reshape(-1, rotated_heads + c.kv_heads, c.head_dim)
            qk = self._norm(rotate(qkv[:, :rotated_heads], cos, -sin))
            out = attend(index, qk[:, : c.heads], qk[:, c.heads :], qkv[:, rotated_heads:])
            x = x + linear(out.reshape(-1, c.heads * c.head_dim), layer.output)
            x = x + linear(F.relu(linear(self._norm(x), layer.up)).square(), layer.down)
        return self._norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits of the next token for hidden states (m, dim): float32 (m, vocab_size). The caller owns the tensor."""
        out, cap = super().logits(hidden), self.config.softcap
        return out if cap is None else softcap(out, cap)

    def _norm(self, x: Tensor) -> Tensor:
        return rms_norm(x, None, self.config.norm_eps)
