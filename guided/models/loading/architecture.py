"""The description of an architecture: its names, how its config is read, and how its weights are loaded.

Each architecture is one file that creates one `Architecture`; registry.py lists them. `decoder` creates those of
decoders (decoder.py), which only add a config and the names of tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from guided.models.decoder import DecoderConfig
from guided.models.loading.config_reader import ConfigReader
from guided.models.loading.decoder_weights import GGUF_NAMES, HUGGINGFACE_NAMES, Names, load_decoder
from guided.models.loading.gguf_config import Describe, decoder_from_gguf
from guided.models.loading.weights import Weights
from guided.models.model import Model
from guided.models.parallel import Parallel

__all__ = ["Architecture", "Gguf", "decoder", "gguf_decoder"]


@dataclass(frozen=True, slots=True)
class Gguf:
    """An architecture in GGUF files.

    Attributes:
        config: metadata and weights -> the model's numbers.
        load: numbers, weights, and this process's part -> the model.
        name: its name in GGUF files; None: as in config.json.
    """

    config: Callable[[Mapping[str, Any], Weights], Any]
    load: Callable[[Any, Weights, Parallel], Model]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Architecture:
    """An architecture in the checkpoints of transformers, and optionally in GGUF files.

    Attributes:
        model_type, class_name: its names.
        config: config.json -> the model's numbers.
        load: numbers, weights, whether the head is the embedding, and this process's part -> the model.
        tied: whether the head is the embedding if config.json does not say.
        gguf: the same for GGUF files; None: not supported.
    """

    model_type: str
    class_name: str
    config: Callable[[ConfigReader], Any]
    load: Callable[[Any, Weights, bool, Parallel], Model]
    tied: bool = False
    gguf: Gguf | None = None


def decoder(
    model_type: str,
    class_name: str,
    config: Callable[[ConfigReader], DecoderConfig],
    *,
    names: Names = HUGGINGFACE_NAMES,
    tied: bool = False,
    gguf: Gguf | None = None,
) -> Architecture:
    """A decoder. `names`: the names of its tensors, if they differ from Llama's."""

    def load(config: DecoderConfig, weights: Weights, tied: bool, parallel: Parallel) -> Model:
        weights.skip(r"\.rotary_emb\.inv_freq")
        return load_decoder(config, weights, names, tied=tied, parallel=parallel)

    return Architecture(model_type, class_name, config, load, tied, gguf)


def gguf_decoder(describe: Describe, *, name: str | None = None, neighbours: bool = False) -> Gguf:
    """A decoder in GGUF files. `neighbours`: the files keep the two rows of a rotary pair next to each other. Their
    gains are stored in the form in which they are multiplied.
    """

    def load(config: DecoderConfig, weights: Weights, parallel: Parallel) -> Model:
        tied = "output.weight" not in weights
        return load_decoder(
            config, weights, GGUF_NAMES, tied=tied, neighbours=neighbours, gains=config.norm_offset, parallel=parallel
        )

    return Gguf(lambda metadata, weights: decoder_from_gguf(metadata, weights, describe), load, name)
