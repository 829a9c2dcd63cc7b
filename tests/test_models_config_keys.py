"""config.json, judged by transformers: keys that have no effect, values that have one, and defaults of missing keys."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from guided.errors import UnsupportedError
from guided.models.loading.huggingface_config import BOOKKEEPING_KEYS, IGNORED_KEYS, NEUTRAL_VALUES
from guided.models.loading.registry import ARCHITECTURES, find_huggingface_architecture
from tests.test_models_architectures import COMMON, GEMMA, TOKENS, load, logits_of
from tests.test_models_forward import Reader

transformers = pytest.importorskip("transformers", reason="transformers is the judge of its checkpoints")

SOURCE = Path(transformers.__file__).parent
# Modelling code also reads these keys: for dropout, initial weights, classification, losses, outputs or caches.
WITHOUT_EFFECT = {
    "attention_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop", "initializer_range", "num_labels", "pad_token_id",
    "problem_type", "reorder_and_upcast_attn", "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
    "summary_type", "summary_use_proj", "use_cache", "output_attentions", "output_hidden_states", "return_dict",
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": COMMON, "qwen3": COMMON | {"head_dim": 128}, "qwen2": COMMON, "mistral": COMMON | {"sliding_window": 5},
    "gemma2": GEMMA, "gemma3_text": GEMMA, "phi3": COMMON, "olmo2": COMMON, "granite": COMMON, "smollm3": COMMON,
    "nanochat": COMMON, "gpt2": {"n_embd": 24, "n_layer": 2, "n_head": 6, "vocab_size": 50, "n_positions": 96},
}  # fmt: skip


def test_modelling_code_does_not_read_ignored_keys():
    files = [SOURCE / f"{name}.py" for name in ("masking_utils", "modeling_rope_utils", "activations", "cache_utils")]
    for entry in ARCHITECTURES:
        name = entry.model_type.removesuffix("_text")
        files.append(SOURCE / "models" / name / f"modeling_{name}.py")
    text = "\n".join(file.read_text("utf-8") for file in files)
    read = set(re.findall(r"config\.([a-z_]\w*)", text)) | set(re.findall(r'getattr\(\w*config, "(\w+)"', text))
    assert {"hidden_size", "is_causal", "sliding_window"} < read
    assert not (read & IGNORED_KEYS) - WITHOUT_EFFECT


def test_bookkeeping_keys_and_neutral_values_do_not_change_the_logits(tmp_path):
    config = transformers.LlamaConfig(**COMMON, attn_implementation="eager")
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    data = json.loads((tmp_path / "config.json").read_text())
    logits = Reader(load(tmp_path), 40).forward(TOKENS, 40)
    names = {"_attn_implementation_internal": "eager", "_commit_hash": "0", "tokenizer_class": "LlamaTokenizerFast"}
    more = dict.fromkeys(BOOKKEEPING_KEYS, True) | names | NEUTRAL_VALUES
    (tmp_path / "config.json").write_text(json.dumps(data | more))
    assert torch.equal(Reader(load(tmp_path), 40).forward(TOKENS, 40), logits)
    other = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="eager")
    torch.testing.assert_close(logits_of(other, TOKENS), logits, atol=4e-5, rtol=2e-5)


@pytest.mark.parametrize("kind", CONFIGS)
def test_attention_to_later_positions_is_refused(kind):
    data = CONFIGS[kind] | {"model_type": kind, "is_causal": True}
    if kind == "nanochat":
        data |= {"hidden_act": "relu2"}
    find_huggingface_architecture(data, "c")
    with pytest.raises(UnsupportedError, match=r"c: attention to later positions is not supported.*at is_causal"):
        find_huggingface_architecture(data | {"is_causal": False}, "c")


def test_a_config_that_is_not_causal_computes_other_logits():
    """So `is_causal` cannot be ignored."""
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**COMMON, attn_implementation="eager")).eval()
    logits = logits_of(model, TOKENS)
    model.config.is_causal = False
    assert (logits_of(model, TOKENS) - logits).abs().max() > 0.01


@pytest.mark.parametrize(("key", "value"), [("activation", "relu"), ("full_attn_mod", 2), ("interpolate_factor", 2)])
def test_other_values_than_the_neutral_one_are_refused(key, value):
    data = COMMON | {"model_type": "llama"}
    find_huggingface_architecture(data | {key: NEUTRAL_VALUES[key]}, "c")
    find_huggingface_architecture(data | {key: None}, "c")
    with pytest.raises(UnsupportedError, match=f"the key {key} of this architecture is not known"):
        find_huggingface_architecture(data | {key: value}, "c")


@pytest.mark.parametrize("kind", CONFIGS)
def test_missing_keys_have_the_defaults_of_transformers(kind):
    """Without a key, the config equals the one in which transformers has filled in the key."""
    heads = {"num_attention_heads": 32, "hidden_size": 256} if "hidden_size" in CONFIGS[kind] else {}
    entry = next(entry for entry in ARCHITECTURES if entry.model_type == kind)
    required = {"model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                "num_attention_heads", "max_position_embeddings", "n_embd", "n_layer", "n_head", "n_positions",
                "rope_parameters"}  # fmt: skip
    full = transformers.AutoConfig.for_model(**CONFIGS[kind] | heads | {"model_type": kind}).to_dict()
    for key in sorted(full.keys() - required - IGNORED_KEYS):
        partial = {name: value for name, value in full.items() if name != key}
        filled = json.loads(json.dumps(transformers.AutoConfig.for_model(**partial).to_dict()))
        got = find_huggingface_architecture(partial | {"architectures": [entry.class_name]}, "c")
        assert got == find_huggingface_architecture(filled | {"architectures": [entry.class_name]}, "c"), key
