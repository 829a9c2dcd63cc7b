"""Reads the configuration of a decoder from the metadata of a GGUF file.

Values under the architecture's prefix that are not read raise an error, unless they are 0 or known to have no effect.
Names and meanings follow llama.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from operator import mul
from typing import Any, TypeAlias

import numpy as np

from guided.errors import ModelFileError, UnsupportedError, brief
from guided.models.decoder import DecoderConfig, LayerKind
from guided.models.loading.config_reader import positive, size
from guided.models.loading.weights import Weights, check_heads
from guided.models.rotary import Rope, linear_factors

__all__ = ["Describe", "GgufNumbers", "decoder_from_gguf", "fixed_fields"]

# Keys without effect on the results.
_IGNORED_KEYS = {"vocab_size", "tensor_data_layout", "rope.scaling.original_context_length", "rope.scaling.finetuned"}


class GgufNumbers:
    """The values of a file's architecture. Keys omit the architecture's prefix. Records which keys were read."""

    def __init__(self, metadata: Mapping[str, Any], location: str) -> None:
        self._prefix, self.location = f"{metadata['general.architecture']}.", location
        self._data = {key: value for key, value in metadata.items() if key.startswith(self._prefix)}
        self._read_keys = {self._prefix + key for key in _IGNORED_KEYS}

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or the default if the key is missing."""
        self._read_keys.add(self._prefix + key)
        return self._data.get(self._prefix + key, default)

    def number(self, key: str, default: float | None = None) -> float:
        """A positive number."""
        return positive(self.get(key, default), self._prefix + key, self.location)

    def count(self, key: str, default: int | None = None) -> int:
        """A positive integer."""
        return size(self.get(key, default), self._prefix + key, self.location)

    def number_or_none(self, key: str, default: float | None = None) -> float | None:
        """A positive number, or None if its value is 0. `default`: for a missing key."""
        value = self.get(key, default)
        return None if value is None or _is_zero(value) else self.number(key, default)

    def has_window(self, layers: int, period: int) -> list[bool]:
        """Whether each layer has a window. The value is a flag for each layer, or a period: the last layer of each
        period has no window; 0: all layers have one. `period`: the default.
        """
        key = "attention.sliding_window_pattern"
        value = self.get(key, period)
        if isinstance(value, np.ndarray) and value.dtype == np.bool_ and len(value) == layers:
            return [bool(flag) for flag in value]
        if type(value) is int and value == 0:
            return [True] * layers
        interval = size(value, self._prefix + key, self.location)
        return [(layer + 1) % interval != 0 for layer in range(layers)]

    def finish(self) -> None:
        """Raise an error for the first value that was not read, unless it is 0 and so disables a feature."""
        if self.get("attention.causal", True) is not True:
            reason = f"{self._prefix}attention.causal: attention to later positions is not supported"
            raise UnsupportedError(reason, pointer=self.location)
        for key, value in self._data.items():
            if key not in self._read_keys and not _is_zero(value):
                raise UnsupportedError(f"{key} is not supported", pointer=self.location)


def _is_zero(value: Any) -> bool:
    return isinstance(value, int | float) and value == 0


Describe: TypeAlias = Callable[[GgufNumbers, dict[str, Any], Rope], dict[str, Any]]
"""A function of the values, the sizes (by their names in `DecoderConfig`) and the rotary positions. It returns the
remaining fields of the `DecoderConfig`.
"""


def fixed_fields(**fields: Any) -> Describe:
    """A `Describe` that returns fixed fields, for architectures whose files have no values for them."""
    return lambda numbers, sizes, rope: fields


def decoder_from_gguf(metadata: Mapping[str, Any], weights: Weights, describe: Describe) -> DecoderConfig:
    """Read the configuration from metadata and tensors. Raises an error if it is not supported."""
    location, n = weights.location, GgufNumbers(metadata, weights.location)
    dim, heads = n.count("embedding_length"), n.count("attention.head_count")
    head_dim = n.count("attention.key_length", max(1, dim // heads))
    if n.count("attention.value_length", head_dim) != head_dim or n.count("rope.dimension_count", head_dim) != head_dim:
        raise UnsupportedError("value length and RoPE dimensions must equal the head's dimension", pointer=location)
    kv_heads, context = n.count("attention.head_count_kv", heads), n.count("context_length")
    check_heads(location, heads=heads, kv_heads=kv_heads, head_dim=head_dim, context=context)
    sizes: dict[str, Any] = {
        "layers": n.count("block_count"),
        "dim": dim,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "hidden": n.count("feed_forward_length"),
        "vocab_size": weights.rows("token_embd.weight"),
        "context": context,
        "norm_eps": n.number("attention.layer_norm_rms_epsilon"),
    }
    rope = _read_rope(n, weights, head_dim)
    fields: dict[str, Any] = {"kinds": (LayerKind(rope=rope),)} | describe(n, sizes, rope)
    n.finish()
    return DecoderConfig(**sizes, **fields)


def _read_rope(n: GgufNumbers, weights: Weights, head_dim: int) -> Rope:
    """Read the rotary positions."""
    scale = _read_rope_scale(n)
    factors = None if scale == 1 else linear_factors(scale, head_dim)
    if "rope_freqs.weight" in weights:  # Llama 3.1 divides its frequencies by a table
        table = _read_factors(weights, head_dim)
        factors = table if factors is None else tuple(map(mul, table, factors))
    return Rope(n.number("rope.freq_base", 10000.0), factors)


def _read_rope_scale(n: GgufNumbers) -> float:
    """Read the divisor of all rotary positions. As in llama.cpp, a factor without a type is linear, and the type "none"
    disables it."""
    scaling = n.get("rope.scaling.type")
    if scaling is not None and not (isinstance(scaling, str) and scaling in ("none", "linear")):
        raise UnsupportedError(
            f"RoPE scaling {brief(scaling)} is not supported", pointer=n.location, hint="supported: none, linear"
        )
    default = n.get("rope.scale_linear", 1.0 if scaling is None else None)  # the old name
    value = n.get("rope.scaling.factor", default)
    return 1.0 if scaling == "none" or _is_zero(value) else n.number("rope.scaling.factor", default)


def _read_factors(weights: Weights, head_dim: int) -> tuple[float, ...]:
    """Read the divisors of the rotary frequencies."""
    factors: list[float] = weights.take("rope_freqs.weight", head_dim // 2).tolist()
    if not all(isfinite(factor) and factor > 0 for factor in factors):
        raise ModelFileError(
            f"{weights.location}: 'rope_freqs.weight' contains a number that is not positive and finite"
        )
    return tuple(factors)
