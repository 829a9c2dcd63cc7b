"""The interface of a model for the engine: token ids in, hidden states and logits out.

Everything is *flat*: the n tokens of all sequences of a step are concatenated, without a batch dimension. The model
does not know which tokens belong to which sequence, where keys and values are stored, or which kernel reads them. Its
`Attend` argument knows this. So the same code serves a full recomputation, dense, paged and offloaded caches, and
batches that mix prompts and single new tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import torch
from torch import Tensor

__all__ = ["DEFAULT_ATTENTION", "Attend", "AttentionKind", "Model", "ModelConfig"]


@dataclass(frozen=True, slots=True)
class AttentionKind:
    """The properties of a layer's attention.

    Attributes:
        window: the number of positions that a query reads, including its own; None: all. Caches store all positions.
        softcap: scores become softcap * tanh(score / softcap) before the softmax; None: no cap.
        scale: the factor by which query-key dot products are multiplied; None: 1 / sqrt(head_dim).
    """

    window: int | None = None
    softcap: float | None = None
    scale: float | None = None

    def first_position(self, position: int) -> int:
        """The first position that the query at `position` reads."""
        return 0 if self.window is None else max(0, position + 1 - self.window)

    def scale_for(self, head_dim: int) -> float:
        """The scale, for heads of this size."""
        return head_dim**-0.5 if self.scale is None else self.scale


DEFAULT_ATTENTION: Final = AttentionKind()


class Attend(Protocol):
    """Stores the keys and values of the new tokens, and computes a layer's attention. Each query reads its own sequence
    up to its own position, but at most `kind.window` positions.
    """

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, kind: AttentionKind = DEFAULT_ATTENTION) -> Tensor:
        """q: (n, heads, head_dim); k, v: (n, kv_heads, head_dim). Returns (n, heads, head_dim).

        `heads` is a multiple of `kv_heads`; query head h reads KV head h // (heads / kv_heads).
        """


class ModelConfig(Protocol):
    """A model's dimensions, in the same form for every architecture. They determine the size of the KV cache."""

    @property
    def layers(self) -> int:
        """The number of layers. `Attend` is called once for each, with the layer's index."""

    @property
    def dim(self) -> int:
        """The size of a hidden state."""

    @property
    def heads(self) -> int:
        """The number of query heads."""

    @property
    def kv_heads(self) -> int:
        """The number of heads of keys and values."""

    @property
    def head_dim(self) -> int:
        """The size of a head."""

    @property
    def vocab_size(self) -> int:
        """The number of logits per position. Token ids are below it."""

    @property
    def context(self) -> int:
        """The maximum length of a sequence. Positions are below it."""


class Model(Protocol):
    """An architecture with its weights. Inference only. No call changes a model, so threads may share it."""

    @property
    def config(self) -> ModelConfig:
        """The sizes of the model."""

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of activations, and of weights that are not quantised. Keys and values have it, too, unless
        `Decoder.kv_dtype` is another one."""

    @property
    def device(self) -> torch.device:
        """The device of the weights."""

    def forward(self, tokens: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Hidden states after the last norm, (n, dim).

        Args:
            tokens: token ids, int64 (n,).
            positions: the positions of these tokens in their sequences, int64 (n,).
            attend: see `Attend`.
        """

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits of the next token for hidden states (m, dim): float32 (m, vocab_size). The caller owns the tensor."""
