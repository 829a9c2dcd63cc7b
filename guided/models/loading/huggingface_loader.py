"""Loads models from directories in the format of transformers' `save_pretrained`.

In: a directory with config.json and model.safetensors, or model.safetensors.index.json and the files that it names.
Out: the model, whose architecture must be in registry.py. Cost: one pass over the bytes, one tensor at a time. Weights
are F32, F16 or BF16. Only safetensors are read, since other formats may run code. Unused tensors and unknown keys are
errors; see `Weights` and huggingface_config.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch

from guided.errors import ModelFileError
from guided.files.json_file import read_json
from guided.files.safetensors import SafetensorFiles
from guided.models.loading.registry import find_huggingface_architecture
from guided.models.loading.weights import Weights
from guided.models.model import Model
from guided.models.parallel import WHOLE, Parallel

__all__ = ["load_huggingface"]

_INDEX, _SINGLE_FILE = "model.safetensors.index.json", "model.safetensors"


def load_huggingface(
    directory: str | os.PathLike[str], *, dtype: torch.dtype, device: torch.device, parallel: Parallel = WHOLE
) -> Model:
    """Load the model in the directory, or this process's part of it, with weights in `dtype` on `device`.

    Raises:
        GuidedError: a file or the package `safetensors` is missing.
        UnsupportedError: the config requires an unsupported feature, or the model does not use a tensor.
        ModelFileError: a file is corrupt; a tensor is missing or has the wrong shape.
    """
    path = Path(directory)
    if not (path / "config.json").is_file():
        raise ModelFileError(f"{path}: there is no config.json: not a model's directory")
    location = str(path / "config.json")
    architecture, config, tied = find_huggingface_architecture(read_json(location), location)
    with SafetensorFiles(_paths(path)) as tensors:
        return architecture.load(config, Weights(tensors, str(path), dtype, device), tied, parallel)


def _paths(directory: Path) -> list[Path]:
    """The paths of the weight files, all in the same directory."""
    index = directory / _INDEX
    if not index.is_file():
        return [directory / _SINGLE_FILE]
    data = read_json(index)
    file_by_tensor = data.get("weight_map") if isinstance(data, dict) else None
    if not isinstance(file_by_tensor, dict) or not all(isinstance(name, str) for name in file_by_tensor.values()):
        raise ModelFileError(f"{index}: there is no weight_map from tensors to files")
    for name in (names := sorted(set(file_by_tensor.values()))):
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise ModelFileError(f"{index}: {name!r} is not a safetensors file of this directory")
    return [directory / name for name in names]
