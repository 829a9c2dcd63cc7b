"""LoRA adapters, as PEFT saves them: each adds the product of two small matrices to a matrix of the model.

In: a decoder (decoder.py), with weights in any format, and a directory with adapter_config.json and
adapter_model.safetensors. Out: another model over the same weights. The weights never change, so several adapters and
the plain model can share them. Cost: the adapter's bytes are read once; a pass computes two more small products for
each adapted matrix. Q, K and V share one product with the stacked lora_A matrices; so do gate and up. Source: "LoRA:
Low-Rank Adaptation of Large Language Models" (arXiv 2106.09685).

Missing or unused tensors are errors: the config (lora_config.py) determines which tensors there must be. If the head or
the embedding is adapted, PEFT also saves copies of the base weights; they must be equal to the model's.
"""

from __future__ import annotations

import os
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from guided.errors import ModelFileError, UnsupportedError
from guided.files.safetensors import SafetensorFiles
from guided.models.decoder import Decoder, Layer
from guided.models.linear import AdaptedMatrix, Matrix
from guided.models.loading.decoder_weights import HUGGINGFACE_NAMES as NAMES
from guided.models.loading.lora_config import CONFIG, MERGE_HINT, LoraConfig, read_lora_config
from guided.models.loading.weights import Weights
from guided.models.model import Model

__all__ = ["with_adapter"]

_WEIGHTS: Final = "adapter_model.safetensors"
_PREFIX: Final = "base_model.model."  # PEFT's prefix of all tensor names

Part = tuple[str, int]  # a module, and the number of rows of its matrix


def with_adapter(model: Model, directory: str | os.PathLike[str], config: LoraConfig | None = None) -> Decoder:
    """Return the model with the adapter in the directory. The given model does not change.

    Args:
        config: the adapter's config, if it has already been read.

    Raises:
        GuidedError: a file or the package `safetensors` is missing.
        UnsupportedError: the model does not support adapters, the config requires an unsupported feature, or a tensor
            is unused.
        ModelFileError: a file is corrupt; a tensor is missing or has the wrong shape.
    """
    config = config or read_lora_config(directory)
    if not isinstance(model, Decoder):
        reason = f"adapters of {type(model).__name__} models are not supported"
        raise UnsupportedError(reason, pointer=str(directory), hint=MERGE_HINT)
    if model.parallel.is_split:
        raise UnsupportedError("a split model does not support adapters", pointer=str(directory), hint=MERGE_HINT)
    path = Path(directory) / _WEIGHTS
    with SafetensorFiles([path]) as tensors:
        # On a CPU, small products are several times slower in bfloat16 than in float32, and less exact.
        dtype = torch.float32 if model.device.type == "cpu" else model.dtype
        return _Adapter(model, config, Weights(tensors, str(path), dtype, model.device)).model()


class _Adapter:
    """Combines the tensors of an adapter with the matrices of a model."""

    def __init__(self, model: Decoder, config: LoraConfig, weights: Weights) -> None:
        self._base, self._config, self._weights = model, config, weights
        self._adapted_count = 0

    def model(self) -> Decoder:
        """Make a new model that shares everything else with the base model, including the rotary tables."""
        if self._config.targets(NAMES.embedding):
            raise UnsupportedError(
                "adapters of the embedding are not supported", pointer=NAMES.embedding, hint=MERGE_HINT
            )
        self._check_copies()
        model, c = copy(self._base), self._base.config
        model.layers = [self._adapt_layer(index, layer) for index, layer in enumerate(self._base.layers)]
        model.head = self._adapt_matrix(self._base.head, c.dim, (NAMES.head, c.vocab_size))
        hint = f"{CONFIG} (target_modules, layers_to_transform) excludes it, or the adapter belongs to another model"
        self._weights.finish(hint)
        if self._adapted_count == 0:
            raise ModelFileError(f"{self._config.location}: the adapter adapts none of this model's matrices")
        return model

    def _adapt_layer(self, index: int, layer: Layer) -> Layer:
        c = self._base.config
        q_rows, kv_rows = c.heads * c.head_dim, c.kv_heads * c.head_dim

        def part(field: str, rows: int) -> Part:
            return NAMES.block.format(index) + field, rows

        qkv: tuple[Part, ...] = (part(NAMES.q, q_rows), part(NAMES.k, kv_rows), part(NAMES.v, kv_rows))
        gate_up: tuple[Part, ...] = (part(NAMES.gate, c.hidden), part(NAMES.up, c.hidden))
        if c.fused:
            qkv, gate_up = (part(NAMES.qkv, q_rows + 2 * kv_rows),), (part(NAMES.gate_up, 2 * c.hidden),)
        return replace(
            layer,
            qkv=self._adapt_matrix(layer.qkv, c.dim, *qkv),
            output=self._adapt_matrix(layer.output, q_rows, part(NAMES.output, c.dim)),
            gate_up=self._adapt_matrix(layer.gate_up, c.dim, *gate_up),
            down=self._adapt_matrix(layer.down, c.hidden, part(NAMES.down, c.dim)),
        )

    def _adapt_matrix(self, base: Matrix, columns: int, *parts: Part) -> Matrix:
        """Add adapters to a matrix of parts that are concatenated by rows."""
        if not any(self._config.targets(module) for module, _ in parts):
            return base
        self._adapted_count += 1
        downs, ups, rank, row = list[Tensor](), list[tuple[slice, slice, Tensor]](), 0, 0
        for module, rows in parts:
            if self._config.targets(module):
                down, up = self._read_pair(module, rows, columns)
                downs.append(down)
                ups.append((slice(rank, rank + len(down)), slice(row, row + rows), self._weights.put(up)))
                rank += len(down)
            row += rows
        return AdaptedMatrix(base, self._weights.put(*downs), tuple(ups))

    def _read_pair(self, module: str, rows: int, columns: int) -> tuple[Tensor, Tensor]:
        """Read lora_A (rank, columns), and lora_B (rows, rank) times the scale."""
        down, up = (f"{_PREFIX}{module}.lora_{side}.weight" for side in "AB")
        rank = self._config.rank(module)
        if (actual_rank := self._weights.rows(down)) != rank:
            location = self._weights.location
            raise ModelFileError(
                f"{location}: {down!r} has rank {actual_rank}, but {CONFIG} (r, rank_pattern) says {rank}"
            )
        scale = self._config.scale(module)
        return self._weights.take(down, rank, columns), self._weights.take(up, rows, rank).float() * scale

    def _check_copies(self) -> None:
        """Check that base weights that PEFT saved with the adapter are equal to the model's weights."""
        c, embedding, head = self._base.config, self._base.embedding, self._base.head
        saved_copies = ((NAMES.embedding, "", embedding), (NAMES.head, "", head), (NAMES.head, ".base_layer", head))
        for module, infix, matrix in saved_copies:
            if (name := f"{_PREFIX}{module}{infix}.weight") not in self._weights:
                continue
            saved_copy = self._weights.take(name, c.vocab_size, c.dim)
            if not isinstance(matrix, Tensor) or not torch.equal(saved_copy.to(matrix), matrix):
                reason = (
                    "the adapter's copies of base weights differ from this model's weights, or this model is quantised"
                )
                hint = f"save it with save_embedding_layers=False, or {MERGE_HINT}"
                raise UnsupportedError(reason, pointer=name, hint=hint)
