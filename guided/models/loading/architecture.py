"""Describes an architecture: its names, and functions that read its config and load its weights.

Each architecture is one file that creates one `Architecture`; registry.py lists them. `decoder` creates the
architectures of decoders (decoder.py), which only add a config and tensor names.
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
    """How an architecture is stored in GGUF files.

    Attributes:
        config: reads the model's configuration from metadata and weights.
        load: creates this process's part of the model from the configuration and the weights.
        name: the architecture's name in GGUF files; None: the same as in config.json.
    """

    config: Callable[[Mapping[str, Any], Weights], Any]
    load: Callable[[Any, Weights, Parallel], Model]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Architecture:
    """An architecture in transformers checkpoints, and optionally in GGUF files.

    Attributes:
        model_type, class_name: the architecture's names in config.json.
        config: reads the model's configuration from config.json.
        load: creates this process's part of the model from the configuration, the weights, and whether the head is
            tied.
        tied: whether the head is tied to the embedding, if config.json lacks `tie_word_embeddings`.
        gguf: how the architecture is stored in GGUF files; None: not supported.
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
    """Describe a decoder. `names`: its tensor names, if they differ from Llama's."""

    def load(config: DecoderConfig, weights: Weights, tied: bool, parallel: Parallel) -> Model:
        weights.skip(r"\.rotary_emb\.inv_freq")
        return load_decoder(config, weights, names, tied=tied, parallel=parallel)

    return Architecture(model_type, class_name, config, load, tied, gguf)


def gguf_decoder(describe: Describe, *, name: str | None = None, adjacent_pairs: bool = False) -> Gguf:
    """Describe a decoder in GGUF files. `adjacent_pairs`: whether the files store the two rows of a rotary pair next to
    each other. GGUF files store the gains of norms with `norm_offset` already added.
    """

    def load(config: DecoderConfig, weights: Weights, parallel: Parallel) -> Model:
        tied = "output.weight" not in weights
        return load_decoder(
            config, weights, GGUF_NAMES, tied=tied, adjacent_pairs=adjacent_pairs, gain_offset=config.norm_offset,
            parallel=parallel,
        )  # fmt: skip

    return Gguf(lambda metadata, weights: decoder_from_gguf(metadata, weights, describe), load, name)
