"""LoRA adapters from PEFT: logits, modules, ranks and scales equal those of transformers with PEFT."""

from __future__ import annotations

import json
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from guided.errors import UnsupportedError
from guided.models.linear import AdaptedMatrix
from guided.models.loading.lora_config import read_lora_config
from guided.models.lora import with_adapter
from tests.effort import examples
from tests.engine_support import Reader
from tests.test_models_huggingface import load, logits_of, make
from tests.test_models_lora import FIELDS, MODULES, PATTERNS

if find_spec("peft") is None:
    pytest.skip("peft is the judge of its adapters", allow_module_level=True)

torch.set_num_threads(1)
ATTENTION = list(FIELDS[:4])
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "all-linear": ("llama", {"target_modules": "all-linear", "r": 3, "lora_alpha": 5}),
    "defaults": ("qwen3", {}),
    "bias of the base": ("llama bias", {"target_modules": ["q_proj", "o_proj"], "use_rslora": True}),
    "a pattern": ("qwen3", {"target_modules": r".*layers\.[02]\..*(v|up)_proj", "r": 2}),
    "some layers": ("llama", {"target_modules": ATTENTION, "layers_to_transform": [1, 2], "layers_pattern": "layers"}),
    "all but": ("qwen3", {"target_modules": list(FIELDS[:-1]), "exclude_modules": ["1.mlp.up_proj", "k_proj"]}),
    "patterns": ("llama", {
        "target_modules": list(FIELDS[:-1]), "r": 2, "lora_alpha": 2, "use_rslora": True,
        "rank_pattern": {r"^model\.layers\.0.*": 5, "down_proj": 1},
        "alpha_pattern": {"[qk]_proj": 1, "1.self_attn.o_proj": 3},
    }),
    "the head": ("llama", {"target_modules": ["lm_head", "gate_proj"], "lora_alpha": 4}),
    "a tied head": ("qwen3 tied, bias", {"target_modules": ["lm_head", "v_proj"], "lora_alpha": 4}),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def peft():
    """Importing it takes seconds, which only the process that runs these tests should spend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peft = import_module("peft")
        import_module("peft.tuners.tuners_utils")
        import_module("peft.utils.other")
    return peft


@pytest.fixture(params=CASES)
def saved(request, tmp_path, peft):
    """A base model and an adapter on disk, and the logits of both together."""
    case, config = CASES[request.param]
    model = make(case)
    model.save_pretrained(tmp_path / "base")
    with warnings.catch_warnings():  # tied heads, copies of heads
        warnings.simplefilter("ignore")
        model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **config)).eval()
        generator = torch.Generator().manual_seed(2)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "lora_" in name:
                    weight.copy_(torch.randn(weight.shape, generator=generator) * weight.shape[1] ** -0.5)
        model.save_pretrained(tmp_path / "adapter")
    return tmp_path / "base", tmp_path / "adapter", logits_of(model)


def test_logits_match_peft(saved):
    base, adapter, want = saved
    plain = load(base)
    model = with_adapter(plain, adapter)
    tokens = [(7 * i * i + i) % 50 for i in range(40)]
    torch.testing.assert_close(Reader(model, 40).forward(tokens, 40), want, atol=2e-5, rtol=1e-5)
    assert (Reader(plain, 40).forward(tokens, 40) - want).abs().max() > 0.1
    with safe_open(adapter / "adapter_model.safetensors", "pt") as file:  # PEFT adds a copy of a head that is adapted
        assert any("base_layer" in name for name in file.keys()) == isinstance(model.head, AdaptedMatrix)  # noqa: SIM118


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"use_dora": True}, "use_dora"),
        ({"bias": "lora_only"}, "bias"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"trainable_token_indices": [1]}, "trainable_token_indices"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights"),
        ({"target_modules": ["embed_tokens", "q_proj"]}, "model.embed_tokens"),
    ],
)
def test_peft_features_that_are_not_supported_are_refused(tmp_path, peft, config, key):
    plain = make("llama")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = peft.get_peft_model(plain, peft.LoraConfig(**{"target_modules": ["q_proj"]} | config))
        model.save_pretrained(tmp_path / "adapter")
    make("llama").save_pretrained(tmp_path / "base")
    with pytest.raises(UnsupportedError) as caught:
        with_adapter(load(tmp_path / "base"), tmp_path / "adapter")
    assert caught.value.pointer == key


def test_every_key_of_peft_is_known(tmp_path, peft):
    """Every key that PEFT writes by default is read. Every key that it can set is read, has no effect, or is refused
    with a reason.
    """
    from guided.models.loading import lora_config

    peft.LoraConfig(target_modules=["q_proj"]).save_pretrained(tmp_path)
    read_lora_config(tmp_path)
    keys = json.loads((tmp_path / "adapter_config.json").read_text()).keys()
    read = {"peft_type", "bias", "init_lora_weights", "target_modules", "exclude_modules", "r", "lora_alpha",
            "use_rslora", "rank_pattern", "alpha_pattern", "layers_to_transform", "layers_pattern"}  # fmt: skip
    refused = {"megatron_config", "velora_config", "monteclora_config", "arrow_config"}  # refused as unknown keys
    assert keys <= read | lora_config._IGNORED_KEYS | lora_config._REASONS.keys() | refused


def names_of(config: dict[str, Any], path: Path) -> tuple[str, ...]:
    (path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"} | config))
    found = read_lora_config(path)
    return tuple(module for module in (*MODULES, "model.embed_tokens") if found.targets(module))


TARGETS = st.one_of(
    st.lists(st.sampled_from([*FIELDS, "proj", "self_attn.q_proj", "0.self_attn.q_proj", "model.layers.1.mlp.up_proj",
                              "embed_tokens", ""]), max_size=4),
    st.sampled_from(["all-linear", "All-Linear", ".*", r".*\.(q|v)_proj", "q_proj", r"model\.layers\.[1-9].*_proj",
                     r".*(self_attn|mlp)\.(?!down).*", r"(?:.*?(?:layers).*?(?:q_proj|up_proj).*?)|(?:\blm_head)"]),
)  # fmt: skip


@examples(150)
@given(TARGETS, st.none() | TARGETS, st.none() | st.integers(0, 2) | st.lists(st.integers(0, 2), max_size=2),
       st.sampled_from([None, [], "layers", ["h", "layers"]]))  # fmt: skip
def test_targets_match_peft(tmp_path_factory, peft, included, excluded, layers, places):
    path = tmp_path_factory.mktemp("c")
    config: dict[str, Any] = {"target_modules": included, "exclude_modules": excluded, "layers_to_transform": layers}
    if isinstance(included, str):
        config["layers_to_transform"] = None
    if config["layers_to_transform"] is not None:
        config["layers_pattern"] = places
    judge = peft.LoraConfig(**config)
    if isinstance(included, str) and included.lower() == "all-linear":  # its value if a model is given
        judge.target_modules = {name.split(".")[-1] for name in MODULES[:-1]}
    names = (*MODULES, "model.embed_tokens")
    want = tuple(
        name for name in names
        if (found := peft.tuners.tuners_utils.check_target_module_exists(judge, name))
        and not isinstance(found, peft.tuners.tuners_utils._ExcludedModule)
    )  # fmt: skip
    assert names_of(config, path) == want


@examples(60)
@given(st.dictionaries(st.sampled_from(PATTERNS), st.integers(1, 9), max_size=4), st.booleans())
def test_ranks_and_scales_match_peft(tmp_path_factory, peft, numbers, rslora):
    path = tmp_path_factory.mktemp("c")
    config = {"peft_type": "LORA", "target_modules": "all-linear", "r": 3, "lora_alpha": 5, "use_rslora": rslora}
    alphas = {pattern: 2 * number for pattern, number in reversed(numbers.items())}
    (path / "adapter_config.json").write_text(json.dumps(config | {"rank_pattern": numbers, "alpha_pattern": alphas}))
    found = read_lora_config(path)
    for module in MODULES:
        rank = numbers.get(peft.utils.other.get_pattern_key(numbers, module), 3)
        alpha = alphas.get(peft.utils.other.get_pattern_key(alphas, module), 5)
        assert found.rank(module) == rank
        assert found.scale(module) == pytest.approx(alpha / (rank**0.5 if rslora else rank))
