"""The common part of all architectures: an embedding and a head."""

from __future__ import annotations

import torch
from torch import Tensor

from guided.models.linear import Embedding, Matrix, linear

__all__ = ["TokenEmbedding"]


class TokenEmbedding:
    """The part of `guided.models.model.Model` that all architectures share."""

    embedding: Embedding
    head: Matrix

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of activations, and of weights that are not quantised."""
        return self.embedding.dtype

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.embedding.device

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits of the next token for hidden states (m, dim): float32 (m, vocab_size). The caller owns the tensor."""
        return linear(hidden, self.head).float().contiguous()
