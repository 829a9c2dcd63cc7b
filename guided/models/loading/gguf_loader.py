"""Loads models from GGUF files.

In: an open `GgufFile`. Out: the model, whose architecture must be in registry.py; dequantise.py lists the formats.
Cost: one pass over the bytes, one tensor at a time. Anything in the file that is not used is an error: an unknown
tensor, an unknown value of the architecture, an unsupported RoPE scaling or format. On a CPU, matrices may stay in the
format of the file (block_matrix.py).
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from guided.errors import ModelFileError
from guided.files.dequantise import Blocks, dequantise, read_blocks
from guided.files.gguf import GgufFile
from guided.models.loading.registry import find_gguf_architecture
from guided.models.loading.weights import Weights
from guided.models.model import Model
from guided.models.parallel import WHOLE, Parallel

__all__ = ["load_gguf"]


class _Tensors:
    """The tensors of a GGUF file, dequantised as they are read."""

    def __init__(self, file: GgufFile) -> None:
        self._file = file

    def names(self) -> Collection[str]:
        return self._file.tensors.keys()

    def shape(self, name: str) -> tuple[int, ...]:
        return self._file.tensors[name].shape

    def read(self, name: str) -> Tensor:
        info = self._file.tensors[name]
        return torch.from_numpy(dequantise(self._file.tensor_bytes(name), info.ggml_type, info.shape, name))

    def read_blocks(self, name: str) -> Blocks:
        info = self._file.tensors[name]
        rows, columns = info.shape
        return read_blocks(self._file.tensor_bytes(name), info.ggml_type, (rows, columns), name)

    def forget(self, name: str) -> None:
        self._file.forget(name)


def load_gguf(
    file: GgufFile, *, dtype: torch.dtype, device: torch.device, keep_format: bool, parallel: Parallel = WHOLE
) -> Model:
    """Load the model in the file, or this process's part of it, with weights in `dtype` on `device`.

    `keep_format`: on a CPU, keep matrices in the format of the file; `dtype` is then the dtype of activations.

    Raises:
        UnsupportedError: an unsupported architecture or format, or a tensor that this model does not use.
        ModelFileError: a tensor is missing or has the wrong shape, or the file is a part of a split file.
    """
    _refuse_split(file)
    weights = Weights(_Tensors(file), str(file.path), dtype, device, keep_format)
    architecture = find_gguf_architecture(file.metadata.get("general.architecture"), weights.location)
    return architecture.load(architecture.config(file.metadata, weights), weights, parallel)


def _refuse_split(file: GgufFile) -> None:
    """Raise an error for one part of a split file. Parts are numbered from 0 in the file, and from 1 in its name."""
    count, index = file.metadata.get("split.count", 0), file.metadata.get("split.no", 0)
    if not isinstance(count, int) or count > 1:
        part = f"part {index + 1} of {count}" if isinstance(index, int) and isinstance(count, int) else "a part"
        raise ModelFileError(f"{file.path} is {part} of a split GGUF file").with_location(
            "", (0, 0), hint="merge the parts: llama-gguf-split --merge FIRST-PART.gguf MERGED.gguf"
        )
