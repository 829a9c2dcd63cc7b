"""A small model of each architecture, with random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from guided.models.architectures.gpt import GPT, GPTConfig
from guided.models.decoder import Decoder
from guided.models.loading.registry import find_huggingface_architecture
from guided.models.model import Model
from tests.test_models_forward import MODELS

__all__ = ["small_models"]

COMMON = {
    "hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 4, "num_attention_heads": 6,
    "num_key_value_heads": 2, "vocab_size": 50, "max_position_embeddings": 96, "bos_token_id": None,
    "eos_token_id": None, "pad_token_id": None,
}  # fmt: skip


def small_models() -> dict[str, Model]:
    """A model of each architecture, and the test models, which together have all features of a decoder."""
    found: dict[str, Model] = dict(MODELS)
    found["gpt"] = GPT.random(GPTConfig(layers=2, dim=48, heads=6, hidden=40, vocab_size=50, context=96), seed=4)
    for path in sorted((Path(__file__).parent / "data" / "model_configs").glob("*.json")):
        _, config, _ = find_huggingface_architecture(_shrunk(json.loads(path.read_text("utf-8"))), path.name)
        found[path.stem] = Decoder.random(config, seed=7)
    return found


def _shrunk(config: dict[str, Any]) -> dict[str, Any]:
    """A published config.json with small sizes."""
    config |= COMMON
    for name, value in {"head_dim": 8, "sliding_window": 6, "max_window_layers": 2}.items():
        if config.get(name):
            config[name] = value
    for name in ("layer_types", "no_rope_layers"):
        if config.get(name):
            config[name] = config[name][: COMMON["num_hidden_layers"]]
    if (config.get("rope_scaling") or {}).get("short_factor"):
        config["rope_scaling"] |= {"short_factor": [1.0, 1.5, 3.0], "long_factor": [2.0, 4.0, 9.0]}
    if "original_max_position_embeddings" in config:
        config["original_max_position_embeddings"] = COMMON["max_position_embeddings"]
    return config
