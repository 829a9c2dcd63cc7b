"""config.json: keys that are read, keys that are accepted, and keys that are refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import GuidedError, ModelFileError, UnsupportedError
from guided.models.architectures.gpt import GPTConfig
from guided.models.architectures.llama import LlamaConfig
from guided.models.architectures.nanochat import NanoChatConfig
from guided.models.loading.registry import ARCHITECTURES, find_gguf_architecture, find_huggingface_architecture
from guided.models.rotary import llama3_factors, rotary_frequencies
from tests.effort import examples

COMMON = {
    "vocab_size": 50, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 6,
    "num_key_value_heads": 2, "max_position_embeddings": 96, "transformers_version": "5.0", "use_cache": True,
}  # fmt: skip
LLAMA = COMMON | {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
QWEN3 = COMMON | {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "head_dim": 8, "sliding_window": 4096,
    "use_sliding_window": False, "max_window_layers": 28,
}  # fmt: skip
NANOCHAT = COMMON | {"model_type": "nanochat", "hidden_act": "relu2", "final_logit_softcapping": 15.0}
GPT2 = {"model_type": "gpt2", "vocab_size": 50, "n_embd": 24, "n_layer": 3, "n_head": 6, "n_positions": 96}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


def read_config(data: Any, where: str) -> tuple[Any, bool]:
    """The numbers of a config, and whether its head is tied."""
    _, config, tied = find_huggingface_architecture(data, where)
    return config, tied


def test_an_unknown_architecture_is_refused_with_the_known_ones():
    with pytest.raises(UnsupportedError, match=r"(?s)'mamba' is not supported.*supported: llama, qwen3"):
        find_gguf_architecture("mamba", "c")
    with pytest.raises(UnsupportedError) as caught:
        find_huggingface_architecture(LLAMA | {"architectures": ["MambaForCausalLM"]}, "c")
    assert all(entry.class_name in str(caught.value) for entry in ARCHITECTURES)
    with pytest.raises(UnsupportedError, match="a model of type 'mamba' is not supported"):
        find_huggingface_architecture(COMMON | {"model_type": "mamba"}, "c")
    with pytest.raises(UnsupportedError, match="a model of type 'qwen3' is not supported"):
        find_huggingface_architecture(LLAMA | {"model_type": "qwen3"}, "c")


def test_names_of_architectures_are_different():
    for field in ("model_type", "class_name"):
        assert len({getattr(entry, field) for entry in ARCHITECTURES}) == len(ARCHITECTURES)


def test_configs_that_are_read():
    sizes = {"layers": 3, "dim": 24, "heads": 6, "hidden": 40, "vocab_size": 50, "context": 96}
    grouped = sizes | {"kv_heads": 2, "norm_eps": 1e-6}
    assert read_config(LLAMA, "c") == (LlamaConfig(**grouped, head_dim=4), False)
    assert read_config(QWEN3, "c") == (LlamaConfig(**grouped, head_dim=8, qk_norm="head"), False)
    assert read_config(NANOCHAT, "c") == (NanoChatConfig(**grouped, head_dim=4), False)
    assert read_config(GPT2, "c") == (GPTConfig(**sizes | {"hidden": 96}), True)
    assert read_config(LLAMA | {"tie_word_embeddings": True, "attention_bias": True}, "c") == (
        LlamaConfig(**grouped, head_dim=4, qkv_bias=True, output_bias=True), True
    )  # fmt: skip
    assert read_config({k: v for k, v in LLAMA.items() if k != "model_type"}, "c") == read_config(LLAMA, "c")


def test_disabled_features_are_accepted():
    off = {
        "quantization_config": None,
        "mlp_bias": False,
        "new_feature": False,
        "pruned_heads": {},
        "rope_scaling": None,
    }
    assert read_config(LLAMA | off, "c") == read_config(LLAMA, "c")


@pytest.mark.parametrize(
    ("data", "key", "reason"),
    [
        (LLAMA | {"architectures": ["LlamaForSequenceClassification"]}, "architectures", "LlamaForSequence"),
        (LLAMA | {"architectures": "LlamaForCausalLM"}, "architectures", "not supported"),
        (LLAMA | {"architectures": ["LlamaForCausalLM", "GPT2LMHeadModel"]}, "architectures", "not supported"),
        (LLAMA | {"model_type": "qwen3"}, "model_type", "'qwen3' is not supported"),
        (COMMON | {"model_type": "mixtral"}, "model_type", "'mixtral' is not supported"),
        (COMMON, "model_type", "None is not supported"),
        (LLAMA | {"quantization_config": {"bits": 4}}, "quantization_config", "quantised checkpoints"),
        (LLAMA | {"mlp_bias": True}, "mlp_bias", "biases in the MLP"),
        (LLAMA | {"sliding_window": 4096}, "sliding_window", "sliding windows"),
        (LLAMA | {"hidden_act": "gelu"}, "hidden_act", "hidden_act 'gelu' is not supported"),
        (LLAMA | {"new_feature": 3}, "new_feature", "new_feature of this architecture is not known"),
        (QWEN3 | {"layer_types": ["sliding_attention"] * 3}, "layer_types", "use_sliding_window is off"),
        (QWEN3 | {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types", "for each of 3 layers"),
        (QWEN3 | {"num_experts": 8}, "num_experts", "mixtures of experts"),
        (NANOCHAT | {"attention_bias": True}, "attention_bias", "not known"),
        (GPT2 | {"activation_function": "relu"}, "activation_function", "'relu' is not supported"),
        (GPT2 | {"scale_attn_weights": False}, "scale_attn_weights", "unscaled attention scores"),
        (GPT2 | {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx", "layer index"),
        (GPT2 | {"add_cross_attention": True}, "add_cross_attention", "cross attention"),
        (LLAMA | {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "rope_scaling", "type 'yarn'"),
        (LLAMA | {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_scaling", "type 'dynamic'"),
        (LLAMA | {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "rope_parameters",
         "partial_rotary_factor is not supported"),
    ],
)  # fmt: skip
def test_refusals(data, key, reason):
    with pytest.raises(UnsupportedError, match=reason) as caught:
        read_config(data, "c")
    assert caught.value.pointer == key


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "a config is a JSON object"),
        (LLAMA | {"hidden_size": None}, "hidden_size is None, but must be a positive number"),
        (LLAMA | {"hidden_size": True}, "hidden_size is True, but must be a positive number"),
        (LLAMA | {"hidden_size": 24.5}, "hidden_size is 24.5, but must be an integer"),
        (LLAMA | {"num_hidden_layers": -1}, "num_hidden_layers is -1"),
        (LLAMA | {"rms_norm_eps": float("nan")}, "rms_norm_eps is nan"),
        (LLAMA | {"num_key_value_heads": 4}, "6 heads and 4 KV heads of size 4 do not fit"),
        (LLAMA | {"head_dim": 5}, "6 heads and 2 KV heads of size 5 do not fit"),
        (
            LLAMA | {"max_position_embeddings": 1 << 40},
            "a context of 1099511627776 positions for heads of size 4 is too",
        ),
        (LLAMA | {"head_dim": 1 << 40, "rope_scaling": {"type": "linear", "factor": 2}}, "is too long"),
        (LLAMA | {"attention_bias": 1}, "attention_bias is 1, neither true nor false"),
        (LLAMA | {"rope_scaling": 2}, "rope_scaling is 2, but must be an object"),
        (LLAMA | {"rope_scaling": {"type": "linear"}}, "rope_scaling.factor is None"),
        (LLAMA | {"rope_scaling": LLAMA3 | {"low_freq_factor": 4.0}}, "low_freq_factor 4.0 is not below"),
        (LLAMA | {"rope_theta": 0}, "rope_theta is 0, but must be a positive number"),
        (GPT2 | {"n_head": 5}, "n_embd \\(24\\) is not a multiple of n_head \\(5\\)"),
    ],
)
def test_invalid_values(data, message):
    with pytest.raises(ModelFileError, match=message):
        read_config(data, "c")


@examples(300)
@given(st.data())
def test_any_json_for_a_key_is_read_or_refused(data):
    config: dict[str, Any] = dict(data.draw(st.sampled_from([LLAMA, QWEN3, NANOCHAT, GPT2])))
    rope = st.fixed_dictionaries({}, optional=dict.fromkeys([*LLAMA3, "type", "rope_theta"], VALUES))
    keys = st.sampled_from([*config, "rope_scaling", "rope_parameters", "layer_types", "tie_word_embeddings", "x"])
    for key in data.draw(st.lists(keys, min_size=1, max_size=3)):
        config[key] = data.draw(VALUES | rope)
    try:
        model, tied = read_config(config, "c")
    except GuidedError:
        return
    assert isinstance(tied, bool)
    assert model.heads % model.kv_heads == 0


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 100)
    | st.floats()
    | st.sampled_from(["llama", "linear", "default", ""]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "type"]), inner, max_size=2),
    max_leaves=3,
)


def test_llama3_factors():
    """Short waves keep their length, long ones grow by the factor, and those in between are in between, in order."""
    factors = llama3_factors(500000.0, 128, factor=8.0, low=1.0, high=4.0, original_context=8192)
    waves = (2 * 3.141592653589793 / rotary_frequencies(500000.0, 128)).tolist()
    assert all(factor == 1 for factor, wave in zip(factors, waves, strict=True) if wave < 8192 / 4)
    assert all(factor == 8 for factor, wave in zip(factors, waves, strict=True) if wave > 8192)
    assert list(factors) == sorted(factors)
    assert any(1 < factor < 8 for factor in factors)
