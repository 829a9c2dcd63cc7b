"""config.json of transformers' checkpoints: what all architectures have in common.

Every key is read, known to say nothing about the results, or refused by its name: a model that differs from what is
computed here must not run. A key that is not known is accepted where it is null, false or empty, for that is how
configs say that something is off. Source: transformers' configuration_*.py and modeling_rope_utils.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from guided.errors import ModelFileError, brief
from guided.models.config_reader import ConfigReader, positive
from guided.models.rotary import linear_factors, llama3_factors
from guided.models.weights import check_heads

__all__ = ["INERT", "REASONS", "check_windows", "rotary_sizes"]

# Keys that say nothing about the results: where the model comes from, how it was trained, how text is sampled.
INERT: Final = {
    "_name_or_path", "architectures", "attention_dropout", "attn_implementation", "attn_pdrop", "bos_token_id",
    "do_sample", "dtype", "embd_pdrop", "eos_token_id", "id2label", "initializer_range", "label2id", "length_penalty",
    "max_length", "max_window_layers", "model_type", "n_ctx", "num_beams", "pad_token_id", "pretraining_tp",
    "reorder_and_upcast_attn", "repetition_penalty", "resid_pdrop", "return_dict", "summary_activation",
    "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj", "task_specific_params",
    "temperature", "top_k", "top_p", "torch_dtype", "transformers_version", "typical_p", "use_cache",
}  # fmt: skip
REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "quantization_config": "quantised checkpoints are not read: take the unquantised one, or a GGUF file",
        "sliding_window": "sliding windows of attention are not computed",
        "mlp_bias": "biases in the MLP are not computed",
        "num_experts": "mixtures of experts are not computed",
        "num_local_experts": "mixtures of experts are not computed",
        "add_cross_attention": "cross attention is not computed",
        "scale_attn_by_inverse_layer_idx": "scores scaled by the layer's number are not computed",
    }
)
_ROPE_KEYS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"default": (), "linear": ("factor",), "llama3": ("factor", "low_freq_factor", "high_freq_factor")}
)


def rotary_sizes(reader: ConfigReader, default_head_dim: int | None = None) -> dict[str, Any]:
    """The numbers of an architecture with rotary positions and RMSNorm."""
    dim, heads = reader.size("hidden_size"), reader.size("num_attention_heads")
    head_dim = reader.size("head_dim", default_head_dim or max(1, dim // heads))
    kv_heads, context = reader.size("num_key_value_heads", heads), reader.size("max_position_embeddings")
    check_heads(reader.where, heads=heads, kv_heads=kv_heads, head_dim=head_dim, context=context)
    base, factors = _rope(reader, head_dim, context)
    return {
        "layers": reader.size("num_hidden_layers"),
        "dim": dim,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "hidden": reader.size("intermediate_size"),
        "vocab_size": reader.size("vocab_size"),
        "context": context,
        "rope_base": base,
        "norm_eps": reader.number("rms_norm_eps", 1e-6),
        "rope_factors": factors,
    }


def check_windows(reader: ConfigReader) -> None:
    """Windows of attention must be off; while they are, `sliding_window` is only a number."""
    layers = reader.get("layer_types", [])
    if not isinstance(layers, list) or any(name != "full_attention" for name in layers):
        raise reader.refuse("layer_types", f"layers of the types {brief(layers, 200)} are not all full_attention")
    if reader.flag("use_sliding_window", False):
        raise reader.refuse("use_sliding_window", REASONS["sliding_window"])
    reader.get("sliding_window")


def _rope(reader: ConfigReader, head_dim: int, context: int) -> tuple[float, tuple[float, ...] | None]:
    """The base and what the frequencies are divided by; older configs say it in rope_theta and rope_scaling."""
    where, key = reader.where, "rope_parameters" if reader.get("rope_parameters") else "rope_scaling"
    given = reader.get(key, {})
    if not isinstance(given, dict):
        raise ModelFileError(f"{where}: {key} is {brief(given, 100)}, an object is needed")
    parameters = dict(given)
    base = positive(parameters.pop("rope_theta", reader.get("rope_theta", 10000.0)), "rope_theta", where)
    kind = parameters.pop("rope_type", parameters.pop("type", "default"))
    parameters.pop("type", None)  # some configs have both names
    original = parameters.pop("original_max_position_embeddings", context)
    if parameters.get("partial_rotary_factor") == 1:
        del parameters["partial_rotary_factor"]
    if not isinstance(kind, str) or kind not in _ROPE_KEYS:
        hint = f"supported: {', '.join(_ROPE_KEYS)}"
        raise reader.refuse(key, f"rotary positions of type {brief(kind, 100)} are not supported", hint)
    for name in parameters:
        if name not in _ROPE_KEYS[kind]:
            raise reader.refuse(key, f"{name} is not supported for rotary positions of type {kind}")
    numbers = {name: positive(parameters.get(name), f"{key}.{name}", where) for name in _ROPE_KEYS[kind]}
    if kind == "linear":
        return base, linear_factors(numbers["factor"], head_dim)
    if kind == "default":
        return base, None
    low, high = numbers["low_freq_factor"], numbers["high_freq_factor"]
    if low >= high:
        raise ModelFileError(f"{where}: {key}.low_freq_factor {low} is not below high_freq_factor {high}")
    original = positive(original, f"{key}.original_max_position_embeddings", where)
    factors = llama3_factors(base, head_dim, factor=numbers["factor"], low=low, high=high, original_context=original)
    return base, factors
