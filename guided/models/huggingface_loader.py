"""Models out of directories as transformers' `save_pretrained` writes them.

In: a directory with config.json and model.safetensors, or model.safetensors.index.json and the files that it names.
Out: a `Llama`, `NanoChat` or `GPT`. Cost: one pass over the bytes, one tensor at a time. Weights are F32, F16 or BF16.
Only safetensors are read: other files may run code. Everything is used or refused, see `Weights` and
huggingface_config.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import Tensor

from guided.errors import ModelFileError, UnsupportedError
from guided.files.json_file import read_json
from guided.files.safetensors import SafetensorFiles
from guided.models.gpt import GPT, Affine, GPTConfig, GPTLayer
from guided.models.huggingface_config import read_config
from guided.models.llama import LlamaConfig
from guided.models.llama_weights import HUGGINGFACE_NAMES, build_llama
from guided.models.model import Model
from guided.models.nanochat import NanoChat, NanoChatConfig, NanoChatLayer
from guided.models.parallel import WHOLE, Parallel
from guided.models.weights import Weights

__all__ = ["load_huggingface"]

_INDEX, _SINGLE = "model.safetensors.index.json", "model.safetensors"


def load_huggingface(
    directory: str | os.PathLike[str], *, dtype: torch.dtype, device: torch.device, parallel: Parallel = WHOLE
) -> Model:
    """The model in the directory, its weights in `dtype` on `device`; or this process's part of it.

    Raises:
        GuidedError: a file or the package `safetensors` is missing.
        UnsupportedError: the config asks for what is not computed, a tensor has no place in the model.
        ModelFileError: a file is corrupt; a tensor is missing or has the wrong shape.
    """
    path = Path(directory)
    if not (path / "config.json").is_file():
        raise ModelFileError(f"{path}: there is no config.json: not a model's directory")
    config, tied = read_config(read_json(path / "config.json"), str(path / "config.json"))
    with SafetensorFiles(_paths(path)) as tensors:
        weights = Weights(tensors, str(path), dtype, device)
        if isinstance(config, LlamaConfig):
            weights.skip(r"\.rotary_emb\.inv_freq")
            return build_llama(config, weights, HUGGINGFACE_NAMES, tied=tied, parallel=parallel)
        if parallel.is_cut:
            hint = "load it without tensor_parallel and pipeline_parallel"
            raise UnsupportedError("only Llama and Qwen3 are cut into parts", pointer=str(path), hint=hint)
        if isinstance(config, NanoChatConfig):
            return _nanochat(config, weights, tied)
        return _gpt(config, weights, tied)


def _paths(directory: Path) -> list[Path]:
    """The files that hold the weights, all of the same directory."""
    index = directory / _INDEX
    if not index.is_file():
        return [directory / _SINGLE]
    data = read_json(index)
    places = data.get("weight_map") if isinstance(data, dict) else None
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise ModelFileError(f"{index}: there is no weight_map from tensors to files")
    for name in (names := sorted(set(places.values()))):
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise ModelFileError(f"{index}: {name!r} is not a safetensors file of this directory")
    return [directory / name for name in names]


def _nanochat(c: NanoChatConfig, w: Weights, tied: bool) -> NanoChat:
    q_rows, kv_rows = c.heads * c.head_dim, c.kv_heads * c.head_dim

    def layer(i: int) -> NanoChatLayer:
        def matrix(name: str, rows: int, columns: int) -> Tensor:
            return w.take(f"model.layers.{i}.{name}.weight", rows, columns)

        sizes = (("q", q_rows), ("k", kv_rows), ("v", kv_rows))
        return NanoChatLayer(
            qkv=w.put(*(matrix(f"self_attn.{name}_proj", rows, c.dim) for name, rows in sizes)),
            output=w.put(matrix("self_attn.o_proj", c.dim, q_rows)),
            up=w.put(matrix("mlp.fc1", c.hidden, c.dim)),
            down=w.put(matrix("mlp.fc2", c.dim, c.hidden)),
        )

    embedding, head = w.ends("model.embed_tokens.weight", "lm_head.weight", c.vocab_size, c.dim, tied)
    layers = [layer(i) for i in range(c.layers)]
    w.finish()
    return NanoChat(c, embedding, layers, head)


def _gpt(c: GPTConfig, w: Weights, tied: bool) -> GPT:
    """GPT-2's products are x @ weight, so its matrices are turned; its first files have no "transformer." in names."""
    prefix = "transformer." if "transformer.wte.weight" in w else ""
    w.skip(r"\.attn\.(masked_)?bias")  # the causal mask

    def norm(name: str) -> Affine:
        return w.put(w.take(f"{prefix}{name}.weight", c.dim)), w.put(w.take(f"{prefix}{name}.bias", c.dim))

    def affine(name: str, rows: int, columns: int) -> Affine:
        weight = w.take(f"{prefix}{name}.weight", columns, rows).t()
        return w.put(weight), w.put(w.take(f"{prefix}{name}.bias", rows))

    def layer(i: int) -> GPTLayer:
        return GPTLayer(
            attention_norm=norm(f"h.{i}.ln_1"),
            qkv=affine(f"h.{i}.attn.c_attn", 3 * c.dim, c.dim),
            output=affine(f"h.{i}.attn.c_proj", c.dim, c.dim),
            ffn_norm=norm(f"h.{i}.ln_2"),
            up=affine(f"h.{i}.mlp.c_fc", c.hidden, c.dim),
            down=affine(f"h.{i}.mlp.c_proj", c.dim, c.hidden),
        )

    embedding, head = w.ends(f"{prefix}wte.weight", "lm_head.weight", c.vocab_size, c.dim, tied)
    positions = w.put(w.take(f"{prefix}wpe.weight", c.context, c.dim))
    layers = [layer(i) for i in range(c.layers)]
    last = norm("ln_f")
    w.finish()
    return GPT(c, embedding, positions, layers, last, head)
