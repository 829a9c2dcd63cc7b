"""The Llama architecture: token ids in, hidden states and logits out.

RMSNorm, rotary positions, grouped-query attention, SwiGLU, as in "LLaMA" (arXiv 2302.13971) and "GQA" (2305.13245).
Where keys and values are kept, and which attention kernel reads them, is not the model's business: `forward` is given
an `Attend`, which stores the new keys and values of a layer and returns what the queries read. So a full recompute, a
dense, paged or offloaded cache, a prefill and a decode step all run through the same code.

Q, K and V are one matrix, and so are gate and up. Weights are plain tensors in one dtype; norms and softmax are
computed in float32 inside, logits are returned as float32. Inference only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["Attend", "Layer", "Llama", "LlamaConfig"]


class Attend(Protocol):
    """Stores keys and values of the new positions of a layer and attends over all stored up to each query."""

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q: (batch, new, heads, head_dim); k, v: (batch, new, kv_heads, head_dim). Returns the shape of q."""


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """The numbers that make a Llama."""

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

    def with_vocab_size(self, size: int) -> LlamaConfig:
        """The same with another number of embeddings."""
        return replace(self, vocab_size=size)


@dataclass(slots=True)
class Layer:
    """The weights of one block; matrices are (out, in). Q and K rows are in half-split rotary order."""

    attention_norm: Tensor
    qkv: Tensor
    output: Tensor
    ffn_norm: Tensor
    gate_up: Tensor
    down: Tensor


class Llama:
    """A Llama with its weights."""

    def __init__(self, config: LlamaConfig, embedding: Tensor, layers: list[Layer], norm: Tensor, head: Tensor) -> None:
        self.config, self.embedding, self.layers, self.norm, self.head = config, embedding, layers, norm, head
        self._cos, self._sin = _rotary_tables(config, embedding.dtype, embedding.device)

    @property
    def dtype(self) -> torch.dtype:
        """Of weights, activations, keys and values."""
        return self.embedding.dtype

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.embedding.device

    @classmethod
    def random(cls, config: LlamaConfig, *, seed: int = 0, dtype: torch.dtype = torch.float32) -> Llama:
        """Random weights (tied head), for tests and measurements: activations keep a sane scale."""
        generator = torch.Generator().manual_seed(seed)

        def matrix(rows: int, columns: int) -> Tensor:
            return torch.randn(rows, columns, generator=generator).mul(columns**-0.5).to(dtype)

        def gain() -> Tensor:
            return (1 + 0.1 * torch.randn(config.dim, generator=generator)).to(dtype)

        q, kv = config.heads * config.head_dim, config.kv_heads * config.head_dim
        layers = [
            Layer(
                attention_norm=gain(),
                qkv=matrix(q + 2 * kv, config.dim),
                output=matrix(config.dim, q),
                ffn_norm=gain(),
                gate_up=matrix(2 * config.hidden, config.dim),
                down=matrix(config.dim, config.hidden),
            )
            for _ in range(config.layers)
        ]
        embedding = matrix(config.vocab_size, config.dim)
        return cls(config, embedding, layers, gain(), embedding)

    def forward(self, tokens: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Hidden states after the last norm, (batch, new, dim).

        Args:
            tokens: ids, (batch, new).
            positions: of these tokens in their sequences, (new,) or (batch, new).
            attend: see `Attend`.
        """
        c = self.config
        batch, new = tokens.shape
        heads, kv_heads, head_dim = c.heads, c.kv_heads, c.head_dim
        cos, sin = self._cos[positions], self._sin[positions]  # (..., new, 1, head_dim)
        x = self.embedding[tokens].view(batch * new, c.dim)
        for index, layer in enumerate(self.layers):
            h = F.rms_norm(x, (c.dim,), layer.attention_norm, c.norm_eps)
            qkv = _linear(h, layer.qkv).reshape(batch, new, heads + 2 * kv_heads, head_dim)
            turned = _rotate(qkv[:, :, : heads + kv_heads], cos, sin)
            out = attend(index, turned[:, :, :heads], turned[:, :, heads:], qkv[:, :, heads + kv_heads :])
            x = x + _linear(out.reshape(batch * new, heads * head_dim), layer.output)
            h = F.rms_norm(x, (c.dim,), layer.ffn_norm, c.norm_eps)
            gate, up = _linear(h, layer.gate_up).chunk(2, dim=-1)
            x = x + _linear(F.silu(gate) * up, layer.down)
        return F.rms_norm(x, (c.dim,), self.norm, c.norm_eps).view(batch, new, c.dim)

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores of the next token for hidden states (n, dim): float32, (n, vocab_size), owned by the caller."""
        return _linear(hidden, self.head).float().contiguous()


def _linear(x: Tensor, weight: Tensor) -> Tensor:
    """`x @ weight.T` for x of shape (n, in).

    On a CPU, `linear` repacks the weights of a bfloat16 product at each call; the two forms below do not, and take
    0.55 to 0.65 of its time for n up to 64 (AVX-512 with AMX, torch 2.13), with the same rounding error.
    """
    if x.device.type == "cpu":
        if x.shape[0] == 1:
            return torch.mv(weight, x[0]).unsqueeze(0)
        if x.dtype == torch.bfloat16:
            return torch.mm(weight, x.t()).t()
    return F.linear(x, weight)


def _rotary_tables(config: LlamaConfig, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """cos and signed sin for every position, (context, 1, head_dim): the halves hold the same angles."""
    half = config.head_dim // 2
    frequency = config.rope_base ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.outer(torch.arange(config.context, dtype=torch.float64), frequency)
    cos = torch.cat((angle.cos(), angle.cos()), dim=-1)
    sin = torch.cat((-angle.sin(), angle.sin()), dim=-1)
    return cos.to(device, dtype).unsqueeze(1), sin.to(device, dtype).unsqueeze(1)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding, half-split form: (a, b) -> (a cos - b sin, b cos + a sin)."""
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), sin)
