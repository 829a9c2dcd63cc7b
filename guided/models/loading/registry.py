"""The supported architectures.

A new architecture needs one file, which creates an `ARCHITECTURE` (its config, its tensor names and, unless it is a
decoder, a forward pass), and one line here. `model_type` is the architecture's name in config.json and, unless there is
a `Gguf.name`, in GGUF's general.architecture. `class_name` is its name in "architectures" in config.json.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from guided.errors import UnsupportedError, brief
from guided.models.loading.architecture import Architecture, Gguf
from guided.models.loading.config_reader import ConfigReader
from guided.models.loading.huggingface_config import IGNORED_KEYS, NEUTRAL_VALUES, REASONS

__all__ = ["ARCHITECTURES", "FILES", "find_gguf_architecture", "find_huggingface_architecture"]

FILES: Final = (
    "llama",
    "qwen3",
    "qwen2",
    "mistral",
    "gemma2",
    "gemma3",
    "phi3",
    "olmo2",
    "granite",
    "smollm3",
    "nanochat_files",
    "gpt_files",
)
ARCHITECTURES: Final[tuple[Architecture, ...]] = tuple(
    import_module(f"guided.models.architectures.{file}").ARCHITECTURE for file in FILES
)


def find_gguf_architecture(name: object, location: str) -> Gguf:
    """Find the architecture with this name in GGUF files.

    Raises:
        UnsupportedError: the architecture is unknown; the hint lists the supported ones.
    """
    readers = {entry.gguf.name or entry.model_type: entry.gguf for entry in ARCHITECTURES if entry.gguf is not None}
    if not isinstance(name, str) or name not in readers:
        hint = f"supported: {', '.join(readers)}"
        raise UnsupportedError(f"the architecture {brief(name, 100)} is not supported", pointer=location, hint=hint)
    return readers[name]


def find_huggingface_architecture(data: Any, location: str) -> tuple[Architecture, Any, bool]:
    """Return the architecture of a config.json, the model's configuration, and whether the head is tied to the
    embedding.

    Raises:
        UnsupportedError: the model is not supported; the error names the key.
        ModelFileError: a number is missing or invalid.
    """
    reader = ConfigReader(data, location, IGNORED_KEYS)
    architecture = _find_by_name(reader)
    config = architecture.config(reader)
    tied = reader.flag("tie_word_embeddings", architecture.tied)
    reader.finish(REASONS, "the key {} of this architecture is not known", neutral=NEUTRAL_VALUES)
    return architecture, config, tied


def _find_by_name(reader: ConfigReader) -> Architecture:
    """Find the architecture by its class name or, if there is none, by its model type. If both are present, they must
    agree."""
    kind, names = reader.get("model_type"), reader.get("architectures", [])
    supported = f"supported: {', '.join(entry.class_name for entry in ARCHITECTURES)}"
    matches = [entry for entry in ARCHITECTURES if names == [entry.class_name]]
    if names != [] and not matches:
        raise reader.unsupported("architectures", f"the architecture {brief(names, 200)} is not supported", supported)
    for entry in matches or ARCHITECTURES:
        if kind == entry.model_type or (matches and kind is None):
            return entry
    raise reader.unsupported("model_type", f"a model of type {brief(kind, 100)} is not supported", supported)
