"""The architectures that can be computed: for each, how its config is read and its weights are loaded.

A new architecture is one file (its forward pass, config and tensor names) and one entry here. `model_type` is the name
in config.json and in GGUF's general.architecture, `class_name` the one in config.json's "architectures".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from guided.errors import UnsupportedError, brief
from guided.models.config_reader import ConfigReader
from guided.models.gpt_files import build_gpt, read_gpt_config
from guided.models.huggingface_config import INERT, REASONS
from guided.models.llama_config import llama_from_gguf, llama_from_huggingface, qwen3_from_huggingface
from guided.models.llama_weights import llama_of_gguf, llama_of_huggingface
from guided.models.model import Model
from guided.models.nanochat_files import build_nanochat, read_nanochat_config
from guided.models.parallel import Parallel
from guided.models.weights import Weights

__all__ = ["ARCHITECTURES", "Architecture", "Gguf", "for_gguf", "for_huggingface"]


@dataclass(frozen=True, slots=True)
class Gguf:
    """An architecture in GGUF files.

    Attributes:
        config: metadata and weights -> the model's numbers.
        load: numbers, weights, and this process's part -> the model.
    """

    config: Callable[[Mapping[str, Any], Weights], Any]
    load: Callable[[Any, Weights, Parallel], Model]


@dataclass(frozen=True, slots=True)
class Architecture:
    """An architecture in the checkpoints of transformers, and in GGUF files if it is read from them.

    Attributes:
        model_type, class_name: its names.
        config: config.json -> the model's numbers.
        load: numbers, weights, whether the head is the embedding, and this process's part -> the model.
        tied: whether the head is the embedding where config.json does not say.
        gguf: the same for GGUF files; None: it is not read from them.
    """

    model_type: str
    class_name: str
    config: Callable[[ConfigReader], Any]
    load: Callable[[Any, Weights, bool, Parallel], Model]
    tied: bool = False
    gguf: Gguf | None = None


_LLAMA_GGUF: Final = Gguf(llama_from_gguf, llama_of_gguf)
ARCHITECTURES: Final = (
    Architecture("llama", "LlamaForCausalLM", llama_from_huggingface, llama_of_huggingface, gguf=_LLAMA_GGUF),
    Architecture("qwen3", "Qwen3ForCausalLM", qwen3_from_huggingface, llama_of_huggingface, gguf=_LLAMA_GGUF),
    Architecture("nanochat", "NanoChatForCausalLM", read_nanochat_config, build_nanochat),
    Architecture("gpt2", "GPT2LMHeadModel", read_gpt_config, build_gpt, tied=True),
)


def for_gguf(name: object, where: str) -> Gguf:
    """The architecture with this name in a GGUF file.

    Raises:
        UnsupportedError: there is none; the hint lists those that there are.
    """
    known = {entry.model_type: entry.gguf for entry in ARCHITECTURES if entry.gguf is not None}
    if not isinstance(name, str) or name not in known:
        hint = f"use {' or '.join(known)}"
        raise UnsupportedError(f"the architecture {brief(name, 100)} is not supported", pointer=where, hint=hint)
    return known[name]


def for_huggingface(data: Any, where: str) -> tuple[Architecture, Any, bool]:
    """The architecture of a config.json, the numbers in it, and whether the head is the embedding.

    Raises:
        UnsupportedError: the model is none that is computed here; names the key.
        ModelFileError: a number is missing or makes no sense.
    """
    reader = ConfigReader(data, where, INERT)
    found = _by_name(reader)
    config = found.config(reader)
    tied = reader.flag("tie_word_embeddings", found.tied)
    reader.finish(REASONS, "the key {} of this architecture is not known")
    return found, config, tied


def _by_name(reader: ConfigReader) -> Architecture:
    """By its class's name, else by its type; where both are there they must agree."""
    kind, names = reader.get("model_type"), reader.get("architectures", [])
    supported = f"supported: {', '.join(entry.class_name for entry in ARCHITECTURES)}"
    named = [entry for entry in ARCHITECTURES if names == [entry.class_name]]
    if names != [] and not named:
        raise reader.refuse("architectures", f"the architecture {brief(names, 200)} is not supported", supported)
    for entry in named or ARCHITECTURES:
        if kind == entry.model_type or (named and kind is None):
            return entry
    raise reader.refuse("model_type", f"a model of type {brief(kind, 100)} is not supported", supported)
