"""Models, vocabularies and schemas that need no files.

The models have the shapes of published ones. The vocabulary contains all single bytes, words, and pieces of JSON, as
trained vocabularies do.
"""

from __future__ import annotations

import random
from dataclasses import replace
from string import ascii_lowercase
from typing import Any, Final

import torch
from torch import Tensor

from guided.models.decoder import DecoderConfig, LayerKind
from guided.models.model import Model
from guided.models.rotary import Rope
from guided.vocabulary.vocabulary import Vocabulary
from tests.fake_cuda import moved

__all__ = ["LLAMA_8B", "QWEN_17B", "TINY", "VOCABULARY_SIZE", "copied", "schemas", "vocabulary"]

VOCABULARY_SIZE: Final = 128_000
QWEN_17B: Final = DecoderConfig(
    layers=28, dim=2048, heads=16, kv_heads=8, head_dim=128, hidden=6144, vocab_size=151_936, context=512,
    norm_eps=1e-6, qk_norm="head", kinds=(LayerKind(rope=Rope(1e6)),),
)  # fmt: skip
LLAMA_8B: Final = DecoderConfig(
    layers=32, dim=4096, heads=32, kv_heads=8, head_dim=128, hidden=14_336, vocab_size=128_256, context=512,
    kinds=(LayerKind(rope=Rope(5e5)),),
)  # fmt: skip
TINY: Final = replace(QWEN_17B, layers=2, dim=16, heads=2, kv_heads=1, head_dim=8, hidden=24, vocab_size=700)


def copied(model: Model, device: torch.device, dtype: torch.dtype) -> Any:
    """A model on a device, with its weights in another dtype."""

    def place(x: Tensor) -> Tensor:
        return x.to(device, dtype if x.is_floating_point() else x.dtype, copy=True)

    return moved(model, place)


def vocabulary(size: int, *, seed: int = 0) -> Vocabulary:
    """Random words with and without a space, numbers, and pieces of JSON. The last id is the end token."""
    rng, marks = random.Random(seed), ['{"', '":', '": "', '", "', '"}', "},", "[", "]", ", ", "null", "true", "false"]
    tokens = dict.fromkeys([*(bytes([byte]) for byte in range(256)), *(mark.encode() for mark in marks)])
    tokens |= dict.fromkeys(str(number).encode() for number in range(min(1000, size // 4)))
    syllables = ["".join(rng.choice(ascii_lowercase) for _ in range(rng.randint(2, 3))) for _ in range(600)]
    while len(tokens) < size - 1:
        word = "".join(rng.choice(syllables) for _ in range(rng.randint(1, 4)))
        tokens[rng.choice(["", " ", " ", '"']).encode() + rng.choice([word, word.title()]).encode()] = None
    return Vocabulary(list(tokens)[: size - 1], eos_token_ids=[size - 1])


def schemas(count: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """Schemas of objects with a long string and other members: strings, numbers, enumerations, arrays, nested
    objects.
    """
    rng, out = random.Random(seed), list[dict[str, Any]]()
    for number in range(count):
        schema = _object(rng, number, depth=1)
        schema["properties"] = {"text": {"type": "string", "maxLength": 2000}} | schema["properties"]
        out.append(schema | {"required": ["text", *schema["required"]]})
    return out


def _object(rng: random.Random, number: int, depth: int) -> dict[str, Any]:
    members = {f"{ascii_lowercase[at]}{number}": _member(rng, number, depth) for at in range(rng.randint(1, 3))}
    required = [name for name in members if rng.random() < 0.8]
    return {"type": "object", "properties": members, "required": required, "additionalProperties": False}


def _member(rng: random.Random, number: int, depth: int) -> dict[str, Any]:
    leaves: list[dict[str, Any]] = [
        {"type": "string", "maxLength": rng.randint(5, 40)},
        {"type": "string", "pattern": f"^[A-Z]{{2,{rng.randint(3, 6)}}}-[0-9]+$"},
        {"type": "integer", "minimum": 0, "maximum": rng.randint(10, 100_000)},
        {"type": "number"},
        {"type": "boolean"},
        {"enum": [f"{number}-{at}" for at in range(rng.randint(2, 6))]},
        {"type": "string", "format": "date"},
    ]
    if depth and rng.random() < 0.4:
        inner = _object(rng, number, depth - 1) if rng.random() < 0.5 else rng.choice(leaves)
        return {"type": "array", "items": inner, "maxItems": rng.randint(1, 4)} if rng.random() < 0.5 else inner
    return rng.choice(leaves)
