"""Phi-3, Phi-3.5 and Phi-4-mini: Llama with fused matrices and partially rotated heads (arXiv 2404.14219).

With longrope, a sequence longer than the model's original context uses other frequencies for all of its tokens, so
cached keys would become invalid. Such models are therefore limited to the original context, in which they agree with
transformers. Longer requests are rejected.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any, Final

from guided.errors import ModelFileError, brief
from guided.models.decoder import DecoderConfig
from guided.models.loading.architecture import decoder
from guided.models.loading.config_reader import ConfigReader, positive, size
from guided.models.loading.huggingface_config import kinds_of, one_window, rope_from, sizes
from guided.models.rotary import Rope

__all__ = ["ARCHITECTURE"]


def _read_config(reader: ConfigReader) -> DecoderConfig:
    reader.one_of("hidden_act", "silu", "silu", "swish")
    c = sizes(reader, norm_eps=1e-5)
    outer_value = reader.get("original_max_position_embeddings")
    rope, c["context"] = _read_rope(reader, c["head_dim"], c["context"], outer_value)
    return DecoderConfig(**c, kinds=kinds_of(rope, one_window(reader, c["layers"])), fused=True)


def _read_rope(reader: ConfigReader, head_dim: int, context: int, outer_value: Any) -> tuple[Rope, int]:
    """Read the rotary positions, and the number of positions for which they are valid.

    `outer_value`: the config's own `original_max_position_embeddings`, if any. It takes precedence over the value among
    the parameters of the rotary positions.
    """
    location, key = reader.location, "rope_scaling" if reader.get("rope_scaling") else "rope_parameters"
    scaling = reader.get("rope_scaling") or reader.get("rope_parameters") or {}
    if not isinstance(scaling, dict):
        raise ModelFileError(f"{location}: {key} is {brief(scaling, 100)}, but must be an object")
    parameters = dict(scaling)
    base = positive(parameters.pop("rope_theta", reader.get("rope_theta", 10000.0)), "rope_theta", location)
    rotary_factor = parameters.pop("partial_rotary_factor", reader.get("partial_rotary_factor", 1.0))
    rotary_factor = positive(rotary_factor, "partial_rotary_factor", location)
    rotary_dim = int(head_dim * rotary_factor)
    if not 2 <= rotary_dim <= head_dim or rotary_dim % 2:
        reason = f"{rotary_dim} of {head_dim} dimensions cannot form pairs"
        raise ModelFileError(f"{location}: partial_rotary_factor is {rotary_factor}: {reason}")
    if parameters.get("rope_type", parameters.get("type")) not in ("longrope", "su"):
        rope = rope_from(reader, key, parameters, rotary_dim, context, base)
        return Rope(rope.base, rope.factors, rotary_dim), context
    for name in parameters.keys() - _LONGROPE_KEYS:
        raise reader.unsupported(key, f"{name} is not supported for rotary positions of type longrope")
    nested_value = parameters.get("original_max_position_embeddings", context)
    original_context = size(
        nested_value if outer_value is None else outer_value, "original_max_position_embeddings", location
    )
    factors = parameters.get("short_factor")
    if not isinstance(factors, list) or len(factors) != rotary_dim // 2:
        raise ModelFileError(
            f"{location}: {key}.short_factor must have {rotary_dim // 2} numbers, one for each frequency"
        )
    numbers = tuple(positive(factor, f"{key}.short_factor", location) for factor in factors)
    stretch = positive(parameters.get("factor") or context / original_context, f"{key}.factor", location)
    gain = 1.0 if stretch <= 1 else sqrt(1 + log(stretch) / log(original_context))
    gain = positive(parameters.get("attention_factor") or gain, f"{key}.attention_factor", location)
    return Rope(base, numbers, rotary_dim, gain), min(context, original_context)


_LONGROPE_KEYS: Final = {
    "attention_factor", "factor", "long_factor", "original_max_position_embeddings", "rope_type", "short_factor",
    "type",
}  # fmt: skip
ARCHITECTURE: Final = decoder("phi3", "Phi3ForCausalLM", _read_config)
