"""Reads config.json of transformers checkpoints: the common part of all architectures.

Keys that are not read raise an error, unless they are known to have no effect on the results: a model that differs from
this implementation must not run. Keys whose value is null, false, 0 or empty raise no error, since configs disable
features in this way; `NEUTRAL_VALUES` lists the exceptions. Source: transformers' configuration_*.py and
modeling_rope_utils.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from guided.errors import ModelFileError, brief
from guided.models.decoder import LayerKind
from guided.models.loading.config_reader import ConfigReader, positive, size
from guided.models.loading.weights import check_heads
from guided.models.model import AttentionKind
from guided.models.rotary import Rope, linear_factors, llama3_factors

__all__ = [
    "BOOKKEEPING_KEYS",
    "IGNORED_KEYS",
    "NEUTRAL_VALUES",
    "REASONS",
    "attention_biases",
    "kinds_of",
    "layer_windows",
    "one_window",
    "optional_windows",
    "read_rope",
    "rope_from",
    "sizes",
]

# Keys that transformers reads, but that have no effect on the results: they describe the model's origin, its training,
# classification, outputs besides the logits, or sampling.
_NEUTRAL_KEYS: Final = {
    "_name_or_path", "architectures", "attention_dropout", "attn_implementation", "attn_pdrop", "auto_map",
    "bos_token_id", "cache_implementation",
    "do_sample", "dtype", "embd_pdrop", "eos_token_id", "id2label", "initializer_range", "label2id", "length_penalty",
    "max_length", "max_window_layers", "model_type", "n_ctx", "num_beams", "num_labels", "output_attentions",
    "output_hidden_states", "pad_token_id", "pretraining_tp", "problem_type",
    "reorder_and_upcast_attn", "repetition_penalty", "resid_pdrop", "return_dict", "summary_activation",
    "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj", "task_specific_params",
    "temperature", "top_k", "top_p", "torch_dtype", "transformers_version", "typical_p", "use_cache",
}  # fmt: skip
# Bookkeeping keys of published checkpoints, which no modelling code of transformers reads. Sources, in this order: old
# and internal fields of transformers' `PretrainedConfig`; nanotron's export (SmolLM); transformers.js; Unsloth; the
# settings of a training run (LLaMA 1 conversions, Vicuna, LLaVA, TRL); old GPT-2 configs.
BOOKKEEPING_KEYS: Final = {
    "_attn_implementation_autoset", "_attn_implementation_internal", "_commit_hash", "_flash_attn_2_enabled",
    "_num_labels", "finetuning_task", "is_decoder", "tokenizer_class", "torchscript", "use_bfloat16",
    "is_llama_config", "transformers.js_config", "unsloth_fixed", "unsloth_version",
    "gradient_checkpointing", "max_sequence_length", "model_max_length", "neftune_noise_alpha",
    "tokenizer_model_max_length", "tokenizer_padding_side", "predict_special_tokens",
}  # fmt: skip
IGNORED_KEYS: Final = _NEUTRAL_KEYS | BOOKKEEPING_KEYS
# The only value without effect, for keys that may be in any config. `activation` repeats `hidden_act` (Falcon 3);
# `full_attn_mod` and `interpolate_factor` are in the configs of Phi-4-mini.
NEUTRAL_VALUES: Final[Mapping[str, Any]] = MappingProxyType(
    {"activation": "swiglu", "full_attn_mod": 1, "interpolate_factor": 1, "is_causal": True}
)
REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "is_causal": "attention to later positions is not supported",
        "quantization": "quantised checkpoints of MLX are not supported: use an unquantised one, or a GGUF file",
        "quantization_config": "quantised checkpoints are not supported: use an unquantised one, or a GGUF file",
        "sliding_window": "this architecture has no sliding windows",
        "mlp_bias": "biases in the MLP are not supported",
        "num_experts": "mixtures of experts are not supported",
        "num_local_experts": "mixtures of experts are not supported",
        "add_cross_attention": "cross attention is not supported",
        "scale_attn_by_inverse_layer_idx": "scores scaled by the layer index are not supported",
    }
)
_ROPE_KEYS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"default": (), "linear": ("factor",), "llama3": ("factor", "low_freq_factor", "high_freq_factor")}
)
_FULL, _SLIDING = "full_attention", "sliding_attention"


def sizes(
    reader: ConfigReader, *, kv_heads: int | None = None, head_dim: int | None = None, norm_eps: float = 1e-6
) -> dict[str, Any]:
    """Read the sizes of an architecture with grouped heads and RMSNorm. The arguments are transformers' defaults for
    missing keys. None: as many KV heads as heads, and heads that together have the model's dimension.
    """
    dim, heads = reader.size("hidden_size"), reader.size("num_attention_heads")
    head_dim = reader.size("head_dim", head_dim or max(1, dim // heads))
    kv_heads = reader.get_nullable("num_key_value_heads", kv_heads)
    kv_heads = size(heads if kv_heads is None else kv_heads, "num_key_value_heads", reader.location)
    context = reader.size("max_position_embeddings")
    check_heads(reader.location, heads=heads, kv_heads=kv_heads, head_dim=head_dim, context=context)
    return {
        "layers": reader.size("num_hidden_layers"),
        "dim": dim,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "hidden": reader.size("intermediate_size"),
        "vocab_size": reader.size("vocab_size"),
        "context": context,
        "norm_eps": reader.number("rms_norm_eps", norm_eps),
    }


def attention_biases(reader: ConfigReader) -> dict[str, Any]:
    """Read whether all four projections of the attention have biases, or none."""
    has_bias = reader.flag("attention_bias", False)
    return {"qkv_bias": has_bias, "output_bias": has_bias}


def layer_windows(
    reader: ConfigReader, layers: int, has_window: Callable[[int], bool], *, window: int | None = None
) -> list[int | None]:
    """Read the window of each layer from `layer_types`. If this key is missing, `has_window` decides for each layer.

    Args:
        window: the default for configs without `sliding_window`.
    """
    sliding_window = reader.get_nullable("sliding_window", window)
    types = reader.get(
        "layer_types", [_SLIDING if sliding_window is not None and has_window(i) else _FULL for i in range(layers)]
    )
    if not isinstance(types, list) or len(types) != layers or not all(kind in (_FULL, _SLIDING) for kind in types):
        reason = f"layer_types is {brief(types, 200)}, not {_FULL} or {_SLIDING} for each of {layers} layers"
        raise reader.unsupported("layer_types", reason)
    width = size(sliding_window, "sliding_window", reader.location) if _SLIDING in types else None
    return [width if kind == _SLIDING else None for kind in types]


def optional_windows(reader: ConfigReader, layers: int) -> list[int | None]:
    """Read the windows of Qwen's layers: `use_sliding_window` enables windows in the layers from `max_window_layers`
    on."""
    first_layer = reader.get("max_window_layers", 28)
    if isinstance(first_layer, bool) or not isinstance(first_layer, int) or first_layer < 0:
        problem = f"max_window_layers is {brief(first_layer)}, but must be an integer of at least 0"
        raise ModelFileError(f"{reader.location}: {problem}")
    has_windows = reader.flag("use_sliding_window", False)
    windows = layer_windows(reader, layers, lambda layer: has_windows and layer >= first_layer, window=4096)
    if not has_windows and any(windows):
        raise reader.unsupported("layer_types", "layers have windows, but use_sliding_window is off")
    return windows


def one_window(reader: ConfigReader, layers: int, window: int | None = None) -> list[int | None]:
    """Read the common window of all layers, if there is one."""
    return layer_windows(reader, layers, lambda layer: True, window=window)


def kinds_of(rope: Rope, windows: Sequence[int | None]) -> tuple[LayerKind, ...]:
    """The kinds of layers that differ only in their windows."""
    kinds = tuple(LayerKind(AttentionKind(window), rope) for window in windows)
    return kinds[:1] if len(set(kinds)) == 1 else kinds


def read_rope(reader: ConfigReader, head_dim: int, context: int, base: float = 10000.0) -> Rope:
    """Read the rotary positions. Older configs store them in rope_theta and rope_scaling. `base`: the default base."""
    key = "rope_parameters" if reader.get("rope_parameters") else "rope_scaling"
    base = positive(reader.get("rope_theta", base), "rope_theta", reader.location)
    return rope_from(reader, key, reader.get(key, {}), head_dim, context, base)


def rope_from(reader: ConfigReader, key: str, value: Any, head_dim: int, context: int, base: float) -> Rope:
    """Read the rotary positions from the parameters at `key`. `base`: the default base."""
    location = reader.location
    if not isinstance(value, dict):
        raise ModelFileError(f"{location}: {key} is {brief(value, 100)}, but must be an object")
    parameters = dict(value)
    base = positive(parameters.pop("rope_theta", base), "rope_theta", location)
    kind = parameters.pop("rope_type", parameters.pop("type", "default"))
    parameters.pop("type", None)  # some configs have both names
    original_context = parameters.pop("original_max_position_embeddings", context)
    if parameters.get("partial_rotary_factor") == 1:
        del parameters["partial_rotary_factor"]
    if not isinstance(kind, str) or kind not in _ROPE_KEYS:
        hint = f"supported: {', '.join(_ROPE_KEYS)}"
        raise reader.unsupported(key, f"rotary positions of type {brief(kind, 100)} are not supported", hint)
    for name in parameters:
        if name not in _ROPE_KEYS[kind]:
            raise reader.unsupported(key, f"{name} is not supported for rotary positions of type {kind}")
    numbers = {name: positive(parameters.get(name), f"{key}.{name}", location) for name in _ROPE_KEYS[kind]}
    if kind == "linear":
        return Rope(base, linear_factors(numbers["factor"], head_dim))
    if kind == "default":
        return Rope(base)
    low, high = numbers["low_freq_factor"], numbers["high_freq_factor"]
    if low >= high:
        raise ModelFileError(f"{location}: {key}.low_freq_factor {low} is not below high_freq_factor {high}")
    original_context = positive(original_context, f"{key}.original_max_position_embeddings", location)
    factors = llama3_factors(
        base, head_dim, factor=numbers["factor"], low=low, high=high, original_context=original_context
    )
    return Rope(base, factors)
